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

from groupshift.domain.facts import sentence_list
from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import KafkaMember, Kind, Protocol, ProtocolView
from groupshift.domain.partitions import TopicPartition
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A partition whose committed offset (-1: none) is behind its log: who has it (member id), since when it
    stands there, and where the log ended then."""

    owner: str
    committed: int
    end: int
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberWatch:
    """What is known after some looks. ``expected`` and ``met`` are names with how many members are to have
    them: a client id, an instance id or a member id; ``met`` those of members that were seen. ``gone_s`` is
    how long a name may be missing, ``still_s`` how long an offset may stand."""

    expected: Mapping[str, int] = field(default_factory=dict)
    gone_s: float = 5.0
    still_s: float = 8.0
    met: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    standing: Mapping[TopicPartition, Standing] = field(default_factory=dict)
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

    def _stand(self, look: MemberLook) -> Iterator[tuple[TopicPartition, Standing]]:
        """Yield each partition whose committed offset is behind its log, with since when it stands there.
        Where one of both is not known now, what was known before is kept."""
        for member in look.view.group.members:
            for at in member.assigned:
                before = self.standing.get(at)
                if at not in look.ends:
                    if before is not None:
                        yield at, before
                    continue
                now = Standing(
                    owner=member.member_id,
                    committed=look.committed.get(at, -1),
                    end=look.ends[at],
                    since_ms=look.at_ms,
                )
                if now.committed >= now.end:
                    continue
                same = before is not None and (before.owner, before.committed) == (now.owner, now.committed)
                yield at, before if before is not None and same else now


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
    standing: dict[str, list[TopicPartition]] = {}
    for at, stands in watch.standing.items():
        grown = look.ends.get(at, stands.end) > stands.end
        if grown and look.at_ms - stands.since_ms >= watch.still_s * 1000:
            standing.setdefault(names.get(stands.owner, stands.owner), []).append(at)
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
    view = group.protocol
    if view is None:
        return None
    if view.group.kind not in {Kind.CLASSIC, Kind.CONSUMER} or not MemberLook(view=view).described:
        return MemberLook(view=view)
    if group.problems:
        return MemberLook(view=view, unread=group.problems[0])
    return MemberLook(
        view=view,
        committed={each.at: each.offset for each in group.kafka_offsets},
        ends={each.at: each.log_end for each in group.log_ends},
    )


class Watcher:
    """Looks at the group of a run that is over, and remembers who was there and where offsets stood."""

    def __init__(self, run: Run[ProtocolPorts]) -> None:
        self._run = run
        self._to = Protocol(run.there.about["to"])
        still_s = max(_STILL_S, _INTERVALS * run.ports.terms.commit_interval_ms / 1000)
        slots = driver_of(run).slots(group_of(run))
        names = (each.member_id for each in slots if each.running and each.member_id)
        self._members = MemberWatch(expected=Counter(names), still_s=still_s)

    def look(self) -> Checked:
        """Look once. Raises as the ports."""
        group = self._run.ports.side.groups.read(group_of(self._run))
        latest = look_at(group)
        if latest is None:
            return Checked(outcome=Outcome.ERROR, detail="the brokers of the group were not read")
        self._members = self._members.after(latest)
        whole = self._run.there.about["whole"]
        findings = settled(latest.view, self._to) if whole else ()
        findings = (*findings, *self._members.findings())
        detail = "a group can change as long as it has members: watch it again after each change of them"
        return Checked(outcome=outcome_of(findings), findings=findings, detail=detail)
