"""Segment files of a copied folder: by topic, partition and replica; batches from them, window by window."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from groupshift.domain.foreign_text_quoting import without_login
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
        system, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Rejected(
            f"segments at {without_login(uri)!r} cannot be opened ({without_login(str(error))}); give a "
            "folder, or the URI of a store that Arrow reads"
        ) from None  # its words may hold the key of a store
    return system, path


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


_SEGMENT = re.compile(r"(\d{20})\.log")
_SWAPPING = re.compile(r"\d{20}\.log\.swap")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """One ``<base offset>.log``: ``path`` as its file system knows it, ``size`` in bytes."""

    path: str
    base: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One copy of a partition: ``folder`` holds the segments, given by base offset."""

    partition: int
    folder: str
    files: tuple[SegmentFile, ...]


def find_replicas(uri: str, topic: str) -> Mapping[int, Sequence[Replica]]:
    """The copies of each partition below ``uri``: folders ``<topic>-<partition>`` at any depth, or it
    itself. Folders and files that a broker is about to delete are left out.

    Raises `Rejected` when there is no folder, none of the topic, or a segment that was being replaced.
    """
    store, path = filesystem(uri)
    named = re.compile(rf"{re.escape(topic)}-(\d+)")
    files: dict[tuple[int, str], list[SegmentFile]] = defaultdict(list)
    try:
        entries = store.get_file_info(fs.FileSelector(path, recursive=True))
    except OSError as error:
        raise Rejected(f"the folder of segments {uri!r} cannot be listed: {error}") from error
    for entry in entries:
        where = PurePosixPath(entry.path)
        parent = named.fullmatch(where.parent.name)
        if parent is None or entry.type is not fs.FileType.File:
            continue
        if _SWAPPING.fullmatch(where.name):
            raise Rejected(
                f"{entry.path} was about to replace other segments when it was copied; copy "
                f"{where.parent.name} again"
            )
        if segment := _SEGMENT.fullmatch(where.name):
            segment_file = SegmentFile(path=entry.path, base=int(segment[1]), size=entry.size)
            files[int(parent[1]), str(where.parent)].append(segment_file)
    if not files:
        raise Rejected(
            f"{uri!r} holds no segment file of {topic}; give a broker's log folder, or a copy of it with its "
            f"folders {topic}-0, {topic}-1, … and their *.log files"
        )
    replicas: dict[int, list[Replica]] = defaultdict(list)
    for (partition, folder), found_there in sorted(files.items()):
        ordered = tuple(sorted(found_there, key=lambda each: each.base))
        replicas[partition].append(Replica(partition=partition, folder=folder, files=ordered))
    return replicas
