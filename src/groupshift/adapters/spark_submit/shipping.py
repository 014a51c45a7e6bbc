"""The files that go with a job: this package as one zip with its SQL files, so that a cluster needs no copy
of it, and Spark's keys from the settings in a file that only we can read: a command line is everybody's."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from groupshift.errors import Broken
from groupshift.settings import SparkSettings

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
    found = [Path(folder) / name for folder, _, names in os.walk(package, followlinks=True) for name in names]
    return sorted(path for path in found if _belongs(path.relative_to(package)))


def _belongs(path: Path) -> bool:
    hidden = any(part.startswith(".") or part == "__pycache__" for part in path.parts)
    return not hidden and path.suffix not in _LEFT_OUT


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)
