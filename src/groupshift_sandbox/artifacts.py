"""Kafka's jars, fetched once by the Ivy that pyspark ships; no tool but Java is needed.

Each release is a folder below the cache that appears only when it is complete: retrieved into a draft,
its main jar's listing verified, then renamed. A file lock keeps two processes from fetching at once. Which
releases there are is told by ``artifacts.toml`` beside this file. No jar is run that is not in
``jars.sha256``, or not what it says there; how a new release gets in: a line in the former, and
``python -m groupshift_sandbox.artifacts``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from groupshift.adapters.spark_submit.java import java_binary
from groupshift.adapters.system import cache_root, locked
from groupshift.errors import Broken, Rejected, Transient

_ATTEMPTS = 4  # Ivy's first retrieve after a cold download sometimes copies 0 files
_DEADLINE_S = 600
_TABLE = "jars.sha256"
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One published module; ``entry`` is a file its own jar must list, ``jars`` the least number of jars.

    ``without`` names modules (of the same organisation) that it asks for and that were never published;
    ``alone`` is fetched without anything that it needs."""

    organisation: str = "org.apache.kafka"
    module: str
    version: str
    entry: str
    jars: int
    without: str = ""
    alone: bool = False

    @property
    def label(self) -> str:
        """``<module>-<version>``: the folder's and the main jar's name."""
        return f"{self.module}-{self.version}"


_READ = tomllib.loads(files(__package__).joinpath("artifacts.toml").read_text(encoding="utf-8"))


def _releases(module: str) -> dict[str, Artifact]:
    """What ``artifacts.toml`` has of a module, by version: a release's own fields win."""
    shared = {name: value for name, value in _READ[module].items() if name != "releases"}
    return {
        version: Artifact(module=module, version=version, **{**shared, **own})
        for version, own in _READ[module]["releases"].items()
    }


_KAFKA, _TOOLS = _releases("kafka_2.13"), _releases("kafka-tools")
SCALA_CONSUMERS = _releases("kafka_2.11")
"""Releases of the real old consumer, newest first."""
ZOOKEEPER_ERA = {**SCALA_CONSUMERS, "2.4.1": _KAFKA["2.4.1"]}
"""Releases that run as brokers with ZooKeeper here, besides 3.9.2."""
BROKERS = {version: each for version, each in _KAFKA.items() if version not in ZOOKEEPER_ERA}
"""Releases that run in KRaft mode here, by version; those of 3.x with ZooKeeper too."""
BROKER = BROKERS["3.9.2"]
"""ZooKeeper-mode Kafka, ZooKeeper 3.8.4 included."""
(LOGGING,) = _releases("slf4j-reload4j").values()
"""A log binding: the published broker brings none."""
(SIMPLE_LOGGING,) = _releases("slf4j-simple").values()
"""A log binding for brokers since 4.0 and for command line tools: one line an event to standard error."""
TOOLS = _TOOLS["4.3.1"]
"""What Kafka's own command line tools consist of."""
JAVA_CLIENTS = {"4.3.1": (TOOLS,), "3.9.2": (_TOOLS["3.9.2"], BROKER)}
"""Releases of the Java consumer with the tool that makes a member of it, by version: what both consist of."""
MIRROR_MAKER = (*_releases("connect-mirror").values(), *_releases("connect-mirror-client").values(), TOOLS)
"""What MirrorMaker 2 in dedicated mode consists of, its own jar first."""
(JAXB,) = _releases("jaxb-api").values()
"""Part of Java when brokers before 1.0 were made, and not of ours."""
ALL = (BROKER, LOGGING, *SCALA_CONSUMERS.values())


def jars(artifact: Artifact) -> Path:
    """The folder with the artifact and everything it needs; fetched when it is not there yet.

    Raises `Transient` when it cannot be fetched, `Broken` without Java or pyspark, and as `verify`."""
    folder = cache_root() / "jars" / artifact.label
    with locked(folder):
        if not _complete(artifact, folder):
            _fetch(artifact, folder)
        verify(folder)
    return folder


def verify(folder: Path) -> None:
    """Hold every jar of a folder against the table; each file is hashed once a process while it stays as it
    is. Raises `Broken` for a jar that is another one, `Rejected` for one that the table does not have."""
    known = checksums()
    for jar in sorted(folder.glob("*.jar")):
        if jar.name not in known:
            raise Rejected(
                f"jar {jar} is not in groupshift's table of checksums, so it is not run: remove it, or add "
                "its release with: python -m groupshift_sandbox.artifacts"
            )
        status = jar.stat()
        digest = _sha256(jar, status.st_mtime_ns, status.st_size, status.st_ino)
        if digest != known[jar.name]:
            raise Broken(
                f"jar {jar} is not the published one (SHA-256 {digest[:16]}…, expected "
                f"{known[jar.name][:16]}…), so it is not run: find out who replaced it, remove {folder}, and "
                "run it again"
            )


@cache
def checksums() -> dict[str, str]:
    """SHA-256 in hex of each jar that may be run, by its file name."""
    lines = files(__package__).joinpath(_TABLE).read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


@cache
def _sha256(jar: Path, _changed_ns: int, _size: int, _inode: int) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def class_path(*artifacts: Artifact) -> str:
    """A Java class path of these artifacts, the first one's classes before the others'."""
    return ":".join(f"{jars(artifact)}/*" for artifact in artifacts)


def _complete(artifact: Artifact, folder: Path) -> bool:
    main = folder / f"{artifact.label}.jar"
    if len(list(folder.glob("*.jar"))) < artifact.jars or not main.exists():
        return False
    try:
        with zipfile.ZipFile(main) as jar:
            return artifact.entry in jar.namelist()
    except zipfile.BadZipFile:
        return False


def _fetch(artifact: Artifact, folder: Path, *, unchecked: bool = False) -> None:
    draft = folder.with_name(f"{folder.name}.draft")
    output = ""
    for _ in range(_ATTEMPTS):
        shutil.rmtree(draft, ignore_errors=True)
        output = _retrieve(artifact, draft)
        if _complete(artifact, draft):
            if not unchecked:
                verify(draft)
            shutil.rmtree(folder, ignore_errors=True)
            draft.rename(folder)
            return
    raise Transient(
        f"{artifact.label} could not be fetched in {_ATTEMPTS} attempts; check the network and run it again. "
        f"Ivy's last words: {output.strip()[-600:]}"
    )


def _ivy() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    folders = list(pyspark.submodule_search_locations or ()) if pyspark else []
    for folder in folders:
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    raise Broken("pyspark with its Ivy jar is not installed; install kafka-groupshift[spark]")


def _retrieve(artifact: Artifact, folder: Path) -> str:
    argv = [
        java_binary(), "-jar", str(_ivy()), "-cache", str(cache_root() / "ivy"), "-confs", "default",
        *_wanted(artifact), "-retrieve", f"{folder}/{_PATTERN}", "-m2compatible",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_DEADLINE_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {_DEADLINE_S} s"
    return done.stdout + done.stderr


def _wanted(artifact: Artifact) -> list[str]:
    """How Ivy is told: on the command line, or in a file where something must be left out."""
    if not artifact.without:
        wanted = ["-dependency", artifact.organisation, artifact.module, artifact.version]
        return [*wanted, "-notransitive"] if artifact.alone else wanted
    file = cache_root() / "ivy" / f"{artifact.label}.xml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        '<ivy-module version="2.0"><info organisation="groupshift" module="jars"/><configurations>'
        '<conf name="default"/></configurations><dependencies>'
        f'<dependency org="{artifact.organisation}" name="{artifact.module}" rev="{artifact.version}" '
        'conf="default->default">'
        f'<exclude org="{artifact.organisation}" module="{artifact.without}"/>'
        "</dependency></dependencies></ivy-module>"
    )
    return ["-ivy", str(file)]


def every() -> tuple[Artifact, ...]:
    """All that is fetched by anything here."""
    clients = (each for artifacts in JAVA_CLIENTS.values() for each in artifacts)
    artifacts = (
        *ALL,
        *BROKERS.values(),
        SIMPLE_LOGGING,
        *clients,
        *MIRROR_MAKER,
        *ZOOKEEPER_ERA.values(),
        JAXB,
    )
    return tuple(dict.fromkeys(artifacts))


def add(table: Path, artifacts: Iterable[Artifact]) -> list[str]:
    """Fetch what is missing, unchecked, and write the checksums of jars that ``table`` has not; a jar that it
    has keeps its own. Returns the names that are new: hold them against the publisher's before you commit."""
    lines = table.read_text(encoding="ascii").splitlines() if table.exists() else []
    known = {name: digest for digest, name in (line.split() for line in lines)}
    new = []
    for artifact in artifacts:
        folder = cache_root() / "jars" / artifact.label
        with locked(folder):
            if not _complete(artifact, folder):
                _fetch(artifact, folder, unchecked=True)
        for jar in sorted(folder.glob("*.jar")):
            if jar.name not in known:
                status = jar.stat()
                known[jar.name] = _sha256(jar, status.st_mtime_ns, status.st_size, status.st_ino)
                new.append(jar.name)
    table.write_text("".join(f"{known[name]}  {name}\n" for name in sorted(known)), encoding="ascii")
    return new


if __name__ == "__main__":
    for _name in add(Path(__file__).with_name(_TABLE), every()):
        print(f"new: {_name}", file=sys.stderr)
