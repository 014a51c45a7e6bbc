"""All ``*.jsonl`` files of one folder as a ledger."""

from __future__ import annotations

import heapq
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from groupshift.domain.foreign_json import load_object, whole_number
from groupshift.domain.ownership_history import OwnershipInterval
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.seal import is_beside
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import opened
from groupshift.ports.evidence import Delivered

_CHUNK = 8 * 1024 * 1024
_Key = tuple[str, TopicPartition]
"""A member and a partition."""


class _Record(NamedTuple):
    """One delivery: when (epoch ms; 0 where nobody asked), of whom and what, and its offset."""

    at_ms: int
    key: _Key
    offset: int


@dataclass(slots=True)
class _Progress:
    """How far one file was read: bytes and lines of complete lines, highest offset per key."""

    inode: int = -1
    position: int = 0
    lines: int = 0
    highest: dict[_Key, int] = field(default_factory=dict)


class LedgerFiles:
    """`groupshift.ports.evidence.Ledger` over ``<folder>/*.jsonl``; reads each byte once.

    A record is ``{"member": "<group>_<rest>", "topic": …, "partition": …, "offset": …, "at_ms": …}``;
    it belongs to the group whose name and an underscore its member starts with
    (zookeeper-coordination.md §2). ``folder`` may be
    None (no ledgers are kept) or not exist yet.
    """

    def __init__(self, folder: str | Path | None) -> None:
        self._folder = Path(folder) if folder else None
        self._files: dict[Path, _Progress] = {}
        self._lock = threading.Lock()

    def last_delivered(self, group: str) -> Mapping[TopicPartition, int]:
        """See the port."""
        with self._lock:
            paths = self._paths()
            for path in paths:
                progress = self._files[path] = self._known(path)
                for record in _records(path, progress):
                    former = progress.highest.get(record.key, record.offset)
                    progress.highest[record.key] = max(record.offset, former)
            highest = chain.from_iterable(self._files[path].highest.items() for path in paths)
            return dict(sorted(_highest(group, highest).items()))

    def delivered_below(
        self, group: str, bounds: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """See the port. What was read before is read again only where it went beyond a bound."""

        def below() -> Iterator[tuple[_Key, int]]:
            for path in self._paths():
                known = self._known(path)
                if any(offset >= bounds.get(at, offset + 1) for (_, at), offset in known.highest.items()):
                    known = _Progress(inode=known.inode)
                yield from known.highest.items()
                yield from ((each.key, each.offset) for each in _records(path, replace(known)))

        with self._lock:
            return _highest(group, (each for each in below() if each[1] < bounds.get(each[0][1], 0)))

    def _paths(self) -> list[Path]:
        """The members' files; what a desktop left beside them is none. Raises `Broken` for a folder that
        cannot be listed: no ledger would prove what none was asked."""
        if self._folder is None:
            return []
        paths: list[Path] = []
        with _readable(self._folder), suppress(FileNotFoundError):
            paths = sorted(each for each in self._folder.iterdir() if each.name.endswith(".jsonl"))
        return [path for path in paths if not is_beside(path.name)]

    def _known(self, path: Path) -> _Progress:
        """How far the file was read; its beginning for another one, or one that was cut."""
        with _readable(path):
            now = path.stat()
        known = self._files.get(path)
        if known is None or known.inode != now.st_ino or now.st_size < known.position:
            return _Progress(inode=now.st_ino)
        return known

    def delivered(self, group: str, from_ms: int, to_ms: int) -> Delivered | None:
        """See the port; memory grows with the holes between what was delivered only."""
        spans: dict[TopicPartition, _Spans] = {}
        last: dict[TopicPartition, int] = {}
        deliveries = again = pause = 0
        for at_ms, (_, partition), offset in self._between(group, from_ms, to_ms):
            deliveries += 1
            again += not spans.setdefault(partition, _Spans()).add(offset)
            pause = max(pause, at_ms - last.get(partition, at_ms))
            last[partition] = at_ms
        if not deliveries:
            return None
        return Delivered(
            deliveries=deliveries,
            again=again,
            passed_over=sum(each.holes for each in spans.values()),
            longest_pause_ms=pause,
            source=str(self._folder),
        )

    def intervals(self, group: str, from_ms: int, to_ms: int) -> Sequence[OwnershipInterval]:
        """See the port; memory grows with the runs only."""
        runs: dict[TopicPartition, list[OwnershipInterval]] = {}
        for ms, (member, partition), _ in self._between(group, from_ms, to_ms):
            of = runs.setdefault(partition, [])
            if of and of[-1].member == member:
                of[-1] = replace(of[-1], end_ms=ms, records=(of[-1].records or 0) + 1)
            else:
                of.append(
                    OwnershipInterval(partition=partition, member=member, start_ms=ms, end_ms=ms, records=1)
                )
        return [run for _, of in sorted(runs.items()) for run in of]

    def _between(self, group: str, from_ms: int, to_ms: int) -> Iterator[_Record]:
        """What members of the group were delivered between two times, all files merged by time."""
        merged = heapq.merge(*(_records(path, _Progress(), of=group) for path in self._paths()))
        return (each for each in merged if from_ms <= each.at_ms <= to_ms)


def _highest(group: str, offsets: Iterable[tuple[_Key, int]]) -> dict[TopicPartition, int]:
    """The highest offset of members of a group, by partition."""
    highest: dict[TopicPartition, int] = {}
    for (member, partition), offset in offsets:
        if member.startswith(f"{group}_"):
            highest[partition] = max(offset, highest.get(partition, offset))
    return highest


@dataclass(slots=True)
class _Spans:
    """Offsets of one partition, as disjoint ascending spans ``[start, end)``."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, offset: int) -> bool:
        """Whether it is new."""
        at = bisect_right(self.starts, offset)
        if at and offset < self.ends[at - 1]:
            return False
        self.starts.insert(at, offset)
        self.ends.insert(at, offset + 1)
        for right in (at + 1, at):  # joined with the next span, then with the one before
            if 0 < right < len(self.starts) and self.ends[right - 1] == self.starts[right]:
                del self.ends[right - 1], self.starts[right]
        return True

    @property
    def holes(self) -> int:
        """How many offsets between the first and the last one are in no span."""
        return sum(start - end for start, end in zip(self.starts[1:], self.ends, strict=False))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raises `Broken` for what is no file or folder, or may not be read: no ledger would prove what none was
    asked."""
    try:
        yield
    except (OSError, ValueError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else wrong
        raise Broken(f"ledger {path} cannot be read ({why}): look at its folder") from wrong


def _records(path: Path, progress: _Progress, of: str | None = None) -> Iterator[_Record]:
    """Each complete line behind ``progress``, which goes along; with ``of``, a group, those of its members,
    which need a time. A last line without its end is not there yet; waiting for a pipe would never end."""
    with _readable(path):
        file = opened(path)
    with file:
        file.seek(progress.position)
        while line := file.readline(_CHUNK):
            if not line.endswith(b"\n"):
                if len(line) >= _CHUNK:
                    raise Broken(
                        f"ledger {path} has a line of more than {_CHUNK} bytes: no member writes such a one"
                    )
                return
            where = f"line {progress.lines + 1} of ledger {path}"
            try:
                record = load_object(line, "it")
                partition, offset = (whole_number(record[name], name) for name in ("partition", "offset"))
                key = str(record["member"]), TopicPartition(str(record["topic"]), partition)
            except (KeyError, Rejected) as wrong:
                raise Broken(
                    f"{where} is no delivery record ({line[:80]!r}): the ledger was "
                    "altered or its writer failed, so what was delivered cannot be proven from it"
                ) from wrong
            progress.lines += 1
            progress.position += len(line)
            at_ms = 0
            if of is not None:
                if not key[0].startswith(f"{of}_"):
                    continue
                try:
                    at_ms = whole_number(record["at_ms"], "at_ms")
                except (KeyError, Rejected) as wrong:
                    raise Broken(f"{where} has no time at_ms: the ledger was altered") from wrong
            yield _Record(at_ms, key, offset)
