"""What the journal tells of one run that changes a cluster, whatever the move: steps there and back,
comparisons, and who decided what when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from groupshift.application.run_engine import StepStatus
from groupshift.application.run_work import STOPPED, AnyPlan
from groupshift.domain.seal import StoredFile
from groupshift.domain.step import RunAct, RunStep, Seen, Stand, ends
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import ClusterRun, RunState, RunStepRecord
from groupshift.report.page import Headline
from groupshift.report.runs import Comparison, Decision, RunData, StepLine

P = TypeVar("P", bound=AnyPlan)
_BACK = frozenset({RunState.GOING_BACK, RunState.TAKEN_BACK})
_STANDS = {
    Stand.DONE: "read back",
    Stand.ACTED: "done, not read back yet",
    Stand.INTENDED: "begun",
    Stand.UNTOUCHED: "",
}
_TELLING = ("against", "refused", "changed", "reasons", "problems")
"""What of a step's result says why it is not as it has to be, the first that there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Somebody let the run go on: in spite of ``what`` a step of this kind found, as ``reasons`` tell it, at
    (epoch ms)."""

    act: RunAct
    what: str
    reasons: tuple[str, ...]
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where a process stopped (key of the step), what it saw there, and the detail in words; ``hopeless``:
    only taking the run back helps."""

    step: str
    seen: Seen
    detail: str
    hopeless: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAccount(Generic[P]):
    """A run and its plan; ``there`` are the steps of the plan, ``back`` those that undo it (empty while
    nobody asked for it), each with how far it is."""

    run: ClusterRun
    plan: P
    there: tuple[StepStatus, ...]
    back: tuple[StepStatus, ...]
    last: Stop | None = None

    @property
    def stop(self) -> Stop | None:
        """Where a process stopped last; None when that step is not the next one any more."""
        step = self.next
        return self.last if self.last and step and self.last.step == step.step.key else None

    @property
    def steps(self) -> tuple[StepStatus, ...]:
        """There, then back."""
        return (*self.there, *self.back)

    @property
    def ended_ms(self) -> int:
        """The last time at which anything was journaled (epoch ms)."""
        return max([self.run.created_at_ms, *(each.at_ms for each in self.steps)])

    @property
    def next(self) -> StepStatus | None:
        """The first step that is not done, of the way that is walked; None when all are."""
        walked = self.back if self.run.state in _BACK else self.there
        return next((each for each in walked if each.stand is not Stand.DONE), None)

    def of_act(self, act: RunAct) -> tuple[StepStatus, ...]:
        """The steps of the plan that do this."""
        return tuple(each for each in self.there if each.step.act is act)


def account(
    run: ClusterRun,
    records: Mapping[str, RunStepRecord],
    plan: P,
    undo: Callable[[P, Iterable[str]], tuple[RunStep, ...]],
) -> RunAccount[P]:
    """From the journal alone; ``undo`` gives what undoes the steps with these keys."""
    back = undo(plan, records) if run.state in _BACK else ()
    return RunAccount(
        run=run,
        plan=plan,
        there=tuple(_status(step, records) for step in plan.steps),
        back=tuple(_status(step, records) for step in back),
        last=_stop(records),
    )


def _status(step: RunStep, records: Mapping[str, RunStepRecord]) -> StepStatus:
    record = records.get(step.key)
    if record is None:
        return StepStatus(step=step, stand=Stand.UNTOUCHED)
    stand = Stand(record.state.value)
    return StepStatus(step=step, stand=stand, at_ms=record.at_ms, result=record.result)


def compared(account: RunAccount[P]) -> tuple[Comparison, ...]:
    """Every snapshot that is held against another one, in order; those that are not taken yet too."""
    return tuple(
        Comparison(
            subject=each.step.subject,
            base=str(each.step.args["base"]),
            rules=str(each.step.args["move"]),
            verdict=Verdict(found["verdict"]) if "verdict" in found else None,
            reasons=tuple(map(str, found.get("reasons", ()))),
            groups=found.get("groups"),
            at_ms=each.at_ms,
            folder=folder_of(found),
            accepted_by=str(found.get("accepted_by", "")),
        )
        for each, found in ((each, result_of(each)) for each in account.steps)
        if each.step.act is RunAct.COMPARE
    )


def folder_of(result: Mapping[str, Any]) -> str:
    """The name of the folder of a snapshot, below that of the run; empty where there is none."""
    return str(result.get("folder", "")).rpartition("/")[2]


def decisions(account: RunAccount[P]) -> tuple[Decision, ...]:
    """Who approved or accepted what, in order; what nobody was asked yet is left out."""
    approved = [
        Decision(
            subject=each.step.does,
            approved=result_of(each).get("approved"),
            who=str(result_of(each).get("by", "")),
            at_ms=each.at_ms,
        )
        for each in account.steps
        if each.step.act is RunAct.APPROVE and each.stand is not Stand.UNTOUCHED
    ]
    differing = [
        Decision(
            subject=f"go on although {each.what}: {'; '.join(each.reasons)}",
            approved=True,
            who=each.who,
            at_ms=each.at_ms,
        )
        for each in accepted(account)
    ]
    return tuple(sorted([*approved, *differing], key=lambda each: each.at_ms))


def accepted(account: RunAccount[P]) -> tuple[Accepted, ...]:
    """What was found wrong, and accepted by somebody, in order."""
    return tuple(
        Accepted(
            act=each.step.act,
            what=_wrong(each.step),
            reasons=tuple(map(str, result.get("against") or result.get("reasons") or ())),
            who=str(result["accepted_by"]),
            at_ms=each.at_ms,
        )
        for each, result in ((each, result_of(each)) for each in account.steps)
        if result.get("accepted_by")
    )


def _wrong(step: RunStep) -> str:
    """What it means that a step is not as it has to be."""
    match step.act:
        case RunAct.COMPARE:
            return f"snapshot {step.subject} is not equal to {step.args['base']}"
        case RunAct.RESTORE | RunAct.REHEARSE:
            return f"offsets are not as in snapshot {step.subject}"
        case RunAct.PLACE:
            return "somebody else gave the topic another count than the plan's"
        case RunAct.AUDIT:
            return "the audit of the whole log found something wrong"
        case _:
            return f"step {step.key} is not as it has to be"


def trouble(account: RunAccount[P]) -> str:
    """Why the run stopped at the step that is next: it failed, or what it found a person has to cure; else
    empty."""
    found, stop = account.next, account.stop
    if found is None:
        return ""
    said = _told(found)
    if stop is None:
        return said
    bad = stop.seen is Seen.FAILED or (stop.seen is Seen.PERSON and bool(said))
    return stop.detail if bad else ""


def waiting(account: RunAccount[P]) -> str:
    """What the step that is next waits for; empty when it does not, or there is `trouble`. Of a run that was
    ended: what it was ended for."""
    found, stop = account.next, account.stop
    if found is None or stop is None or trouble(account):
        return ""
    if account.run.state is RunState.ENDED and not ends(found.step, stop.seen):
        return ""  # something else ended it since
    return stop.detail


def _told(found: StepStatus) -> str:
    """What its result says is not as it has to be."""
    result = result_of(found)
    told = next((result[name] for name in _TELLING if result.get(name)), ())
    said = "; ".join(map(str, told))
    if result.get("verdict", Verdict.PASS) != Verdict.PASS:
        return f"{_wrong(found.step)}: {said or result['verdict']}"
    return f"offsets of {said} changed since the snapshot" if told and told == result.get("changed") else said


def _stop(records: Mapping[str, RunStepRecord]) -> Stop | None:
    """Where a process stopped last, unless its step went on since."""
    note = records.get(STOPPED)
    if note is None:
        return None
    result, record = note.result, records.get(str(note.result["step"]))
    if record is not None and (record.token, record.at_ms) > (note.token, note.at_ms):
        return None
    return Stop(
        step=str(result["step"]),
        seen=Seen(result["seen"]),
        detail=str(result["detail"]),
        hopeless=bool(result["hopeless"]),
    )


def result_of(status: StepStatus) -> Mapping[str, Any]:
    """What was read back of a step; empty where nothing was."""
    return status.result or {}


_WORDS = {
    RunState.OPEN: "under way",
    RunState.GOING_BACK: "not back yet",
    RunState.DONE: "done",
    RunState.TAKEN_BACK: "taken back",
    RunState.ENDED: "nothing changed",
}


def headline_of(account: RunAccount[P], sentence: str, now: Sequence[tuple[str, str]]) -> Headline:
    """The first lines of a report. A run that is not over is inconclusive; one that stopped has failed, and
    so has one that went on by somebody's word although something was wrong."""
    state, why = account.run.state, trouble(account)
    verdict, word = Verdict.INCONCLUSIVE, _WORDS[state]
    if state in {RunState.DONE, RunState.TAKEN_BACK}:
        verdict = Verdict.FAIL if accepted(account) else Verdict.PASS
    elif why and account.run.open:
        verdict = Verdict.FAIL
    if why and state is RunState.OPEN:
        word = "stopped"
    return Headline(verdict=verdict, word=word, sentence=sentence, now=now)


def run_data(account: RunAccount[P], files: Sequence[StoredFile] = ()) -> RunData:
    """What the page of this run is made of."""
    planned, turned = account.run.created_at_ms, max((each.at_ms for each in account.there), default=0)
    return RunData(
        run=account.run.run,
        cluster_id=account.plan.cluster_id,
        created_at_ms=planned,
        plan_hash=account.run.plan_hash,
        there=tuple(_shown(account.there, planned)),
        back=tuple(_shown(account.back, turned)),
        compared=compared(account),
        decisions=decisions(account),
        met=account.plan.met,
        files=files,
    )


def _shown(steps: Iterable[StepStatus], since_ms: int) -> Iterator[StepLine]:
    for each in steps:
        yield StepLine(
            key=each.step.key,
            does=each.step.does,
            proof=each.step.proof,
            back=each.step.inverse,
            at_ms=each.at_ms,
            took_ms=max(0, each.at_ms - since_ms),
            state=_STANDS[each.stand],
        )
        since_ms = each.at_ms or since_ms
