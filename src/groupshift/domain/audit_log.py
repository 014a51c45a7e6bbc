"""The coordinator's log as an audit needs it: its state, and the recent past of every committed offset.

Records are kept raw and only those that matter are decoded. Source: specs/group-coordinator.md §1.7.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from groupshift.domain.placement import partition_of
from groupshift.log import Decoded, DecodeStatus, LogRecord, decode
from groupshift.log.decode import Position
from groupshift.log.state import State, materialise

Key = tuple[str, str, int]
"""Group, topic, partition."""

KEPT = 64
"""Records of one key that count from before the bracket."""
_COMMITS = frozenset({0, 1})
_Line = tuple[int, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One record about a committed offset, in its group's own partition. ``offset`` is None for a tombstone
    and where the value cannot be read; times are epoch ms (commit and expiry -1 where the record has none).
    """

    record_offset: int
    record_ts: int
    is_tombstone: bool
    status: DecodeStatus
    offset: int | None
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int

    @property
    def says(self) -> int | None:
        """The committed offset after this record; None: there is none (a commit of -1 is none either)."""
        return None if self.offset is None or self.offset < 0 else self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSide:
    """The log up to ``closed``. ``opened`` is the position from which on commits are in flight: it was taken
    before the other sources were asked, ``closed`` after."""

    opened: Position
    closed: Position
    state: State
    lines: Mapping[Key, tuple[LogRecord, ...]]

    def history(self, key: Key) -> tuple[Written, ...]:
        """What is left of the key's records, in the order of the log: of those before ``opened`` the last
        `KEPT`; from there on nothing is missing, unless compaction removed it since."""
        lines = sorted(self.lines.get(key, ()), key=lambda each: each.offset)
        before = sum(each.offset < self.opened.get(each.partition, 0) for each in lines)
        kept = lines[max(0, before - KEPT) :]
        return tuple(_written(decode(each, partitions=len(self.closed))) for each in kept)


def homes(groups: Collection[str], closed: Position) -> frozenset[int]:
    """The partitions of the log to which these groups belong."""
    return frozenset(partition_of(group, len(closed)) for group in groups)


def read_log(
    records: Iterable[LogRecord], *, opened: Position, closed: Position, groups: Collection[str] | None = None
) -> LogSide:
    """The log's side of an audit of ``groups`` (None: all), from records in the order of each partition.

    Records of aborted or open transactions must not be among them, nor any at or behind ``closed``."""
    lines = _lines(records, opened, groups, len(closed))
    latest = {at: decode(line[-1], partitions=len(closed)) for at, line in lines.items()}
    state = materialise(latest.values(), closed)
    return LogSide(opened=opened, closed=closed, state=state, lines=_of_commits(lines, latest))


def _lines(
    records: Iterable[LogRecord], opened: Position, groups: Collection[str] | None, partitions: int
) -> dict[_Line, list[LogRecord]]:
    """Per partition and raw key: the last few records before the bracket, and all in it."""
    lines: dict[_Line, list[LogRecord]] = {}
    unwanted: set[bytes | None] = set()
    for record in records:
        at = record.partition, record.key
        line = lines.get(at)
        if line is None:
            if record.key in unwanted or not _is_wanted(record, groups, partitions):
                unwanted.add(record.key)
                continue
            line = lines[at] = []
        line.append(record)
        if len(line) > 2 * KEPT and record.offset < opened.get(record.partition, 0):
            del line[:-KEPT]
    return lines


def _is_wanted(record: LogRecord, groups: Collection[str] | None, partitions: int) -> bool:
    return groups is None or decode(record, partitions=partitions).group_id in groups


def _of_commits(
    lines: Mapping[_Line, list[LogRecord]], latest: Mapping[_Line, Decoded]
) -> dict[Key, tuple[LogRecord, ...]]:
    """Records of commits in their group's own partition; types 0 and 1 are one key."""
    found: dict[Key, list[LogRecord]] = defaultdict(list)
    for at, last in latest.items():
        if last.record_type in _COMMITS and last.expected_partition == last.src_partition:
            key = _key(last)
            if key is not None:
                found[key].extend(lines[at])
    return {key: tuple(records) for key, records in found.items()}


def _key(record: Decoded) -> Key | None:
    if record.group_id is None or record.topic is None or record.partition is None:
        return None
    return record.group_id, record.topic, record.partition


def _written(record: Decoded) -> Written:
    value = record.decoded or {}
    return Written(
        record_offset=record.src_offset,
        record_ts=record.record_ts,
        is_tombstone=record.is_tombstone,
        status=record.decode_status,
        offset=value.get("offset"),
        leader_epoch=value.get("leaderEpoch", -1),
        metadata=value.get("metadata", ""),
        commit_timestamp=value.get("commitTimestamp", -1),
        expire_timestamp=value.get("expireTimestamp", -1),
    )
