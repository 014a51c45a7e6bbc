"""What a request may ask for, and which places go first. Pure."""

from __future__ import annotations

import re
from math import ceil

from groupshift.domain.facts import Place
from groupshift.domain.group import GroupView
from groupshift.domain.old_members import shares
from groupshift.domain.plan import MoveRequest

MAX_GROUP = 249
"""How long a group id may be: as long as the name of a topic."""
NAME_OF_GROUP = re.compile(rf"(?!\.{{1,2}}$)[A-Za-z0-9._-]{{1,{MAX_GROUP}}}")
"""What the ids of groups of the old consumer look like: it takes no other, and they are znodes."""
MAX_SOAK_S = 7 * 24 * 3600
MAX_WATCH_S = 3600


def check(request: MoveRequest) -> tuple[str, ...]:
    """Everything wrong with the values of a request, one clause each; empty when usable."""
    problems = []
    if not NAME_OF_GROUP.fullmatch(request.group):
        problems.append(
            f"group {request.group!r} is no group id of the old consumer, which takes 1 to {MAX_GROUP} "
            "letters, digits, '.', '_' and '-'; move a Kafka group with: groupshift protocol run"
        )
    if request.canary < 1:
        problems.append(f"canary {request.canary} is less than 1 member")
    if not 0 <= request.canary_share <= 1:
        problems.append(f"canary_share {request.canary_share} is no share between 0 and 1")
    if request.canary_share and request.canary != 1:
        problems.append(
            f"canary {request.canary} and canary_share {request.canary_share} are both given: choose one"
        )
    if not 0 <= request.canary_watch_s <= MAX_WATCH_S:
        problems.append(f"canary_watch_s {request.canary_watch_s} is not between 0 and {MAX_WATCH_S}")
    if not 0 <= request.soak_s <= MAX_SOAK_S:
        problems.append(f"soak {request.soak_s} s is not between 0 and {MAX_SOAK_S}")
    return tuple(problems)


def places_of(view: GroupView, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The driver's places in its order, or, where it cannot know them, the members themselves."""
    if places:
        return places
    return tuple(
        Place(name=member.member_id, kind=member.kind, running=True, member_id=member.member_id)
        for member in sorted(view.members, key=lambda member: member.member_id)
    )


def canary_places(request: MoveRequest, view: GroupView, old: list[Place]) -> list[Place]:
    """The places replaced first, by name: so many, or the fewest that hold the share asked for.

    A member's share is what the group's assignor gives to its streams; all old places where even they do
    not hold so much."""
    if not request.canary_share:
        return old[: request.canary]
    due = shares(view)
    wanted, chosen = ceil(request.canary_share * len(view.partitions)), list[Place]()
    for place in sorted(old, key=lambda each: (-due.get(each.member_id or "", 0), each.name)):
        if chosen and sum(due.get(each.member_id or "", 0) for each in chosen) >= wanted:
            break
        chosen.append(place)
    return sorted(chosen, key=lambda place: place.name)
