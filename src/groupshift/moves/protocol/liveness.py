"""Judges a group after its move, look after look: who is expected and is no member, who is one and does
nothing.

A member that was put out for good may live on as a process that says nothing (librdkafka's error -150, H27 of
the hazard book), so what counts is what the coordinator says: whom it has, and whether offsets move. One look
cannot tell; a watch carries from look to look since when each name is missing and each offset stands still.
What the rules (PM…) say is in ``liveness_rules.toml``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from groupshift.domain.facts import sentence_list
from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import KafkaMember, Kind, Protocol, ProtocolView
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.protocol.live_rules import settled
from groupshift.domain.rows import GONE
from groupshift.domain.rules import Rules, Says
from groupshift.domain.run import Checked, Outcome, outcome_of
from groupshift.domain.verdict import Finding
from groupshift.engine.group import driver_of, group_of
from groupshift.engine.move import Run
from groupshift.moves.protocol.facts import ProtocolPorts

_STILL_S = 8.0
_INTERVALS = 3
"""How many commit intervals may pass without a commit, while the log grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLook:
    """A look at the group with the committed offset and the log end of each partition of its topics; where
    one of both is not known the partition is absent from ``ends``. ``unread`` says why none is known."""

    view: ProtocolView
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    unread: str = ""

    @property
    def at_ms(self) -> int:
        """When it was taken (epoch)."""
        return self.view.taken_at_ms

    @property
    def described(self) -> bool:
        """Whether the coordinator says who is in the group. With the feature off it lists a group of type
        consumer as it was and describes nobody; while it loads it knows nothing yet."""
        group = self.view.group
        return group.kind is not Kind.UNKNOWN and (bool(group.members) or group.empty)


class IdlePartition(NamedTuple):
    """A partition whose committed offset (-1: none) is behind its log, and who has it (member id)."""

    at: TopicPartition
    owner: str
    committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberWatch:
    """What is known after some looks. ``expected`` and ``met`` are names with how many members are to have
    them: a client id, an instance id or a member id; ``met`` those of members that were seen. ``gone_s`` is
    how long a name may be missing, ``still_s`` how long an offset may stand. ``standing`` tells where the log
    ended when an offset was first met there, and when (epoch ms)."""

    expected: Mapping[str, int] = field(default_factory=dict)
    gone_s: float = 5.0
    still_s: float = 8.0
    met: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    standing: Mapping[IdlePartition, tuple[int, int]] = field(default_factory=dict)
    latest: MemberLook | None = None

    def after(self, look: MemberLook) -> MemberWatch:
        """The watch once it has had this look too."""
        if not look.described:
            return replace(self, latest=look)
        there = present(look.view.group.members)
        met = {**Counter(member.name for member in look.view.group.members), **self.met}
        return replace(
            self,
            met=met,
            missing={
                name: self.missing.get(name, look.at_ms)
                for name, wanted in {**met, **self.expected}.items()
                if there[name] < wanted
            },
            standing=dict(self._stand(look)),
            latest=look,
        )

    def findings(self) -> tuple[Finding, ...]:
        """What the rules say after the latest look, passed ones included; nothing before the first."""
        return WATCHED.ask((self, self.latest)) if self.latest is not None else ()

    def _stand(self, look: MemberLook) -> Iterator[tuple[IdlePartition, tuple[int, int]]]:
        """Yield each partition whose committed offset is behind its log, with since when it stands there.
        Where one of both is not known now, what was known before is kept."""
        for member in look.view.group.members:
            for at in member.assigned:
                now = IdlePartition(at, member.member_id, look.committed.get(at, -1))
                if at not in look.ends:
                    yield from ((known, since) for known, since in self.standing.items() if known.at == at)
                elif now.committed < look.ends[at]:
                    yield now, self.standing.get(now, (look.ends[at], look.at_ms))


def present(members: tuple[KafkaMember, ...]) -> Counter[str]:
    """How many members have each name, whichever of its names that is."""
    return Counter(
        name
        for member in members
        for name in {member.client_id, member.instance_id or "", member.member_id} - {""}
    )


_Seen = tuple[MemberWatch, MemberLook]
WATCHED: Rules[_Seen] = Rules("moves/protocol/liveness_rules.toml")
"""What a watch asks after each look."""


def _missing(pair: _Seen, names: Mapping[str, int]) -> Iterator[str]:
    """A clause for each of these names that is missing for too long."""
    watch, look = pair
    there = present(look.view.group.members)
    for name in sorted(set(names) & set(watch.missing) if look.described else ()):
        if look.at_ms - watch.missing[name] >= watch.gone_s * 1000:
            some = f"{there[name]} of {names[name]} members named " if names[name] > 1 else ""
            verb = "are in" if some else "is not in"
            yield f"{some}{name} {verb} group {look.view.group.group}, for {watch.gone_s:g} s or more"


@WATCHED.rule("PM01")
def _expected(pair: _Seen) -> Iterator[Says]:
    """Members that the driver has in a place."""
    for clause in _missing(pair, pair[0].expected):
        yield Says("expected_missing", who=clause)


@WATCHED.rule("PM02")
def _met(pair: _Seen) -> Iterator[Says]:
    """Others that an earlier look saw."""
    watch = pair[0]
    others = {name: count for name, count in watch.met.items() if name not in watch.expected}
    for clause in _missing(pair, others):
        yield Says("seen_missing", who=clause)


@WATCHED.rule("PM03")
def _served(pair: _Seen) -> Iterator[Says]:
    """With the feature off native members are refused one by one."""
    watch, look = pair
    group, why = look.view.group, look.view.settings.serves
    if group.kind is Kind.CONSUMER and not group.empty and why:
        yield Says("served_no_longer", why=why, named=_named(watch))


def _named(watch: MemberWatch) -> str:
    """The members that were seen, for the end of a sentence."""
    return f": {sentence_list(sorted(watch.met))}" if watch.met else ""


@WATCHED.rule("PM04")
def _moving(pair: _Seen) -> Iterator[Says]:
    """A member that has partitions and commits nothing while their logs grow."""
    watch, look = pair
    names = {member.member_id: member.name for member in look.view.group.members}
    standing = grouped(
        (names.get(owner, owner), at)
        for (at, owner, _), (end, since_ms) in watch.standing.items()
        if look.ends.get(at, end) > end and look.at_ms - since_ms >= watch.still_s * 1000
    )
    for name in sorted(standing):
        yield Says("stands_still", member=name, partitions=sorted(standing[name]), still_s=watch.still_s)
    if look.unread:
        yield Says("offsets_unread", why=look.unread)


@WATCHED.rule("PM05")
def _found(pair: _Seen) -> Iterator[Says]:
    """As after the group's partition of __consumer_offsets moved."""
    watch, look = pair
    group = look.view.group
    listing = (each for each in look.view.brokers if each.lists is not None and each.state != GONE)
    nodes = [broker.node_id for broker in listing]
    if group.kind is Kind.ABSENT and nodes:
        named = _named(watch)
        yield Says("moved", group=group.group, brokers=nodes, coordinator=group.coordinator, named=named)


def look_at(group: GroupView) -> MemberLook | None:
    """Return what a look at a group tells of its members; None where brokers alone were not asked. Offsets of
    a group that has problems are not complete."""
    if group.protocol is None:
        return None
    look = MemberLook(view=group.protocol)
    if look.view.group.kind not in {Kind.CLASSIC, Kind.CONSUMER} or not look.described:
        return look
    if group.problems:
        return replace(look, unread=group.problems[0])
    committed = {each.at: each.offset for each in group.kafka_offsets}
    return replace(look, committed=committed, ends={each.at: each.log_end for each in group.log_ends})


class Watcher:
    """Looks at the group of a run that is over, and remembers who was there and where offsets stood."""

    def __init__(self, run: Run[ProtocolPorts]) -> None:
        self._run = run
        still_s = max(_STILL_S, _INTERVALS * run.ports.terms.commit_interval_ms / 1000)
        names = (each.member_id for each in driver_of(run).slots(group_of(run)) if each.running)
        self._members = MemberWatch(expected=Counter(filter(None, names)), still_s=still_s)

    def look(self) -> Checked:
        """Look once. Raises as the ports."""
        latest = look_at(self._run.ports.side.groups.read(group_of(self._run)))
        if latest is None:
            return Checked(outcome=Outcome.ERROR, detail="the brokers of the group were not read")
        self._members, about = self._members.after(latest), self._run.there.about
        findings = settled(latest.view, Protocol(about["to"])) if about["whole"] else ()
        findings = (*findings, *self._members.findings())
        detail = "a group can change as long as it has members: watch it again after each change of them"
        return Checked(outcome=outcome_of(findings), findings=findings, detail=detail)
