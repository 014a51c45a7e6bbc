"""The engine's own handlers: approve, rehearse, snapshot, compare, judge, soak. They are general: what is
read and compared comes in as ports and callables of the move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from groupshift.domain.foreign_text_quoting import without_login
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import (
    PASSED,
    Checked,
    Findings,
    Json,
    Outcome,
    SparkJob,
    Step,
    StepRecord,
    StepState,
    findings_data,
    findings_from,
    outcome_of,
    spark_job_from,
    worst_of,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine import gates
from groupshift.engine.move import Handler, P, Run, Snapshot, Standing, changes, handler_of
from groupshift.errors import Broken
from groupshift.ports.runs import Event

JOB = "spark_job"
"""The name under which the result of an act has its Spark job."""
INSTRUCTION = "instruction"
MAY_HEAL = frozenset({Outcome.FAIL, Outcome.ERROR})
"""What a later look may find mended."""


@dataclass
class Calm(Handler[P]):
    """Waits for a good moment: ``calm`` judges whether this is one. It is asked as long as the step's
    patience lasts; then the step acts as it is."""

    calm: Callable[[Run[P], Step], Findings] | None = field(default=None, kw_only=True)

    def allowed(self, run: Run[P], step: Step) -> Checked:
        """Whether the moment is calm."""
        findings = self.calm(run, step) if self.calm else ()
        if not findings or outcome_of(findings) in {Outcome.PASS, Outcome.INCONCLUSIVE}:
            return replace(PASSED, findings=findings)
        return Checked(outcome=Outcome.WAIT, findings=findings, late_passes=True)


class Approve(Calm[P]):
    """Asks somebody to approve. An answer counts until what it was given for changes.

    A step with ``repeat`` is asked again by each holder until a step behind it was begun: who comes back the
    day after sees anew what will happen. What is shown should last: the moment is calm."""

    def intend(self, run: Run[P], step: Step) -> Json:
        """See `Handler`."""
        return {"requester": run.record.requester}

    def stands(self, run: Run[P], step: Step, record: StepRecord) -> Standing:
        """Answered in the meantime, or to be shown again."""
        return Standing.MADE if gates.answer_of(run, step.key) else Standing.AS_MET

    def act(self, run: Run[P], step: Step, intent: Json) -> Json:
        """Show the gate, unless an answer counts."""
        answered = gates.answer_of(run, step.key)
        if answered is None or (step.repeat and self.is_old(run, step, answered)):
            return {"fingerprint": gates.show(run, step)}
        return {"fingerprint": answered.body["fingerprint"]}

    def is_old(self, run: Run[P], step: Step, answered: Event) -> bool:
        """Whether another holder was answered, and nothing behind the gate was begun since."""
        records, steps = run.records, run.plan.steps
        behind = steps[steps.index(step) + 1 :]
        begun = any(each.key in records and changes(run.move, each) for each in behind)
        return run.holders.get(answered.token) != run.holders.get(run.token) and not begun

    def check(self, run: Run[P], step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        if (answered := gates.answer_of(run, step.key)) is None:
            return Checked(outcome=Outcome.PERSON, detail=f"gate {step.key} waits for an approval")
        who, choice = answered.body["who"], answered.body["choice"]
        outcome, detail = Outcome.DECLINED, f"gate {step.key} was declined by {who}"
        if choice == Choice.APPROVE.value:
            outcome, detail = Outcome.PASS, f"approved by {who}"
        return Checked(outcome=outcome, result={"by": who, "choice": choice}, detail=detail)


class Rehearse(Handler[P]):
    """Asks before anything is changed whether steps and what undoes them would be allowed now.

    ``args["steps"]`` are names of steps of the plan."""

    def check(self, run: Run[P], step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        rehearsed = [each for each in run.plan.steps if each.name in step.args["steps"]]
        both = [part for each in rehearsed for part in (each, each.undo) if isinstance(part, Step)]
        answers = [handler_of(run.move, each).allowed(run, each) for each in both]
        return Checked(
            outcome=worst_of(each.outcome for each in answers),
            findings=tuple(finding for each in answers for finding in each.findings),
            detail="; ".join(each.detail for each in answers if each.detail),
        )


@dataclass
class TakeSnapshot(Calm[P]):
    """Takes a snapshot in a calm moment. ``take`` writes it below a name that no other attempt has and
    returns at least ``folder`` and ``manifest_sha256``; ``digest`` reads the manifest's digest again."""

    take: Callable[[Run[P], Step, str], Json]
    digest: Callable[[Run[P], str], str]

    def act(self, run: Run[P], step: Step, intent: Json) -> Json:
        """See `Handler`."""
        return self.take(run, step, run.attempt(step))

    def check(self, run: Run[P], step: Step, record: StepRecord) -> Checked:
        """Whether it is whole: a snapshot with problems is an error, and is taken anew."""
        problems = record.result.get("problems") or ()
        if not problems:
            return PASSED
        return Checked(outcome=Outcome.ERROR, detail=f"snapshot {step.subject} has problems: {problems[0]}")

    def evidence(self, run: Run[P], step: Step, record: StepRecord) -> Mapping[str, str]:
        """See `Handler`."""
        return {step.key: self.digest(run, str(record.result["folder"]))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a comparison left: its findings, and the SHA-256 of each file."""

    findings: Findings
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Compare(Handler[P]):
    """Compares the snapshots ``args["base"]`` and ``args["with"]`` by a Spark job of its own.

    ``job`` makes the job, with the output folder of this attempt; its inputs are the two folders with the
    digests of their manifests. ``read`` reads what it left, and returns None where there is nothing for
    exactly these inputs. A snapshot that was altered is not compared (J02)."""

    job: Callable[[Run[P], Step, tuple[Snapshot, Snapshot], str], SparkJob]
    read: Callable[[Run[P], SparkJob], Reading | None]

    def stands(self, run: Run[P], step: Step, record: StepRecord) -> Standing:
        """Made when the output names exactly the inputs of now, whoever submitted the job."""
        if JOB not in record.result:
            return Standing.AS_MET
        job = spark_job_from(record.result[JOB])
        same = dict(job.inputs) == {each.folder: each.manifest_sha256 for each in _snapshots(run, step)}
        return Standing.MADE if same and self.read(run, job) else Standing.AS_MET

    def act(self, run: Run[P], step: Step, intent: Json) -> Json | SparkJob:
        """Give the job, unless one that is over left its answer."""
        record = run.records[step.key]
        if record.state is StepState.INTENDED and self.stands(run, step, record) is Standing.MADE:
            return {JOB: record.result[JOB]}
        if altered := [each for each in self.doubts(run, step) if each.rule == "J02"]:
            return {"findings": findings_data(altered), "outcome": {}}
        return self.job(run, step, _snapshots(run, step), run.attempt(step))

    def check(self, run: Run[P], step: Step, record: StepRecord) -> Checked:
        """See `Handler`. A job that left nothing is an error: it is submitted once more."""
        if JOB not in record.result:
            altered = findings_from(record.result["findings"])
            return Checked(outcome=outcome_of(altered), findings=altered)
        job = spark_job_from(record.result[JOB])
        reading, output = self.read(run, job), without_login(job.output)
        if reading is None:
            return Checked(outcome=Outcome.ERROR, detail=f"job {job.job} left no answer in {output}")
        if any(job.inputs.get(each.folder) != each.manifest_sha256 for each in _snapshots(run, step)):
            return Checked(outcome=Outcome.ERROR, detail=f"{output} is not about the snapshots of this step")
        result = {"findings": findings_data(reading.findings), "outcome": dict(reading.files)}
        return Checked(outcome=outcome_of(reading.findings), findings=reading.findings, result=result)

    def evidence(self, run: Run[P], step: Step, record: StepRecord) -> Mapping[str, str]:
        """See `Handler`."""
        reading = self.read(run, spark_job_from(record.result[JOB])) if JOB in record.result else None
        return {f"{step.key} {name}": sha256 for name, sha256 in reading.files.items()} if reading else {}

    def doubts(self, run: Run[P], step: Step) -> Findings:
        """Return what is wrong with the snapshots themselves, read now: one that is not what its manifest
        says (J02), or whose manifest is not the one that was journaled when it was taken (J03)."""
        findings = []
        for each in dict.fromkeys(_snapshots(run, step)):
            try:
                made = next(one for plan in run.plans for one in plan.steps if one.key == each.step)
                now = handler_of(run.move, made).evidence(run, made, run.records[made.key])
            except Broken as altered:
                findings.append(Finding(rule="J02", verdict=Verdict.FAIL, reason=str(altered)))
                continue
            if now.get(made.key) != each.manifest_sha256:
                reason = f"the manifest of snapshot {each.name} is not the one that was journaled"
                hint = "the evidence was replaced after it was taken: find out by whom"
                findings.append(Finding(rule="J03", verdict=Verdict.FAIL, reason=reason, hint=hint))
        return tuple(findings)


def _snapshots(run: Run[P], step: Step) -> tuple[Snapshot, Snapshot]:
    return run.snapshot(str(step.args["base"])), run.snapshot(str(step.args["with"]))


class Judge(Handler[P]):
    """Makes one verdict of the live rules, of what earlier steps found (``args["compares"]`` are the names of
    comparisons, soaks and series), and of the evidence itself: J01 nothing was proven, J02 and J03 of
    `Compare.doubts`, J04 what a comparison left is not what was journaled of it.

    ``rules`` judges the target as it is now; what fails of them may heal. An error is measured anew from the
    step that ``args["again"]`` names."""

    def __init__(self, rules: Callable[[Run[P], Step], Findings]) -> None:
        self._rules = rules

    def allowed(self, run: Run[P], step: Step) -> Checked:
        """Whether what it judges is of this claim: what an earlier one stopped at is measured anew."""
        known, again = run.records.get(step.key), _again(run, step)
        stopped = known is not None and known.state is StepState.INTENDED and known.token != run.token
        if not (stopped and again):
            return PASSED
        detail = "an earlier process stopped here: measured anew"
        return Checked(outcome=Outcome.WAIT, detail=detail, redo_from=again)

    def check(self, run: Run[P], step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        live = self._rules(run, step)
        findings: list[Finding] = []
        files: dict[str, str] = {}
        records = run.records
        for each in run.plan.steps:
            known = records.get(each.key)
            if each.name in step.args.get("compares", ()) and known is not None:
                findings += _proven(run, each, known)
                files |= {f"{each.key} {name}": sha for name, sha in known.result.get("outcome", {}).items()}
        findings += live
        outcome = outcome_of(findings)
        return Checked(
            outcome=outcome,
            findings=tuple(findings),
            result={"files": files},
            heals=bool(live) and outcome_of(live) in MAY_HEAL,
            redo_from=_again(run, step) if outcome is Outcome.ERROR else "",
        )


def _again(run: Run[P], step: Step) -> str:
    """The key of the step from which a judge measures anew; empty where it names none."""
    return next((each.key for each in run.plan.steps if each.name == step.args.get("again")), "")


def _proven(run: Run[P], step: Step, known: StepRecord) -> Findings:
    """What a step found, and what is wrong with the evidence that it rests on."""
    handler = handler_of(run.move, step)
    doubts = handler.doubts(run, step) if isinstance(handler, Compare) else ()
    if any(each.rule == "J02" for each in doubts):
        return doubts
    if "findings" not in known.result:
        hint = "run the comparison again"
        reason = f"step {step.key} is not proven: it left no answer for exactly these snapshots"
        return (Finding(rule="J01", verdict=Verdict.ERROR, reason=reason, hint=hint), *doubts)
    then = {f"{step.key} {name}": sha256 for name, sha256 in known.result.get("outcome", {}).items()}
    now = handler.evidence(run, step, known) if then else {}
    other = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    if other:
        reason = f"{other[0]} is not what was journaled of it, and nothing was proven since"
        hint = "the evidence was altered after it was made: find out by whom"
        doubts = (*doubts, Finding(rule="J04", verdict=Verdict.FAIL, reason=reason, hint=hint))
    return (*findings_from(known.result["findings"]), *doubts)


class Soak(Handler[P]):
    """Looks for ``args["seconds"]`` at least every ``args["every_s"]``, each look journaled; a failure stays
    one, although a later look passes, unless it heals within ``args["heals_s"]``. The time runs from the
    first look. What failed is in the result, for a judge."""

    def __init__(self, look: Callable[[Run[P], Step], Checked]) -> None:
        self._look = look

    def check(self, run: Run[P], step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        notes = run.notes(step)
        if _is_due(run, step, notes):
            sample, heals_s = self._look(run, step), int(step.args.get("heals_s", 0))
            if sample.heals and sample.outcome in MAY_HEAL and run.patient(step, "healed", heals_s):
                return Checked(outcome=Outcome.WAIT, detail="; ".join(sample.sentences))
            body = {"outcome": sample.outcome.value, "findings": findings_data(sample.findings)}
            run.note(step, {**body, "detail": sample.detail})
            notes = run.notes(step)
        worst = max((body for _, body in notes), key=lambda body: tuple(Outcome).index(body["outcome"]))
        findings, outcome = findings_from(worst["findings"]), Outcome(worst["outcome"])
        left_ms = notes[0][0] + int(step.args["seconds"]) * 1000 - run.now()
        failed = outcome is Outcome.FAIL
        if left_ms > 0 and not failed:
            return Checked(outcome=Outcome.WAIT, detail=f"soaks for {left_ms // 1000} s more")
        bad = [each for each in findings if failed and each.verdict is not Verdict.PASS]
        result = {"looks": len(notes), "findings": findings_data(bad)}
        detail = str(worst["detail"]) if failed else ""
        return Checked(outcome=outcome, findings=findings, detail=detail, result=result)


def _is_due(run: Run[P], step: Step, notes: Sequence[tuple[int, Json]]) -> bool:
    """Whether the next of a series is to be taken, ``args["every_s"]`` after the last one."""
    return not notes or run.now() - notes[-1][0] >= int(step.args.get("every_s", 0)) * 1000


@dataclass
class Series(Handler[P]):
    """Takes samples for ``args["seconds"]``, one at most every ``args["every_s"]``, each journaled, and goes
    on until there are ``args["samples"]``; then all of them are judged. The time runs from the first one to
    one at its end, and the next process goes on with what is there. Its findings are in the result, for a
    judge."""

    sample: Callable[[Run[P], Step], Json]
    judged: Callable[[Run[P], Step, tuple[Json, ...]], Findings]

    def check(self, run: Run[P], step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        notes = run.notes(step)
        seconds, wanted = int(step.args["seconds"]), int(step.args["samples"])
        ends = bool(notes) and notes[-1][0] < notes[0][0] + seconds * 1000 <= run.now()
        if ends or _is_due(run, step, notes):
            run.note(step, self.sample(run, step))
            notes = run.notes(step)
        left_s = seconds - (run.now() - notes[0][0]) // 1000
        if left_s > 0:
            return Checked(outcome=Outcome.WAIT, detail=f"{left_s} of {seconds} s left")
        if len(notes) < wanted:
            return Checked(outcome=Outcome.WAIT, detail=f"{len(notes)} of {wanted} samples")
        findings = self.judged(run, step, tuple(body for _, body in notes))
        result = {"samples": len(notes), "findings": findings_data(findings)}
        return Checked(outcome=outcome_of(findings), findings=findings, result=result)


def own_handlers() -> dict[str, Handler[Any]]:
    """Return the handlers that need nothing of a move; a move adds its own."""
    return {"approve": Approve(), "rehearse": Rehearse()}
