"""No jar is run that is not the published one."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from groupshift.errors import Broken, Rejected
from groupshift_sandbox import artifacts

SMALL = artifacts.Artifact(organisation="o", module="small", version="1", entry="A.class", jars=1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a table that knows one jar."""
    monkeypatch.setenv("GROUPSHIFT_CACHE", str(tmp_path))
    digest = hashlib.sha256(packed(tmp_path / "good").read_bytes()).hexdigest()
    monkeypatch.setattr(artifacts, "checksums", lambda: {"small-1.jar": digest}, raising=False)
    return tmp_path / "jars" / "small-1"


def packed(folder: Path, text: str = "good") -> Path:
    """A jar with one class of this content."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "small-1.jar", "w") as jar:
        jar.writestr(zipfile.ZipInfo("A.class"), text)
    return folder / "small-1.jar"


def test_s15_a_jar_that_was_replaced_in_the_cache_is_not_run(cache: Path) -> None:
    """Complete, with the right entry, and another one; also when it was right a moment ago."""
    jar = packed(cache)
    assert artifacts.jars(SMALL) == cache
    packed(cache, "evil")
    with pytest.raises(Broken, match=r"small-1\.jar is not the published one .*so it is not run"):
        artifacts.class_path(SMALL)
    assert jar.exists()


def test_s15_a_jar_that_is_retrieved_is_checked_before_it_gets_its_place(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that serves another one is named, nothing is kept."""
    monkeypatch.setattr(artifacts, "_retrieve", lambda _artifact, folder: str(packed(folder, "evil")))
    with pytest.raises(Broken, match="is not the published one"):
        artifacts.jars(SMALL)
    assert not cache.exists()


@pytest.mark.parametrize("name", ["other-2.jar", "small-1-sources.jar", "small-2.jar"])
def test_s15_a_jar_that_the_table_does_not_have_is_not_run(cache: Path, name: str) -> None:
    """Beside the right ones, on the same class path; the command that adds it is named."""
    packed(cache)
    (cache / name).write_bytes((cache / "small-1.jar").read_bytes())
    with pytest.raises(Rejected, match=rf"{name} is not in .*python -m groupshift_sandbox\.artifacts"):
        artifacts.jars(SMALL)


def test_s15_the_table_has_every_main_jar_and_is_part_of_the_package() -> None:
    """Of each release that anything here fetches, with a digest in full."""
    known = artifacts.checksums()
    assert {f"{each.label}.jar" for each in artifacts.every()} <= set(known)
    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in known.values())


def test_s15_a_new_release_is_added_by_a_command_that_changes_nothing_else(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the table has already keeps its digest."""
    packed(cache)
    table = tmp_path / "jars.sha256"
    table.write_text(f"{'0' * 64}  kept-1.jar\n")
    assert artifacts.add(table, [SMALL]) == ["small-1.jar"]
    assert artifacts.add(table, [SMALL]) == []
    assert table.read_text().splitlines()[0] == f"{'0' * 64}  kept-1.jar"
