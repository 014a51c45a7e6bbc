"""Moves of one or two steps, with handlers for one question, and the processes that drive them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import (
    PASSED,
    Checked,
    Outcome,
    RunState,
    Step,
    Target,
    make_plan,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.begin import begin, claim
from groupshift.engine.handlers import (
    Approve,
)
from groupshift.engine.move import Handler, Move, Run, RunOptions, Standing, Tools
from groupshift.engine.questions_and_approvers import Answer
from groupshift.engine.run import drive
from groupshift_testing.clock import ManualClock
from support.memory_runs import MemoryRuns

UNDO = Step(phase="p", kind="undo")
DO = Step(phase="p", kind="do", undo=UNDO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """A request of nothing."""

    name: str = "t"


class Act(Handler[list[str]]):
    """Writes its name into the list; looks what its script says, the last word again and again."""

    def __init__(self, *looks: Checked, allowed: Callable[[], Checked] = lambda: PASSED) -> None:
        self.looks, self._allowed = list(looks) or [PASSED], allowed
        self.standing = Standing.AS_MET

    def allowed(self, run, step):
        """See `Handler`."""
        return self._allowed()

    def stands(self, run, step, record):
        """See `Handler`."""
        return self.standing

    def intend(self, run, step):
        """See `Handler`."""
        return {"at": len(run.ports)}

    def act(self, run, step, intent):
        """See `Handler`."""
        run.ports.append(step.kind)
        return {"acts": run.ports.count(step.kind)}

    def check(self, run, step, record):
        """See `Handler`."""
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


class Small(Move[list[str]]):
    """A move of these steps."""

    name = "small"
    scope = "group"
    request = Nothing
    ports = list
    patience_s = 10

    def __init__(self, *steps: Step, **handlers: Handler[list[str]]) -> None:
        self.steps = steps
        usual: dict[str, Handler[list[str]]] = {"do": Act(), "undo": Act(), "approve": Approve()}
        self.handlers: Mapping[str, Handler[list[str]]] = {**usual, **handlers}

    def target(self, ports, request):
        """See `Move`."""
        return Target(kind="group", name=request.name, within="c")

    def look(self, ports, request):
        """See `Move`."""
        return tuple(ports)

    def assess(self, request, facts):
        """See `Move`."""
        return ()

    def plan(self, request, facts):
        """See `Move`."""
        return make_plan(self.steps)


class SmallRun:
    """One small move and its processes."""

    def __init__(self, move: Small) -> None:
        self.move, self.runs, self.clock, self.done = move, MemoryRuns(), ManualClock(), []
        options = RunOptions(who="ann", holder="cli")
        self.run = begin(move, self.tools(), self.done, Nothing(), options, execute=True).run

    def tools(self, crash: Any = None) -> Tools:
        """The tools of a process."""
        return Tools(runs=self.runs, clock=self.clock, **({"crash": crash} if crash else {}))

    def claim(self, crash: Any = None, **options: Any) -> Run[list[str]]:
        """A process."""
        made = RunOptions(**{"who": "ann", "holder": "cli", **options})
        return claim(self.move, self.tools(crash), self.done, self.runs.find(self.run), made)

    def drive(self, crash: Any = None, **options: Any) -> Any:
        """A process, as far as it goes."""
        return drive(self.claim(crash, **options))

    @property
    def state(self) -> RunState:
        """Where the run stands."""
        return self.runs.find(self.run).state


def chooses(choice: Choice, who: str = "bob") -> Callable[[Any], Answer]:
    """Somebody who always answers so."""
    return lambda question: Answer(choice=choice, who=who, fingerprint=question.fingerprint)


def said(outcome: Outcome, reason: str = "because", **more: Any) -> Checked:
    """What a look came to."""
    if outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.ERROR}:
        more["findings"] = (Finding(rule="S1", verdict=Verdict(outcome.value), reason=reason),)
    return Checked(outcome=outcome, detail=reason, **more)
