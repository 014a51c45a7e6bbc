"""All ``*.jsonl`` files of one folder as a ledger."""

from __future__ import annotations

import heapq
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

from groupshift.domain.foreign_json import load_object, whole_number
from groupshift.domain.ownership_history import Tenure
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.seal import is_beside
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import opened
from groupshift.ports.evidence import Delivered

_CHUNK = 8 * 1024 * 1024


@dataclass(slots=True)
class _Progress:
    """How far one file was read: bytes and lines of complete lines, highest offset per key."""

    inode: int
    position: int = 0
    lines: int = 0
    highest: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)


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
        """The highest offset delivered by any member of the group, per partition."""
        highest: dict[TopicPartition, int] = {}
        with self._lock:
            for path in self._paths():
                for (member, partition), offset in self._read(path).items():
                    if member.startswith(f"{group}_"):
                        highest[partition] = max(offset, highest.get(partition, offset))
        return dict(sorted(highest.items()))

    def delivered_below(
        self, group: str, bounds: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """See the port. What was read before is read again only where it went beyond a bound."""
        highest: dict[TopicPartition, int] = {}
        with self._lock:
            for path in self._paths():
                for partition, offset in _offsets(path, group, self._below(path, bounds)):
                    if offset < bounds.get(partition, 0):
                        highest[partition] = max(offset, highest.get(partition, offset))
        return highest

    def _paths(self) -> list[Path]:
        """The members' files; what a desktop left beside them is none. Raises `Broken` for a folder that
        cannot be listed: no ledger would prove what none was asked."""
        if self._folder is None:
            return []
        try:
            found = sorted(each for each in self._folder.iterdir() if each.name.endswith(".jsonl"))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as wrong:
            raise _unreadable(self._folder, wrong) from wrong
        return [path for path in found if not is_beside(path.name)]

    def _below(self, path: Path, bounds: Mapping[TopicPartition, int]) -> _Progress:
        """How far the file was read, if nothing there went beyond a bound; else its beginning."""
        inode, size = _measured(path)
        known = self._files.get(path)
        if known is None or known.inode != inode or size < known.position:
            return _Progress(inode=inode)
        beyond = any(offset >= bounds.get(at, offset + 1) for (_, at), offset in known.highest.items())
        return _Progress(inode=inode) if beyond else known

    def delivered(self, group: str, from_ms: int, to_ms: int) -> Delivered | None:
        """See the port; memory grows with the holes between what was delivered only."""
        files = self._paths()
        spans: dict[TopicPartition, _Spans] = {}
        last: dict[TopicPartition, int] = {}
        deliveries = again = pause = 0
        for at_ms, _, partition, offset in heapq.merge(*(_deliveries(path, group) for path in files)):
            if not from_ms <= at_ms <= to_ms:
                continue
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

    def tenures(self, group: str, from_ms: int, to_ms: int) -> Sequence[Tenure]:
        """See the port; files are merged by time, so memory grows with the runs only."""
        files = self._paths()
        merged = heapq.merge(*(_deliveries(path, group) for path in files))
        runs: dict[TopicPartition, list[_Run]] = {}
        for at_ms, member, partition, _ in merged:
            if from_ms <= at_ms <= to_ms:
                of = runs.setdefault(partition, [])
                if of and of[-1].member == member:
                    of[-1].end_ms, of[-1].records = at_ms, of[-1].records + 1
                else:
                    of.append(_Run(member=member, start_ms=at_ms, end_ms=at_ms))
        return [
            Tenure(
                partition=partition,
                member=run.member,
                start_ms=run.start_ms,
                end_ms=run.end_ms,
                records=run.records,
            )
            for partition, of in sorted(runs.items())
            for run in of
        ]

    def close(self) -> None:
        """Nothing is kept open between calls."""

    def _read(self, path: Path) -> Mapping[tuple[str, TopicPartition], int]:
        inode, size = _measured(path)
        progress = self._files.get(path)
        if progress is None or progress.inode != inode or size < progress.position:
            progress = self._files[path] = _Progress(inode=inode)
        with _opened(path) as file:
            file.seek(progress.position)
            while chunk := file.read(_CHUNK):
                # A single line never exceeds a chunk; without a line end the rest is torn.
                complete = chunk[: chunk.rfind(b"\n") + 1]
                if not complete:
                    _demand_short(path, chunk)
                    break
                _take(path, complete, progress)
                progress.position += len(complete)
                file.seek(progress.position)
        return progress.highest


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
        joins = at > 0 and self.ends[at - 1] == offset
        meets = at < len(self.starts) and self.starts[at] == offset + 1
        if joins and meets:
            self.ends[at - 1] = self.ends.pop(at)
            self.starts.pop(at)
        elif joins:
            self.ends[at - 1] = offset + 1
        elif meets:
            self.starts[at] = offset
        else:
            self.starts.insert(at, offset)
            self.ends.insert(at, offset + 1)
        return True

    @property
    def holes(self) -> int:
        """How many offsets between the first and the last one are in no span."""
        return sum(start - end for start, end in zip(self.starts[1:], self.ends, strict=False))


@dataclass(slots=True)
class _Run:
    """Deliveries of one member, one after the other."""

    member: str
    start_ms: int
    end_ms: int
    records: int = 1


def _opened(path: Path) -> BufferedReader:
    """A ledger. Raises `Broken` for what is no file: waiting for a pipe would never end."""
    try:
        return opened(path)
    except OSError as wrong:
        raise _unreadable(path, wrong) from wrong


def _measured(path: Path) -> tuple[int, int]:
    """Inode and size. Raises `Broken` where a link leads nowhere."""
    try:
        found = path.stat()
    except OSError as wrong:
        raise _unreadable(path, wrong) from wrong
    return found.st_ino, found.st_size


def _unreadable(path: Path, wrong: OSError | ValueError) -> Broken:
    why = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror else wrong
    return Broken(f"ledger {path} cannot be read ({why}): look at its folder")


def _lines(path: Path, file: BufferedReader) -> Iterator[bytes]:
    while line := file.readline(_CHUNK):
        if not line.endswith(b"\n"):
            _demand_short(path, line)
        yield line


def _demand_short(path: Path, line: bytes) -> None:
    if len(line) >= _CHUNK:
        raise Broken(f"ledger {path} has a line of more than {_CHUNK} bytes: no member writes such a one")


def _offsets(path: Path, group: str, known: _Progress) -> Iterator[tuple[TopicPartition, int]]:
    """(partition, offset) of what is known of one member's file, and of each complete line behind that; of
    the group only."""
    for (member, partition), offset in known.highest.items():
        if member.startswith(f"{group}_"):
            yield partition, offset
    with _opened(path) as file:
        file.seek(known.position)
        for number, line in enumerate(_lines(path, file), known.lines + 1):
            if line.endswith(b"\n"):
                (member, partition), offset = _record(path, number, line)
                if member.startswith(f"{group}_"):
                    yield partition, offset


def _deliveries(path: Path, group: str) -> Iterator[tuple[int, str, TopicPartition, int]]:
    """(time, member, partition, offset) of each complete line of one member's file that is the group's."""
    with _opened(path) as file:
        for number, line in enumerate(_lines(path, file), 1):
            if line.endswith(b"\n"):
                (member, partition), offset = _record(path, number, line)
                if member.startswith(f"{group}_"):
                    yield _time(path, number, line), member, partition, offset


def _time(path: Path, number: int, line: bytes) -> int:
    try:
        return whole_number(load_object(line, "it")["at_ms"], "at_ms")
    except (KeyError, Rejected) as wrong:
        raise Broken(f"line {number} of ledger {path} has no time at_ms: the ledger was altered") from wrong


def _take(path: Path, complete: bytes, progress: _Progress) -> None:
    for line in complete.splitlines():
        progress.lines += 1
        key, offset = _record(path, progress.lines, line)
        progress.highest[key] = max(offset, progress.highest.get(key, offset))


def _record(path: Path, number: int, line: bytes) -> tuple[tuple[str, TopicPartition], int]:
    try:
        record = load_object(line, "it")
        number, offset = (whole_number(record[name], name) for name in ("partition", "offset"))
        return (str(record["member"]), TopicPartition(str(record["topic"]), number)), offset
    except (KeyError, Rejected) as wrong:
        raise Broken(
            f"line {number} of ledger {path} is no delivery record ({line[:80]!r}): the ledger was "
            "altered or its writer failed, so what was delivered cannot be proven from it"
        ) from wrong
