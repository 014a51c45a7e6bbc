"""Phases of a migration and the one table of transitions between them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from groupshift.errors import Conflict


class Phase(StrEnum):
    """Where a migration as a whole stands; stages are journaled apart."""

    PREVIEW = "preview"
    """Planned without ``execute``: closed from the start, nothing will ever be changed by it."""
    PLANNED = "planned"
    """Waiting for the approval of the plan; nothing was changed."""
    APPROVED = "approved"
    """The plan was approved; nothing was changed yet."""
    RUNNING = "running"
    """At least one act was journaled."""
    MOVED = "moved"
    """As far as asked; the way back is open."""
    FINALISED = "finalised"
    """What only the way back needed is gone: the end."""
    ROLLING_BACK = "rolling_back"
    """On the way back, or back but not proven equal."""
    ROLLED_BACK = "rolled_back"
    """Back, and proven equal."""
    REJECTED = "rejected"
    """Nobody approved; nothing was changed."""


TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.PREVIEW: frozenset(),
    Phase.PLANNED: frozenset({Phase.APPROVED, Phase.REJECTED}),
    Phase.APPROVED: frozenset({Phase.RUNNING, Phase.REJECTED, Phase.MOVED}),
    Phase.RUNNING: frozenset({Phase.MOVED, Phase.FINALISED, Phase.ROLLING_BACK}),
    Phase.MOVED: frozenset({Phase.FINALISED, Phase.ROLLING_BACK}),
    Phase.FINALISED: frozenset(),
    Phase.ROLLING_BACK: frozenset({Phase.ROLLED_BACK}),
    Phase.ROLLED_BACK: frozenset({Phase.ROLLING_BACK}),
    Phase.REJECTED: frozenset(),
}
"""From each phase, where it may go. ``moved`` and ``rolled_back`` may still be taken (further) back."""

OPEN = frozenset({Phase.PLANNED, Phase.APPROVED, Phase.RUNNING, Phase.ROLLING_BACK})
"""Phases that keep the group to themselves: one open migration per group."""


def check_transition(migration: str, source: Phase, target: Phase) -> None:
    """Raise `Conflict` unless the table allows ``source`` to become ``target``; staying is allowed."""
    if target is not source and target not in TRANSITIONS[source]:
        raise Conflict(
            f"migration {migration} is {source}, which cannot become {target}; "
            f"look at it with: groupshift status {migration}"
        )
