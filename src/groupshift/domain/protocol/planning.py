"""The places of a group whose members change their rebalance protocol."""

from __future__ import annotations

from groupshift.domain.facts import Place
from groupshift.domain.group import GroupView, Member
from groupshift.domain.group_protocol import Protocol
from groupshift.domain.modes import MemberKind

KIND = {Protocol.CLASSIC: MemberKind.PLAIN, Protocol.CONSUMER: MemberKind.NATIVE}
"""The kind of a member that speaks a protocol."""


def places_of(view: GroupView, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The driver's places in its order, or, where it cannot know them, the members by the names that people
    know them by."""
    if places:
        return places
    names = [_name(member) for member in view.members]
    found = (
        Place(
            name=name if names.count(name) == 1 else member.member_id,
            kind=member.kind,
            running=True,
            member_id=member.member_id,
        )
        for name, member in zip(names, view.members, strict=True)
    )
    return tuple(sorted(found, key=lambda place: place.name))


def _name(member: Member) -> str:
    return member.client_id or member.member_id
