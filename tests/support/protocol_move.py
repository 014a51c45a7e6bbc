"""The move ``protocol`` driven over a real fleet: settings, a run, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groupshift.bootstrap.moves import Place, journal, opened, submit, tools_of
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import Findings, SparkJob
from groupshift.engine.begin import assess, begin, claim
from groupshift.engine.move import Run, RunOptions, Tools
from groupshift.engine.progress import Ended, Progress
from groupshift.engine.questions_and_approvers import Answer, Question
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import drive
from groupshift.moves.protocol.facts import ProtocolPorts, ProtocolRequest
from groupshift.moves.protocol.move import ProtocolMove
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import RunRecord
from groupshift.settings import Settings, parse
from groupshift_sandbox.processes import wait_until
from support.disk_evidence import DiskEvidence, DiskProof
from support.protocol_fleet import PATIENCE_S, ProtocolFleet, patiently

SETTLE_S = 240
RUN_S = 600.0


def settings_of(fleet: ProtocolFleet, folder: Path, spark_submit: str = "") -> Settings:
    """Settings of a cluster without ZooKeeper; ``spark_submit`` is what is called as spark-submit."""
    told: dict[str, Mapping[str, Any]] = {
        "kafka": {"bootstrap_servers": fleet.bootstrap},
        "fleet": {"driver": "process", "socket": str(fleet.home.supervisor_socket)},
        "journal": {"url": f"sqlite:///{folder}/journal.db"},
        "evidence": {"root": str(folder / "evidence")},
        "spark": {"submit": spark_submit},
        "thresholds": {"patience_s": 150, "settle_s": SETTLE_S, "commit_interval_ms": 1000},
    }
    return parse(told)


def compared_here(settings: Settings) -> Callable[[SparkJob], None]:
    """What runs a comparison of two snapshots in this process instead of Spark's, which takes seconds for
    each."""
    proof = DiskProof(DiskEvidence(settings.evidence.root))

    def run(job: SparkJob) -> None:
        proof.run(job)

    return run


@dataclass(slots=True)
class Judged:
    """Calls back once when the judge after the act of a phase has looked."""

    after: dict[str, Callable[[], None]] = field(default_factory=dict)

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port `StepCrashPoints`."""
        phase, _, name = step.removeprefix("back ").partition(" ")[2].partition("/")
        if name == "judge after" and point is CrashPoint.AFTER_READ_BACK:
            self.after.pop(phase, lambda: None)()


@dataclass(slots=True)
class ProtocolRun:
    """One run and what drives it."""

    bench: ProtocolBench
    name: str

    def forward(self) -> Progress:
        """To its end; a run that a silent server stopped is gone on with, as people are told to."""
        return patiently(lambda: drive(self.bench.claim(self.name, "there")), RUN_S)

    def back(self) -> Progress:
        """All the way back, as somebody asks for it afterwards."""

        def walk() -> Progress:
            run = self.bench.claim(self.name, "back")
            begin_roll_back(run, self.bench.move.back_to[0])
            return drive(run)

        return patiently(walk, RUN_S)


@dataclass(slots=True)
class ProtocolBench:
    """Everything that a test of the move touches."""

    fleet: ProtocolFleet
    settings: Settings
    tools: Tools
    ports: ProtocolPorts
    submit: Callable[[SparkJob], None]
    judged: Judged
    move: ProtocolMove = field(default_factory=ProtocolMove)

    def request(self, to: Protocol, way: Way = Way.ONLINE, **values: Any) -> ProtocolRequest:
        """A request for this fleet's group."""
        given = {"group": self.fleet.options.group, "to": to, "offline": way is Way.OFFLINE, "soak": 0}
        return ProtocolRequest(**{**given, **values})

    def assess(self, request: ProtocolRequest) -> Findings:
        """What every rule says now."""
        return patiently(lambda: assess(self.move, self.tools, self.ports, request))[1]

    def ready(self, request: ProtocolRequest, findings: Findings) -> bool:
        """Whether a run may begin."""
        return not self.move.obstacles(request, None, findings)  # type: ignore[arg-type]

    def await_ready(self, request: ProtocolRequest) -> None:
        """Wait until assess has nothing against it; a failure names what it has."""

        def ready() -> bool:
            return self.ready(request, self.assess(request))

        wait_until(ready, PATIENCE_S, "the group is ready", every_s=0.5)

    def begin(self, request: ProtocolRequest) -> RunRecord:
        """A run that waits for its approval. Raises `Rejected` where none may begin."""
        options = self.options("test")
        return patiently(lambda: begin(self.move, self.tools, self.ports, request, options, execute=True))

    def run(self, to: Protocol, way: Way = Way.ONLINE, **values: Any) -> ProtocolRun:
        """A planned run, not yet begun."""
        request = self.request(to, way, **values)
        self.await_ready(request)
        return ProtocolRun(bench=self, name=self.begin(request).run)

    def options(self, holder: str, **more: Any) -> RunOptions:
        """How a process goes on: it approves plans, never a doubt."""
        usual = {"waits_for_people": True, "every_s": 0.5, "submit": self.submit, "decide": agreed}
        return RunOptions(who="test", holder=holder, **{**usual, **more})

    def claim(self, name: str, holder: str, **more: Any) -> Run[ProtocolPorts]:
        """A process claims a run."""
        record, options = self.tools.runs.find(name), self.options(holder, **more)
        return claim(self.move, self.tools, self.ports, record, options, take_over=True)


def agreed(question: Question) -> Answer | None:
    """Answer as ``--yes`` does."""
    if Choice.APPROVE not in question.answers:
        return None
    return Answer(choice=Choice.APPROVE, who="test", fingerprint=question.fingerprint)


def ended(progress: Progress) -> tuple[str, str, str]:
    """State, verdict and reason of a run at its end; fails where it stopped before."""
    assert isinstance(progress, Ended), progress
    closing = progress.closing
    return closing.state.value, closing.verdict.value, closing.reason


@contextmanager
def bench_of(fleet: ProtocolFleet, folder: Path, spark_submit: str = "") -> Iterator[ProtocolBench]:
    """The move over this fleet, proven by Spark where ``spark_submit`` names it, else by a comparison in this
    process; connections are closed."""
    settings, judged, move = settings_of(fleet, folder, spark_submit), Judged(), ProtocolMove()
    request = ProtocolRequest(group=fleet.options.group, to=Protocol.CONSUMER)
    with journal(settings) as runs, opened(move, Place(settings=settings), request) as ports:
        yield ProtocolBench(
            fleet=fleet,
            settings=settings,
            tools=replace(tools_of(runs, settings), crash=judged),
            ports=ports,
            submit=submit(settings) if spark_submit else compared_here(settings),
            judged=judged,
        )
