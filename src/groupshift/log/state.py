"""The state of every group at any position of the log, by the rules that both coordinators share.

It has offsets, groups, tombstones, and records that do not belong. Per partition and key the record with the
highest offset wins, whatever its timestamps say; a commit's key is (group, topic, partition) for the types 0
and 1 alike. Records of aborted transactions must not be among the input (read with
``isolation.level=read_committed``); of committed ones the record's own offset counts, not that of its
marker. Records outside their group's partition are kept apart. `group_state` makes a group's family, epoch,
members and subscriptions of the records that won; `retention_risks` says when its offsets may be forgotten.

Source: docs/reference/group-coordinator.md §1.7 (family), §1.4 (fields), §1.5 (member bytes).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from groupshift.errors import Rejected
from groupshift.log.decode import CONSUMER, Decoded, DecodeStatus
from groupshift.log.schema import TYPES


class GroupFamily(StrEnum):
    """What a coordinator takes the group for."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    SIMPLE = "simple"
    """Committed offsets and nothing else: an empty classic group without a protocol type."""
    ANOMALY = "anomaly"
    """Live records of more than one family in the group's partition."""
    GONE = "gone"
    """Tombstones only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The winning commit of one group, topic and partition in one partition of the log.

    ``offset`` is None for a tombstone and for a record that cannot be read (``status`` tells them
    apart); fields that its version lacks have Kafka's defaults: leader epoch -1, expire timestamp -1,
    topic id "". ``beaten`` counts the records of the same key that it won over.
    """

    group_id: str
    topic: str
    partition: int
    src_partition: int
    record_offset: int
    record_ts: int
    record_type: int
    is_tombstone: bool
    status: DecodeStatus
    value_version: int | None
    offset: int | None
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: str
    beaten: int

    @property
    def live(self) -> bool:
        """Whether there is a committed offset (also one of -1, or one that cannot be read)."""
        return not self.is_tombstone

    @property
    def says(self) -> int | None:
        """The committed offset; None: there is none (a commit of -1 is none either)."""
        return None if self.offset is None or self.offset < 0 else self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """One group at one position of the log.

    ``families`` are the families of its live records besides offsets; ``headless`` says that the one
    record which names the family (type 2, 3, 11, 17) is not live. ``epoch`` is its generation or group
    epoch, ``members`` are member ids, ``subscribed`` the topics that members want: None when a member's
    subscription cannot be read. ``commits`` and ``records`` are winners, tombstones among the former;
    ``removed`` are winning tombstones of the other types.
    """

    group_id: str
    partition: int
    family: GroupFamily
    families: frozenset[str]
    headless: bool
    protocol_type: str
    epoch: int | None
    state_timestamp: int
    members: tuple[str, ...]
    subscribed: frozenset[str] | None
    commits: tuple[Commit, ...]
    records: tuple[Decoded, ...]
    removed: tuple[Decoded, ...]

    @property
    def offsets(self) -> dict[tuple[str, int], int | None]:
        """(topic, partition) → committed offset, live ones only."""
        return {(one.topic, one.partition): one.offset for one in self.commits if one.live}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCommit:
    """A winning commit outside its group's partition: residue of an expansion, never merged.

    ``home`` is what the group's own partition says; ``newer`` whether the foreign one was committed
    later by its own timestamp (None without a home commit, or when a timestamp is missing).
    """

    commit: Commit
    expected_partition: int
    home: Commit | None
    newer: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything a coordinator could know from this log, at this position of it.

    ``foreign_commits`` and ``foreign_records`` lie outside their group's partition; ``unknown`` are
    winners of types that we do not know, ``unreadable`` records whose key cannot be read. ``ends`` is
    partition → offset behind the last record taken.
    """

    groups: Mapping[str, GroupState]
    foreign_commits: tuple[ForeignCommit, ...]
    foreign_records: tuple[Decoded, ...]
    unknown: tuple[Decoded, ...]
    unreadable: tuple[Decoded, ...]
    ends: Mapping[int, int]


HEADS = {2: GroupFamily.CLASSIC, 3: GroupFamily.CONSUMER, 11: GroupFamily.SHARE, 17: GroupFamily.STREAMS}
"""The type whose live record makes a group one of a family."""
_CLASSIC, _EXPRESSION, _TOPOLOGY = 2, 16, 23
_MEMBERS = frozenset({5, 10, 19})


def group_state(group_id: str, commits: Iterable[Commit], others: Iterable[Decoded]) -> GroupState:
    """One group out of the winners in its own partition: commits, and records of the other types."""
    commits = sorted(commits, key=lambda one: (one.topic, one.partition))
    others = sorted(others, key=lambda one: (one.record_type or 0, one.raw_key))
    live = [record for record in others if not record.is_tombstone]
    families = frozenset(TYPES[record.record_type].family.value for record in live if record.record_type)
    head = next((record for record in live if record.record_type in HEADS), None)
    value = (head.decoded if head else None) or {}
    return GroupState(
        group_id=group_id,
        partition=commits[0].src_partition if commits else others[0].src_partition,
        family=_family(families, commits),
        families=families,
        headless=bool(live) and head is None,
        protocol_type=value.get("protocolType", CONSUMER if families == {"consumer"} else ""),
        epoch=value.get("generation", value.get("epoch")),
        state_timestamp=value.get("currentStateTimestamp", -1),
        members=_members(live),
        subscribed=_subscribed(live),
        commits=tuple(commits),
        records=tuple(live),
        removed=tuple(record for record in others if record.is_tombstone),
    )


def _family(families: frozenset[str], commits: Iterable[Commit]) -> GroupFamily:
    if len(families) > 1:
        return GroupFamily.ANOMALY
    if families:
        return GroupFamily(next(iter(families)))
    return GroupFamily.SIMPLE if any(one.live for one in commits) else GroupFamily.GONE


def _classic_members(record: Decoded) -> list[dict[str, Any]]:
    members: list[dict[str, Any]] = (record.decoded or {}).get("members", [])
    return members if record.record_type == _CLASSIC else []


def _members(live: Iterable[Decoded]) -> tuple[str, ...]:
    """Ids of members: from the one record of a classic group, or of one record each."""
    found = {record.member_id for record in live if record.record_type in _MEMBERS}
    classic = {member["memberId"] for record in live for member in _classic_members(record)}
    return tuple(sorted({one for one in found if one is not None} | classic))


def _subscribed(live: Iterable[Decoded]) -> frozenset[str] | None:
    """The topics of all members; None when one member's cannot be read."""
    topics: set[str] = set()
    for record in live:
        wanted = _wanted(record)
        if wanted is None:
            return None
        topics |= wanted
    return frozenset(topics)


def _wanted(record: Decoded) -> set[str] | None:
    value = record.decoded
    if value is None:
        return None if record.record_type in _MEMBERS or record.record_type in HEADS else set()
    if record.record_type in _MEMBERS:
        return set(value.get("subscribedTopicNames", ()))
    if record.record_type == _EXPRESSION:
        return set(value["topics"])
    if record.record_type == _TOPOLOGY:
        return {
            topic
            for part in value.get("subtopologies", ())
            for topic in (*part["sourceTopics"], *(one["name"] for one in part["repartitionSourceTopics"]))
        }
    topics: set[str] = set()
    for member in _classic_members(record):
        subscription = member.get("embedded", {}).get("subscription", {})
        if "problem" in subscription:
            return None
        topics.update(subscription.get("topics", ()))
    return topics


_COMMITS = frozenset({0, 1})
_Key = tuple[object, ...]


def materialise(records: Iterable[Decoded], up_to: Mapping[int, int] | None = None) -> State:
    """The state that these records add up to, in whatever order they come.

    ``up_to`` is the position: partition → end offset, exclusive; of a partition that it does not name
    nothing is taken. None: everything. Raises `Rejected` for records decoded without a partition count.
    """
    winners: dict[_Key, Decoded] = {}
    seen: Counter[_Key] = Counter()
    unreadable: list[Decoded] = []
    ends: dict[int, int] = {}
    for record in records:
        if up_to is not None and record.src_offset >= up_to.get(record.src_partition, 0):
            continue
        ends[record.src_partition] = max(ends.get(record.src_partition, 0), record.src_offset + 1)
        if record.group_id is None and record.decode_status is not DecodeStatus.UNKNOWN_TYPE:
            unreadable.append(record)
            continue
        key = _logical_key(record)
        seen[key] += 1
        if key not in winners or winners[key].src_offset < record.src_offset:
            winners[key] = record
    return _assembled(winners, seen, unreadable, ends)


def _logical_key(record: Decoded) -> _Key:
    """What a later record replaces: within one partition of the log."""
    if record.record_type in _COMMITS:
        return record.src_partition, record.group_id, record.topic, record.partition
    return record.src_partition, record.raw_key


def _assembled(
    winners: Mapping[_Key, Decoded],
    seen: Mapping[_Key, int],
    unreadable: list[Decoded],
    ends: Mapping[int, int],
) -> State:
    known = {key: one for key, one in winners.items() if one.decode_status is not DecodeStatus.UNKNOWN_TYPE}
    commits: dict[str, list[Commit]] = defaultdict(list)
    others: dict[str, list[Decoded]] = defaultdict(list)
    foreign: list[tuple[Commit, int]] = []
    foreign_records: list[Decoded] = []
    for key, record in known.items():
        home, group = _home(record), record.group_id or ""
        here = home == record.src_partition
        if record.record_type not in _COMMITS:
            (others[group] if here else foreign_records).append(record)
        elif here:
            commits[group].append(commit_of(record, beaten=seen[key] - 1))
        else:
            foreign.append((commit_of(record, beaten=seen[key] - 1), home))
    groups = {
        group: group_state(group, commits.get(group, []), others.get(group, []))
        for group in sorted({*commits, *others})
    }
    at_home = {_commit_key(one): one for group in groups.values() for one in group.commits}
    return State(
        groups=groups,
        foreign_commits=tuple(_foreign(one, home, at_home.get(_commit_key(one))) for one, home in foreign),
        foreign_records=tuple(foreign_records),
        unknown=tuple(one for key, one in winners.items() if key not in known),
        unreadable=tuple(unreadable),
        ends=dict(ends),
    )


def _home(record: Decoded) -> int:
    if record.expected_partition is None:
        raise Rejected(
            f"record {record.src_offset} of partition {record.src_partition} was decoded without a partition "
            "count, so foreign records cannot be told apart; decode with partitions=<count>"
        )
    return record.expected_partition


def _commit_key(commit: Commit) -> tuple[str, str, int]:
    return commit.group_id, commit.topic, commit.partition


_AS_DECODED = (
    "group_id", "topic", "partition", "src_partition",
    "record_ts", "record_type", "is_tombstone", "value_version",
)  # fmt: skip


def commit_of(record: Decoded, *, beaten: int = 0) -> Commit:
    """What a record of a commit says; its key is a readable one, so it names group, topic and partition."""
    value = record.decoded or {}
    return Commit(
        **{name: getattr(record, name) for name in _AS_DECODED},
        record_offset=record.src_offset,
        status=record.decode_status,
        offset=value.get("offset"),
        leader_epoch=value.get("leaderEpoch", -1),
        metadata=value.get("metadata", ""),
        commit_timestamp=value.get("commitTimestamp", -1),
        expire_timestamp=value.get("expireTimestamp", -1),
        topic_id=value.get("topicId", ""),
        beaten=beaten,
    )


def _foreign(commit: Commit, expected: int, home: Commit | None) -> ForeignCommit:
    newer = None
    if home is not None and min(home.commit_timestamp, commit.commit_timestamp) >= 0:
        newer = commit.commit_timestamp > home.commit_timestamp
    return ForeignCommit(commit=commit, expected_partition=expected, home=home, newer=newer)


# When a coordinator may forget a committed offset: rules as data, each with its reason. The clock differs by
# the kind of group, and an emptied consumer group can lose week-old offsets at the next check.
# Source: docs/reference/group-coordinator.md §1.7 (seen on 4.3.1).

_Applies = Callable[[GroupState, Commit], bool]
_Since = Callable[[GroupState, Commit], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """One line: for which commits it speaks, and from when on the retention counts.

    ``since`` gives epoch ms, or None: not while the group is as it is; ``absolute``: that time is the
    end already, whatever the broker's retention.
    """

    number: str
    applies: _Applies
    since: _Since
    reason: str
    absolute: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRisk:
    """One live commit: ``expires_at_ms`` (epoch ms, None: not as it is), and the same for the case that
    the group empties now. ``overdue``: a broker may forget it at its next check."""

    group_id: str
    topic: str
    partition: int
    rule: str
    reason: str
    expires_at_ms: int | None
    when_emptied_ms: int | None
    overdue: bool


def _wants(group: GroupState, commit: Commit) -> bool:
    return group.subscribed is None or commit.topic in group.subscribed


def _committed(_: GroupState, commit: Commit) -> int:
    return commit.commit_timestamp


def _emptied(group: GroupState, commit: Commit) -> int:
    return group.state_timestamp if group.state_timestamp >= 0 else commit.commit_timestamp


def _is_classic(group: GroupState) -> bool:
    return group.family is GroupFamily.CLASSIC and group.protocol_type != ""


def _newer(group: GroupState) -> bool:
    return group.family in {GroupFamily.CONSUMER, GroupFamily.STREAMS}


RETENTION_RULES = (
    RetentionRule(
        number="T1", applies=lambda _, commit: commit.expire_timestamp >= 0, absolute=True,
        since=lambda _, commit: commit.expire_timestamp,
        reason="the commit carries its own expire timestamp (value version 1), which overrides the broker's",
    ),
    RetentionRule(
        number="T2", applies=lambda group, _: _is_classic(group) and not group.members, since=_emptied,
        reason="an empty classic group's offsets count from when it became empty",
    ),
    RetentionRule(
        number="T3", since=lambda *_: None,
        applies=lambda group, commit: _is_classic(group)
        and (group.protocol_type != CONSUMER or _wants(group, commit)),
        reason="a member of the classic group wants this topic (or the group's protocol does not say which)",
    ),
    RetentionRule(
        number="T4", applies=lambda group, _: _is_classic(group), since=_committed,
        reason="no member of the classic group is subscribed to this topic: counts from the commit",
    ),
    RetentionRule(
        number="T5", applies=lambda group, commit: _newer(group) and _wants(group, commit),
        since=lambda *_: None, reason="a member of the group is subscribed to this topic",
    ),
    RetentionRule(
        number="T6", applies=lambda group, _: _newer(group), since=_committed,
        reason="nobody is subscribed to this topic: counts from the commit, not from when the group emptied",
    ),
    RetentionRule(
        number="T7", applies=lambda *_: True, since=_committed,
        reason="a group of offsets only: counts from the commit",
    ),
)  # fmt: skip
"""First match speaks."""


def retention_risks(group: GroupState, *, retention_ms: int, now_ms: int) -> tuple[RetentionRisk, ...]:
    """Every live commit of the group with the rule that decides about it.

    ``retention_ms`` is ``offsets.retention.minutes`` in ms, ``now_ms`` the brokers' clock.
    """
    return tuple(_risk(group, one, retention_ms, now_ms) for one in group.commits if one.live)


def _risk(group: GroupState, commit: Commit, retention_ms: int, now_ms: int) -> RetentionRisk:
    rule = next(rule for rule in RETENTION_RULES if rule.applies(group, commit))
    since = rule.since(group, commit)
    ends = since if since is None or rule.absolute else since + retention_ms
    emptied = ends if ends is not None else now_ms + retention_ms
    if ends is None and _newer(group):
        emptied = commit.commit_timestamp + retention_ms
    return RetentionRisk(
        group_id=group.group_id,
        topic=commit.topic,
        partition=commit.partition,
        rule=rule.number,
        reason=rule.reason,
        expires_at_ms=ends,
        when_emptied_ms=emptied,
        overdue=ends is not None and ends <= now_ms,
    )
