"""What rules look at: the live group, the places of its fleet, and what is wanted of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.group import GroupView
from groupshift.domain.group_protocol import Aim
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.old_members import Held
from groupshift.domain.partitions import grouped


class SlotState(StrEnum):
    """What a fleet driver knows about one place of the fleet."""

    RUNNING = "running"
    CHANGING = "changing"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One place of the fleet: ``member_id`` is the consumer id (or client id, for a plain or native member)
    of its present occupant when the driver knows it; ``change_id`` the last change applied; ``trouble``
    why it does not run, when the driver knows. A vacant place is down."""

    name: str
    kind: MemberKind
    state: SlotState
    member_id: str | None = None
    change_id: str | None = None
    trouble: str = ""

    @property
    def running(self) -> bool:
        """Whether its occupant runs."""
        return self.state is SlotState.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Input of every rule. ``wanted`` is the mode that should be in effect, or the protocol that members are
    to speak, None when it is open; ``earlier`` is what old members owned at an earlier look, for a rule that
    needs two."""

    view: GroupView
    places: tuple[Slot, ...] = ()
    wanted: Mode | Aim | None = None
    earlier: tuple[Held, ...] | None = None


def at_brokers(values: Iterable[tuple[str, int]]) -> list[str]:
    """A clause for each value: at which brokers (node ids) it is."""
    return [f"{what} at broker {', '.join(map(str, nodes))}" for what, nodes in grouped(values).items()]


def sentence_list(names: list[str], limit: int = 5) -> str:
    """``a, b and 3 more``: names for a sentence."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
