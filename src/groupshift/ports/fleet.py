"""How members are replaced: the fleet driver port."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from groupshift.domain.coordination import MemberKind


class SlotState(StrEnum):
    """What a fleet driver knows about one place of the fleet."""

    RUNNING = "running"
    CHANGING = "changing"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One place of the fleet: ``member_id`` is the consumer id (or client id, for a plain member)
    of its present occupant when the driver knows it; ``change_id`` the last change applied."""

    name: str
    kind: MemberKind
    state: SlotState
    member_id: str | None = None
    change_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Replace the occupants of ``slots`` by members of kind ``to``; ``change_id`` makes it idempotent.

    ``token`` is the fencing token of the run that starts it: a driver that remembers the highest one it
    met per ``fence`` (the migration) can refuse a change started by a fenced run."""

    change_id: str
    group: str
    slots: tuple[str, ...]
    to: MemberKind
    fence: str = ""
    token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The driver accepted the change and works on it."""

    change_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A person has to act; ``instruction`` says what to deploy, in Markdown."""

    change_id: str
    instruction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStatus:
    """Progress of a change: ``done`` when every slot runs the wanted kind; ``detail`` for people."""

    change_id: str
    done: bool
    detail: str
    slots: tuple[Slot, ...] = ()


class FleetDriver(Protocol):
    """Replaces members. No method blocks for longer than one request to the driver.

    ``start`` is idempotent by `Change.change_id`: a change that was accepted before is not applied
    twice, whoever repeats it and whatever happened in between. Raises `Transient` when the driver
    cannot be reached and `Rejected` for a slot it does not know.
    """

    def slots(self, group: str) -> tuple[Slot, ...]:
        """All places of the group's fleet, sorted by name; empty when the driver cannot know."""
        ...

    def start(self, change: Change) -> Started | Pending:
        """Begin the change and return at once."""
        ...

    def observe(self, change: Change) -> ChangeStatus:
        """How far the change is; a change never started is simply not done."""
        ...
