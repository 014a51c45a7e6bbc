"""The end of a run: its state, what is said of it, and the seal of its evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from groupshift.domain.run import Json, RunState, StepRecord
from groupshift.domain.verdict import Verdict
from groupshift.engine.move import P, Run
from groupshift.ports.runs import Event, EventKind, NewEvent, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How a run stands at its end. ``verdict`` is what the command line and Airflow end with: pass is green.
    ``reason`` is one sentence, ``following`` the next command."""

    run: str
    state: RunState
    verdict: Verdict
    reason: str
    following: str


def end(
    run: Run[P],
    state: RunState,
    reason: str = "",
    *,
    events: tuple[NewEvent, ...] = (),
    steps: tuple[StepRecord, ...] = (),
) -> Closing:
    """Seal the evidence and close the run: what will be written is journaled, written, and journaled together
    with the end. Whoever follows a process that was killed in between does all of it again.

    Raises `Fenced` when another claim has the run: nobody seals what another process drives."""
    run.refresh()
    closing = _closing(run, state, reason, accepted=events)
    body = {"verdict": closing.verdict.value, "reason": closing.reason, "next": closing.following}
    body["state"] = state.value
    if events or steps:
        run.write(*events, steps=steps)
    run.write(*seal(run, body), NewEvent(kind=EventKind.CLOSED, body=body), state=state)
    return closing


def seal(run: Run[P], body: Json) -> tuple[NewEvent, ...]:
    """Seal the evidence of a run: what will be written is journaled, and written. Returns what is to be
    journaled of that; ``body`` says how the run stands (``verdict``, ``reason``, ``next``, ``state``)."""
    if run.tools.seal is None:
        return ()
    sealing = run.tools.seal(run.name, body)
    run.write(NewEvent(kind=EventKind.SEALING, body=sealing.body))
    sealing.write()
    return (NewEvent(kind=EventKind.SEALED, body=sealing.body),)


def decisions(events: Iterable[Event]) -> Iterator[tuple[Event, str, str]]:
    """Yield who answered at a gate, who accepted what, and why a rollback was begun (at no step), in order:
    the event, the choice, and who or why."""
    for event in events:
        if event.kind is EventKind.GATE_ANSWERED:
            yield event, str(event.body["choice"]), str(event.body["who"])
        elif event.kind is EventKind.ACCEPTED:
            yield event, f"accepted ({event.body['verdict']})", str(event.body["who"])
        elif event.kind is EventKind.ROLLBACK_BEGUN:
            yield event, f"roll back to {event.body['to']}", str(event.body["because"])


def said_at_end(record: RunRecord, events: Iterable[Event]) -> Json:
    """Return what is journaled of the end of a run; empty while it is open."""
    said = [e.body for e in events if e.kind is EventKind.CLOSED and e.body["state"] == record.state.value]
    return said[-1] if said and not record.state.is_open else {}


def closing_of(run: Run[P]) -> Closing:
    """Return how a run that is over was closed."""
    state, said = run.record.state, said_at_end(run.record, run.events())
    if not said:
        return _closing(run, state, "")
    verdict, reason = Verdict(said["verdict"]), str(said["reason"])
    return Closing(run=run.name, state=state, verdict=verdict, reason=reason, following=str(said["next"]))


def reject(run: Run[P], reason: str) -> Closing:
    """Close a run that changed nothing. Raises `Conflict` for any other run."""
    return end(run, RunState.REJECTED, reason)


_BAD = frozenset({Verdict.FAIL.value, Verdict.ERROR.value})
"""What was accepted and is no success: it differed, or could not be measured."""
_CLAUSES = {
    RunState.PREVIEW: "planned only, nothing was changed",
    RunState.MOVED: "moved as far as asked; the rollback is open",
    RunState.FINALISED: "moved as far as asked; there is no rollback any more",
    RunState.ROLLED_BACK: "rolled back",
    RunState.REJECTED: "nothing was changed",
}


_FOLLOWING = {
    **dict.fromkeys((RunState.MOVED, RunState.FINALISED), "groupshift watch {}"),
    **dict.fromkeys((RunState.PREVIEW, RunState.REJECTED, RunState.ROLLED_BACK), "groupshift report {}"),
}
"""The next command where the move names none; of an open run it is to go on."""


def _closing(run: Run[P], state: RunState, reason: str, *, accepted: tuple[NewEvent, ...] = ()) -> Closing:
    clause, following = run.move.closing(run, state)
    begun = run.rollbacks() if state is RunState.ROLLED_BACK else ()
    because = str(begun[-1].body["because"]) if begun else ""  # where nobody asked for it
    words = [*run.events("", EventKind.ACCEPTED), *accepted]
    bad = any(each.body["verdict"] in _BAD for each in words if each.kind is EventKind.ACCEPTED)
    verdict = Verdict.INCONCLUSIVE if reason and state is RunState.MOVED else Verdict.PASS
    if state is RunState.REJECTED or bad or because:
        verdict = Verdict.FAIL
    accepted_only = "a difference was only accepted" if bad else ""
    parts = (clause or _CLAUSES.get(state, state.value), because, reason, accepted_only)
    return Closing(
        run=run.name,
        state=state,
        verdict=verdict,
        reason="; ".join(part for part in parts if part),
        following=following or _FOLLOWING.get(state, "groupshift continue {} --execute").format(run.name),
    )
