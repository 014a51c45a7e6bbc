"""What a member is made of, and by which rules it starts, commits and lets go."""

from __future__ import annotations

from dataclasses import dataclass, field

from groupshift.consumers.callbacks import Application, Nobody
from groupshift.consumers.counters import Counters
from groupshift.consumers.delivery import Delivery
from groupshift.ports.consumer import Coordination, Fetch, Membership, Reset


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The collaborators of one consumer; ``membership`` is None for one of the old protocol."""

    coordination: Coordination
    membership: Membership | None
    fetch: Fetch
    delivery: Delivery
    application: Application = field(default_factory=Nobody)
    counters: Counters = field(default_factory=Counters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """``drain_s`` bounds the wait for a reader at a hand-over; ``auto_commit`` off commits only on demand;
    ``wake_every_s`` is the least time between two wakings of old members, 0 for none at all."""

    reset: Reset
    auto_commit: bool
    drain_s: float
    wake_every_s: float = 0.0
