"""The new coordinator's shard while it loads: one small state machine a group.

It does what the released replay methods do (see `releases`), and stops at the first record that they
throw on. Source: specs/group-coordinator.md §1.7 "Replay lint".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.domain.coordinator_log.records import Decoded, DecodeStatus
from groupshift.domain.coordinator_log.releases import Loader
from groupshift.domain.coordinator_log.types import TYPES, Family

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
