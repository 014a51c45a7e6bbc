"""Replay lint: what the coordinator of a release would load from this log, and the rules that say why.

Per group: it loads, it loads with loss, or its partition's coordinator fails, with the record that
decides; of a log that Apache Kafka did not write nothing is said. `_Shard` is the new coordinator's while
it loads: one small state machine a group. It does what the released replay methods do, and stops at the
first record that they throw on. The releases are data (`groupshift.log.releases`).

Source: docs/reference/group-coordinator.md §1.7 "Replay lint", §§3.1, 4;
docs/reference/coordinator-on-real-brokers.md §§D, F.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from groupshift.domain.tables import table_of
from groupshift.log.codec import Unreadable, message_reader
from groupshift.log.decode import Decoded, DecodeStatus
from groupshift.log.group_states import GroupFamily, GroupState, State, materialise
from groupshift.log.releases import Coordinator, Loader, loader
from groupshift.log.schema import TYPES, Family, Field, FieldType, Layout

_CLASSIC = 2


def lint(records: Iterable[Decoded], release: str, coordinator: Coordinator) -> dict[str, GroupVerdict]:
    """A verdict for every group with anything live in the log, by group id.

    ``records`` are the whole log of every partition as it lies there (compacted or not), decoded with
    the partition count in force; their order does not matter. Raises `Rejected` for a release that does
    not have this coordinator, and for records decoded without a count.
    """
    line = loader(release, coordinator)
    every = sorted(records, key=lambda one: (one.src_partition, one.src_offset))
    logs = {at: list(log) for at, log in groupby(every, key=lambda one: one.src_partition)}
    state = materialise(every)
    alive = [group for group in state.groups.values() if group.family is not GroupFamily.GONE]
    copies = _displaced(state, every)
    homes = {name: home for name, (home, _) in copies.items()}
    homes |= {group.group_id: group.partition for group in alive}
    if other_writers(every):
        deciding = {name: _Deciding("X2", None) for name in homes}
    elif coordinator is Coordinator.OLD:
        breaks = {partition: _breaks(log, line) for partition, log in logs.items()}
        deciding = {one.group_id: _old(one, breaks[one.partition], copies, line) for one in alive}
    else:
        shards = {partition: _Shard(line, log) for partition, log in logs.items()}
        deciding = {one.group_id: _new(one, shards[one.partition]) for one in alive}
    deciding = {name: _Deciding("X1", record) for name, (_, record) in copies.items()} | deciding
    return {
        name: GroupVerdict(**asdict(RULES[rule]), group_id=name, partition=homes[name], record=record)
        for name, (rule, record) in sorted(deciding.items())
    }


class _Deciding(NamedTuple):
    """The rule that speaks of a group or of a whole partition, and the record that decides."""

    rule: str
    record: Decoded | None


def _displaced(state: State, records: Iterable[Decoded]) -> dict[str, tuple[int, Decoded]]:
    """Groups with live records outside their partition: where they belong, and the first such record of
    these sorted ``records``."""
    foreign_winners = {(one.commit.src_partition, one.commit.record_offset) for one in state.foreign_commits}
    foreign_winners |= {(one.src_partition, one.src_offset) for one in state.foreign_records}
    displaced: dict[str, tuple[int, Decoded]] = {}
    for record in records:
        live = not record.is_tombstone and (record.src_partition, record.src_offset) in foreign_winners
        if live and record.group_id is not None and record.expected_partition is not None:
            displaced.setdefault(record.group_id, (record.expected_partition, record))
    return displaced


def _old(
    group: GroupState, stop: _Deciding | None, copies: Mapping[str, tuple[int, Decoded]], line: Loader
) -> _Deciding:
    """What decides at the old coordinator: all or nothing a partition, and one cache over all of them."""
    if stop is not None:
        return stop
    for one in group.records:
        if one.record_type not in line.types:
            return _Deciding("O4", one)
    copy = copies.get(group.group_id)
    return _Deciding("L0", None) if copy is None else _Deciding("O5", copy[1])


def _breaks(records: Iterable[Decoded], line: Loader) -> _Deciding | None:
    """The first record that ends an old coordinator's load of a partition, and its rule."""
    for record in records:
        number = record.record_type
        if number is not None and number not in line.types:
            if not line.ignores_unknown_types:
                return _Deciding("O1", record)
            continue
        limit = line.group_version if number == _CLASSIC else line.commit_version
        if record.value_version is not None and record.value_version > limit:
            return _Deciding("O2", record)
        if record.decode_status is DecodeStatus.ERROR:
            return _Deciding("O3", record)
    return None


def _new(group: GroupState, shard: _Shard) -> _Deciding:
    """What decides at the new coordinator: every partition is a shard, so copies elsewhere harm nobody."""
    name = group.group_id
    if shard.stopped is not None:
        return shard.stopped
    if any(one.live for one in group.commits) and name not in shard.groups:
        return _Deciding("N8", shard.removed.get(name))
    return _Deciding("N9", shard.ignored[name]) if name in shard.ignored else _Deciding("L0", None)


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

    rule: str
    outcome: LoadOutcome
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict(ReplayRule):
    """What the coordinator would make of one group, by which rule, and the record that decides.

    ``partition`` is where the group belongs; the deciding record is the first of its kind, and None
    where the group simply loads.
    """

    group_id: str
    partition: int
    record: Decoded | None


_FILE = "log/replay.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRules:
    """The file."""

    rules: tuple[ReplayRule, ...]


RULES = {each.rule: each for each in table_of(ReplayRules, _FILE).rules}
"""L: loads, O: old coordinator, N: new coordinator, X: both."""


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


class _Shard:
    """One partition as the new coordinator loads it: ``records`` in the order of their offsets.

    ``groups`` by id while they load; ``stopped`` is the rule and the record that ended it, ``removed`` the
    tombstone by which each group that is not there was removed, ``ignored`` the first live record of an
    unknown type by group. Every method raises `Stopped` where the coordinator would."""

    def __init__(self, loader: Loader, records: Iterable[Decoded]) -> None:
        self._loader = loader
        self.groups: dict[str, _Group] = {}
        self.stopped: _Deciding | None = None
        self.removed: dict[str, Decoded] = {}
        self.ignored: dict[str, Decoded] = {}
        for record in records:
            try:
                self.replay(record)
            except Stopped as rule:
                self.stopped = _Deciding(str(rule), record)
                break

    def replay(self, record: Decoded) -> None:
        """Take the next record. Raises `Stopped`."""
        number, group_id = record.record_type, record.group_id
        if number is None or (group_id is None and number in self._loader.types):
            raise Stopped("N7")
        if number not in self._loader.types:
            if group_id is not None and not record.is_tombstone:
                self.ignored.setdefault(group_id, record)
            return
        assert group_id is not None  # noqa: S101  (refused above)
        if not record.is_tombstone:
            self._check_readable(record, number)
        family = TYPES[number].family
        if family is Family.OFFSETS:
            if not record.is_tombstone:
                self.groups.setdefault(group_id, _Group(kind=None))
        elif family is not Family.CLASSIC:
            self._newer(record, group_id, family, _ROLES.get(number))
        elif record.is_tombstone:
            self._remove(group_id, record)
        else:  # a live type 2 takes any group's place
            value = record.decoded or {}
            simple = not value.get("protocolType") and not value.get("members")
            self.groups[group_id] = _Group(kind=None if simple else Family.CLASSIC)

    def _check_readable(self, record: Decoded, number: int) -> None:
        unread = record.decode_status is DecodeStatus.UNKNOWN_VERSION and (
            record.decoded is None or number in _NESTED
        )
        if unread or record.decode_status is DecodeStatus.ERROR:
            raise Stopped("N7")
        early = record.layout == Layout.EARLY_ACCESS
        if number in _TWO_LAYOUTS and early != (number in self._loader.early):
            raise Stopped("N6")

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
            (group.targets.discard if record.is_tombstone else group.targets.add)(member)
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


# Whether the values of a log were written by Apache Kafka, or by somebody with other layouts. Redpanda keeps
# Kafka's keys and puts an int16 of its own into each member of GroupMetadata (franz-go#799). What Apache
# Kafka's loader would make of such values says nothing about the broker that wrote them.

_ENOUGH = 2
"""Values of one type, of so many groups, none of which can be read, from which on a log is another's: fewer
may be damaged."""
_UNREAD = frozenset({DecodeStatus.ERROR, DecodeStatus.TRAILING_BYTES})
_VERSION_BYTES = 2
_EXTRA = Field("extra", FieldType.INT16)
(_KNOWN,) = TYPES[_CLASSIC].values
*_BEFORE, _MEMBER = _KNOWN.fields
_OTHERS = tuple(
    replace(_KNOWN, fields=(*_BEFORE, replace(_MEMBER, fields=fields)))
    for fields in ((_EXTRA, *_MEMBER.fields), (*_MEMBER.fields, _EXTRA))
)
"""GroupMetadata with one int16 more in each member, its last field."""


def other_writers(records: Iterable[Decoded]) -> tuple[str, ...]:
    """The types, by name, whose values Apache Kafka did not write: all alike cannot be read, or have a
    layout that another broker is known for. Empty: nothing speaks against Apache Kafka. Never raises."""
    values: dict[str, list[Decoded]] = defaultdict(list)
    for each in records:
        # A key that cannot be read, a version that may come with a newer Kafka, and a group without members,
        # which is written alike by all, say nothing.
        silent = (
            each.decode_status in {DecodeStatus.UNKNOWN_TYPE, DecodeStatus.UNKNOWN_VERSION}
            or each.problem.startswith("key")
            or (each.record_type == _CLASSIC and (each.decoded or {}).get("members") == [])
        )
        if each.type_name and each.raw_value is not None and not silent:
            values[each.type_name].append(each)
    return tuple(sorted(name for name, value in values.items() if _is_anothers(value)))


def _is_anothers(values: list[Decoded]) -> bool:
    if any(each.decode_status not in _UNREAD for each in values):
        return False
    known = all(each.record_type == _CLASSIC and _is_known(each.raw_value or b"") for each in values)
    return known or len({each.group_id for each in values}) >= _ENOUGH


def _is_known(value: bytes) -> bool:
    """Whether it is GroupMetadata in a layout of another broker, to its last byte."""
    version = int.from_bytes(value[:_VERSION_BYTES], "big", signed=True)
    for schema in _OTHERS:
        with suppress(Unreadable):
            if message_reader(schema, version)(value, _VERSION_BYTES, [])[1] == len(value):
                return True
    return False


def written_by_others(types: Iterable[str]) -> str:
    """What is to be said of such a log."""
    return (
        f"the values of {', '.join(types)} in the log were not written by Apache Kafka (none can be read): "
        "nothing is claimed about it"
    )
