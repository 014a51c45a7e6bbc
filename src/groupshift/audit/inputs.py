"""What an audit of committed offsets reads: the log's side, what ZooKeeper has of a group, and the terms.

The log gives its state and the recent past of every committed offset. Records are kept raw and only those
that matter are decoded. Source: docs/reference/group-coordinator.md §§1.6, 1.7, 2, 3.1;
docs/reference/zookeeper-coordination.md §§6.1, 6.2, 8.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from groupshift.domain.modes import Mode
from groupshift.log import LogRecord, decode
from groupshift.log.decode import Position
from groupshift.log.group_states import Commit, State, commit_of, materialise
from groupshift.log.schema import COMMITS

Key = tuple[str, str, int]
"""Group, topic, partition."""

KEPT = 64
"""Records of one key that count from before the bracket."""
_Line = tuple[int, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSide:
    """The log up to ``closed``. ``opened`` is the position from which on commits are in flight: it was taken
    before the other sources were asked, ``closed`` after."""

    opened: Position
    closed: Position
    state: State
    lines: Mapping[Key, tuple[LogRecord, ...]]

    def history(self, key: Key) -> tuple[Commit, ...]:
        """What is left of the key's records, in the order of the log: of those before ``opened`` the last
        `KEPT`; from there on nothing is missing, unless compaction removed it since."""
        lines = sorted(self.lines.get(key, ()), key=lambda each: each.offset)
        before = sum(each.offset < self.opened.get(each.partition, 0) for each in lines)
        kept = lines[max(0, before - KEPT) :]
        return tuple(commit_of(decode(each, partitions=len(self.closed))) for each in kept)


def read_log(
    records: Iterable[LogRecord], *, opened: Position, closed: Position, groups: Collection[str] | None = None
) -> LogSide:
    """The log's side of an audit of ``groups`` (None: all), from records in the order of each partition.

    Records of aborted or open transactions must not be among them, nor any at or behind ``closed``."""
    lines: dict[_Line, list[LogRecord]] = {}  # the last few before the bracket, and all in it
    unwanted: set[bytes | None] = set()
    for record in records:
        at = record.partition, record.key
        line = lines.get(at)
        if line is None:
            if record.key in unwanted:
                continue
            if groups is not None and decode(record, partitions=len(closed)).group_id not in groups:
                unwanted.add(record.key)
                continue
            line = lines[at] = []
        line.append(record)
        if len(line) > 2 * KEPT and record.offset < opened.get(record.partition, 0):
            del line[:-KEPT]
    latest = {at: decode(line[-1], partitions=len(closed)) for at, line in lines.items()}
    of_commits: dict[Key, list[LogRecord]] = defaultdict(list)
    for at, last in latest.items():
        if last.record_type in COMMITS and last.expected_partition == last.src_partition:
            group, topic, partition = last.group_id, last.topic, last.partition
            if group is not None and topic is not None and partition is not None:
                of_commits[group, topic, partition].extend(lines[at])  # types 0 and 1 are one key
    kept = {key: tuple(commits) for key, commits in of_commits.items()}
    return LogSide(opened=opened, closed=closed, state=materialise(latest.values(), closed), lines=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperGroup:
    """What ZooKeeper has of a group. ``mode`` is the one in effect, ``members`` all that are registered,
    ``aware`` those of them that commit to both stores, ``offsets`` the next offset to read by topic and
    partition; ``problems`` say what could not be read."""

    mode: Mode = Mode.ZOOKEEPER
    members: int = 0
    aware: int = 0
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """``settle_ms``: how long a record has to have been replicated before its coordinator must answer it;
    ``commit_interval_ms``: how long one store may be behind the other; ``retention_ms``: instead of what the
    brokers say (``offsets.retention.minutes``), and of a look what they say (None: not known); ``now_ms`` of
    a look is just before the sources were asked (epoch)."""

    settle_ms: int = 1000
    commit_interval_ms: int = 5000
    retention_ms: int | None = None
    now_ms: int = 0
