"""Runs a Spark job through spark-submit (Airflow runs the same request through its own operator).

The files that go with a job are this package as one zip with its SQL files, so a cluster needs no copy of
it, and Spark's keys from the settings in a file that only we can read: everybody can read a command line.

The driver's JVM gets options for a job that lives for seconds: among them, it maps Spark's classes from an
archive (JEP 310, JEP 350). Half of what a JVM does until Spark runs is to read, verify and link some 15,000
classes. The first JVM of a Spark installation writes the classes that it loaded into an archive when it
ends; later ones map it. The JVM itself refuses an archive of another JVM or of other jars, and then starts
as if there were none. The archive (about 140 MB) is kept in a folder of the user's own, because the JVM
executes what lies there. A JVM writes a draft, whose header comes last; the next start puts a finished draft
in place.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import IO

from groupshift.adapters.system import own_folder
from groupshift.domain.run import SparkJob
from groupshift.errors import Broken, Transient
from groupshift.foreign_files import made_anew
from groupshift.settings import SparkSettings

_LAST_LINES = 8
LOG = "spark.log"


class SparkSubmit:
    """Runs one job (`SparkJob`) to its end: one process a job, bounded; its output is
    kept beside the report.

    The process group is ended when the time is over or the caller is interrupted."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings

    def run(self, request: SparkJob) -> None:
        """See the port."""
        kept = "://" not in request.output  # an object store takes no log: it lies in a folder of our own
        folder = Path(request.output) if kept else Path(tempfile.mkdtemp(prefix="groupshift-spark-"))
        log = folder / LOG
        folder.mkdir(parents=True, exist_ok=True)
        made_anew(log)
        with (
            log.open("wb") as output,
            submit_files(self._settings, self._settings.master) as files,
            self._started(request, files, output) as process,
        ):
            try:
                code = process.wait(self._settings.timeout_s)
            except subprocess.TimeoutExpired as error:
                raise Transient(
                    f"Spark job {Path(request.job).name} did not end within {self._settings.timeout_s} s, "
                    f"see {log}; raise spark.timeout_s or run it again"
                ) from error
            finally:
                if process.poll() is None:  # the JVM is a child of the script that was started
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if code != 0:
            with log.open(encoding="utf-8", errors="replace") as lines:
                last = deque((line.strip() for line in lines if line.strip()), maxlen=_LAST_LINES)
            raise Transient(
                f"Spark job {Path(request.job).name} failed with exit code {code}: {' | '.join(last)}; "
                f"the whole output is in {log}"
            )
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)

    def _started(self, request: SparkJob, files: SubmitFiles, output: IO[bytes]) -> subprocess.Popen[bytes]:
        settings = self._settings
        try:
            command = [
                settings.submit or _spark_submit(),
                *("--master", settings.master, "--name", "groupshift-validate"),
                *("--conf", "spark.ui.enabled=false"),
                *("--driver-java-options", driver_options(settings.master, settings.java_home)),
                *(["--py-files", files.code] if files.code else []),
                *(["--properties-file", files.properties] if files.properties else []),
                "--load-spark-defaults",
                request.job,
                *request.arguments,
            ]
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise Transient(
                f"spark-submit could not be started ({error}); set spark.submit to its path"
            ) from error

    def _environment(self) -> dict[str, str]:
        settings = self._settings
        python = {
            "PYSPARK_PYTHON": settings.python or sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        # Workers on other machines must reach the driver: there Spark, or the environment, finds its address.
        loopback = {"SPARK_LOCAL_IP": "127.0.0.1"} if stays_here(settings.master) else {}
        java = {"JAVA_HOME": settings.java_home} if settings.java_home else {}
        return {**os.environ, **python, **loopback, **java}


def _spark_submit() -> str:
    """The script beside the running interpreter, else the one on the PATH."""
    beside = Path(sys.executable).parent / "spark-submit"
    program = str(beside) if beside.exists() else shutil.which("spark-submit")
    if program is None:
        raise Transient("spark-submit was not found: run pip install 'kafka-groupshift[spark]'")
    return program


_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT = {".pyc", ".so"}
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitFiles:
    """Paths for ``--py-files`` and ``--properties-file``; None where there is nothing to give."""

    code: str | None = None
    properties: str | None = None


@contextmanager
def submit_files(settings: SparkSettings, master: str) -> Iterator[SubmitFiles]:
    """The files of one submission, below folders of their own that are removed at the end."""
    with ExitStack() as stack:
        code = None if is_local(master) else str(stack.enter_context(shipped_code()))
        properties = None
        if settings.properties:
            file = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="groupshift-spark-"))
            file.writelines(property_line(*pair) for pair in sorted(settings.properties.items()))
            file.flush()
            properties = file.name
        yield SubmitFiles(code=code, properties=properties)


def property_line(key: str, value: str) -> str:
    """One line of a Java properties file."""
    escaped = "".join(_ESCAPES.get(sign, sign) for sign in value)
    return f"{key} {escaped}\n" if not escaped.startswith(" ") else f"{key} \\{escaped}\n"


def is_local(master: str) -> bool:
    """Whether this master runs the job in the submitting process, where the package is imported anyway."""
    return master.startswith("local")


def stays_here(master: str) -> bool:
    """Whether driver, master and workers all are on this machine, so that nothing need listen outside."""
    return is_local(master) or master.startswith(("spark://127.0.0.1:", "spark://localhost:"))


@contextmanager
def shipped_code() -> Iterator[Path]:
    """The path of the zip, below a folder of its own that is removed at the end.

    It holds every file of ``groupshift`` (``sql`` is followed, where it is a link) and the name and version
    that `importlib.metadata` looks for; equal trees give equal bytes. Raises `Broken` where the package is
    no folder of files."""
    package = files("groupshift")
    if not isinstance(package, Path):
        raise Broken(f"groupshift is imported from {package}, which is no folder; install it as a wheel")
    with tempfile.TemporaryDirectory(prefix="groupshift-code-") as folder:
        target = Path(folder) / "groupshift.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in _files(package):
                _add(archive, f"groupshift/{path.relative_to(package).as_posix()}", path.read_bytes())
            release = version("kafka-groupshift")
            about = f"Metadata-Version: 2.1\nName: kafka-groupshift\nVersion: {release}\n"
            _add(archive, f"kafka_groupshift-{release}.dist-info/METADATA", about.encode())
        yield target


def _files(package: Path) -> list[Path]:
    """The package's files in order, without what Python and tools made of them."""
    paths = [Path(folder) / name for folder, _, names in os.walk(package, followlinks=True) for name in names]
    return sorted(
        path
        for path in paths
        if path.suffix not in _LEFT_OUT
        and not any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(package).parts)
    )


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)


BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The first compiler tier and one collector thread start fastest (a third less time)."""


def driver_options(master: str, java: str = "") -> str:
    """Options for the driver of a job that is submitted to ``master`` from this process: `BRIEF`, and where
    driver and workers stay on this machine the classes that it shares with earlier ones.

    ``java`` is the home of the Java that will run; empty means ``JAVA_HOME``, else the one on the path."""
    shared = sharing_options(java or None) if stays_here(master) else ""
    return f"{BRIEF} {shared}".strip()


FOLDER = "groupshift-classes"
_QUIET = "-Xlog:cds*=off"
"""The JVM names each class that it leaves out, on the standard output."""
_ABANDONED_S = 3600.0
_MAGIC = 4
_KEPT = 3
"""Archives and drafts that stay, the newest: each is of one Java and one Spark (some 140 MB)."""


def sharing_options(java: str | None = None) -> str:
    """The JVM's options for a driver started by this process: to use the archive, or to make it when this one
    ends; none where nothing can be kept, or another process is about to make it.

    ``java`` is the home of the Java that will run; default: ``JAVA_HOME``, else the one on the path.
    """
    folder = own_folder(FOLDER)
    if folder is None or any(letter.isspace() or letter in "\"'" for letter in str(folder)):
        return ""
    archive = folder / f"spark-{_digest(java)}.jsa"
    draft = archive.with_suffix(".draft")
    with suppress(OSError):
        _put_in_place(draft, archive)
        if archive.exists():
            return f"-XX:SharedArchiveFile={archive} {_QUIET}"
        draft.touch(exist_ok=False)
        with suppress(OSError):  # another start removes them, too
            for old in sorted(folder.glob("spark-*"), key=lambda path: -path.stat().st_mtime)[_KEPT:]:
                old.unlink()
        return f"-XX:ArchiveClassesAtExit={draft} {_QUIET}"
    return ""


def _digest(java: str | None) -> str:
    """Of what the archive depends on; a change of either makes another archive."""
    on_path = shutil.which("java")
    home = java or os.environ.get("JAVA_HOME") or (Path(on_path).resolve().parent.parent if on_path else "")
    spark = importlib.util.find_spec("pyspark")
    jars = Path(spark.origin).parent / "jars" if spark is not None and spark.origin else Path()
    marks = [_mark(Path(home) / "release"), _mark(jars), os.environ.get("SPARK_HOME", "")]
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]


def _mark(path: Path) -> str:
    """A place and when it changed last."""
    return f"{path} {path.stat().st_mtime_ns}" if path.exists() else str(path)


def _put_in_place(draft: Path, archive: Path) -> None:
    """Rename a finished draft; remove one that nobody finished."""
    try:
        with draft.open("rb") as file:
            finished = any(file.read(_MAGIC))
        age_s = time.time() - draft.stat().st_mtime
    except FileNotFoundError:
        return
    if finished:
        draft.replace(archive)
    elif age_s > _ABANDONED_S:
        draft.unlink()
