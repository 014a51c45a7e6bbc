"""What a job is given and leaves: JSON, Parquet and HTML, each put in place whole; a comparison's progress.

A comparison keeps small results that get their final name only once they are whole. A killed comparison
leaves finished parts and parts under temporary names; run again on the same inputs it removes the latter and
does only what is missing.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.errors import Rejected, Transient
from groupshift.foreign_files import put_whole, read, text_of

_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "array<string>": pa.list_(pa.field("element", pa.string())),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}


def fresh(folder: Path, names: Iterable[str]) -> None:
    """Make the folder and remove what an earlier run left under ``names``: no stale verdict survives.

    Raises:
        OSError: the folder cannot be made, or a file in it cannot be removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text (UTF-8) beside the target, then rename onto it.

    Raises:
        OSError: it cannot be written; the target is as it was.
    """
    with put_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def json_object(path: Path, option: str) -> dict[str, Any]:
    """Return the JSON object in a file that ``option`` of a job names.

    Raises:
        Rejected: the file cannot be read, or holds anything else; what it holds is never shown.
    """
    try:
        return load_object(text_of(read(path)), "it", at_most=FILE_BYTES)
    except (OSError, ValueError, Rejected):
        raise Rejected(f"{option} {path} is not a JSON object; give a file that holds one") from None


def properties_of(path: Path | None) -> dict[str, str]:
    """Return librdkafka's security keys from the file of ``--properties``; none without one. Raises as
    `json_object`."""
    pairs = {} if path is None else json_object(path, "--properties")
    return {name: str(value) for name, value in pairs.items()}


def columns(of: str) -> dict[str, str]:
    """Return name to type of ``name type, name type``, as Spark writes a schema."""
    return dict(each.split() for each in of.split(", "))


def arrow_columns(of: str) -> dict[str, pa.DataType]:
    """Return name to Arrow's type of ``name type, name type``, as Spark writes a schema."""
    return {name: _ARROW[kind] for name, kind in columns(of).items()}


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]], types: str) -> None:
    """Write these columns of the rows as one Parquet file beside the target, then rename onto it; ``types``
    is ``name type, name type``, as Spark writes a schema.

    Raises:
        OSError: it cannot be written; the target is as it was.
    """
    schema = pa.schema(arrow_columns(types))
    with put_whole(path) as part:
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), part)


FOLDER = ".progress"
_BOUND = "inputs.json"
_PART = ".part"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_WORDS = ("No space left on device", "Disk quota exceeded", "File too large")


@contextmanager
def room_in(folder: Path, then: str = ", it goes on where it stopped") -> Iterator[None]:
    """Turn a disk that is full, in Python or in Spark, into `Transient`; into `Rejected` a folder that
    cannot be written at all. ``then`` says what running it again does."""
    try:
        yield
    except PermissionError as wrong:
        raise Rejected(
            f"{wrong.filename or folder} cannot be written: name another folder with --output"
        ) from wrong
    except (OSError, PySparkException, Py4JError) as wrong:
        words = any(word in str(wrong) for word in _FULL_WORDS)
        if not (wrong.errno in _FULL if isinstance(wrong, OSError) else words):
            raise
        raise Transient(
            f"the disk of {folder} (or of Spark's temporary files) is full: make room and run the same "
            f"command again{then}"
        ) from wrong


@dataclass(slots=True, kw_only=True)
class Progress:
    """Finished parts below ``root``, bound to ``identity`` (anything JSON knows).

    ``kept`` counts parts found finished, ``made`` those that were made."""

    root: Path
    identity: Mapping[str, Any]
    kept: int = 0
    made: int = 0

    def __post_init__(self) -> None:
        """Keep what belongs to the same inputs; remove everything else, and what is not whole."""
        text = json.dumps(self.identity, sort_keys=True, indent=1) + "\n"
        bound = self.root / _BOUND
        if not bound.is_file() or bound.read_text(encoding="utf-8") != text:
            shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True, exist_ok=True)
        self.sweep()
        if not bound.is_file():
            write_text(bound, text)

    def sweep(self) -> None:
        """Remove what has a temporary name."""
        for path in self.root.glob(f"*{_PART}"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def table(self, name: str, make: Callable[[], pa.Table]) -> pa.Table:
        """Return the table of the part ``name`` as it was kept, or make it now and keep it."""
        return pq.read_table(self.part(f"{name}.parquet", lambda part: pq.write_table(make(), part)))

    def part(self, name: str, make: Callable[[Path], None]) -> Path:
        """Return the file or folder ``name`` as it was kept; else ``make`` makes it under a temporary name,
        and it is kept."""
        path = self.root / name
        if path.exists():
            self.kept += 1
            return path
        part = path.with_name(f"{name}{_PART}")
        make(part)
        os.replace(part, path)  # noqa: PTH105 - the atomic one
        self.made += 1
        return path

    def remove(self) -> None:
        """All of it: the comparison has ended."""
        shutil.rmtree(self.root, ignore_errors=True)
