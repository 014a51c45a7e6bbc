"""Processes that drive a move of a cluster over a simulated world, on the engine; faults between two acts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import Outcome, SparkJob, Step, canonical, plan_from
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.begin import begin, claim
from groupshift.engine.move import Move, Run, RunOptions, Tools
from groupshift.engine.progress import Asks, Ended, Paused, Progress, Stopped
from groupshift.engine.questions_and_approvers import Answer, Approvers, Question
from groupshift.engine.roll_back import take_back
from groupshift.engine.run import drive
from groupshift.ports.clock import CrashPoint, NoStepCrash, StepCrashPoints
from groupshift.ports.runs import EventKind, RunRecord, Runs
from groupshift.ports.spark_jobs import Compared
from groupshift_testing.clock import ManualClock
from support.memory_runs import MemoryRuns

Decide = Callable[[Question], Answer | None]


class At:
    """Does something, once, when a step of this kind reaches this point; ``kind`` may have a subject."""

    def __init__(self, kind: str, point: CrashPoint, what: Callable[[], None]) -> None:
        self._kind, self._point, self._what = f"/{kind} ", point, what
        self._left = 1

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        if self._left and self._kind in f"{step} " and point is self._point:
            self._left = 0
            self._what()


@dataclass(slots=True)
class Comparisons:
    """What Spark would do with the snapshots of a world, and what it left; ``compare`` is the simulated
    comparison."""

    compare: Any
    left: dict[str, Compared] = field(default_factory=dict)

    def submit(self, job: SparkJob) -> None:
        """Run a job of the kind ``compare`` to its end."""
        before, after, _, output, _, move, *live = job.arguments
        found = self.compare(Path(before), Path(after), Comparison(move), live=bool(live))
        findings = tuple(
            Finding(
                rule=rule,
                verdict=Verdict.ERROR if rule == "E00" else Verdict.FAIL,
                reason=reason.removeprefix(f"{rule}: "),
            )
            for reason in found.reasons
            for rule in (reason.partition(":")[0],)
        )
        passed = Finding(rule="E01", verdict=Verdict.PASS, reason="groups: kept")  # others pass, as they do
        inputs = tuple(job.inputs[each] for each in (before, after))
        self.left[output] = replace(found, findings=(*findings, passed), inputs=inputs)

    def read(self, output: Path) -> Compared | None:
        """See the port `ComparisonOutcomes`."""
        return self.left.get(str(output))


def answered(choice: Choice, who: str = "me") -> Decide:
    """Answer every question so."""
    return lambda question: Answer(choice=choice, who=who, fingerprint=question.fingerprint)


def approves(question: Question) -> Answer | None:
    """Approve a gate; stop at a review."""
    choice = Choice.APPROVE if Choice.APPROVE in question.answers else Choice.STOP
    return answered(choice)(question)


def declines(question: Question) -> Answer | None:
    """Reject a gate; stop at a review."""
    choice = Choice.REJECT if Choice.REJECT in question.answers else Choice.STOP
    return answered(choice)(question)


def nobody(_question: Question) -> Answer | None:
    """Nobody is there."""
    return None


def _quiet(_step: Step, _detail: str) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class Driver:
    """One world, one journal, one clock, and processes that come and go."""

    move: Move[Any]
    ports: Any
    comparisons: Comparisons
    runs: Runs = field(default_factory=MemoryRuns)
    clock: ManualClock = field(default_factory=ManualClock)
    approvers: Approvers = field(default_factory=Approvers)

    def tools(self, crash: StepCrashPoints | None = None) -> Tools:
        """The tools of a process."""
        return Tools(runs=self.runs, clock=self.clock, crash=crash or NoStepCrash(), approvers=self.approvers)

    def options(self, **changes: Any) -> RunOptions:
        """How a process goes on; it has a claim of its own."""
        usual: Mapping[str, Any] = {
            "who": "me",
            "holder": "cli",
            "patience_s": 60.0,
            "submit": self.comparisons.submit,
            "decide": approves,
            "tell": _quiet,
        }
        return RunOptions(**{**usual, **changes})

    def begin(self, request: Any, *, ports: Any = None, **changes: Any) -> RunRecord:
        """Plan a run of this request and journal it."""
        options = self.options(**changes)
        return begin(self.move, self.tools(), ports or self.ports, request, options, execute=True)

    def claim(
        self, run: str, crash: StepCrashPoints | None = None, *, ports: Any = None, **changes: Any
    ) -> Run[Any]:
        """A process claims a run, whoever has it."""
        options = self.options(**changes)
        record = self.runs.find(run)
        tools = self.tools(crash)
        return claim(self.move, tools, ports or self.ports, record, options, take_over=True)

    def go_on(
        self, run: str, crash: StepCrashPoints | None = None, *, ports: Any = None, **changes: Any
    ) -> Progress:
        """One process, as far as it goes."""
        return drive(self.claim(run, crash, ports=ports, **changes))

    def roll_back(self, run: str, to: str = "start", *, ports: Any = None) -> bool:
        """From now on the run goes back; False where nothing was begun, and it is closed."""
        return take_back(self.claim(run, ports=ports), to)


def name_of(runs: Runs, run: str, key: str) -> str:
    """What a step does, such as ``replace 2``: kind and subject, behind ``back`` in a rollback."""
    plans = [plan_from(runs.find(run).plan)]
    plans += [
        plan_from(canonical(each.body["plan"]))
        for each in runs.events(run)
        if each.kind is EventKind.ROLLBACK_BEGUN
    ]
    step = next(found for plan in reversed(plans) if (found := plan.step(key)) is not None)
    words = f"{step.kind} {step.subject}".strip()
    return f"back {words}" if key.startswith("back ") else words


def where(progress: Progress) -> tuple[str, str]:
    """How a process ended, and the kind and subject of the step at which it did."""
    match progress:
        case Stopped(step=step, waits=waits, checked=checked):
            late = waits or checked.outcome is Outcome.WAIT
            how = "waiting" if late else "declined" if checked.outcome is Outcome.DECLINED else "failed"
            return how, f"{step.kind} {step.subject}".strip()
        case Asks(step=step):
            return "asks", f"{step.kind} {step.subject}".strip()
        case Paused(step=step):
            return "paused", f"{step.kind} {step.subject}".strip()
        case Ended(closing=closing):
            return closing.state.value, ""
        case _:
            raise AssertionError(progress)


def detail(progress: Progress) -> str:
    """What was said at the step where a process stopped."""
    assert isinstance(progress, Stopped), progress
    return "; ".join((*progress.checked.sentences, progress.checked.detail))
