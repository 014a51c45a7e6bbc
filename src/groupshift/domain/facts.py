"""What rules look at: the live group, the places of its fleet, and what is wanted of it."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import Aim
from groupshift.domain.modes import MemberKind, Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place of the fleet as its driver sees it; ``member_id`` None when the driver cannot know."""

    name: str
    kind: MemberKind
    running: bool
    member_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Input of every rule. ``wanted`` is the mode that should be in effect, or the protocol that members are
    to speak, None when it is open; ``earlier`` an earlier look at the same group, for rules that need two."""

    view: GroupView
    places: tuple[Place, ...] = ()
    wanted: Mode | Aim | None = None
    earlier: GroupView | None = None


def sentence_list(names: list[str], limit: int = 5) -> str:
    """``a, b and 3 more``: names for a sentence."""
    shown = names[:limit]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
