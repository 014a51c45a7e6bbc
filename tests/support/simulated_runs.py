"""A simulated group whose moves the one engine drives: ports in memory, processes, people and a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from groupshift.domain.modes import MemberKind
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import Json, RunState, SparkJob
from groupshift.engine.begin import begin, claim
from groupshift.engine.move import Move, Run, RunOptions, Sealing, Tools
from groupshift.engine.progress import Progress
from groupshift.engine.questions_and_approvers import Answer, Approvers, Question
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import drive
from groupshift.moves.protocol.facts import ProtocolPorts, ProtocolRequest
from groupshift.moves.protocol.move import ProtocolMove
from groupshift.ports.clock import CrashPoint, NoStepCrash, StepCrashPoints
from groupshift.ports.group import BrokerSide, GroupSide, GroupTerms
from groupshift.ports.runs import Runs
from groupshift_testing.clock import ManualClock
from groupshift_testing.evidence import MemoryEvidence, MemoryProof
from groupshift_testing.world import Killed, MemoryFleet, World
from support.memory_runs import MemoryRuns
from support.simulated_protocol import make_protocol_group

TERMS = GroupTerms(patience_s=5, settle_s=20)


@dataclass(slots=True)
class At:
    """Calls back once when a crash point of a step is reached: ``"canary/replace_members after_act"``."""

    points: dict[str, Callable[[], None]] = field(default_factory=dict)

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        name = step.removeprefix("back ").partition(" ")[2]
        self.points.pop(f"{name} {point.value}", lambda: None)()


class KillEach:
    """Ends a process at each crash point of each step that none was ended at yet."""

    def __init__(self) -> None:
        self.points: set[tuple[str, CrashPoint]] = set()

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        if (step, point) not in self.points:
            self.points.add((step, point))
            raise Killed


class KillAt:
    """Ends the process at one point of one step."""

    def __init__(self, step: str, point: CrashPoint = CrashPoint.AFTER_JOURNAL) -> None:
        self.at = (step, point)

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        if (step.partition(" ")[2], point) == self.at:
            raise Killed


def until_it_ends(go: Callable[[], object]) -> object:
    """One process after the other."""
    while True:
        try:
            return go()
        except Killed:
            continue


@dataclass(slots=True)
class Processes:
    """One simulated group, its journal, and the processes that drive its runs.

    ``choices`` are what a person answers, by gate's name or answer; ``fails`` are jobs of Spark that fail."""

    clock: ManualClock
    world: World
    fleet: MemoryFleet
    evidence: MemoryEvidence
    proof: MemoryProof
    runs: Runs = field(default_factory=MemoryRuns)
    move: Move[Any] = field(default_factory=ProtocolMove)
    terms: GroupTerms = TERMS
    approvers: Approvers = field(default_factory=Approvers)
    declines: frozenset[str] = frozenset()
    accepts: bool = False
    asked: list[Question] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    sealed: list[RunState] = field(default_factory=list)
    seals: bool = True

    def ports(self) -> Any:
        """What a process works with."""
        side = GroupSide(groups=self.world, fleets=lambda _driver: self.fleet)
        return ProtocolPorts(
            side=BrokerSide(side), evidence=self.evidence, ledger=self.world, terms=self.terms
        )

    def tools(self, crash: StepCrashPoints | None = None) -> Tools:
        """The engine's tools in a process."""
        more: dict[str, Any] = {"seal": self._seal} if self.seals else {}
        return Tools(
            runs=self.runs, clock=self.clock, crash=crash or NoStepCrash(), approvers=self.approvers, **more
        )

    def _seal(self, _run: str, closing: Json) -> Sealing:
        def write() -> None:
            self.sealed.append(RunState(closing["state"]))

        return Sealing(body={"sha256": "ab"}, write=write)

    def submit(self, job: SparkJob) -> None:
        """Compare in Python what Spark would."""
        self.proof.run(job)

    def decide(self, question: Question) -> Answer | None:
        """A person: says yes to a plan unless it is declined, and goes on in doubt where ``accepts`` says
        so."""
        self.asked.append(question)
        name = question.gate.partition(" ")[2]
        if Choice.APPROVE in question.answers:
            choice = Choice.REJECT if name in self.declines else Choice.APPROVE
        elif self.accepts and Choice.GO_ON in question.answers:
            choice = Choice.GO_ON
        else:
            choice = Choice.ROLL_BACK if Choice.ROLL_BACK in question.answers else Choice.STOP
        return Answer(choice=choice, who="bob", fingerprint=question.fingerprint)

    def options(self, **more: Any) -> RunOptions:
        """How a process goes on."""
        usual = {
            "who": "ann",
            "holder": "cli-1",
            "waits_for_people": True,
            "every_s": 1.0,
            "submit": self.submit,
            "decide": self.decide,
            "tell": lambda _step, text: self.told.append(text),
        }
        return RunOptions(**{**usual, **more})

    def request(self, **values: Any) -> Any:
        """A request for this group."""
        return ProtocolRequest(**{"group": self.world.group, "soak": 0, **values})

    def begin(self, *, execute: bool = True, origin: str = "", requester: str = "", **values: Any) -> str:
        """Plan a run and return its name."""
        request = self.request(**values)
        made = begin(
            self.move,
            self.tools(),
            self.ports(),
            request,
            self.options(requester=requester),
            execute=execute,
            origin=origin,
        )
        return made.run

    def claim(self, name: str, crash: StepCrashPoints | None = None, **more: Any) -> Run[Any]:
        """A process claims a run."""
        how = {key: more.pop(key) for key in ("anew", "take_over") if key in more}
        record = self.runs.find(name)
        return claim(self.move, self.tools(crash), self.ports(), record, self.options(**more), **how)

    def drive(self, name: str, crash: StepCrashPoints | None = None, **more: Any) -> Progress:
        """A process drives a run as far as it goes."""
        return drive(self.claim(name, crash, **more))

    def roll_back(
        self, name: str, crash: StepCrashPoints | None = None, *, to: str = "", **more: Any
    ) -> Progress:
        """A process takes a run back, as far as ``to`` (empty: as far as the move goes by itself)."""
        run = self.claim(name, crash, **{"holder": "back", **more})
        begin_roll_back(run, to or self.move.back_to[0])
        return drive(run)

    def state(self, name: str) -> RunState:
        """Where a run stands."""
        return self.runs.find(name).state

    def kinds(self) -> list[MemberKind]:
        """What runs in each place."""
        return [occupant.kind for _, occupant in sorted(self.world.places.items())]


def make_processes(kind: MemberKind, members: int = 3) -> Processes:
    """A healthy group of one protocol."""
    bench = make_protocol_group(kind, members)
    return Processes(
        clock=bench.clock,
        world=bench.world,
        fleet=bench.fleet,
        evidence=bench.evidence,
        proof=bench.proof,
    )
