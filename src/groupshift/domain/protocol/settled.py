"""The rules that a sensor waits for: the group is of the wanted type, all members are on its epochs, and no
broker says otherwise.

A group of type consumer that is empty keeps an assignment epoch below its group epoch for good (seen on 3.9.2
and 4.3.1), so epochs are compared where there are members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from groupshift.domain.facts import sentence_list
from groupshift.domain.group_protocol import EMPTY, Kind, Protocol, ProtocolView
from groupshift.domain.protocol.rules_brokers import disagreements
from groupshift.domain.protocol.rules_group import STABLE
from groupshift.domain.verdict import Finding, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is waited for; ``members`` None: any number, 0 an empty group."""

    protocol: Protocol
    members: int | None = None


_Look = Callable[[ProtocolView, Wanted], Iterator[tuple[Verdict, str]]]


def kind(view: ProtocolView, wanted: Wanted) -> Iterator[tuple[Verdict, str]]:
    """The group is of the wanted type, to its coordinator and in every broker's list."""
    if view.group.kind.value != wanted.protocol.value:
        yield Verdict.FAIL, f"the group is of type {view.group.kind}, not {wanted.protocol}"
    listed = {broker.lists for broker in view.brokers} - {None, Kind.UNKNOWN}
    if listed - {view.group.kind}:
        others = sentence_list(sorted(each.value for each in listed if each))
        yield Verdict.FAIL, f"brokers list it as {others}, its coordinator describes {view.group.kind}"


def state(view: ProtocolView, _: Wanted) -> Iterator[tuple[Verdict, str]]:
    """Stable with members, Empty without."""
    expected = EMPTY if view.group.empty else STABLE
    if view.group.state != expected:
        yield Verdict.FAIL, f"the group is {view.group.state}, not {expected}"


def epochs(view: ProtocolView, _: Wanted) -> Iterator[tuple[Verdict, str]]:
    """The assignment is of the group's epoch."""
    group = view.group
    if group.epoch is not None and group.members and group.epoch != group.assignment_epoch:
        yield Verdict.FAIL, f"the assignment is of epoch {group.assignment_epoch}, the group of {group.epoch}"


def members_on_it(view: ProtocolView, _: Wanted) -> Iterator[tuple[Verdict, str]]:
    """Every member is at the group's epoch."""
    group = view.group
    late = [
        f"{m.name} at {m.epoch}" for m in group.members if group.epoch is not None and m.epoch != group.epoch
    ]
    if late:
        yield Verdict.FAIL, f"members are not at epoch {group.epoch}: {sentence_list(late)}"


def no_other(view: ProtocolView, wanted: Wanted) -> Iterator[tuple[Verdict, str]]:
    """Nobody speaks the other protocol."""
    others = [member.name for member in view.group.speaking(wanted.protocol.other)]
    if others:
        yield Verdict.FAIL, f"members speak {wanted.protocol.other}: {sentence_list(others)}"
    if view.group.undeclared and wanted.protocol is Protocol.CONSUMER:
        count = len(view.group.undeclared)
        yield Verdict.INCONCLUSIVE, f"the coordinator does not tell which protocol {count} members speak"


def _agreed(view: ProtocolView, _: Wanted) -> Iterator[tuple[Verdict, str]]:
    for reason in disagreements(view):
        yield Verdict.FAIL, reason


def _count(view: ProtocolView, wanted: Wanted) -> Iterator[tuple[Verdict, str]]:
    if wanted.members is not None and len(view.group.members) != wanted.members:
        yield Verdict.FAIL, f"{len(view.group.members)} members are in the group, not {wanted.members}"


def _once(view: ProtocolView, _: Wanted) -> Iterator[tuple[Verdict, str]]:
    seen: dict[str, list[str]] = {}
    for member in view.group.members:
        for partition in member.assigned:
            seen.setdefault(str(partition), []).append(member.name)
    twice = [f"{at} ({', '.join(sorted(names))})" for at, names in seen.items() if len(names) > 1]
    if twice:
        yield Verdict.FAIL, f"partitions have several owners: {sentence_list(sorted(twice))}"


SETTLED: tuple[tuple[str, str, _Look], ...] = (
    ("PS01", "the group is of the wanted type everywhere", kind),
    ("PS02", "the group is at rest", state),
    ("PS03", "group epoch and assignment epoch are equal", epochs),
    ("PS04", "every member is at the group's epoch", members_on_it),
    ("PS05", "no member speaks the other protocol", no_other),
    ("PS06", "all brokers agree on the coordinator, and none is loading", _agreed),
    ("PS07", "as many members as wanted", _count),
    ("PS08", "no partition has two owners", _once),
)
"""Number, passed sentence and rule."""


def settled(view: ProtocolView, wanted: Wanted) -> tuple[Finding, ...]:
    """What the rules say of this look, passed ones included."""
    return tuple(
        finding
        for number, holds, look in SETTLED
        for finding in (
            tuple(
                Finding(rule=number, verdict=verdict, reason=reason) for verdict, reason in look(view, wanted)
            )
            or (Finding(rule=number, verdict=Verdict.PASS, reason=holds),)
        )
    )
