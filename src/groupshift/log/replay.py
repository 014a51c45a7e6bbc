"""Replay lint: what the coordinator of a release would load from this log, and the rules that say why.

Per group: it loads, it loads with loss, or its partition's coordinator fails, with the record that
decides; of a log that Apache Kafka did not write nothing is said. `load` is the new coordinator's shard while
it loads: one small state machine a group. It does what the released replay methods do, and stops at the
first record that they throw on. The releases are data (`groupshift.log.releases`).

Source: docs/reference/group-coordinator.md §1.7 "Replay lint", §§3.1, 4;
docs/reference/coordinator-on-real-brokers.md §§D, F.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.log.decode import Decoded, DecodeStatus
from groupshift.log.other_writers import other_writers
from groupshift.log.releases import Coordinator, Loader, loader
from groupshift.log.schema import TYPES, Family
from groupshift.log.state import GroupFamily, GroupState, State, materialise

_CLASSIC = 2


def lint(records: Iterable[Decoded], release: str, coordinator: Coordinator) -> dict[str, GroupVerdict]:
    """A verdict for every group with anything live in the log, by group id.

    ``records`` are the whole log of every partition as it lies there (compacted or not), decoded with
    the partition count in force; their order does not matter. Raises `Rejected` for a release that does
    not have this coordinator, and for records decoded without a count.
    """
    line = loader(release, coordinator)
    logs: dict[int, list[Decoded]] = defaultdict(list)
    for record in records:
        logs[record.src_partition].append(record)
    state = materialise(record for log in logs.values() for record in log)
    alive = [group for group in state.groups.values() if group.family is not GroupFamily.GONE]
    if other_writers(record for log in logs.values() for record in log):
        names = {group.group_id: group.partition for group in alive}
        names |= {name: home for name, (home, _) in _displaced(state, logs).items()}
        return {name: verdict(name, home, "X2") for name, home in sorted(names.items())}
    copies = _displaced(state, logs)
    verdicts = _old(alive, logs, copies, line) if coordinator is Coordinator.OLD else _new(alive, logs, line)
    for group_id, (home, record) in copies.items():
        verdicts.setdefault(group_id, verdict(group_id, home, "X1", record))
    return dict(sorted(verdicts.items()))


def _displaced(state: State, logs: Mapping[int, list[Decoded]]) -> dict[str, tuple[int, Decoded]]:
    """Groups with live records outside their partition: where they belong, and the first such record."""
    winners = {(one.commit.src_partition, one.commit.record_offset) for one in state.foreign_commits}
    winners |= {(one.src_partition, one.src_offset) for one in state.foreign_records}
    found: dict[str, tuple[int, Decoded]] = {}
    for log in logs.values():
        for record in sorted(log, key=lambda one: one.src_offset):
            live = not record.is_tombstone and (record.src_partition, record.src_offset) in winners
            if live and record.group_id is not None and record.expected_partition is not None:
                found.setdefault(record.group_id, (record.expected_partition, record))
    return found


def _old(
    groups: Iterable[GroupState],
    logs: Mapping[int, list[Decoded]],
    copies: Mapping[str, tuple[int, Decoded]],
    line: Loader,
) -> dict[str, GroupVerdict]:
    """The old coordinator: all or nothing a partition, and one cache over all of them."""
    broken = {partition: _breaks(records, line) for partition, records in logs.items()}
    verdicts = {}
    for group in groups:
        name, home = group.group_id, group.partition
        stop = broken[home]
        newer = next((one for one in group.records if one.record_type not in line.types), None)
        if stop is not None:
            verdicts[name] = verdict(name, home, *stop)
        elif newer is not None:
            verdicts[name] = verdict(name, home, "O4", newer)
        elif name in copies:
            verdicts[name] = verdict(name, home, "O5", copies[name][1])
        else:
            verdicts[name] = verdict(name, home, "L0")
    return verdicts


def _breaks(records: Iterable[Decoded], line: Loader) -> tuple[str, Decoded] | None:
    """The first record that ends an old coordinator's load of a partition, and its rule."""
    for record in sorted(records, key=lambda one: one.src_offset):
        number = record.record_type
        if number is not None and number not in line.types:
            if not line.ignores_unknown_types:
                return "O1", record
            continue
        limit = line.group_version if number == _CLASSIC else line.commit_version
        if record.value_version is not None and record.value_version > limit:
            return "O2", record
        if record.decode_status is DecodeStatus.ERROR:
            return "O3", record
    return None


def _new(
    groups: Iterable[GroupState], logs: Mapping[int, list[Decoded]], line: Loader
) -> dict[str, GroupVerdict]:
    """The new coordinator: every partition a shard of its own, so copies elsewhere harm nobody."""
    loaded = {partition: load(records, line) for partition, records in logs.items()}
    verdicts = {}
    for group in groups:
        name, home = group.group_id, group.partition
        shard = loaded[home]
        if shard.stopped is not None:
            verdicts[name] = verdict(name, home, *shard.stopped)
        elif any(one.live for one in group.commits) and name not in shard.present:
            verdicts[name] = verdict(name, home, "N8", shard.removed.get(name))
        elif name in shard.ignored:
            verdicts[name] = verdict(name, home, "N9", shard.ignored[name])
        else:
            verdicts[name] = verdict(name, home, "L0")
    return verdicts


class LoadOutcome(StrEnum):
    """What becomes of a group when its coordinator loads the log; in order of harm."""

    LOADS = "loads"
    LOADS_WITH_LOSS = "loads_with_loss"
    FAILS_SHARD = "fails_shard"
    """The coordinator of its partition answers NOT_COORDINATOR (16) for every group in it."""
    NOT_PROVEN = "not_proven"
    """Nothing is said: the log was not written by Apache Kafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRule:
    """One rule: its number, what it means and the reason with its source."""

    number: str
    outcome: LoadOutcome
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """What the coordinator would make of one group, by which rule, and the record that decides.

    ``partition`` is where the group belongs; the deciding record is the first of its kind, and None
    where the group simply loads.
    """

    group_id: str
    partition: int
    outcome: LoadOutcome
    rule: str
    reason: str
    record: Decoded | None


_LOSS, _FAILS = LoadOutcome.LOADS_WITH_LOSS, LoadOutcome.FAILS_SHARD


def _rule(number: str, outcome: LoadOutcome, *reason: str) -> ReplayRule:
    return ReplayRule(number=number, outcome=outcome, reason=" ".join(reason))


_TABLE = (
    _rule("L0", LoadOutcome.LOADS, "nothing in the log keeps this coordinator from loading the group"),
    _rule(
        "O1", _LOSS,
        "a record type that this release does not know breaks the load off, tombstone or not: the partition",
        "is served empty and offsets are answered -1 with error NONE (before 3.4.1, KIP-915)",
    ),
    _rule(
        "O2", _LOSS,
        "a value version that this release does not know breaks the load off: the partition is served empty",
        "and offsets are answered -1 with error NONE",
    ),
    _rule(
        "O3", _LOSS,
        "a record that cannot be read breaks the load off: the partition is served empty and offsets are",
        "answered -1 with error NONE",
    ),
    _rule(
        "O4", _LOSS,
        "offsets load but the records of the newer protocols are ignored: members and epochs are gone, the",
        "group appears simple and Empty, a share group not at all",
    ),
    _rule(
        "O5", _LOSS,
        "the old coordinator keeps one cache over all partitions: a copy of the group in another partition",
        "(residue of an expansion) can shadow its offsets at any load",
    ),
    _rule(
        "N1", _FAILS,
        "a record of one kind of group comes while the group is of another kind, the coordinator stops with",
        "'Group ... is not a consumer group' (class of KAFKA-21117 and KAFKA-20254; compaction does it)",
    ),
    _rule(
        "N2", _FAILS,
        "a member's tombstone comes before the tombstones of its current and its target assignment (class of",
        "KAFKA-19862 and KAFKA-21102)",
    ),
    _rule(
        "N3", _FAILS,
        "a group's tombstone comes while members or targets remain, or before the tombstone of its",
        "assignment epoch (class of KAFKA-19862 and KAFKA-21102)",
    ),
    _rule("N4", _FAILS, "the tombstone of the assignment epoch comes while target assignments remain"),
    _rule(
        "N5", _FAILS,
        "a record comes for a group or member that the log has not created before it, which this release",
        "does not forgive (3.7 to 3.9; share groups up to 4.0)",
    ),
    _rule(
        "N6", _FAILS,
        "the value has the layout of another release under the same version number (3.7 against 3.8 and",
        "later; share groups up to 4.0 against 4.1)",
    ),
    _rule(
        "N7", _FAILS,
        "the record cannot be read, or its value is of an unknown version and has nested structs",
    ),
    _rule(
        "N8", _LOSS,
        "the log removes the group after its offsets and nothing creates it again: offsets are answered -1",
    ),
    _rule("N9", _LOSS, "records of types that this release does not know are ignored with a warning"),
    _rule(
        "X1", _LOSS,
        "all its live records lie outside the partition it belongs to (residue of an expansion): its",
        "coordinator answers -1 with error NONE",
    ),
    _rule(
        "X2", LoadOutcome.NOT_PROVEN,
        "the log was not written by Apache Kafka: no value of a type can be read (Redpanda writes one int16",
        "more into each member), so how Apache Kafka would load it says nothing",
    ),
)  # fmt: skip

RULES = {rule.number: rule for rule in _TABLE}
"""Number → rule. L: loads, O: old coordinator, N: new coordinator, X: both."""


def verdict(group_id: str, partition: int, rule: str, record: Decoded | None = None) -> GroupVerdict:
    """The verdict of this rule on one group."""
    found = RULES[rule]
    return GroupVerdict(
        group_id=group_id,
        partition=partition,
        outcome=found.outcome,
        rule=found.number,
        reason=found.reason,
        record=record,
    )


_LEFT = -1


class _Role(StrEnum):
    HEAD = "head"
    MEMBER = "member"
    TARGET_HEAD = "target_head"
    TARGET = "target"
    CURRENT = "current"


_ROLES = {
    number: role
    for numbers in ((3, 5, 6, 7, 8), (11, 10, 12, 13, 14), (17, 19, 20, 21, 22))
    for number, role in zip(numbers, _Role, strict=True)
}
_CREATE = frozenset({_Role.HEAD, _Role.MEMBER})
"""Records that create their group even where a release is strict."""
_NESTED = frozenset({4, 5, 7})
"""Types whose readers check the version inside."""
_TWO_LAYOUTS = frozenset(number for number, known in TYPES.items() if len(known.values) > 1)


class Stopped(ValueError):
    """The load stops at this record; the argument is the number of the rule."""


@dataclass(slots=True)
class _Group:
    """``kind``: a family, or None for a simple group. Epochs of members are -1 once they left."""

    kind: Family | None
    members: dict[str, int] = field(default_factory=dict)
    targets: set[str] = field(default_factory=set)
    assignment_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a load came to: ``stopped`` is the rule and the record that ended it; ``removed`` the
    tombstone by which each group that is not there was removed; ``ignored`` the first live record of an
    unknown type by group."""

    stopped: tuple[str, Decoded] | None
    present: frozenset[str]
    removed: dict[str, Decoded]
    ignored: dict[str, Decoded]


def load(records: Iterable[Decoded], loader: Loader) -> Loaded:
    """Replay one partition, in order of offsets, as this loader would."""
    shard = _Shard(loader)
    stopped = None
    for record in sorted(records, key=lambda one: one.src_offset):
        try:
            shard.replay(record)
        except Stopped as rule:
            stopped = str(rule), record
            break
    return Loaded(
        stopped=stopped, present=frozenset(shard.groups), removed=shard.removed, ignored=shard.ignored
    )


class _Shard:
    """Groups by id while they load. Every method raises `Stopped` where the coordinator would."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.groups: dict[str, _Group] = {}
        self.removed: dict[str, Decoded] = {}
        self.ignored: dict[str, Decoded] = {}

    def replay(self, record: Decoded) -> None:
        number, group_id = record.record_type, record.group_id
        if number is None or (group_id is None and number in self._loader.types):
            raise Stopped("N7")
        if number not in self._loader.types:
            if group_id is not None and not record.is_tombstone:
                self.ignored.setdefault(group_id, record)
            return
        assert group_id is not None  # noqa: S101  (refused above)
        self._readable(record, number)
        family = TYPES[number].family
        if family is Family.OFFSETS:
            if not record.is_tombstone:
                self.groups.setdefault(group_id, _Group(kind=None))
        elif family is Family.CLASSIC:
            self._classic(record, group_id)
        else:
            self._newer(record, group_id, family, _ROLES.get(number))

    def _readable(self, record: Decoded, number: int) -> None:
        if record.is_tombstone:
            return
        if record.decode_status is DecodeStatus.ERROR or (
            record.decode_status is DecodeStatus.UNKNOWN_VERSION
            and (record.decoded is None or number in _NESTED)
        ):
            raise Stopped("N7")
        early = record.layout == "early-access"
        if number in _TWO_LAYOUTS and early != (number in self._loader.early):
            raise Stopped("N6")

    def _classic(self, record: Decoded, group_id: str) -> None:
        """A live type 2 takes any group's place, its tombstone removes any."""
        if record.is_tombstone:
            self._remove(group_id, record)
            return
        value = record.decoded or {}
        simple = not value.get("protocolType") and not value.get("members")
        self.groups[group_id] = _Group(kind=None if simple else Family.CLASSIC)

    def _newer(self, record: Decoded, group_id: str, family: Family, role: _Role | None) -> None:
        strict = family in self._loader.strict
        group = self._obtain(
            group_id, family, create=not record.is_tombstone and (not strict or role in _CREATE)
        )
        if group is None:
            if strict:
                raise Stopped("N5")
            return
        member = record.member_id or ""
        if role in {_Role.MEMBER, _Role.CURRENT}:
            self._member(record, group, member, role)
        elif role is _Role.TARGET:
            if record.is_tombstone:
                group.targets.discard(member)
            else:
                group.targets.add(member)
        elif role is _Role.TARGET_HEAD:
            if record.is_tombstone and group.targets:
                raise Stopped("N4")
            group.assignment_epoch = _LEFT if record.is_tombstone else _number(record, "assignmentEpoch")
        elif role is _Role.HEAD and record.is_tombstone:
            targets = group.targets if family is not Family.STREAMS else None
            if group.members or targets or group.assignment_epoch != _LEFT:
                raise Stopped("N3")
            self._remove(group_id, record)

    def _obtain(self, group_id: str, family: Family, *, create: bool) -> _Group | None:
        """The group as one of this family; a simple one becomes it where the release allows that."""
        group = self.groups.get(group_id)
        if group is not None and group.kind is family:
            return group
        replaceable = group is not None and group.kind is None and family in self._loader.replaces_simple
        if group is not None and not replaceable:
            raise Stopped("N1")
        if group is None and not create:
            return None
        self.groups[group_id] = made = _Group(kind=family)
        return made

    def _member(self, record: Decoded, group: _Group, member: str, role: _Role) -> None:
        strict = group.kind in self._loader.strict
        known = member in group.members
        if not known and strict and (record.is_tombstone or role is _Role.CURRENT):
            raise Stopped("N5")
        if not record.is_tombstone:
            epoch = _number(record, "memberEpoch") if role is _Role.CURRENT else group.members.get(member, 0)
            group.members[member] = epoch
        elif known and role is _Role.CURRENT:
            group.members[member] = _LEFT
        elif known:
            if group.members[member] != _LEFT or member in group.targets:
                raise Stopped("N2")
            del group.members[member]

    def _remove(self, group_id: str, record: Decoded) -> None:
        if self.groups.pop(group_id, None) is not None:
            self.removed[group_id] = record


def _number(record: Decoded, name: str) -> int:
    value = (record.decoded or {}).get(name, 0)
    return value if isinstance(value, int) else 0
