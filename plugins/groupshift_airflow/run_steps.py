"""Tasks that do steps of a run of any move: each does what comes next, up to its own place in the plan.

A task is a sensor in mode ``reschedule``: it makes transitions of the engine until it has to wait, and holds
no slot in between. XCom carries the run's id. All tasks of one Airflow run are one holder of the run; once
another one has it, they do and ask nothing more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)

from groupshift.domain.foreign_text_quoting import data_without_login
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import APPROVE, JUDGE, Outcome, RunState, SparkJob, StepState, spark_job_from
from groupshift.engine.questions_and_approvers import BUTTONS
from groupshift.errors import Fenced, Transient
from groupshift_airflow.hooks import require_spark, submission
from groupshift_airflow.run_gates import ACCEPT, ALL, CHOICES, DONE, Gate, Work, gate_of, gate_of_work
from groupshift_airflow.run_tasks import UNKNOWN, RunTask, person, require_execute

if TYPE_CHECKING:
    from airflow.sdk import Context

    from groupshift.domain.run import Plan, Step
    from groupshift.engine.move import Run, RunOptions
    from groupshift.engine.progress import Progress, Stopped
    from groupshift.settings import Settings

MEASURES = ("snapshot", "compare", JUDGE)
"""Kinds of steps that only measure, as `groupshift.engine.handlers` brings them."""
POKE_S = 5.0
"""Seconds between two looks of a task that waits."""
TURN_S = 10.0
"""Seconds between two looks of a task that takes turns with another one."""
ENTRIES = 50
"""Tries of a task: one for each time that it asks a person anew, such as for the next node."""
LONGEST = timedelta(minutes=30)
"""How long one Spark job may take."""
SPARK_CONNECTION = "spark_default"
"""The connection over which a task submits that is no comparison."""
SPARK_JOB = "spark_job"
"""XCom key of the Spark job that a task submits, or leaves to the task that compares. It is for people, and
without the keys of a store: what submits the job reads the journal."""
ASKED = "asked"
"""XCom key of the question that a parked task shows: step and fingerprint."""
_QUARTER_S = 90 * 86_400.0
"""How long a task may wait in all; how long a step may, the engine decides."""
_OVER = frozenset({"failed", "upstream_failed", "skipped", "removed"})


class Steps(RunTask, HITLOperator, BaseSensorOperator):
    """Does the steps that come next, up to the last one of ``part`` in ``phase``. It waits as a sensor, and
    parks where a person has to answer or to act.

    ``phase`` empty: all steps of the plan; ``part`` and ``subject_of`` are as `place_of` reads them.
    ``hands_on``: what was acted and needs time is left to the next task. ``asking`` False: a question is left
    to the next task, and this one fails. ``back``: the steps are those of a rollback. ``beside`` is the task
    of this group that it takes turns with: one of them submits Spark jobs, the other one does all else."""

    template_fields: Sequence[str] = RunTask.template_fields
    submits = False
    """Whether it is the one that submits Spark jobs, of two that take turns."""
    passes = False
    """Whether it is green, and not skipped, where the plan does not have its phase."""
    answered = ""
    """Who answered; empty while nobody has."""

    def __init__(
        self,
        *,
        phase: str = "",
        part: str = "",
        subject_of: str = "",
        hands_on: bool = False,
        asking: bool = True,
        back: bool = False,
        beside: str = "",
        **kwargs: Any,
    ) -> None:
        own = {
            "subject": "groupshift",
            "options": list(ALL),
            "defaults": BUTTONS[Choice.STOP],
            "mode": "reschedule",
            "poke_interval": TURN_S if beside else POKE_S,
            "timeout": _QUARTER_S,
            "retries": ENTRIES,
        }
        super().__init__(**{**own, **kwargs})
        self.phase, self.part, self.subject_of = phase, part, subject_of
        self.hands_on, self.asking, self.back = hands_on, asking, back
        self.beside = beside

    @property
    def again(self) -> str:
        """How a person lets it go on: of two tasks that take turns, the other one ended with this one."""
        if not self.beside:
            return "clear this task"
        return f"clear the tasks {' and '.join(sorted((self.task_id, self.beside), reverse=True))}"

    def execute(self, context: Context) -> Any:
        """Enter the run as a sensor does; each entry is a `poke`."""
        return BaseSensorOperator.execute(self, context)

    def poke(self, context: Context) -> bool:
        """Do what can be done now. Return True when nothing is left for this task.

        The first entry of a try claims the run anew where the task acts, or was tried before: what a former
        try left is fenced.

        Raises:
            AirflowSkipException: nothing is to be done, or another holder has the run.
            AirflowFailException: the run stopped, was turned round, or an answer is lost.
            GroupshiftError: whatever the engine raises; `Transient` is tried again.
        """
        require_execute(context)
        if self.back and self.run in {"", UNKNOWN}:
            raise AirflowSkipException("no run was begun, so nothing is to be undone")
        acts = self.part == "act" or (bool(self.beside) and not self.submits)
        first = context.get("task_reschedule_count", 0) == 0
        anew = first and (acts or context["ti"].try_number > 1)
        with self.entered(self.options_of(context), anew=anew) as (run, settings):
            return self.walk(context, run, settings)

    @contextmanager
    def entered(self, options: RunOptions, *, anew: bool) -> Iterator[tuple[Run[Any], Settings]]:
        """Yield the claimed run with its settings. Skips the task when another holder has the run, and fails
        one whose answer is lost so."""
        from groupshift.engine.begin import require_held

        with self.opened() as journaled:
            runs = journaled.tools.runs
            try:
                require_held(runs, self.run, self.holder)
                yield journaled.claim(options, anew=anew), journaled.settings
            except Fenced as lost:
                held = runs.held(self.run)
                if held is not None and held.holder == self.holder:
                    raise Transient(f"another task of this Airflow run went on with it: {lost}") from lost
                if self.answered:
                    why = f"the answer of {self.answered} is not taken: {lost}"
                    raise AirflowFailException(why) from lost
                raise AirflowSkipException(str(lost)) from lost

    def walk(self, context: Context, run: Run[Any], settings: Settings) -> bool:
        """Make transitions of the engine. Return True when nothing is left for this task, False to be
        entered again. Raises as `groupshift.engine.run.advance`.

        Of two tasks that take turns, the one that submits Spark jobs runs the job that the other one left,
        unless this claim has lost it since."""
        from groupshift.engine.run import advance, upcoming

        while run.refresh().state.is_open:
            over = self.is_over(context, run)
            if over is not None:
                return over
            step = upcoming(run)
            job = _job_of(run, step) if self.submits and self.beside and step is not None else None
            if job is not None and step is not None:
                run.refresh()
                if run.records[step.key].token == run.token:
                    self.submit(context, job, settings)
            over = self.react(context, run, advance(run), settings)
            if over is not None:
                return over
        if run.record.state is RunState.REJECTED or self.back is not run.record.state.goes_back:
            raise AirflowSkipException(f"run {run.name} is {run.record.state}: nothing more is done")
        self.last_place(run)
        return True

    def react(self, context: Context, run: Run[Any], progress: Progress, settings: Settings) -> bool | None:
        """Return what `walk` returns after a transition, None where it goes on."""
        from groupshift.engine.progress import Asks, Ended, Moved, Stopped, Waits

        match progress:
            case Moved(work=job):
                if isinstance(job, SparkJob):
                    context["ti"].xcom_push(key=SPARK_JOB, value=data_without_login(job.as_json()))
                    if not self.beside:
                        self.submit(context, job, settings)
            case Waits(step=step):
                self.log.info("%s: %s", step.key, progress.checked.detail or "has not settled yet")
                record = run.records.get(step.key)
                return self.hands_on and record is not None and record.state is StepState.ACTED
            case Asks():
                self.ask(context, gate_of(progress.question, _until(context, run)), run)
            case Stopped():
                self.stopped(context, run, progress)
            case Ended(closing=closing):
                ended = f"run {run.name} is {closing.state}: {closing.reason}"
                if closing.state is RunState.REJECTED:
                    raise AirflowFailException(ended)
                self.log.info("%s", ended)
                return True
            case _:
                return True
        return None

    def is_over(self, context: Context, run: Run[Any]) -> bool | None:
        """Return True when nothing is left for this task, False when another one has its turn, None when it
        is this one's. Raises where the run was turned round, or a step before its own is not done.

        A task is skipped, too, when the one beside it ended without its step."""
        from groupshift.engine.run import upcoming

        self.require_direction(run)
        last, step = self.last_place(run), upcoming(run)
        places = {each.key: place for place, each in enumerate(run.plan.steps)}
        if step is not None and (last is None or places[step.key] > last):
            return True
        if step is None:
            return None
        phases = frozenset(each.phase for each in run.plan.steps[: (last or 0) + 1])
        run.options = replace(run.options, phases=phases)
        if self.beside and (_job_of(run, step) is not None) is not self.submits:
            ti = context["ti"]
            states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[self.beside], run_ids=[ti.run_id])
            if {str(state) for tasks in states.values() for state in tasks.values()} & _OVER:
                raise AirflowSkipException(f"task {self.beside} ended, and the run waits for what it does")
            return False
        if self.part.startswith(JUDGE) and not (step.kind in MEASURES or step.repeat):
            raise AirflowFailException(f"step {step.key} is not done: there is nothing to judge yet")
        return None

    def require_direction(self, run: Run[Any]) -> None:
        """Fail when the run was turned round: by what a step came to, by a person, or by another process. A
        task of the rollback is skipped instead, and so is one of two that take turns."""
        if run.going_back is self.back:
            return
        if self.back:
            raise AirflowSkipException(f"run {run.name} is {run.record.state}: nothing is to be undone")
        if self.submits and self.beside:
            raise AirflowSkipException(f"run {run.name} goes the other way now")
        begun = run.rollbacks()
        why = str(begun[-1].body["because"]) if begun else ""
        raise AirflowFailException(f"run {run.name} is rolling back: {why or 'somebody asked for it'}")

    def last_place(self, run: Run[Any]) -> int | None:
        """Return the place in the plan of this task's last step; None where the plan has none. Skips the task
        where the plan does not have its phase, unless it is to pass then."""
        steps = run.plan.steps
        if not self.phase:
            return len(steps) - 1
        if not self.passes and all(each.phase != self.phase for each in steps):
            raise AirflowSkipException(f"phase {self.phase} is not part of the plan of {run.name}")
        return place_of(run.plan, self.phase, self.part, self.subject_of)

    def submit(self, context: Context, job: SparkJob, settings: Settings) -> None:  # noqa: ARG002
        """Run a Spark job in this process: a comparison that has to be made once more. See `Compare`."""
        from groupshift.bootstrap.moves import submit

        master = require_spark(SPARK_CONNECTION)
        submit(replace(settings, spark=replace(settings.spark, master=master)))(job)

    def ask(self, context: Context, gate: Gate, run: Run[Any]) -> None:
        """Park with a question. Does not return. Raises `Transient` where this try has asked one already, for
        Airflow would show that one again."""
        if not self.asking:
            raise AirflowFailException(f"step {gate.step} needs an answer: the next task asks for it")
        if self.answered:
            raise Transient(f"step {gate.step} needs an answer, too: the next try asks for it")
        self.subject, self.body = gate.subject, gate.body
        self.options, self.defaults = list(gate.options), [gate.default]
        self.response_timeout = timedelta(seconds=_expiry_s(context, run))
        context["ti"].xcom_push(key=ASKED, value={"step": gate.step, "fingerprint": gate.fingerprint})
        HITLOperator.execute(self, context)

    def stopped(self, context: Context, run: Run[Any], stopped: Stopped) -> None:
        """Park where a person has to do something; else fail with what was met. Does not return.

        While a person takes time the run is claimed again: the engine gave it up when it stopped, and whoever
        goes on with it elsewhere is to take it over. Raises `Fenced` where somebody has it."""
        from groupshift.engine.handlers import INSTRUCTION
        from groupshift.ports.runs import EventKind

        checked, key, record = stopped.checked, stopped.step.key, run.records.get(stopped.step.key)
        said = "; ".join(checked.sentences) or checked.outcome.value
        if stopped.closing is not None:
            raise AirflowFailException(f"run {run.name} is {stopped.closing.state}: {said}")
        if stopped.waits and checked.outcome is Outcome.PERSON:
            shown = [e for e in run.events(key) if e.kind is EventKind.SHOWN and e.token == run.token]
            work = Work(
                run=run.name,
                step=key,
                instruction=str(record.result.get(INSTRUCTION, "")) if record else "",
                detail=checked.detail,
                findings=checked.findings,
                acceptable=bool(shown and shown[-1].body["sha256"]),
                undoable=run.record.state is RunState.RUNNING,
            )
            run.tools.runs.claim(run.name, self.holder, run.tools.clock.now_ms(), anew=True)
            self.ask(context, gate_of_work(work, _until(context, run)), run)
        helps = "roll it back with the DAG roll_back" if checked.only_rollback_helps else self.again
        raise AirflowFailException(f"run {run.name} stopped at step {key}: {said}; {helps}")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Take the answer, and go on.

        Raises:
            Transient: more is to be done, which the next try does.
            AirflowFailException: a person stopped the run here, or the answer is lost.
        """
        response = HITLOperator.execute_complete(self, context, event)
        self.answered = who = person(response["responded_by_user"])
        question = context["ti"].xcom_pull(task_ids=self.task_id, key=ASKED)
        if not question:
            raise Transient(f"nothing tells what {who} was shown; the next try asks again")
        label = response["chosen_options"][0]
        accepts = question["step"] if label in {DONE, ACCEPT} else ""
        options = self.options_of(context, who=who, accept=accepts)
        with self.entered(options, anew=bool(accepts)) as (run, settings):
            self.take(run, question, label)
            if self.walk(context, run, settings):
                return
        raise Transient("not all is done: the next try goes on")

    def take(self, run: Run[Any], question: dict[str, str], label: str) -> None:
        """Do what was answered.

        Raises:
            Void: the answer was given for something else.
            Conflict: somebody else answered, or went on with the run.
            AirflowFailException: the answer is to stop here.
        """
        from groupshift.engine.gates import answer
        from groupshift.engine.questions_and_approvers import Answer
        from groupshift.engine.roll_back import begin_roll_back

        choice, step, who = CHOICES.get(label), question["step"], self.answered
        if question["fingerprint"] and choice is not None:
            answer(run, step, Answer(choice=choice, who=who, fingerprint=question["fingerprint"]))
        elif choice is Choice.STOP:
            raise AirflowFailException(
                f"{who} stopped at step {step}; run {run.name} is open: {self.again}, or roll it back"
            )
        elif choice is Choice.ROLL_BACK:
            begin_roll_back(run, run.move.falls_back_to(run), f"{who} chose to roll back at step {step}")


class LastGate(Steps):
    """The gate of what is optional: skips the task of the answer that was not given."""

    def __init__(self, *, finalise: str, keep: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.finalise, self.keep = finalise, keep

    def walk(self, context: Context, run: Run[Any], settings: Settings) -> bool:
        """As `Steps`; once the gate is answered, only one of both goes on."""
        if not super().walk(context, run, settings):
            return False
        place = place_of(run.plan, self.phase, self.part, self.subject_of)
        record = None if place is None else run.records.get(run.plan.steps[place].key)
        other = self.finalise if record is None or record.left_out else self.keep
        raise DownstreamTasksSkipped(tasks=[other])  # type: ignore[no-untyped-call]


class Compare(Steps, SparkSubmitOperator):
    """Submits the Spark jobs of a comparison over the Spark connection, and looks at what they left. A job
    that fails is found by that look."""

    template_fields = (*SparkSubmitOperator.template_fields, *RunTask.template_fields)
    submits = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"name": "groupshift compare", **kwargs})
        self.execution_timeout = LONGEST

    def submit(self, context: Context, job: SparkJob, settings: Settings) -> None:  # noqa: ARG002
        """Run the job to its end, as `submission` says how. One that fails is a warning: the look at what it
        left finds that."""
        from groupshift.bootstrap.moves import request_of_job

        request = request_of_job(job)
        self.application, self.application_args = request.job, list(request.arguments)
        with submission(self._conn_id) as spark_options:
            conf = {**spark_options["conf"], **(self.conf or {})}
            for name, value in {**spark_options, "conf": conf}.items():
                setattr(self, name, value)
            try:
                SparkSubmitOperator.execute(self, context)
            except AirflowException as failed:
                self.log.warning("Spark job %s failed: %s", job.job, failed)


def place_of(plan: Plan, phase: str, part: str, subject: str = "") -> int | None:
    """Return the place in the plan of the last step of a part of a phase; None where there is none.

    Parts: ``approve``; ``rehearse`` (what each claim asks anew before the first approval); ``act`` and
    ``wait`` (all that neither measures nor asks); ``snapshot``, ``compare`` and ``judge``, alone or with
    ``_before`` and ``_after`` the acts; empty for the whole phase. With a ``subject`` only steps of this
    subject count."""
    steps = [
        (place, each.kind)
        for place, each in enumerate(plan.steps)
        if each.phase == phase and subject in {"", each.subject}
    ]
    own = [place for place, kind in steps if kind not in {*MEASURES, APPROVE}]
    repeated = [place for place in own if plan.steps[place].repeat]
    acts = [place for place in own if place not in repeated] or own
    wanted, _, moment = part.partition("_")
    match wanted:
        case "":
            places = [place for place, _ in steps]
        case "act" | "wait":
            places = acts
        case "rehearse":
            gates = [place for place, kind in steps if kind == APPROVE]
            places = [place for place in repeated if not gates or place < gates[0]]
        case _:
            places = [place for place, kind in steps if kind == wanted]
    if moment == "before":
        places = [place for place in places if acts and place < acts[0]]
    elif moment == "after":
        places = [place for place in places if not acts or place > acts[-1]]
    return places[-1] if places else None


def _job_of(run: Run[Any], step: Step) -> SparkJob | None:
    """The Spark job that a step waits for."""
    from groupshift.engine.handlers import JOB

    record = run.records.get(step.key)
    if record is None or record.state is not StepState.ACTED or JOB not in record.result:
        return None
    return spark_job_from(record.result[JOB])


def _expiry_s(context: Context, run: Run[Any]) -> float:
    """How long a gate waits: what this run was told, and no longer than the settings let a yes count."""
    return min(float(context["params"]["gate_expiry_s"]), run.tools.gate_expiry_s)


def _until(context: Context, run: Run[Any]) -> int:
    """When a gate that opens now expires, epoch ms."""
    return int((time.time() + _expiry_s(context, run)) * 1000)
