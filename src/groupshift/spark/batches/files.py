"""Batches read from a segment file, window by window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from groupshift.domain.secrets import without_login
from groupshift.errors import Rejected
from groupshift.spark.batches.headers import PREFIX, Ending, Headers, read_headers

WINDOW = 16 << 20
_LARGEST = 2**31 + PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some batches of a file: their bytes, their headers, and where the bytes begin in the file."""

    data: Any
    headers: Headers
    position: int


def filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system and the path on it of a path or a URI that Arrow knows (file, hdfs, s3, gs).

    Raises `Rejected` for any other.
    """
    if "://" not in uri:
        return fs.LocalFileSystem(), str(Path(uri).absolute())  # tasks may run in another folder
    try:
        found, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Rejected(
            f"segments at {without_login(uri)!r} cannot be opened ({without_login(str(error))}); give a "
            "folder, or the URI of a store that Arrow reads"
        ) from None  # its words may hold the key of a store
    return found, path


def read_parts(
    store: fs.FileSystem, path: str, start: int, end: int, *, check: bool, window: int = WINDOW
) -> Iterator[Part]:
    """The batches in the bytes ``start:end`` of a file; the last part says why there are no more.

    ``check`` compares checksums. Nothing is raised for damage: see `Headers.damage`.
    """
    with store.open_input_file(path) as file:
        at, want = start, window
        while at < end:
            data = np.frombuffer(file.read_at(min(want, end - at), at), dtype=np.uint8)
            used = 0
            while True:
                headers = read_headers(data[used:], check=check)
                if headers.ending is not Ending.TABLE_FULL:
                    break
                yield Part(data=data[used:], headers=headers, position=at + used)
                used += headers.end
            last = headers.ending is not Ending.TORN or at + len(data) >= end or want > _LARGEST
            if last or len(headers.table):
                yield Part(data=data[used:], headers=headers, position=at + used)
            if last:
                return
            used += headers.end
            want = window if used else want * 2
            at += used
