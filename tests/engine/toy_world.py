"""Processes that drive the toy move, and the world around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toy_move.move import ToyMove, ToyRequest
from toy_move.target import Target, spark

from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import RunState, StepState
from groupshift.engine.begin import begin, claim
from groupshift.engine.move import Run, RunOptions, Tools
from groupshift.engine.progress import Progress
from groupshift.engine.questions_and_approvers import Answer, Approvers, Question
from groupshift.engine.run import drive
from groupshift.ports.clock import CrashPoint, NoStepCrash, StepCrashPoints
from groupshift.ports.runs import EventKind, RunRecord, Runs
from groupshift_testing.clock import ManualClock
from support.memory_runs import MemoryRuns

MOVED = {
    "colour": "green",
    "size": "2",
    "plugged": "yes",
    "started": "yes",
    "burned": "yes",
    "finish": "done",
    "lamp": "off",
    "scratch": "no",
    "owner": "ann",
    "items": "2",
}
BACK = {"colour": "red", "size": "0", "plugged": "no", "started": "no", "burned": "no", "lamp": "off"}


class Killed(BaseException):
    """The process ended here: nothing after this instruction happened."""


class KillOnce:
    """Ends the process at each point of each step that it did not end one at yet."""

    def __init__(self) -> None:
        self.killed: list[tuple[str, CrashPoint]] = []

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        if (step, point) not in self.killed:
            self.killed.append((step, point))
            raise Killed


def yes(question: Question) -> Answer | None:
    """Approve, and go on where that is offered."""
    wanted = (Choice.APPROVE, Choice.GO_ON, Choice.STOP)
    choice = next(each for each in wanted if each in question.answers)
    return Answer(choice=choice, who="bob", fingerprint=question.fingerprint)


def no(question: Question) -> Answer | None:
    """Decline."""
    choice = Choice.REJECT if Choice.REJECT in question.answers else Choice.STOP
    return Answer(choice=choice, who="carol", fingerprint=question.fingerprint)


def nobody(_question: Question) -> Answer | None:
    """Nobody is there."""
    return None


@dataclass
class World:
    """One toy target, one journal, one clock. ``plugs``: a person does at once what is asked for."""

    folder: Path
    runs: Runs = field(default_factory=MemoryRuns)
    clock: ManualClock = field(default_factory=ManualClock)
    move: ToyMove = field(default_factory=ToyMove)
    plugs: bool = True
    told: list[str] = field(default_factory=list)
    approvers: Approvers = field(default_factory=Approvers)

    def __post_init__(self) -> None:
        self.target = Target(file=self.folder / "toy.db", folder=self.folder / "evidence")
        self.target.make()

    def tools(self, crash: StepCrashPoints | None = None, **more: Any) -> Tools:
        """The tools of a process."""
        return Tools(
            runs=self.runs, clock=self.clock, crash=crash or NoStepCrash(), approvers=self.approvers, **more
        )

    def options(self, **more: Any) -> RunOptions:
        """How a process goes on; it has a holder of its own unless told otherwise."""
        usual = {"who": "ann", "holder": "cli", "submit": spark, "decide": yes, "tell": self._tell}
        return RunOptions(**{**usual, **more})

    def _tell(self, _step: object, text: str) -> None:
        self.told.append(text)
        if self.plugs and text.startswith("write "):
            _, value, _, name = text.split()
            self.target.write(name, value)

    def begin(self, **more: Any) -> RunRecord:
        """Plan a run."""
        request = more.pop("request", ToyRequest())
        options = self.options(**more.pop("options", {}))
        more.setdefault("execute", True)
        return begin(self.move, self.tools(), self.target, request, options, **more)

    def claim(self, name: str, crash: StepCrashPoints | None = None, **more: Any) -> Run[Target]:
        """A process claims a run."""
        how = {key: more.pop(key) for key in ("anew", "take_over") if key in more}
        tools = self.tools(crash, **({"seal": more.pop("seal")} if "seal" in more else {}))
        options = self.options(**more)
        return claim(self.move, tools, self.target, self.runs.find(name), options, **how)

    def drive(self, name: str, crash: StepCrashPoints | None = None, **more: Any) -> Progress:
        """A process drives a run as far as it goes."""
        return drive(self.claim(name, crash, **more))

    def drive_killed(self, name: str, kills: KillOnce, **more: Any) -> Progress:
        """Processes drive a run; each is killed at the next point that none was killed at."""
        while True:
            try:
                return self.drive(name, kills, **more)
            except Killed:
                continue

    def state(self, name: str) -> RunState:
        """Where a run stands."""
        return self.runs.find(name).state

    def end(self) -> dict[str, str]:
        """What is left: all values, but for the time of the start."""
        values = self.target.values()
        started = "yes" if values["started"] != "no" else "no"
        return {**values, "started": started, "items": str(self.target.items())}

    def watch_acts(self, name: str) -> list[tuple[str, int]]:
        """Assert of each act that it was journaled before, by the claim that makes it; returns the acts."""
        made: list[tuple[str, int]] = []

        def look(what: str, token: int) -> None:
            made.append((what, token))
            held = self.runs.held(name)
            assert held is not None
            assert held.token == token, "a former holder acts"
            intended = [each for each in self.runs.steps(name).values() if each.state is StepState.INTENDED]
            tokens = [each.token for each in intended]  # also of steps where former processes stopped
            assert tokens.count(token) == 1, what

        self.target.on_act = look
        return made

    def kinds(self, name: str, step: str = "") -> list[EventKind]:
        """The kinds of a run's events."""
        return [each.kind for each in self.runs.events(name) if not step or each.step == step]

    def record_of(self, name: str, step: str) -> Any:
        """The record of the step with this name, None where it has none."""
        found = [each for key, each in self.runs.steps(name).items() if key.partition(" ")[2] == step]
        return found[0] if found else None


def until(run: Run[Target], advance: Callable[[Run[Target]], Progress], stops: Iterable[type]) -> Progress:
    """Advance, sleeping as a process does, until one of these comes."""
    kinds = tuple(stops)
    for _ in range(500):
        progress = advance(run)
        if isinstance(progress, kinds):
            return progress
        run.tools.clock.sleep(1)
    raise AssertionError("the run never came there")
