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

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from groupshift.domain.tables import table_of
from groupshift.errors import Rejected
from groupshift.log.decode import CONSUMER, Decoded, DecodeStatus
from groupshift.log.schema import COMMITS, TYPES


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
    topic id "".
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

    @property
    def key(self) -> tuple[str, str, int]:
        """Group, topic and partition."""
        return self.group_id, self.topic, self.partition

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

    ``home`` is what the group's own partition says."""

    commit: Commit
    expected_partition: int
    home: Commit | None

    @property
    def newer(self) -> bool | None:
        """Whether it was committed later than the one at home, by its own timestamp; None without a home
        commit, or when a timestamp is missing."""
        if self.home is None or min(self.home.commit_timestamp, self.commit.commit_timestamp) < 0:
            return None
        return self.commit.commit_timestamp > self.home.commit_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything a coordinator could know from this log, at this position of it.

    ``foreign_commits`` and ``foreign_records`` lie outside their group's partition; ``unknown`` are
    winners of types that we do not know, ``unreadable`` records whose key cannot be read.
    """

    groups: Mapping[str, GroupState]
    foreign_commits: tuple[ForeignCommit, ...]
    foreign_records: tuple[Decoded, ...]
    unknown: tuple[Decoded, ...]
    unreadable: tuple[Decoded, ...]


_CLASSIC, _EXPRESSION, _TOPOLOGY = 2, 16, 23
_HEADS = frozenset({2, 3, 11, 17})
"""Types whose live record makes a group one of its family."""
_MEMBERS = frozenset({5, 10, 19})
"""Types with one record for each member."""


def group_state(group_id: str, commits: Iterable[Commit], others: Iterable[Decoded]) -> GroupState:
    """One group out of the winners in its own partition: commits, and records of the other types.

    A group has the family of its live records; those of two families make an anomaly. Its epoch and its
    protocol type are those of the record that names the family (group-coordinator.md §1.7)."""
    commits = sorted(commits, key=lambda one: (one.topic, one.partition))
    others = sorted(others, key=lambda one: (one.record_type or 0, one.raw_key))
    live = [record for record in others if not record.is_tombstone]
    families = frozenset(TYPES[record.record_type].family.value for record in live if record.record_type)
    if families:
        family = GroupFamily.ANOMALY if len(families) > 1 else GroupFamily(min(families))
    else:
        family = GroupFamily.SIMPLE if any(one.live for one in commits) else GroupFamily.GONE
    head = next((record for record in live if record.record_type in _HEADS), None)
    value = (head.decoded if head else None) or {}
    members = {one.member_id for one in live if one.record_type in _MEMBERS and one.member_id is not None}
    members |= {member["memberId"] for record in live for member in _classic_members(record)}
    wanted = [_wanted_topics(record) for record in live]
    return GroupState(
        group_id=group_id,
        partition=commits[0].src_partition if commits else others[0].src_partition,
        family=family,
        families=families,
        headless=bool(live) and head is None,
        protocol_type=value.get("protocolType", CONSUMER if families == {"consumer"} else ""),
        epoch=value.get("generation", value.get("epoch")),
        state_timestamp=value.get("currentStateTimestamp", -1),
        members=tuple(sorted(members)),
        subscribed=None if None in wanted else frozenset(topic for each in wanted for topic in each or ()),
        commits=tuple(commits),
        records=tuple(live),
        removed=tuple(record for record in others if record.is_tombstone),
    )


def _classic_members(record: Decoded) -> list[dict[str, Any]]:
    """The members that the one record of a classic group lists; none in a record of another type."""
    members: list[dict[str, Any]] = (record.decoded or {}).get("members", [])
    return members if record.record_type == _CLASSIC else []


def _wanted_topics(record: Decoded) -> set[str] | None:
    """The topics to which a live record subscribes members; None when it says so in bytes that cannot be
    read."""
    number, value = record.record_type, record.decoded
    if value is None:
        return None if number in _MEMBERS or number in _HEADS else set()
    if number in _MEMBERS:
        return set(value.get("subscribedTopicNames", ()))
    if number == _EXPRESSION:
        return set(value["topics"])
    topics: set[str] = set()
    for part in value.get("subtopologies", ()) if number == _TOPOLOGY else ():
        topics.update(part["sourceTopics"], (one["name"] for one in part["repartitionSourceTopics"]))
    for member in _classic_members(record):
        subscription = member.get("embedded", {}).get("subscription", {})
        if "problem" in subscription:
            return None
        topics.update(subscription.get("topics", ()))
    return topics


def materialise(records: Iterable[Decoded], up_to: Mapping[int, int] | None = None) -> State:
    """The state that these records add up to, in whatever order they come.

    ``up_to`` is the position: partition → end offset, exclusive; of a partition that it does not name
    nothing is taken. None: everything. Raises `Rejected` for records decoded without a partition count.
    """
    winners: dict[tuple[object, ...], Decoded] = {}
    unreadable: list[Decoded] = []
    for record in records:
        if up_to is not None and record.src_offset >= up_to.get(record.src_partition, 0):
            continue
        if record.group_id is None and record.decode_status is not DecodeStatus.UNKNOWN_TYPE:
            unreadable.append(record)
            continue
        key: tuple[object, ...] = record.src_partition, record.raw_key
        if record.record_type in COMMITS:  # types 0 and 1 are one key
            key = record.src_partition, record.group_id, record.topic, record.partition
        if key not in winners or winners[key].src_offset < record.src_offset:
            winners[key] = record
    return _sorted_out(winners.values(), tuple(unreadable))


def _sorted_out(winners: Iterable[Decoded], unreadable: tuple[Decoded, ...]) -> State:
    """The winners by group, what lies outside its group's partition apart."""
    commits: dict[str, list[Commit]] = defaultdict(list)
    others: dict[str, list[Decoded]] = defaultdict(list)
    strays: list[tuple[Commit, int]] = []
    foreign_records: list[Decoded] = []
    unknown: list[Decoded] = []
    for record in winners:
        home, group = record.expected_partition, record.group_id or ""
        if record.decode_status is DecodeStatus.UNKNOWN_TYPE:
            unknown.append(record)
        elif home is None:
            raise Rejected(
                f"record {record.src_offset} of partition {record.src_partition} was decoded without a "
                "partition count, so foreign records cannot be told apart; decode with partitions=<count>"
            )
        elif record.record_type not in COMMITS:
            (others[group] if home == record.src_partition else foreign_records).append(record)
        elif home == record.src_partition:
            commits[group].append(commit_of(record))
        else:
            strays.append((commit_of(record), home))
    at_home = {one.key: one for records in commits.values() for one in records}
    return State(
        groups={
            group: group_state(group, commits.get(group, []), others.get(group, []))
            for group in sorted({*commits, *others})
        },
        foreign_commits=tuple(
            ForeignCommit(commit=one, expected_partition=home, home=at_home.get(one.key))
            for one, home in strays
        ),
        foreign_records=tuple(foreign_records),
        unknown=tuple(unknown),
        unreadable=unreadable,
    )


_AS_DECODED = {each.name for each in fields(Commit)} & {each.name for each in fields(Decoded)}


def commit_of(record: Decoded) -> Commit:
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
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """The packaged table."""

    reasons: Mapping[str, str]


RETENTION_RULES: Final = table_of(RetentionRules, "log/retention.toml").reasons
"""Rule → why a coordinator forgets a committed offset when it does. The clock differs by the kind of group,
and an emptied consumer group can lose week-old offsets at the next check.
Source: docs/reference/group-coordinator.md §1.7 (seen on 4.3.1)."""


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


def retention_risks(group: GroupState, *, retention_ms: int, now_ms: int) -> tuple[RetentionRisk, ...]:
    """Every live commit of the group with the rule that decides about it.

    ``retention_ms`` is ``offsets.retention.minutes`` in ms, ``now_ms`` the brokers' clock.
    """
    return tuple(_risk(group, one, retention_ms, now_ms) for one in group.commits if one.live)


def _risk(group: GroupState, commit: Commit, retention_ms: int, now_ms: int) -> RetentionRisk:
    """The first rule that fits, and the end that follows: for T3 and T5 none while the group is as it is."""
    newer = group.family in {GroupFamily.CONSUMER, GroupFamily.STREAMS}
    classic = group.family is GroupFamily.CLASSIC and group.protocol_type != ""
    wanted = group.subscribed is None or commit.topic in group.subscribed
    ends: int | None = commit.commit_timestamp + retention_ms
    emptied = ends if newer else now_ms + retention_ms
    if commit.expire_timestamp >= 0:
        rule, ends = "T1", commit.expire_timestamp
    elif classic and not group.members:
        rule = "T2"
        ends = ends if group.state_timestamp < 0 else group.state_timestamp + retention_ms
    elif classic and (wanted or group.protocol_type != CONSUMER):
        rule, ends = "T3", None
    elif classic:
        rule = "T4"
    elif newer and wanted:
        rule, ends = "T5", None
    else:
        rule = "T6" if newer else "T7"
    return RetentionRisk(
        group_id=group.group_id,
        topic=commit.topic,
        partition=commit.partition,
        rule=rule,
        reason=RETENTION_RULES[rule],
        expires_at_ms=ends,
        when_emptied_ms=emptied if ends is None else ends,
        overdue=ends is not None and ends <= now_ms,
    )
