"""The move ``protocol`` on the one engine over a real fleet: as `support.protocol_move`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groupshift.bootstrap.moves import Place, journal, opened, tools_of
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.judgement import Assessment, Closing
from groupshift.domain.plan import Phase
from groupshift.domain.reactions import Choice
from groupshift.domain.run import SparkJob
from groupshift.domain.verdict import Verdict
from groupshift.engine.begin import assess, begin, claim
from groupshift.engine.move import Answer, Question, Run, RunOptions, Tools
from groupshift.engine.progress import Ended, Progress
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import drive
from groupshift.moves.protocol.facts import ProtocolPorts, ProtocolRequest
from groupshift.moves.protocol.move import ProtocolMove
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import RunRecord
from groupshift.ports.spark_jobs import ProofRequest
from groupshift_sandbox.processes import wait_until
from support.disk_evidence import DiskEvidence, DiskProof
from support.protocol_fleet import PATIENCE_S, ProtocolFleet, patiently
from support.protocol_move import RUN_S, settings_of
from support.simulated_move import Watcher


@dataclass(slots=True)
class RunsApp:
    """What is asked of a move before it is begun, and what drives it then."""

    tools: Tools
    ports: ProtocolPorts
    proof: DiskProof
    watcher: Watcher
    move: ProtocolMove = field(default_factory=ProtocolMove)

    def assess(self, request: ProtocolRequest) -> Assessment:
        """What every rule says now."""
        facts, findings = assess(self.move, self.tools, self.ports, request)
        return Assessment(view=facts.facts.view, findings=findings)

    def plan(self, request: ProtocolRequest) -> RunRecord:
        """A run that waits for its approval. Raises `Rejected` where none may begin."""
        return begin(self.move, self.tools, self.ports, request, self.options("test"), execute=True)

    def options(self, holder: str) -> RunOptions:
        """How a process goes on: it approves, and compares here."""
        return RunOptions(
            who="test", holder=holder, waits_for_people=True, every_s=0.5, submit=self._submit, decide=_agreed
        )

    def _submit(self, job: SparkJob) -> None:
        self.proof.run(ProofRequest(job=job.job, arguments=job.arguments, output=job.output))

    def claim(self, name: str, holder: str) -> Run[ProtocolPorts]:
        """A process claims a run."""
        record = self.tools.runs.find(name)
        return claim(self.move, self.tools, self.ports, record, self.options(holder), take_over=True)

    def reached(self, step: str, point: CrashPoint) -> None:
        """Call back whoever waits for a judge that has looked, in the words of the former engine."""
        phase, _, judged = step.removeprefix("back ").partition(" ")[2].partition("/")
        if judged.startswith("judge ") and point is CrashPoint.AFTER_READ_BACK:
            line = f"judged {phase} {judged.removeprefix('judge ')} {Verdict.PASS}"
            self.watcher.at.pop(line, lambda: None)()


def _agreed(question: Question) -> Answer | None:
    """As ``--yes``: approves a plan, never a doubt."""
    if Choice.APPROVE not in question.answers:
        return None
    return Answer(choice=Choice.APPROVE, who="test", fingerprint=question.fingerprint)


@dataclass(slots=True)
class ProtocolRun:
    """One run and what drives it."""

    app: RunsApp
    name: str

    def forward(self) -> Closing:
        """To its end; a run that a silent server ended is gone on with, as people are told to."""
        return _closing(patiently(lambda: drive(self.app.claim(self.name, "test")), RUN_S), self._phase())

    def back(self) -> Closing:
        """All the way back, as somebody asks for it afterwards."""

        def walk() -> Progress:
            run = self.app.claim(self.name, "back")
            begin_roll_back(run, self.app.move.back_to[0])
            return drive(run)

        return _closing(patiently(walk, RUN_S), self._phase())

    def _phase(self) -> Phase:
        return Phase(self.app.tools.runs.find(self.name).state.value)


def _closing(progress: Progress, phase: Phase) -> Closing:
    if isinstance(progress, Ended):
        closing = progress.closing
        return Closing(phase=Phase(closing.state.value), verdict=closing.verdict, reason=closing.reason)
    return Closing(phase=phase, verdict=Verdict.FAIL, reason=str(progress))


@dataclass(slots=True)
class RunsBench:
    """Everything that a test of the move touches."""

    fleet: ProtocolFleet
    app: RunsApp
    watcher: Watcher

    def request(self, to: Protocol, way: Way = Way.ONLINE, **values: Any) -> ProtocolRequest:
        """A request for this fleet's group."""
        given = {"group": self.fleet.options.group, "to": to, "offline": way is Way.OFFLINE, "soak": 0}
        return ProtocolRequest(**{**given, **values})

    def await_ready(self, request: ProtocolRequest) -> None:
        """Wait until assess has nothing against it; a failure names what it has."""
        bad: list[str] = []

        def ready() -> bool:
            found = patiently(lambda: self.app.assess(request))
            bad[:] = [f"{each.rule} {each.verdict}: {each.reason}" for each in found.findings]
            return found.ready

        wait_until(ready, PATIENCE_S, "the group is ready", every_s=0.5)

    def run(self, to: Protocol, way: Way = Way.ONLINE, **values: Any) -> ProtocolRun:
        """A planned run, not yet begun."""
        request = self.request(to, way, **values)
        self.await_ready(request)
        return ProtocolRun(app=self.app, name=patiently(lambda: self.app.plan(request)).run)


@contextmanager
def runs_bench_of(fleet: ProtocolFleet, folder: Path) -> Iterator[RunsBench]:
    """The move over this fleet, with the essential comparisons in this process; connections are closed."""
    settings, watcher = settings_of(fleet, folder), Watcher()
    request = ProtocolRequest(group=fleet.options.group, to=Protocol.CONSUMER)
    with journal(settings) as runs, opened(ProtocolMove(), Place(settings=settings), request) as ports:
        evidence = DiskEvidence(settings.evidence.root)
        app = RunsApp(
            tools=tools_of(runs, settings),
            ports=replace(ports, evidence=evidence),
            proof=DiskProof(evidence),
            watcher=watcher,
        )
        app.tools = replace(app.tools, crash=app)
        yield RunsBench(fleet=fleet, app=app, watcher=watcher)
