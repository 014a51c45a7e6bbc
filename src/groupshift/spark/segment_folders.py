"""Which segment files a copied folder holds: of one topic, by partition and by replica."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pyarrow import fs

from groupshift.errors import Rejected
from groupshift.spark.batches.files import filesystem

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
    for entry in _entries(store, path, uri):
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
            found = SegmentFile(path=entry.path, base=int(segment[1]), size=entry.size)
            files[int(parent[1]), str(where.parent)].append(found)
    if not files:
        raise Rejected(
            f"{uri!r} holds no segment file of {topic}; give a broker's log folder, or a copy of it with its "
            f"folders {topic}-0, {topic}-1, … and their *.log files"
        )
    return _by_partition(files)


def _entries(store: fs.FileSystem, path: str, uri: str) -> Sequence[fs.FileInfo]:
    try:
        found: Sequence[fs.FileInfo] = store.get_file_info(fs.FileSelector(path, recursive=True))
    except OSError as error:
        raise Rejected(f"the folder of segments {uri!r} cannot be listed: {error}") from error
    return found


def _by_partition(files: Mapping[tuple[int, str], list[SegmentFile]]) -> Mapping[int, Sequence[Replica]]:
    replicas: dict[int, list[Replica]] = defaultdict(list)
    for (partition, folder), found in sorted(files.items()):
        ordered = tuple(sorted(found, key=lambda each: each.base))
        replicas[partition].append(Replica(partition=partition, folder=folder, files=ordered))
    return replicas
