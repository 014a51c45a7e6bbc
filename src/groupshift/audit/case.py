"""One committed offset as an audit sees it: what coordinators, log and ZooKeeper say.

The log gives its state and the recent past of every committed offset. Records are kept raw and only those
that matter are decoded. Source: docs/reference/group-coordinator.md §§1.6, 1.7, 2, 3.1;
docs/reference/zookeeper-coordination.md §§6.1, 6.2, 8.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from groupshift.domain.commit_places import Stray
from groupshift.domain.modes import Mode
from groupshift.domain.placement import partition_of
from groupshift.domain.rows import LogEndRow, OffsetRow
from groupshift.log import DecodeStatus, LogRecord, decode
from groupshift.log.decode import Position
from groupshift.log.state import (
    Commit,
    ForeignCommit,
    GroupState,
    State,
    commit_of,
    materialise,
    retention_risks,
)

Key = tuple[str, str, int]
"""Group, topic, partition."""

KEPT = 64
"""Records of one key that count from before the bracket."""
_COMMITS = frozenset({0, 1})
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


def homes(groups: Collection[str], closed: Position) -> frozenset[int]:
    """The partitions of the log to which these groups belong."""
    return frozenset(partition_of(group, len(closed)) for group in groups)


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
        if last.record_type in _COMMITS and last.expected_partition == last.src_partition:
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
    """``now_ms`` is just before the sources were asked (epoch), ``commit_interval_ms`` how long one store may
    be behind the other, ``retention_ms`` the brokers' ``offsets.retention.minutes`` (None: not known)."""

    now_ms: int
    commit_interval_ms: int = 5000
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One (group, topic, partition).

    ``answered_in_full``: its coordinator gave a full answer about the group. ``winner`` and ``history`` are
    of the group's own partition of the log, whose position was ``opened`` before the coordinator was asked;
    ``foreign`` lies elsewhere. ``silent``: the coordinator answers nothing of what this partition of the log
    holds. ``zookeeper`` is None for a group that ZooKeeper does not have, or when it was not asked."""

    key: Key
    answered_in_full: bool
    answer: OffsetRow | None
    winner: Commit | None
    history: tuple[Commit, ...]
    opened: int
    foreign: tuple[ForeignCommit, ...]
    foreign_moving: bool
    group: GroupState | None
    silent: bool
    zookeeper: ZookeeperGroup | None
    end: LogEndRow | None
    terms: Terms
    strays: frozenset[Stray] = frozenset()
    """What is wrong with where the answered offset belongs."""

    @property
    def answered(self) -> int | None:
        """The coordinator's offset; None: it says that there is none, or says nothing."""
        return None if self.answer is None or self.answer.offset < 0 else self.answer.offset

    @property
    def logged(self) -> int | None:
        """The log's offset; None where there is none, or the record cannot be read."""
        offset = None if self.winner is None else self.winner.offset
        return None if offset is None or offset < 0 else offset

    @property
    def znode(self) -> int | None:
        """What the offset node says, if there is one."""
        return None if self.zookeeper is None else self.zookeeper.offsets.get(self.key[1:])

    @property
    def is_tombstone(self) -> bool:
        """Whether the log's last word is that there is no offset any more."""
        return self.winner is not None and self.winner.is_tombstone

    @property
    def unreadable(self) -> bool:
        """Whether the deciding record cannot be read for certain."""
        return self.winner is not None and self.winner.status is not DecodeStatus.OK

    @property
    def bracket(self) -> tuple[Commit, ...]:
        """The records whose offset the coordinator may have answered: the last before the bracket was
        opened, and every one since."""
        before = [one for one in self.history if one.record_offset < self.opened]
        return (*before[-1:], *(one for one in self.history if one.record_offset >= self.opened))

    @property
    def possible(self) -> frozenset[int | None]:
        """The answers that a coordinator which follows its log could give within the bracket."""
        offsets = {one.says for one in self.bracket}
        if all(one.record_offset >= self.opened for one in self.history):
            offsets.add(None)
        return frozenset(offsets)

    @property
    def agrees(self) -> bool:
        """Whether the coordinator answers what is in its log."""
        return self.answered == self.logged and not (self.unreadable and self.logged is None)

    @property
    def follows(self) -> bool:
        """Whether the coordinator answered what was in its log at some moment of the bracket."""
        return self.agrees or self.answered in self.possible

    @property
    def same_details(self) -> bool:
        """Whether metadata and leader epoch are those of a record with the answered offset."""
        answer = self.answer
        if answer is None or self.answered is None:
            return True
        details = (answer.metadata or "", -1 if answer.leader_epoch is None else answer.leader_epoch)
        return any(
            details == (one.metadata, one.leader_epoch) for one in self.bracket if one.says == self.answered
        )

    @property
    def served_before(self) -> bool:
        """Whether the answer is an older commit of this log, from before the bracket."""
        return self.answered is not None and self.answered in {one.says for one in self.history}

    @property
    def overdue(self) -> bool:
        """Whether the retention of a live commit is over, so that the coordinator may have forgotten it."""
        retention, group = self.terms.retention_ms, self.group
        if retention is None or group is None:
            return False
        risks = retention_risks(group, retention_ms=retention, now_ms=self.terms.now_ms)
        return any(one.overdue for one in risks if (one.topic, one.partition) == self.key[1:])

    @property
    def removed_by_retention(self) -> bool | None:
        """Of a tombstone: whether it is old enough after the last commit to be an expiry; None: the log
        does not tell (the commit is gone, or the retention is not known)."""
        live = [one for one in self.history if one.says is not None]
        if not self.is_tombstone or not live or self.winner is None:
            return None
        if live[-1].expire_timestamp >= 0:
            return live[-1].expire_timestamp <= self.winner.record_ts
        if self.terms.retention_ms is None:
            return None
        return live[-1].commit_timestamp + self.terms.retention_ms <= self.winner.record_ts

    @property
    def node_behind(self) -> bool:
        """Whether the znode is lower than (or absent beside) the offset in Kafka."""
        return self.answered is not None and (self.znode is None or self.znode < self.answered)

    @property
    def node_within_interval(self) -> bool:
        """Whether the znode is behind for no longer than a commit interval: Kafka's first commit beyond it
        is younger."""
        reached = -1 if self.znode is None else self.znode
        beyond: Commit | None = None
        for one in reversed(self.history):
            if one.says is None or one.says <= reached:
                break
            beyond = one
        return beyond is not None and self._recent(beyond.commit_timestamp)

    @property
    def kafka_committed_ms(self) -> int | None:
        """When Kafka's own last commit was made (epoch ms, the coordinator's clock), by the last live record
        of the log; None where it is not known."""
        live = [one for one in self.history if one.says is not None]
        at = live[-1].commit_timestamp if live else -1
        return at if at >= 0 else None

    @property
    def kafka_within_interval(self) -> bool:
        """Whether Kafka is behind for no longer than a commit interval: its own last commit is younger. That
        the znode was written just now says nothing about it: in a busy group it always was."""
        at = self.kafka_committed_ms
        return self.znode is not None and at is not None and self._recent(at)

    @property
    def stores_agree(self) -> bool:
        """Whether the znode is what Kafka had at some moment of the bracket."""
        if self.zookeeper is None:
            return True
        node = self.znode
        return node == self.answered or (node is not None and node in self.possible)

    @property
    def kafka_mode(self) -> bool:
        """Whether Kafka's offset is the one that counts."""
        return self.zookeeper is not None and self.zookeeper.mode is Mode.KAFKA

    def _recent(self, at_ms: int) -> bool:
        return self.terms.now_ms - at_ms <= self.terms.commit_interval_ms
