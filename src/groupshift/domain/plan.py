"""The vocabulary of moves of one group: phases, and how far a move and its rollback go.

Source: docs/reference/concepts.md, "A move".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.modes import MemberKind, Mode

MAX_GROUP = 249
"""How long a group id may be: as long as the name of a topic."""
MAX_SOAK_S = 7 * 24 * 3600


class PhaseName(StrEnum):
    """A phase of a move, or of its rollback."""

    CANARY = "canary"
    """One (or a few) members are replaced by ones of the new kind."""
    ROLL = "roll"
    """The remaining members are replaced by ones of the new kind."""
    TOGGLE = "toggle"
    """The mode node is set to ``kafka`` by compare-and-set (F7)."""
    RETIRE = "retire"
    """Migration-aware members are replaced by plain Kafka consumers."""
    SOAK = "soak"
    """Nothing is changed; the group is judged for a while after the last act."""
    FINALISE = "finalise"
    """What only the rollback needed is removed, if the group no longer depends on it."""
    EMPTY = "empty"
    """All members stop, and none takes their places yet (offline)."""
    FILL = "fill"
    """Members of the new kind take the empty places (offline)."""
    UNDO_RETIRE = "undo_retire"
    """Plain Kafka consumers are replaced by migration-aware ones."""
    UNDO_TOGGLE = "undo_toggle"
    """The mode node is set back to ``zookeeper``."""
    UNDO_FILL = "undo_fill"
    """The members that took the empty places stop again."""
    UNDO_EMPTY = "undo_empty"
    """Members of the old kind take their places again."""
    UNDO_MEMBERS = "undo_members"
    """Members of the new kind are replaced by ones of the old kind."""

    @property
    def undoes(self) -> bool:
        """True for a phase of the rollback."""
        return self.value.startswith("undo_")


class Until(StrEnum):
    """The last act a run is allowed to make."""

    CANARY = "canary"
    ROLL = "roll"
    TOGGLE = "toggle"
    RETIRE = "retire"


class WayBack(StrEnum):
    """How far a roll back goes."""

    ZOOKEEPER_MODE = "zookeeper_mode"
    """Mode back to ZooKeeper; migration-aware members stay."""
    OLD_MEMBERS = "old_members"
    """Everything back, to the members that were there before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceMembers:
    """Replace members of kind ``old`` by members of kind ``new``.

    ``slots`` are the fleet driver's names of the places whose occupant changes (for the process
    driver: supervisor slots), sorted; what runs there afterwards is of kind ``new``.
    """

    slots: tuple[str, ...]
    old: MemberKind
    new: MemberKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMode:
    """Write the mode node. What undoes a first write sets ``zookeeper`` (D13: never forget)."""

    to: Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase, and what it changes (None: nothing, the group is only judged)."""

    name: PhaseName
    step: ReplaceMembers | SetMode | None
