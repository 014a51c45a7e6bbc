"""The rules of a watch over members: who is expected and is no member, and who is one and does nothing.

A member that was put out for good may live on as a process that says nothing (librdkafka's error -150, H27 of
the hazard book), so what counts is what the coordinator says: whom it has, and whether offsets move. One look
cannot tell; a watch carries from look to look since when each name is missing and each offset stands still.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from groupshift.domain.facts import Complaint, sentence_list
from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import KafkaMember, Kind, ProtocolView
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import GONE
from groupshift.domain.verdict import Finding, Verdict

_RESTART = (
    "see whether its process lives: after a message whose error has code -150 it is silent for good (H27),"
    " and some clients never join older brokers (H24); end it and start it again"
)
_SELDOM = f"does it commit less often? Then watch with a longer --still-for; else {_RESTART}"
_SERVE = "switch the consumer protocol on again, or the members to classic; then start them again"
_MOVED = (
    "give the group its offsets back at its new coordinator (compare with a snapshot from before), then start"
    " its members again"
)
_NOBODY = ""


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
    def told(self) -> bool:
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
        if not look.told:
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
        if self.latest is None:
            return ()
        return tuple(
            finding
            for number, holds, rule in WATCHED
            for finding in (
                tuple(
                    Finding(rule=number, verdict=verdict, reason=reason, hint=hint)
                    for verdict, reason, hint in rule(self, self.latest)
                )
                or (Finding(rule=number, verdict=Verdict.PASS, reason=holds),)
            )
        )

    def _stand(self, look: MemberLook) -> Iterator[tuple[TopicPartition, Standing]]:
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
        for name in {member.client_id, member.instance_id or _NOBODY, member.member_id} - {_NOBODY}
    )


def _missing(watch: MemberWatch, look: MemberLook, names: Mapping[str, int]) -> Iterator[str]:
    """A clause for each of these names that is missing for too long."""
    there = present(look.view.group.members)
    for name in sorted(set(names) & set(watch.missing) if look.told else ()):
        if look.at_ms - watch.missing[name] >= watch.gone_s * 1000:
            some = f"{there[name]} of {names[name]} members named " if names[name] > 1 else ""
            verb = "are in" if some else "is not in"
            yield f"{some}{name} {verb} group {look.view.group.group}, for {watch.gone_s:g} s or more"


def _expected(watch: MemberWatch, look: MemberLook) -> Iterator[Complaint]:
    for clause in _missing(watch, look, watch.expected):
        yield Verdict.FAIL, clause, _RESTART


def _met(watch: MemberWatch, look: MemberLook) -> Iterator[Complaint]:
    others = {name: count for name, count in watch.met.items() if name not in watch.expected}
    for clause in _missing(watch, look, others):
        yield Verdict.INCONCLUSIVE, f"{clause}; it was before", f"unless it was stopped: {_RESTART}"


def _served(watch: MemberWatch, look: MemberLook) -> Iterator[Complaint]:
    group, why = look.view.group, look.view.settings.serves
    if group.kind is Kind.CONSUMER and not group.empty and why:
        reason = (
            f"the coordinator serves native members no longer ({why}): each is refused with 35 and silent"
            f" after a fatal -150{_named(watch)}"
        )
        yield Verdict.FAIL, reason, _SERVE


def _named(watch: MemberWatch) -> str:
    """The members that were seen, for the end of a sentence."""
    return f": {sentence_list(sorted(watch.met))}" if watch.met else ""


def _found(watch: MemberWatch, look: MemberLook) -> Iterator[Complaint]:
    group = look.view.group
    listing = (each for each in look.view.brokers if each.lists is not None and each.state != GONE)
    nodes = [str(broker.node_id) for broker in listing]
    if group.kind is Kind.ABSENT and nodes:
        reason = (
            f"group {group.group} is listed by broker {sentence_list(nodes)}, and its coordinator (broker"
            f" {group.coordinator}) does not know it, as after its partition of __consumer_offsets moved:"
            " native members are refused with 69 and silent after a fatal -150"
            f"{_named(watch)}"
        )
        yield Verdict.FAIL, reason, _MOVED


def _moving(watch: MemberWatch, look: MemberLook) -> Iterator[Complaint]:
    names = {member.member_id: member.name for member in look.view.group.members}
    found: dict[str, list[TopicPartition]] = {}
    for at, stands in watch.standing.items():
        grown = look.ends.get(at, stands.end) > stands.end
        if grown and look.at_ms - stands.since_ms >= watch.still_s * 1000:
            found.setdefault(names.get(stands.owner, stands.owner), []).append(at)
    for name in sorted(found):
        held = sentence_list([str(at) for at in sorted(found[name])])
        reason = (
            f"{name} holds {held}, and nothing was committed there for {watch.still_s:g} s or more while the"
            " log grew"
        )
        yield Verdict.INCONCLUSIVE, reason, _SELDOM
    if look.unread:
        yield Verdict.INCONCLUSIVE, f"committed offsets cannot be read: {look.unread}", ""


def look_at(group: GroupView) -> MemberLook | None:
    """Return what a look at a group tells of its members; None where brokers alone were not asked. Offsets of
    a group that has problems are not complete."""
    view = group.protocol
    if view is None:
        return None
    if view.group.kind not in {Kind.CLASSIC, Kind.CONSUMER} or not MemberLook(view=view).told:
        return MemberLook(view=view)
    if group.problems:
        return MemberLook(view=view, unread=group.problems[0])
    return MemberLook(
        view=view,
        committed={each.partition: each.offset for each in group.kafka_offsets},
        ends={each.partition: each.end for each in group.log_ends},
    )


Watching = Callable[[MemberWatch, MemberLook], Iterator[Complaint]]

WATCHED: tuple[tuple[str, str, Watching], ...] = (
    ("PM01", "every expected member is in the group", _expected),
    ("PM02", "every member that was seen is still in the group", _met),
    ("PM03", "the coordinator serves the protocol that members speak", _served),
    ("PM04", "committed offsets follow the log", _moving),
    ("PM05", "the coordinator knows the group that brokers list", _found),
)
"""Number, passed sentence and rule."""

UNANSWERED, ANSWERED = "PM06", "every look was answered"
"""The rule of whoever looks: a look without an answer says nothing about members."""
