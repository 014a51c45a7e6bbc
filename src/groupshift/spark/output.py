"""What a job leaves behind: JSON, Parquet and HTML, each put in place whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from groupshift.foreign_files import made_anew, opened

_ARROW = {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "bool": pa.bool_()}


def fresh(folder: Path, names: Iterable[str]) -> None:
    """Make the folder and remove what an earlier run left under `names`: no stale verdict survives."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write beside the target, then rename onto it."""
    with _beside(path) as part:
        part.write_text(text, encoding="utf-8")


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    """One Parquet file; ``columns`` maps names to ``string``, ``int``, ``long`` or ``bool``."""
    schema = pa.schema([pa.field(name, _ARROW[kind]) for name, kind in columns.items()])
    with _beside(path) as part:
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), part)


def files_of(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, by path with the folder's own name, for the journal."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with opened(path, below=folder) as file:
                named = path.relative_to(folder.parent).as_posix()
                found[named] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Where to write first: renamed onto ``path`` when it is whole, gone when it is not."""
    part = path.with_name(f"{path.name}.part")
    try:
        made_anew(part)
        yield part
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    os.replace(part, path)  # noqa: PTH105 - the atomic one
