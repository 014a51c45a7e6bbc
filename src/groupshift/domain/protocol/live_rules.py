"""Rules of a group between two protocols: those that a sensor waits for (PS…), and those of the phases (PR…).

PS: the group is of the wanted type, all members are on its epochs, and no broker says otherwise. A group of
type consumer that is empty keeps an assignment epoch below its group epoch for good (seen on 3.9.2 and
4.3.1), so epochs are compared where there are members. PR look at `Facts` of a group that was read with its
brokers (`GroupView.protocol`); of any other they say that it was not. What they say is in ``rules.toml``.
Source: docs/reference/group-coordinator.md §§5.2-5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from groupshift.domain.facts import Facts
from groupshift.domain.group_protocol import EMPTY, Aim, Kind, Protocol, ProtocolView, Way
from groupshift.domain.partitions import grouped
from groupshift.domain.protocol.preflight import FILE, STABLE, ProtocolFacts, disagreements, predicted
from groupshift.domain.rules import Look, Rules, Says, some
from groupshift.domain.verdict import Finding

SETTLED: Rules[ProtocolFacts] = Rules(FILE, "PS")
"""What is seen, and the protocol that its members are to speak, whichever way they change."""


def settled(view: ProtocolView, to: Protocol) -> tuple[Finding, ...]:
    """Return what the rules say of this look, passed ones included."""
    return SETTLED.ask(ProtocolFacts(view=view, to=to))


@SETTLED.rule("PS01")
def kind(facts: ProtocolFacts) -> Iterator[Says]:
    """The group is of the wanted type, to its coordinator and in every broker's list."""
    own = facts.group.kind
    if own.value != facts.to.value:
        yield Says("not_of_type", kind=own, wanted=facts.to)
    listed = {broker.lists for broker in facts.view.brokers} - {None, Kind.UNKNOWN}
    if listed - {own}:
        yield Says("listed_as_other", others=sorted(each.value for each in listed if each), kind=own)


@SETTLED.rule("PS02")
def state(facts: ProtocolFacts) -> Iterator[Says]:
    """Stable with members, Empty without."""
    group = facts.group
    expected = EMPTY if group.empty else STABLE
    if group.state != expected:
        yield Says("not_at_rest", state=group.state, expected=expected)


@SETTLED.rule("PS03")
def epochs(facts: ProtocolFacts) -> Iterator[Says]:
    """The assignment is of the group's epoch."""
    group = facts.group
    if group.epoch is not None and group.members and group.epoch != group.assignment_epoch:
        yield Says("epochs_differ", assignment=group.assignment_epoch, epoch=group.epoch)


@SETTLED.rule("PS04")
def members_on_it(facts: ProtocolFacts) -> Iterator[Says]:
    """Every member is at the group's epoch."""
    group = facts.group
    late = [
        f"{m.name} at {m.epoch}" for m in group.members if group.epoch is not None and m.epoch != group.epoch
    ]
    yield from some("members_late", epoch=group.epoch, members=late)


@SETTLED.rule("PS05")
def no_other(facts: ProtocolFacts) -> Iterator[Says]:
    """Nobody speaks the other protocol."""
    other = facts.to.other
    yield from some("speak_other", other=other, members=[each.name for each in facts.group.speaking(other)])
    if facts.group.undeclared and facts.to is Protocol.CONSUMER:
        yield Says("protocol_untold", count=len(facts.group.undeclared))


@SETTLED.rule("PS06")
def agreed(facts: ProtocolFacts) -> Iterator[Says]:
    """All brokers name the same coordinator, and none is loading."""
    for said in disagreements(facts.view):
        yield Says("brokers_disagree", said=said)


@SETTLED.rule("PS08")
def once(facts: ProtocolFacts) -> Iterator[Says]:
    """No partition has two owners."""
    owners = grouped((str(at), member.name) for member in facts.group.members for at in member.assigned)
    twice = [f"{at} ({', '.join(sorted(names))})" for at, names in owners.items() if len(names) > 1]
    yield from some("two_owners", partitions=sorted(twice))


RULES: Rules[Facts] = Rules(FILE, "PR")
"""What the phases of a protocol move ask of the live group."""
_Look = Callable[[ProtocolView, Facts], Iterator[Says]]


def _rule(number: str) -> Callable[[_Look], Look[Facts]]:
    """The rule asked of `Facts`; a view without brokers is an error, never a pass."""

    def keep(look: _Look) -> Look[Facts]:
        def of_group(facts: Facts) -> Iterator[Says]:
            if facts.view.protocol is None:
                yield Says("brokers_unread", group=facts.view.group)
            else:
                yield from look(facts.view.protocol, facts)

        return RULES.rule(number)(of_group)

    return keep


@_rule("PR01")
def _known(view: ProtocolView, facts: Facts) -> Iterator[Says]:
    """A broker lists it, or its coordinator describes it."""
    if not facts.view.exists:
        yield Says("unknown_to_brokers", group=view.group.group)


@_rule("PR02")
def _read(view: ProtocolView, facts: Facts) -> Iterator[Says]:
    """A group that is read in part proves nothing."""
    for problem in facts.view.problems:
        yield Says("read_in_part", problem=problem)
    if view.group.kind is Kind.UNKNOWN:
        state = view.group.state or "its state is not told"
        yield Says("cannot_be_read", group=view.group.group, state=state)
    if view.group.untold:
        yield Says("nobody_described", group=view.group.group, state=view.group.state)


@_rule("PR03")
def _agreed(view: ProtocolView, _: Facts) -> Iterator[Says]:
    yield from agreed(ProtocolFacts(view=view, to=Protocol.CONSUMER))


@_rule("PR04")
def _at_rest(view: ProtocolView, facts: Facts) -> Iterator[Says]:
    """No rebalance, epochs equal, every member on the group's epoch."""
    for look in (state, epochs, members_on_it):
        yield from look(ProtocolFacts(view=view, to=_to(facts) or Protocol.CONSUMER))


@_rule("PR05")
def _admitted(view: ProtocolView, facts: Facts) -> Iterator[Says]:
    """What the coordinator will answer to the members to come."""
    if isinstance(facts.wanted, Aim):
        protocol_facts = ProtocolFacts(view=view, to=facts.wanted.to, way=facts.wanted.way)
        yield from (each for each in predicted(protocol_facts) if each.sentence != "answer_fits")


@_rule("PR06")
def _type_of_members(view: ProtocolView, _: Facts) -> Iterator[Says]:
    """One native member makes it a group of type consumer; without any it is classic."""
    group = view.group
    if group.empty or group.undeclared:
        return
    native = group.speaking(Protocol.CONSUMER)
    if group.kind is not (Kind.CONSUMER if native else Kind.CLASSIC):
        yield Says("type_of_others", kind=group.kind, native=len(native), members=len(group.members))


@_rule("PR07")
def _moved(view: ProtocolView, facts: Facts) -> Iterator[Says]:
    """Every member speaks the wanted protocol, and the group is of that type."""
    to = _to(facts)
    if to is None:
        return
    if not view.group.members:
        yield Says("nobody_there")
    for look in (kind, no_other):
        yield from look(ProtocolFacts(view=view, to=to))


@_rule("PR08")
def _nobody(view: ProtocolView, _: Facts) -> Iterator[Says]:
    """Proven by members and by state: an empty list alone is no proof."""
    group = view.group
    if not group.empty:
        names = [member.name for member in group.members]
        yield Says("not_empty", state=group.state, count=len(names), members=names)


@_rule("PR09")
def _no_strangers(view: ProtocolView, facts: Facts) -> Iterator[Says]:
    """Where the driver knows who is in its places: a member beside them would never be moved."""
    known = {place.member_id for place in facts.places}
    if not facts.places or None in known:
        return
    strangers = [
        member.name for member in view.group.members if not known & {member.member_id, member.client_id}
    ]
    yield from some("in_no_place", members=strangers)


@_rule("PR10")
def _one_kind(view: ProtocolView, facts: Facts) -> Iterator[Says]:
    """Offline all members are of one protocol, which the rollback starts again."""
    group = view.group
    mixed = group.speaking(Protocol.CONSUMER) and group.speaking(Protocol.CLASSIC)
    if isinstance(facts.wanted, Aim) and facts.wanted.way is Way.OFFLINE and mixed:
        yield Says("mixed", members=len(group.members))


@_rule("PR11")
def _told_apart(view: ProtocolView, facts: Facts) -> Iterator[Says]:
    """While members change one by one, which of them did has to be told."""
    online = isinstance(facts.wanted, Aim) and facts.wanted.way is Way.ONLINE
    if online and not view.group.empty and not view.settings.general:
        yield Says("not_told_apart")


def _to(facts: Facts) -> Protocol | None:
    return facts.wanted.to if isinstance(facts.wanted, Aim) else None
