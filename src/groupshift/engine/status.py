"""What the journal says of runs, as data: needs no server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from groupshift.domain.run import (
    OPEN,
    Json,
    Outcome,
    Step,
    StepRecord,
    StepState,
    plan_from,
)
from groupshift.engine.move import P, Run
from groupshift.engine.questions_and_approvers import Section
from groupshift.engine.run_end import decisions, said_at_end
from groupshift.ports.runs import Event, EventKind, RunRecord, Runs

_LOOKED = frozenset({EventKind.CHECKED, EventKind.JUDGED})
_ENDS_QUESTION = frozenset({EventKind.GATE_ANSWERED, EventKind.VOIDED, EventKind.KEPT, EventKind.REDO})
"""After these, of its step, a gate that was shown is not waited for any more."""


STEP_WORDS: Mapping[str, str] = {
    StepState.DONE: "done",
    StepState.ACTED: "made, not read back yet",
    StepState.INTENDED: "begun",
    StepState.REOPENED: "to be done again",
}
"""How far a step is, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """A step of a plan and what is journaled of it; ``record`` is None until it is begun, ``looked`` is what
    its last look came to."""

    step: Step
    record: StepRecord | None = None
    looked: Json = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """True where it was begun and not left out."""
        return self.record is not None and not self.record.left_out

    @property
    def done(self) -> bool:
        """True where it was made and read back."""
        return self.record is not None and self.begun and self.record.state is StepState.DONE

    @property
    def at_ms(self) -> int:
        """When it was journaled last (epoch ms); 0 before."""
        return 0 if self.record is None else self.record.at_ms

    @property
    def result(self) -> Json:
        """What act and looks came to; empty where nothing did."""
        return {} if self.record is None else self.record.result

    @property
    def now(self) -> str:
        """How far it is, in words; empty before it began."""
        if self.record is None:
            return ""
        return f"left out: {self.record.left_out}" if self.record.left_out else STEP_WORDS[self.record.state]

    @property
    def outcome(self) -> str:
        """What its last look came to, in a word; empty before one."""
        return str(self.looked.get("outcome", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A run and how far it is. ``waits_for`` says what it waits for or why it stopped, ``waits_at`` is the
    key of that step; ``question`` is the gate that was shown and is not answered. ``verdict`` and ``reason``
    are of its end, empty while it is open. Times are epoch ms."""

    run: str
    move: str
    target: str
    state: str
    requester: str
    holder: str
    held_since_ms: int
    stopped: bool
    steps: tuple[StepStatus, ...]
    waits_for: str = ""
    waits_at: str = ""
    question: str = ""
    only_rollback_helps: bool = False
    verdict: str = ""
    reason: str = ""
    created_at_ms: int = 0
    updated_at_ms: int = 0
    following: str = ""

    @property
    def driven(self) -> bool:
        """Whether a process has the run now, as far as the journal tells: one that was killed has it, too."""
        return self.state in OPEN and bool(self.holder) and not self.stopped


def status_of(runs: Runs, name: str) -> RunStatus:
    """Return how far a run is. Raises `Rejected` for a run that is not in the journal."""
    record, held = runs.find(name), runs.held(name)
    events, records = runs.events(name), runs.steps(name)
    begun = [each for each in events if each.kind is EventKind.ROLLBACK_BEGUN]
    back = begun and record.state.goes_back
    plan = plan_from(json.dumps(begun[-1].body["plan"]) if back else record.plan)
    stops = [each for each in events if each.kind is EventKind.STOPPED]
    stopped = stops[-1] if stops and held is not None and stops[-1].token == held.token else None
    helps = stopped is not None and bool(stopped.body["only_rollback_helps"])
    waiting = stopped if record.state.is_open else None
    closed = said_at_end(record, events)
    driven = record.state.is_open and held is not None and not held.stopped
    return RunStatus(
        run=name,
        move=record.move,
        target=str(record.target),
        state=record.state.value,
        requester=record.requester,
        steps=step_statuses(plan.steps, records, events),
        waits_for=str(waiting.body["detail"]) if waiting else "",
        waits_at=waiting.step if waiting else "",
        question=_question(events) if record.state.is_open else "",
        only_rollback_helps=helps,
        verdict=str(closed.get("verdict", "")),
        reason=str(closed.get("reason", "")),
        created_at_ms=record.created_at_ms,
        updated_at_ms=record.updated_at_ms,
        following=str(closed.get("next", "")) or _following(record, helps=helps, driven=driven),
        holder=held.holder if held else "",
        held_since_ms=held.at_ms if held else 0,
        stopped=held is not None and held.stopped,
    )


def statuses(
    runs: Runs,
    *,
    limit: int = 20,
    move: str = "",
    target: str = "",
    open_only: bool = False,
    previews: bool = False,
) -> tuple[RunStatus, ...]:
    """Return how far runs are: the open ones, then the latest others, newest first, ``limit`` of each."""
    records = list(runs.recent(limit, move=move, target=target, open_only=True))
    if not open_only:
        latest = runs.recent(limit + len(records), move=move, target=target, previews=previews)
        records += [each for each in latest if not each.state.is_open][:limit]
    return tuple(status_of(runs, each.run) for each in records)


def report_of(run: Run[P]) -> tuple[Section, ...]:
    """Return the report of a run: what became of it, its steps, who decided what, and the move's own
    parts."""
    status = status_of(run.tools.runs, run.name)
    rows = tuple((each.step.key, each.step.does, each.now, each.outcome) for each in status.steps)
    decided = [(event.step, choice, who) for event, choice, who in decisions(run.events())]
    said = status.reason or status.waits_for
    sentences = (f"run {run.name} of {status.target} is {status.state}", *((said,) if said else ()))
    return (
        Section(title="What became of it", sentences=(*sentences, f"next: {status.following}")),
        Section(title="Steps", head=("step", "does", "state", "outcome"), rows=rows),
        Section(title="Decisions", head=("gate", "choice", "who"), rows=tuple(decided)),
        *run.move.report(run),
    )


def step_statuses(
    steps: Iterable[Step], records: Mapping[str, StepRecord], events: Iterable[Event]
) -> tuple[StepStatus, ...]:
    """Return how far each step is, by what is journaled of all."""
    looks = {event.step: event.body for event in events if event.kind in _LOOKED}
    return tuple(
        StepStatus(step=each, record=records.get(each.key), looked=looks.get(each.key, {})) for each in steps
    )


def _question(events: Iterable[Event]) -> str:
    """The gate that was shown last, unless it was answered, its step went on, or the run turned round."""
    open_gate = ""
    for event in events:
        passed = event.kind in _LOOKED and event.body["outcome"] == Outcome.PASS
        answered = event.step == open_gate and (passed or event.kind in _ENDS_QUESTION)
        if event.kind is EventKind.GATE_SHOWN:
            open_gate = event.step
        elif event.kind is EventKind.ROLLBACK_BEGUN or answered:
            open_gate = ""
    return open_gate


def _following(record: RunRecord, *, helps: bool, driven: bool) -> str:
    if driven:
        return f"groupshift status {record.run} --watch"
    if helps:
        return f"groupshift roll-back {record.run} --execute"
    if record.state.is_open:
        return f"groupshift continue {record.run} --execute"
    return f"groupshift report {record.run}"
