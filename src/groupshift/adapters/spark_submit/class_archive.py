"""Spark's classes as the JVM maps them into memory, kept from one start to the next (JEP 310, JEP 350).

Half of what a JVM does until Spark runs is to read, verify and link some 15,000 classes. The first JVM of a
Spark installation writes those it has loaded into an archive when it ends; later ones map it. The JVM itself
refuses an archive that was made by another JVM or of other jars, and then starts as if there were none.

The archive (about 140 MB) is kept in a folder of the user's own, for what lies there is executed. A JVM
writes a draft, whose header comes last; the next start puts a finished draft in place.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from groupshift.adapters.own_folder import own_folder

FOLDER = "groupshift-classes"
_QUIET = "-Xlog:cds*=off"
"""The JVM names each class that it leaves out, on the standard output."""
_ABANDONED_S = 3600.0
_MAGIC = 4


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
        return f"-XX:ArchiveClassesAtExit={draft} {_QUIET}"
    return ""


def _digest(java: str | None) -> str:
    """Of what the archive depends on; a change of either makes another archive."""
    home = java or os.environ.get("JAVA_HOME") or _java_on_path()
    spark = importlib.util.find_spec("pyspark")
    jars = Path(spark.origin).parent / "jars" if spark is not None and spark.origin else Path()
    marks = [_mark(Path(home) / "release"), _mark(jars), os.environ.get("SPARK_HOME", "")]
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()[:16]


def _java_on_path() -> str:
    found = shutil.which("java")
    return str(Path(found).resolve().parent.parent) if found else ""


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
