"""A whole environment in memory: simulated group, fleet, journal, evidence and proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from groupshift.application.environment import Environment
from groupshift.cli.runner import Runner, claim
from groupshift_testing.journal import MemoryJournal

from groupshift.bootstrap import App
from groupshift.domain.evidence import Moment
from groupshift.domain.judgement import ActOutcome, Closing, GateBrief, Judgement
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Choice, Gate, MoveRequest, Stage, Until, WayBack
from groupshift.ports.clock import CrashPoints, NoCrash
from groupshift.settings import Thresholds
from groupshift_testing.clock import ManualClock
from groupshift_testing.evidence import MemoryEvidence, MemoryProof
from groupshift_testing.world import MemoryFleet, MemoryModeSwitch, World


@dataclass(slots=True)
class Watcher:
    """A listener that calls back at named points, so that tests can interfere."""

    at: dict[str, Callable[[], None]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def _say(self, line: str) -> None:
        self.lines.append(line)
        self.at.pop(line, lambda: None)()

    def stage(self, stage: Stage) -> None:
        self._say(f"stage {stage.name}")

    def doing(self, text: str) -> None:
        self._say(text)

    def acted(self, stage: Stage, outcome: ActOutcome) -> None:
        self._say(f"acted {stage.name} {outcome.state}")

    def judged(self, stage: Stage, moment: Moment, judged: Judgement) -> None:
        self._say(f"judged {stage.name} {moment} {judged.verdict}")

    def ended(self, stage: Stage) -> None:
        self._say(f"ended {stage.name}")


@dataclass(slots=True)
class Bench:
    """Everything a test touches; ``env`` may be replaced to simulate another process."""

    clock: ManualClock
    world: World
    fleet: MemoryFleet
    journal: MemoryJournal
    evidence: MemoryEvidence
    proof: MemoryProof
    watcher: Watcher = field(default_factory=Watcher)
    last_choice: Choice = Choice.KEEP
    asked: list[GateBrief] = field(default_factory=list)

    def app(self, crash: CrashPoints | None = None) -> App:
        """A fresh App over the same outside world, as a new process would have it."""
        return App(self.environment(crash))

    def environment(self, crash: CrashPoints | None = None) -> Environment:
        """What that App works with."""
        return Environment(
            groups=self.world,
            mode=MemoryModeSwitch(self.world),
            fleets=lambda _driver: self.fleet,
            evidence=self.evidence,
            ledger=self.world,
            journal=self.journal,
            proof=self.proof,
            clock=self.clock,
            job="validate.py",
            thresholds=Thresholds(patience_s=5, settle_s=20),
            crash=crash or NoCrash(),
        )

    def request(self, **values: object) -> MoveRequest:
        """A request for this group."""
        given = {"group": self.world.group, "execute": True, "actor": "ann", "run": "run-1", "soak_s": 3}
        return MoveRequest(**{**given, **values})

    def decide(self, brief: GateBrief) -> Choice:
        """Approve every plan and toggle, never a doubt; at the last gate ``last_choice``."""
        self.asked.append(brief)
        answers = {Gate.FINALISE: self.last_choice, Gate.REVIEW: Choice.REJECT}
        return answers.get(brief.gate, Choice.APPROVE)

    def runner(self, migration: str, run: str, crash: CrashPoints | None = None) -> Runner:
        """A runner as a fresh process would start it."""
        app = self.app(crash)
        return Runner(
            app=app,
            claimed=claim(app, migration, run, "ann"),
            decide=self.decide,
            listener=self.watcher,
            clock=self.clock,
            settle_s=20,
        )

    def plan(self, **values: object) -> str:
        """Plan a migration and return its id."""
        return self.app().plan(self.request(**values)).migration

    def move(self, until: Until = Until.TOGGLE, run: str = "cli-1", **values: object) -> tuple[str, Closing]:
        """Plan and run forward."""
        migration = self.plan(until=until, **values)
        return migration, self.runner(migration, run).forward()

    def roll_back(self, migration: str, to: WayBack = WayBack.OLD_MEMBERS, run: str = "back-1") -> Closing:
        """Take it back in a run of its own."""
        return self.runner(migration, run).back(to)

    def kinds(self) -> list[MemberKind]:
        """What runs in each place."""
        return [occupant.kind for _, occupant in sorted(self.world.places.items())]


def make_bench(kind: MemberKind = MemberKind.OLD, members: int = 3) -> Bench:
    """A bench with a healthy group whose members consume a little whenever somebody sleeps."""
    clock = ManualClock()
    return bench_of(clock, World.of(clock, kind, members))


def bench_of(clock: ManualClock, world: World) -> Bench:
    """A bench over this world, in which a little happens whenever somebody sleeps."""
    clock.on_sleep.append(lambda _seconds: world.tick(1))
    evidence = MemoryEvidence()
    return Bench(
        clock=clock,
        world=world,
        fleet=MemoryFleet(world),
        journal=MemoryJournal(),
        evidence=evidence,
        proof=MemoryProof(evidence),
    )
