"""Members that do not agree on the assignment: what the others seem to compute by.

Every member computes the group's assignment alone and nothing is negotiated (specs/zookeeper-coordination.md
§§5, 5.2): with another assignor, or another text form of round-robin, members contend until old ones give
up. The setting of another member is written nowhere; only what becomes of the partitions shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from groupshift.domain.assignment import Assignment, Assignor, TextForm, consumer_of
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView, Member, group_assignment


@dataclass(frozen=True, slots=True)
class Scheme:
    """By what a member computes; the text form matters to round-robin alone. As text: its configuration."""

    assignor: Assignor
    form: TextForm

    def __str__(self) -> str:
        strategy = f"partition.assignment.strategy={self.assignor}"
        return (
            strategy if self.assignor is Assignor.RANGE else f"{strategy}, roundrobin.text.form={self.form}"
        )


SCHEMES = (
    Scheme(Assignor.RANGE, TextForm.DASH),
    Scheme(Assignor.ROUND_ROBIN, TextForm.BRACKET),
    Scheme(Assignor.ROUND_ROBIN, TextForm.DASH),
)
"""Every way there is."""


def schemes_of_keepers(
    member: Member, view: CoordinationView, kept: Collection[TopicPartition]
) -> tuple[Scheme, ...]:
    """By which schemes none of ``kept`` is ``member``'s: partitions that others keep although by its own
    scheme they are due to it."""
    return tuple(
        scheme
        for scheme, assignment, _ in _others(member, view)
        if all(consumer_of(assignment[each]) != member.consumer_id for each in kept if each in assignment)
    )


def schemes_of_losers(
    member: Member, view: CoordinationView, neglected: Mapping[TopicPartition, str]
) -> tuple[Scheme, ...]:
    """By which schemes those who do not take their share (partition → thread id) want something else, too,
    find it owned, and give all of it up (§4.4, step 10)."""
    losers = {consumer_of(thread) for thread in neglected.values()}
    return tuple(
        scheme
        for scheme, assignment, own in _others(member, view)
        if all(_share(assignment, loser) - _share(own, loser) for loser in losers)
    )


def advice(member: Member, schemes: Collection[Scheme]) -> str:
    """What people have to look at; ``schemes`` are those that explain what is seen, perhaps none."""
    own = Scheme(member.assignor, member.form)
    if not schemes:
        return f"do all members use one partition.assignment.strategy and roundrobin.text.form? Here: {own}"
    found = " or ".join(map(str, schemes))
    return f"this member has {own}, the others seem to have {found}: configure all of them alike"


def _others(member: Member, view: CoordinationView) -> Iterator[tuple[Scheme, Assignment, Assignment]]:
    """All schemes by which the group's assignment is not that of the member's own, with both; none while
    something in the group cannot be read."""
    if view.problems:
        return
    own = group_assignment(member, view)
    for scheme in SCHEMES:
        computed = group_assignment(replace(member, assignor=scheme.assignor, form=scheme.form), view)
        if computed != own:
            yield scheme, computed, own


def _share(assignment: Assignment, consumer_id: str) -> set[TopicPartition]:
    return {each for each, thread in assignment.items() if consumer_of(thread) == consumer_id}
