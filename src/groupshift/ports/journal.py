"""The journals of migrations and of cluster runs: what must survive a crash.

One truth for phases, steps, events and claims. A cluster run changes a whole cluster, such as a downgrade of
its brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from groupshift.domain.plan import Phase, StageName


class EventKind(StrEnum):
    """The closed set of things that are written down."""

    PLANNED = "planned"
    CLAIMED = "claimed"
    GATE_SHOWN = "gate_shown"
    GATE_ANSWERED = "gate_answered"
    REHEARSED = "rehearsed"
    SNAPSHOT = "snapshot"
    PROOF_REQUESTED = "proof_requested"
    INTENDED = "intended"
    RESUMED = "resumed"
    VOIDED = "voided"
    ACTED = "acted"
    READ_BACK = "read_back"
    JUDGED = "judged"
    OBSERVED = "observed"
    SOAK_STARTED = "soak_started"
    SOAK_FAILED = "soak_failed"
    ROLL_BACK_BEGUN = "roll_back_begun"
    KEPT = "kept"
    CLOSED = "closed"
    SEALING = "sealing"
    SEALED = "sealed"
    AUDITED = "audited"


class StepState(StrEnum):
    """How far the act of a stage is."""

    INTENDED = "intended"
    """Written down; whether it happened is not known."""
    ACTED = "acted"
    """It happened; not read back yet."""
    DONE = "done"
    """Read back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRecord:
    """One migration as journaled; ``plan`` and ``request`` are JSON texts, times epoch ms.

    ``run`` is the run that planned it (see `MoveRequest.run`).
    """

    migration: str
    group: str
    run: str
    phase: Phase
    plan_hash: str
    plan: str
    request: str
    created_at_ms: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """The act of one stage. ``intent`` says what is wanted and what was met when it was decided
    (change id, or the mode node's identity and version); ``result`` what was read back."""

    stage: StageName
    state: StepState
    intent: Mapping[str, Any]
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of the journal. ``seq`` is 1, 2, 3, ... per migration; ``token`` 0 = no token asked."""

    seq: int
    at_ms: int
    token: int
    kind: EventKind
    stage: StageName | None
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is to be written in one transaction: an event, and with it a step and a phase change.

    ``token`` None writes without asking for a claim (reading roles: briefs, snapshots, judgements).
    """

    migration: str
    at_ms: int
    kind: EventKind
    stage: StageName | None = None
    body: Mapping[str, Any] = field(default_factory=dict)
    token: int | None = None
    step: StepRecord | None = None
    phase: Phase | None = None


class Journal(Protocol):
    """Durable and transactional. Raises `Transient` when the database does not answer in time."""

    def create(self, record: MigrationRecord) -> None:
        """Store a new migration. Raises `Conflict` when the group has an open one."""
        ...

    def find(self, migration: str) -> MigrationRecord:
        """The migration. Raises `Rejected` when there is none of that id."""
        ...

    def of_run(self, run: str) -> MigrationRecord | None:
        """The migration planned by this run, if any; an empty run has none."""
        ...

    def open_of(self, group: str) -> MigrationRecord | None:
        """The open migration of the group (see `groupshift.domain.plan.OPEN`), if any."""
        ...

    def of_group(self, group: str) -> tuple[MigrationRecord, ...]:
        """All migrations of the group, newest first."""
        ...

    def recent(self, limit: int) -> tuple[MigrationRecord, ...]:
        """The latest migrations, newest first."""
        ...

    def claim(self, migration: str, run: str, at_ms: int) -> int:
        """A fencing token, rising per migration. The holder of the latest claim gets it again;
        any other run gets a higher one, and all lower ones are void from then on."""
        ...

    def append(self, entry: Entry) -> None:
        """Write event, step and phase in one transaction.

        Raises `Conflict`, having written nothing, when ``token`` is not the latest claim's, when the
        phase may not follow the present one, or when the group has another open migration."""
        ...

    def steps(self, migration: str) -> Mapping[StageName, StepRecord]:
        """The acts journaled so far, by stage."""
        ...

    def events(self, migration: str) -> tuple[Event, ...]:
        """All events in order."""
        ...

    def claims(self, migration: str) -> Mapping[int, str]:
        """All tokens given out, with the run that got each."""
        ...


SEEN_BY = "groupshift downgrade status, or: groupshift expansion status"
"""What shows the runs of a journal, for sentences about them."""


class RunState(StrEnum):
    """Where a run stands."""

    OPEN = "open"
    """It goes on, or waits for somebody."""
    GOING_BACK = "going_back"
    """What it did is being undone."""
    DONE = "done"
    """Every step was read back."""
    TAKEN_BACK = "taken_back"
    """Everything that can be undone was."""
    ENDED = "ended"
    """Somebody ended it where it stood."""


NEXT: Mapping[RunState, frozenset[RunState]] = {
    RunState.OPEN: frozenset({RunState.DONE, RunState.GOING_BACK, RunState.ENDED}),
    RunState.GOING_BACK: frozenset({RunState.TAKEN_BACK, RunState.ENDED}),
    RunState.DONE: frozenset(),
    RunState.TAKEN_BACK: frozenset(),
    RunState.ENDED: frozenset(),
}
"""What may follow each state; what nothing follows is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRun:
    """One run as journaled; ``plan`` is a JSON text, times are epoch ms."""

    run: str
    cluster_id: str
    state: RunState
    plan_hash: str
    plan: str
    created_at_ms: int
    updated_at_ms: int

    @property
    def move(self) -> str:
        """What kind of run it is, such as ``downgrade``: its id begins with that."""
        return self.run.partition("-")[0]

    @property
    def open(self) -> bool:
        """Whether it holds its cluster: no other run of it may begin."""
        return bool(NEXT[self.state])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStepRecord:
    """How far a step is. ``intent`` is what was met when it was decided, ``result`` what was read back;
    ``token`` is of the claim that wrote it last, at ``at_ms``."""

    step: str
    state: StepState
    token: int
    at_ms: int
    intent: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClaim:
    """The latest claim of a run: whose it is, its token, and when it was made (epoch ms)."""

    token: int
    holder: str
    at_ms: int


class ClusterRuns(Protocol):
    """Durable and transactional. Raises `Transient` when the database does not answer in time."""

    def create(self, run: ClusterRun) -> None:
        """Store a new run. Raises `Conflict` when its cluster has an open one, or there is one of its id."""
        ...

    def find(self, run: str) -> ClusterRun:
        """The run. Raises `Rejected` when there is none of that id."""
        ...

    def open_of(self, cluster_id: str) -> ClusterRun | None:
        """The open run of a cluster, if any."""
        ...

    def recent(self, limit: int, *, move: str = "") -> tuple[ClusterRun, ...]:
        """The latest runs of a move (empty: of any), newest first."""
        ...

    def claim(self, run: str, holder: str, at_ms: int) -> int:
        """A fencing token, 1 or higher than any before; all lower ones are void from then on."""
        ...

    def held(self, run: str) -> RunClaim | None:
        """The latest claim, None where nobody claimed the run yet."""
        ...

    def put(self, run: str, record: RunStepRecord) -> None:
        """Store how far a step is.

        Raises, having written nothing, `Fenced` when ``record.token`` is not the latest claim's and
        `Conflict` when the run is closed."""
        ...

    def steps(self, run: str) -> Mapping[str, RunStepRecord]:
        """The steps journaled so far, by name."""
        ...

    def move(self, run: str, token: int, state: RunState, at_ms: int) -> None:
        """Change the state. Raises `Conflict` as `put` does, or when the state may not follow (`NEXT`)."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
