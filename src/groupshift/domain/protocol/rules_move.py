"""Rules that the stages of a protocol move ask of the live group, as `groupshift.domain.rules` asks them.

They look at `Facts` of a group that was read with its brokers (`GroupView.protocol`); of any other they say
that it was not. Source: docs/reference/group-coordinator.md §§5.2-5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from groupshift.domain.facts import Complaint, Facts, sentence_list
from groupshift.domain.group_protocol import Aim, Kind, Protocol, ProtocolView, Way
from groupshift.domain.protocol import settled
from groupshift.domain.protocol.facts import ProtocolFacts
from groupshift.domain.protocol.rules_brokers import disagreements, predicted
from groupshift.domain.verdict import Verdict

_WAIT = "wait until the group has settled"
_Look = Callable[[ProtocolView, Facts], Iterator[Complaint]]


def _known(view: ProtocolView, facts: Facts) -> Iterator[Complaint]:
    """A broker lists it, or its coordinator describes it."""
    if not facts.view.exists:
        yield (
            Verdict.FAIL,
            f"no broker knows group {view.group.group}: it has neither members nor offsets",
            "check the name; a new group needs no move",
        )


def _read(view: ProtocolView, facts: Facts) -> Iterator[Complaint]:
    """A group that is read in part proves nothing."""
    for problem in facts.view.problems:
        yield Verdict.ERROR, problem, "try again"
    if view.group.kind is Kind.UNKNOWN:
        reason = f"group {view.group.group} cannot be read ({view.group.state or 'its state is not told'})"
        yield Verdict.ERROR, reason, "try again in a minute: its coordinator may be loading"


def _agreed(view: ProtocolView, _: Facts) -> Iterator[Complaint]:
    for reason in disagreements(view):
        yield Verdict.FAIL, reason, "wait until the brokers agree"


def _at_rest(view: ProtocolView, facts: Facts) -> Iterator[Complaint]:
    """No rebalance, epochs equal, every member on the group's epoch."""
    wanted = settled.Wanted(protocol=_to(facts) or Protocol.CONSUMER)
    for look in (settled.state, settled.epochs, settled.members_on_it):
        for verdict, reason in look(view, wanted):
            yield verdict, reason, _WAIT


def _admitted(view: ProtocolView, facts: Facts) -> Iterator[Complaint]:
    """What the coordinator will answer to the members to come."""
    if isinstance(facts.wanted, Aim):
        asked = ProtocolFacts(view=view, to=facts.wanted.to, way=facts.wanted.way)
        yield from (each for each in predicted(asked) if each[0] is not Verdict.PASS)


def _type_of_members(view: ProtocolView, _: Facts) -> Iterator[Complaint]:
    """One native member makes it a group of type consumer; without any it is classic."""
    group = view.group
    if group.empty or group.undeclared:
        return
    native = group.speaking(Protocol.CONSUMER)
    wanted = Kind.CONSUMER if native else Kind.CLASSIC
    if group.kind is not wanted:
        met = f"{len(native)} of its {len(group.members)} members are native"
        yield Verdict.FAIL, f"the group is of type {group.kind} although {met}", _WAIT


def _moved(view: ProtocolView, facts: Facts) -> Iterator[Complaint]:
    """Every member speaks the wanted protocol, and the group is of that type."""
    to = _to(facts)
    if to is None:
        return
    if not view.group.members:
        yield Verdict.FAIL, "nobody is in the group", "start its members"
    for look in (settled.kind, settled.no_other):
        for verdict, reason in look(view, settled.Wanted(protocol=to)):
            yield verdict, reason, "wait for the members named, or look at their logs"


def _nobody(view: ProtocolView, _: Facts) -> Iterator[Complaint]:
    """Proven by members and by state: an empty list alone is no proof."""
    group = view.group
    if not group.empty:
        names = sentence_list([member.name for member in group.members])
        reason = f"the group is {group.state} with {len(group.members)} members: {names}"
        yield Verdict.FAIL, reason, "stop them; a static member stays until its session ends"


def _no_strangers(view: ProtocolView, facts: Facts) -> Iterator[Complaint]:
    """Where the driver knows who is in its places: a member beside them would never be moved."""
    known = {place.member_id for place in facts.places}
    if not facts.places or None in known:
        return
    strangers = [
        member.name for member in view.group.members if not known & {member.member_id, member.client_id}
    ]
    if strangers:
        reason = f"members are in no place of the fleet: {sentence_list(strangers)}"
        yield Verdict.FAIL, reason, "stop them, or add them to the fleet that the driver knows"


def _one_kind(view: ProtocolView, facts: Facts) -> Iterator[Complaint]:
    """Offline all members are of one protocol, which the way back starts again."""
    group = view.group
    mixed = group.speaking(Protocol.CONSUMER) and group.speaking(Protocol.CLASSIC)
    if isinstance(facts.wanted, Aim) and facts.wanted.way is Way.OFFLINE and mixed:
        reason = f"some of the {len(group.members)} members are native and some classic: the move is half-way"
        yield Verdict.FAIL, reason, "finish it, or take it back, with --online first"


def _told_apart(view: ProtocolView, facts: Facts) -> Iterator[Complaint]:
    """While members change one by one, which of them did has to be told."""
    online = isinstance(facts.wanted, Aim) and facts.wanted.way is Way.ONLINE
    if online and not view.group.empty and not view.settings.general:
        reason = "brokers before 4.0 do not tell which protocol members of a mixed group speak"
        yield Verdict.FAIL, reason, "move with --offline"


def _to(facts: Facts) -> Protocol | None:
    return facts.wanted.to if isinstance(facts.wanted, Aim) else None


def _of_brokers(look: _Look) -> Callable[[Facts], Iterator[Complaint]]:
    """The rule asked of `Facts`; a view without brokers is an error, never a pass."""

    def asked(facts: Facts) -> Iterator[Complaint]:
        if facts.view.protocol is None:
            yield Verdict.ERROR, f"the brokers of group {facts.view.group} were not read", "try again"
        else:
            yield from look(facts.view.protocol, facts)

    return asked


RULES: tuple[tuple[str, str, Callable[[Facts], Iterator[Complaint]]], ...] = tuple(
    (number, holds, _of_brokers(look))
    for number, holds, look in (
        ("PR01", "a broker knows the group", _known),
        ("PR02", "everything about the group was read", _read),
        ("PR03", "all brokers agree on the coordinator, and none is loading", _agreed),
        ("PR04", "the group is at rest, and every member at its epoch", _at_rest),
        ("PR05", "the coordinator will admit the members to come", _admitted),
        ("PR06", "the group is of the type that its members make it", _type_of_members),
        ("PR07", "every member speaks the wanted protocol, and the group is of its type", _moved),
        ("PR08", "the group is empty", _nobody),
        ("PR09", "every member is in a place of the fleet", _no_strangers),
        ("PR10", "offline, all members speak one protocol", _one_kind),
        ("PR11", "online, the coordinator tells which protocol each member speaks", _told_apart),
    )
)
"""Number, passed sentence and rule."""
