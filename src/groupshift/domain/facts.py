"""What rules look at: the live group, the places of its fleet, and what is wanted of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupshift.domain.group import CommittedOffset, GroupView
from groupshift.domain.group_protocol import Aim
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Verdict


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


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """Committed offsets of one store by partition."""

    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def of(cls, offsets: tuple[CommittedOffset, ...]) -> OffsetTable:
        """The table of a view's list."""
        return cls({offset.partition: offset.offset for offset in offsets})


Complaint = tuple[Verdict, str, str]
"""What a rule has to say against a group: verdict, reason, hint."""


def sentence_list(names: list[str], limit: int = 5) -> str:
    """``a, b and 3 more``: names for a sentence."""
    shown = names[:limit]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
