"""The toy move: its request, facts, rules, plan, handlers and rollback."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from groupshift.domain.requests import option
from groupshift.domain.run import (
    IRREVERSIBLE,
    PASSED,
    Checked,
    Findings,
    Instruction,
    Json,
    OnDifference,
    Outcome,
    Plan,
    RunState,
    SparkJob,
    Step,
    StepRecord,
    StepState,
    Target,
    make_plan,
    make_rollback,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.handlers import Approve, Compare, Judge, Reading, Rehearse, Soak, TakeSnapshot
from groupshift.engine.move import Aspects, Handler, Move, Run, Snapshot, Standing, undo_of
from groupshift.engine.questions_and_approvers import Section
from toy_move.target import Target as File
from toy_move.target import digest_of

SETTLES_MS = 5_000
CHANGES = {"colour", "size", "plugged"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the file holds."""

    values: Mapping[str, str]
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyRequest:
    """Which file, in which cluster, and the wanted colour."""

    name: str = option("Name of the toy.", default="toy")
    cluster: str = option("Its cluster.", default="c")
    colour: str = option("Wanted colour.", default="green")
    file: str = option("The SQLite file.", default="")


class SetValue(Handler[File]):
    """Writes a value; reversible."""

    def wanted(self, run: Run[File], step: Step) -> str:
        """The value to write: the plan's, or what an earlier step counted."""
        if "counted_by" in step.args:
            return str(run.records[key_of(run.plan, step.args["counted_by"])].result["count"])
        return str(step.args["value"])

    def intend(self, run: Run[File], step: Step) -> Json:
        """Keep the former value, the first one where it is done again."""
        known = run.records.get(step.key)
        now = run.ports.values()[step.args["name"]]
        former = known.intent["former"] if known is not None and known.intent else now
        return {"former": former, "met": now, "value": self.wanted(run, step)}

    def stands(self, run: Run[File], step: Step, record: StepRecord) -> Standing:
        """By what is there."""
        now = run.ports.values()[step.args["name"]]
        if now == record.intent["value"]:
            return Standing.MADE
        return Standing.AS_MET if now == record.intent["met"] else Standing.OTHER

    def act(self, run: Run[File], step: Step, intent: Json) -> Json:
        """Write it, under the fence."""
        run.hold(step)
        run.ports.act(step.args["name"], intent["value"], run.token)
        return {"written": intent["value"]}

    def check(self, run: Run[File], step: Step, record: StepRecord) -> Checked:
        """Read it back."""
        now = run.ports.values()[step.args["name"]]
        if now == record.intent["value"]:
            return PASSED
        return failed("T01", f"{step.args['name']} is {now}, not {record.intent['value']}")


class Burn(SetValue):
    """Writes what cannot be undone."""

    touches = True


class Unset(SetValue):
    """Undoes a written value."""

    def wanted(self, run: Run[File], step: Step) -> str:
        """The value of before the step that it undoes."""
        return str(run.records[step.undoes].intent["former"])


class Start(SetValue):
    """Starts something that settles five seconds later."""

    def wanted(self, run: Run[File], step: Step) -> str:
        """When it was started, as the file tells it."""
        return str(run.now())

    def stands(self, run: Run[File], step: Step, record: StepRecord) -> Standing:
        """Started is started, whenever that was."""
        return Standing.AS_MET if run.ports.values()["started"] == "no" else Standing.MADE

    def act(self, run: Run[File], step: Step, intent: Json) -> Json:
        """Start it once."""
        run.hold(step)
        if run.ports.values()["started"] == "no":
            run.ports.act("started", intent["value"], run.token)
        return {}

    def check(self, run: Run[File], step: Step, record: StepRecord) -> Checked:
        """It needs its time."""
        left = int(run.ports.values()["started"]) + SETTLES_MS - run.now()
        return PASSED if left <= 0 else Checked(outcome=Outcome.WAIT, detail="it starts")


class AskPerson(Handler[File]):
    """Lets a person write a value."""

    def intend(self, run: Run[File], step: Step) -> Json:
        """Keep what is met."""
        return {"former": run.ports.values()[step.args["name"]]}

    def stands(self, run: Run[File], step: Step, record: StepRecord) -> Standing:
        """Done, or still to be done."""
        return Standing.MADE if self._done(run, step) else Standing.AS_MET

    def act(self, run: Run[File], step: Step, intent: Json) -> Instruction:
        """Say what to do."""
        return Instruction(text=f"write {step.args['value']} into {step.args['name']}")

    def check(self, run: Run[File], step: Step, record: StepRecord) -> Checked:
        """See whether it was done."""
        if self._done(run, step):
            return PASSED
        detail = f"a person has to write {step.args['value']} into {step.args['name']}"
        return Checked(outcome=Outcome.PERSON, detail=detail)

    def _done(self, run: Run[File], step: Step) -> bool:
        return run.ports.values()[step.args["name"]] == step.args["value"]


class Count(Handler[File]):
    """Counts the items."""

    def act(self, run: Run[File], step: Step, intent: Json) -> Json:
        """Count."""
        return {"count": run.ports.items()}

    def check(self, run: Run[File], step: Step, record: StepRecord) -> Checked:
        """A count is a count."""
        return PASSED


class Agree(Handler[File]):
    """Finds that somebody added an item since they were counted, and goes back to the count."""

    def allowed(self, run: Run[File], step: Step) -> Checked:
        """Before anything rests on the count."""
        return self._agrees(run, step)

    def check(self, run: Run[File], step: Step, record: StepRecord) -> Checked:
        """And once more."""
        return self._agrees(run, step)

    def _agrees(self, run: Run[File], step: Step) -> Checked:
        counted, now = run.records[key_of(run.plan, "prepare/count")].result["count"], run.ports.items()
        if counted == now:
            return PASSED
        key = key_of(run.plan, "prepare/count")
        return Checked(outcome=Outcome.WAIT, detail=f"{counted} items are {now} now", redo_from=key)


class Ready(Handler[File]):
    """The go/no-go: asked by each process until something was burned."""

    def check(self, run: Run[File], step: Step, record: StepRecord) -> Checked:
        """Everything that was prepared is there."""
        values = run.ports.values()
        if values["lamp"] == "unclear":
            return Checked(outcome=Outcome.INCONCLUSIVE, detail="nobody can tell whether the lamp burns")
        if values["colour"] == json.loads(run.record.request)["colour"] and values["plugged"] == "yes":
            return PASSED
        return failed("T02", "what was prepared is gone")


class Clean(Handler[File]):
    """Fails where there is a scratch, which somebody may accept."""

    def check(self, run: Run[File], step: Step, record: StepRecord) -> Checked:
        """Look for a scratch."""
        return failed("T03", "there is a scratch") if run.ports.values()["scratch"] == "yes" else PASSED


def failed(rule: str, reason: str) -> Checked:
    """Return a failure with one finding."""
    return Checked(outcome=Outcome.FAIL, findings=(Finding(rule=rule, verdict=Verdict.FAIL, reason=reason),))


def key_of(plan: Plan, name: str) -> str:
    """Return the key of the step of this name."""
    return next(each.key for each in plan.steps if each.name == name)


def take(run: Run[File], _step: Step, name: str) -> Json:
    """Take a snapshot."""
    return run.ports.take(f"{run.name}/{name}")


def digest(_run: Run[File], folder: str) -> str:
    """Return a snapshot's digest, read now."""
    return digest_of(folder)


def job(run: Run[File], _step: Step, snapshots: tuple[Snapshot, Snapshot], name: str) -> SparkJob:
    """Return the comparison as a Spark job."""
    output = str(run.ports.folder / run.name / name)
    return SparkJob(
        job="toy-compare",
        arguments=(*(each.folder for each in snapshots), output),
        inputs={each.folder: each.manifest_sha256 for each in snapshots},
        output=output,
    )


def read(_run: Run[File], asked: SparkJob) -> Reading | None:
    """Read what a job left, if it is about these inputs."""
    file = Path(asked.output) / "verdict.json"
    if not file.exists():
        return None
    text = file.read_text()
    answer = json.loads(text)
    if answer["inputs"] != dict(asked.inputs):
        return None
    odd = [name for name in answer["differs"] if name not in CHANGES | {"lamp", "owner", "scratch"}]
    verdict = Verdict.FAIL if odd else Verdict.PASS
    finding = Finding(rule="T04", verdict=verdict, reason=f"differences besides the wanted: {odd}")
    return Reading(findings=(finding,), files={"verdict.json": hashlib.sha256(text.encode()).hexdigest()})


def rules(run: Run[File], _step: Step) -> Findings:
    """The live rules of the judge."""
    right = run.ports.values()["colour"] == json.loads(run.record.request)["colour"]
    verdict = Verdict.PASS if right else Verdict.FAIL
    return (Finding(rule="T05", verdict=verdict, reason="the colour is the wanted one"),)


def soaks(run: Run[File], _step: Step) -> Checked:
    """One look of the soak."""
    return PASSED if run.ports.values()["burned"] == "yes" else failed("T06", "it is not burned")


class ToyMove(Move[File]):
    """See the package."""

    name = "toy"
    scope = "group"
    request = ToyRequest
    ports = File
    back_to = ("start", "prepared")
    patience_s = 30
    handlers: Mapping[str, Handler[File]] = {
        "approve": Approve(),
        "rehearse": Rehearse(),
        "snapshot": TakeSnapshot(take, digest),
        "compare": Compare(job, read),
        "judge": Judge(rules),
        "soak": Soak(soaks),
        "set": SetValue(),
        "unset": Unset(),
        "burn": Burn(),
        "start": Start(),
        "ask_person": AskPerson(),
        "count": Count(),
        "agree": Agree(),
        "ready": Ready(),
        "clean": Clean(),
    }

    def target(self, ports: File, request: ToyRequest) -> Target:
        """The file."""
        ports.values()
        return Target(kind="group", name=request.name, within=request.cluster)

    def look(self, ports: File, request: ToyRequest) -> Facts:
        """Read all of it."""
        return Facts(values=ports.values(), items=ports.items())

    def assess(self, request: ToyRequest, facts: Facts) -> Findings:
        """It must not be burned."""
        verdict = Verdict.FAIL if facts.values["burned"] == "yes" else Verdict.PASS
        return (Finding(rule="T00", verdict=verdict, reason=f"burned is {facts.values['burned']}"),)

    def plan(self, request: ToyRequest, facts: Facts) -> Plan:
        """All kinds of steps; nothing for a file that has the colour."""
        if facts.values["colour"] == request.colour:
            return make_plan(())
        steps = (
            Step(phase="ask", kind="approve", subject="plan", does="asks for an approval of the plan"),
            Step(phase="ask", kind="rehearse", args={"steps": ["prepare/set colour"]}),
            Step(phase="prepare", kind="snapshot", subject="before"),
            _set("colour", request.colour, undo=_unset("colour")),
            Step(phase="prepare", kind="count"),
            Step(
                phase="prepare",
                kind="set",
                subject="size",
                args={"name": "size", "counted_by": "prepare/count"},
                undo=_unset("size"),
            ),
            Step(phase="prepare", kind="agree"),
            _person("yes", undo=_person("no")),
            Step(phase="prove", kind="snapshot", subject="after", args={"base": "before"}),
            Step(phase="prove", kind="compare", args={"base": "before", "with": "after"}),
            Step(phase="prove", kind="judge", args={"compares": ["prove/compare"]}),
            Step(phase="settle", kind="start", args={"name": "started"}, undo=_unset("started")),
            Step(phase="go", kind="ready", repeat=True),
            Step(phase="go", kind="clean", on_difference=OnDifference.ACCEPTABLE),
            Step(phase="go", kind="approve", subject="burn", does="asks before it is burned"),
            Step(
                phase="burn",
                kind="burn",
                args={"name": "burned", "value": "yes"},
                undo=IRREVERSIBLE,
                gate="go/approve burn",
            ),
            _set("finish", "done"),
            Step(phase="soak", kind="soak", args={"seconds": 10, "every_s": 2}),
        )
        return make_plan(steps, {"items": facts.items})

    def fingerprint(self, facts: Facts, begun: Collection[str]) -> Aspects:
        """The owner, and the colour until the run writes it."""
        aspects = {"owner": {"name": facts.values["owner"]}}
        if "prepare/set colour" not in begun:
            aspects["colour"] = {"value": facts.values["colour"]}
        return aspects

    def may_roll_back(self, run: Run[File], facts: Facts) -> Finding:
        """Burned is burned, whoever did it."""
        verdict = Verdict.FAIL if facts.values["burned"] == "yes" else Verdict.PASS
        return Finding(rule="T09", verdict=verdict, reason=f"burned is {facts.values['burned']}")

    def roll_back_plan(self, run: Run[File], begun: Mapping[str, StepRecord], facts: Facts, to: str) -> Plan:
        """A lamp that burns now is put out first; ``prepared`` keeps what was prepared."""
        first = (_set("lamp", "off", phase="back"),) if facts.values["lamp"] == "on" else ()
        undone = undo_of(run.there, begun)
        if to == "prepared":
            undone = tuple(each for each in undone if each.phase == "settle")
        return make_rollback((*first, *undone), len(run.rollbacks()) + 1)

    def watch(self, run: Run[File]) -> Checked:
        """Whether it still has the colour."""
        return Ready().check(
            run, run.there.steps[0], StepRecord(key="", state=StepState.DONE, token=0, at_ms=0)
        )

    def closing(self, run: Run[File], state: RunState) -> tuple[str, str]:
        """Say the colour at the end of the way there."""
        colour = json.loads(run.record.request)["colour"]
        return (f"the toy is {colour}", "") if state is RunState.FINALISED else ("", "")

    def report(self, run: Run[File]) -> tuple[Section, ...]:
        """From the journal alone."""
        return (Section(title="Colour", sentences=(str(run.record.request),)),)

    def fence(self, run: Run[File], when: Literal["claimed", "rolling_back"]) -> None:
        """The file knows no fence."""


def _unset(name: str) -> Step:
    return Step(phase="prepare" if name != "started" else "settle", kind="unset", args={"name": name})


def _set(name: str, value: str, *, phase: str = "", undo: Any = None) -> Step:
    phase = phase or ("prepare" if undo else "finish")
    more = {"undo": undo} if undo else {}
    return Step(phase=phase, kind="set", subject=name, args={"name": name, "value": value}, **more)


def _person(value: str, *, undo: Any = None) -> Step:
    more = {"undo": undo} if undo else {}
    return Step(phase="people", kind="ask_person", args={"name": "plugged", "value": value}, **more)
