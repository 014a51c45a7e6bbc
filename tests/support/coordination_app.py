"""The move ``coordination`` over real servers, opened as the command line opens it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groupshift.bootstrap.moves import Place, journal, opened, request_of_job, submit, tools_of
from groupshift.domain.group import GroupView
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import Findings, RunState, SparkJob, Step
from groupshift.domain.verdict import Verdict
from groupshift.engine.begin import assess, begin, claim
from groupshift.engine.move import Run, RunOptions, Tools
from groupshift.engine.progress import Ended, Progress, Stopped
from groupshift.engine.questions_and_approvers import Answer, Question
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import drive
from groupshift.engine.run_end import Closing
from groupshift.engine.status import RunStatus, status_of
from groupshift.moves.coordination.facts import CoordinationPorts, CoordinationRequest
from groupshift.moves.coordination.move import CoordinationMove
from groupshift.ports.runs import RunRecord
from groupshift.settings import Settings
from support.disk_evidence import DiskEvidence, DiskProof


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """What every rule says of a group, and whether a run may begin."""

    view: GroupView
    findings: Findings
    ready: bool

    def failed(self) -> dict[str, str]:
        """What did not pass, by rule."""
        return {each.rule: each.with_remedy for each in self.findings if each.verdict is not Verdict.PASS}


@dataclass(slots=True)
class At:
    """Calls back once where a step begins (``"snapshot after canary"``: kind and subject), where a phase
    begins or its first step waits, and where a job is submitted (``"job after canary"``), so that tests can
    interfere."""

    at: dict[str, Callable[[], None]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def tell(self, step: Step, text: str) -> None:
        """See `RunOptions`."""
        self.lines.append(f"{step.key} {text}")
        self.reached(step.phase)
        if text == "begins":
            self.reached(f"{step.kind} {step.subject}".strip())

    def reached(self, name: str) -> None:
        """Call back."""
        self.at.pop(name, lambda: None)()


@dataclass(slots=True)
class GroupApp:
    """One group's move: its tools and ports. ``choices`` are answers other than yes, by the gate's name."""

    tools: Tools
    ports: CoordinationPorts
    submits: Callable[[SparkJob], None]
    move: CoordinationMove = field(default_factory=CoordinationMove)
    at: At = field(default_factory=At)
    choices: dict[str, Choice] = field(default_factory=dict)

    def request(self, group: str, **values: Any) -> CoordinationRequest:
        """A request without soak and watch."""
        return CoordinationRequest(**{"group": group, "soak": 0, "canary_watch": 0, **values})

    def assess(self, group: str, **values: Any) -> Assessed:
        """What every rule says now."""
        request = self.request(group, **values)
        facts, findings = assess(self.move, self.tools, self.ports, request)
        obstacles = self.move.obstacles(request, facts, findings)
        return Assessed(view=facts.facts.view, findings=findings, ready=not obstacles)

    def options(self, holder: str, **more: Any) -> RunOptions:
        """How a process goes on."""
        usual = {"waits_for_people": True, "every_s": 0.5, "tell": self.at.tell, "decide": self.decide}
        return RunOptions(who="test", holder=holder, submit=self.submit, **{**usual, **more})

    def submit(self, job: SparkJob) -> None:
        """Compare, behind whoever interferes."""
        asked = dict(zip(job.arguments[::2], job.arguments[1::2], strict=True))
        rules = json.loads(Path(asked["--rules"]).read_text())
        self.at.reached(f"job {rules['moment']} {rules['phase']}")
        self.submits(job)

    def decide(self, question: Question) -> Answer | None:
        """Approve a plan, never a doubt; leave out what is optional."""
        name = question.gate.partition(" ")[2]
        usual = Choice.REJECT if question.optional else Choice.APPROVE
        choice = self.choices.get(name, usual)
        if choice not in question.answers:
            return None
        return Answer(choice=choice, who="test", fingerprint=question.fingerprint)

    def plan(self, group: str, *, origin: str = "", **values: Any) -> str:
        """A run that waits for its approval. Raises `Rejected` where none may begin."""
        request, options = self.request(group, **values), self.options("plan")
        return begin(self.move, self.tools, self.ports, request, options, execute=True, origin=origin).run

    def record(self, run: str) -> RunRecord:
        """The run as the journal has it."""
        return self.tools.runs.find(run)

    def state(self, run: str) -> RunState:
        """Where it stands."""
        return self.record(run).state

    def status(self, run: str) -> RunStatus:
        """How far it is."""
        return status_of(self.tools.runs, run)

    def claim(self, run: str, holder: str = "test", **more: Any) -> Run[CoordinationPorts]:
        """A process takes the run, whoever has it."""
        record, options = self.record(run), self.options(holder, **more)
        return claim(self.move, self.tools, self.ports, record, options, take_over=True)

    def forward(self, run: str, **more: Any) -> Progress:
        """One process, as far as it goes."""
        return drive(self.claim(run, **more))

    def back(self, run: str, to: str = "", **more: Any) -> Progress:
        """One process takes the run back."""
        claimed = self.claim(run, "back", **more)
        begin_roll_back(claimed, to or self.move.back_to[0])
        return drive(claimed)

    def failed(self, run: str) -> list[str]:
        """Every finding that failed, as the journal has it."""
        bad = [each for event in self.tools.runs.events(run) for each in event.body.get("findings", ())]
        return [f"{each['rule']}: {each['reason']}" for each in bad if each["verdict"] == Verdict.FAIL]

    def folder(self, run: str, name: str) -> str:
        """The folder of the last whole snapshot of this name."""
        record = self.record(run)
        reader = Run.reader(self.move, self.tools, self.ports, record.run)
        return reader.snapshot(name).folder


def closed(progress: Progress) -> Closing:
    """How a run ended. Fails where it did not."""
    if isinstance(progress, Ended):
        return progress.closing
    assert isinstance(progress, Stopped), progress
    assert progress.closing is not None, progress
    return progress.closing


@contextmanager
def coordination_app(settings: Settings, *, spark: bool = True) -> Iterator[GroupApp]:
    """The move at this place; connections are closed. Without ``spark`` this process makes the essential
    comparisons."""
    move, request = CoordinationMove(), CoordinationRequest(group="any")
    with journal(settings) as runs, opened(move, Place(settings=settings), request) as found:
        app = GroupApp(tools=tools_of(runs, settings), ports=found, submits=submit(settings), move=move)
        if not spark:
            evidence = DiskEvidence(settings.evidence.root)
            proof = DiskProof(evidence)
            app.ports = replace(found, evidence=evidence)
            app.submits = lambda job: proof.run(request_of_job(job))
        yield app
