"""The one journal of runs: what must survive a crash, whatever the move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from groupshift.domain.run import Json, RunState, StepRecord, Target


class EventKind(StrEnum):
    """What happened."""

    PLANNED = "planned"
    CLAIMED = "claimed"
    GATE_SHOWN = "gate_shown"
    GATE_ANSWERED = "gate_answered"
    VOIDED = "voided"
    """An approval became void: what it was given for changed."""
    SHOWN = "shown"
    """A process told what somebody may accept; the body has its hash."""
    ACCEPTED = "accepted"
    WAITS = "waits"
    """A claim began to wait for a step: to be allowed, to be as approved, or to settle."""
    INTENDED = "intended"
    RESUMED = "resumed"
    ACTED = "acted"
    CHECKED = "checked"
    JUDGED = "judged"
    NOTED = "noted"
    """One of a series: samples of a canary, looks of a soak."""
    STOPPED = "stopped"
    """The process stopped by itself: it holds the run no longer."""
    REDO = "redo"
    ROLLBACK_BEGUN = "rollback_begun"
    KEPT = "kept"
    """A step was left out."""
    CLOSED = "closed"
    SEALING = "sealing"
    SEALED = "sealed"
    AUDITED = "audited"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run. ``plan`` and ``request`` are JSON texts; ``requester`` asked for it; ``origin`` is the Airflow
    run or the scan that began it (empty: none), and no two runs have the same. Times are epoch ms."""

    run: str
    move: str
    target: Target
    state: RunState
    plan: str
    plan_hash: str
    request: str = "{}"
    requester: str = ""
    origin: str = ""
    created_at_ms: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to append. ``step`` is a key or empty, ``body`` is JSON."""

    kind: EventKind
    step: str = ""
    body: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(NewEvent):
    """One line of a run's history, numbered 1, 2, 3; ``token`` is 0 where no claim wrote it. Times are epoch
    ms."""

    seq: int
    at_ms: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The latest claim of a run. ``stopped``: its last word is that it stopped by itself."""

    token: int
    holder: str
    at_ms: int
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one transaction writes of a run: events, records of steps, a new state; any part may be missing.
    ``token`` None: nobody holds the run (`groupshift.ports.run_claims.UNHELD`)."""

    run: str
    at_ms: int
    token: int | None
    events: tuple[NewEvent, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    state: RunState | None = None


class Runs(Protocol):
    """Durable and transactional: each call is written whole or not at all.

    Every call raises `Transient` when the database does not answer in time, and `Rejected` for a run that is
    not in the journal (`steps` and `events` of such a run are empty)."""

    def create(self, run: RunRecord) -> None:
        """Store a new run with its event *planned*.

        Raises:
            Conflict: there is a run of its id or its origin, or, when it is open, an open run of a target
                that excludes its own (the same, or a cluster and what is in it): the sentence names it.
        """

    def find(self, run: str) -> RunRecord:
        """Return the run."""

    def of_origin(self, origin: str) -> RunRecord | None:
        """Return the run that this Airflow run or scan began, None where there is none."""

    def in_the_way(self, target: Target) -> tuple[RunRecord, ...]:
        """Return the open runs whose target excludes this one, oldest first."""

    def of_target(self, target: Target) -> tuple[RunRecord, ...]:
        """Return all runs of exactly this target, newest first."""

    def recent(
        self, limit: int, *, move: str = "", target: str = "", open_only: bool = False, previews: bool = True
    ) -> tuple[RunRecord, ...]:
        """Return the latest runs (of a move, of targets of this name), newest first; of one moment by the
        code points of their ids. Without ``previews`` those that were only planned do not count."""

    def claim(self, run: str, holder: str, at_ms: int, *, anew: bool, take_over: bool = False) -> int:
        """Return a fencing token; all lower ones are void from then on.

        ``anew``: always a higher one (a process of the command line, a task that acts). Else the holder of
        the latest claim gets its token again (sensors, gates, judges).

        Raises:
            Fenced: another holder has the run, it is open, and that holder did not stop by itself, unless
                ``take_over``.
        """

    def held(self, run: str) -> Claim | None:
        """Return the latest claim, None where nobody claimed the run yet."""

    def append(self, entry: Entry) -> None:
        """Write an entry in one transaction.

        Raises, having written nothing:
            Fenced: the token is not the latest claim's.
            Conflict: the state may not follow (`groupshift.domain.run.TRANSITIONS`); the run is closed, is
                not opened by the entry, and the entry has steps, or has no token and events outside `UNHELD`;
                or it opens a closed run while another one is in the way.
        """

    def steps(self, run: str) -> Mapping[str, StepRecord]:
        """Return what is journaled of each step, by key."""

    def events(self, run: str, *, after: int = 0) -> tuple[Event, ...]:
        """Return the events after number ``after``, in order; of one run they are numbered from 1."""

    def close(self) -> None:
        """Close all connections."""
