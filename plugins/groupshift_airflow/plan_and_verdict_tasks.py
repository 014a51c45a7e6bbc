"""The first and the last tasks of a run: plan, begin a rollback, verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, DownstreamTasksSkipped

from groupshift.domain.run import Checked, Outcome, RunState, Target
from groupshift.domain.verdict import Verdict as Judged
from groupshift.errors import GroupshiftError
from groupshift_airflow.form import values_of
from groupshift_airflow.run_tasks import UNKNOWN, RunTask, run_place, telling

if TYPE_CHECKING:
    from airflow.sdk import Context

    from groupshift.domain.run import Findings, Plan
    from groupshift.ports.runs import RunRecord, Runs
    from groupshift_airflow.run_tasks import Opened

VERDICT, PLANNED = "verdict", "planned"
_UNCHANGED = frozenset({RunState.REJECTED, RunState.PREVIEW})
_OVER = frozenset({RunState.MOVED, RunState.FINALISED})
"""States in which a run has reached what was asked for."""
_SHOWN = 50
"""Findings that a task logs at most."""
_RECENT = 1000
"""Among how many of the latest runs one that is over is looked for."""


class Begins(RunTask):
    """Base of first tasks."""

    def end(self, context: Context, run: str) -> str:
        """Return the run's id. Without ``execute`` all but the last tasks are skipped, and none is begun."""
        if context["params"]["execute"]:
            return run
        context["ti"].xcom_push(key="return_value", value=run)
        skipped = sorted(self.get_flat_relative_ids() - {VERDICT, PLANNED})
        raise DownstreamTasksSkipped(tasks=skipped)  # type: ignore[no-untyped-call]

    def say(self, findings: Findings) -> None:
        """Write what every rule says into the task's log."""
        for each in findings:
            self.log.info("%-12s %s", each.verdict, each.with_remedy)

    def show(self, plan: Plan) -> None:
        """Write the plan into the task's log."""
        for step in plan.steps:
            self.log.info("%s: %s", step.key, step.does or step.kind)


class PlanRun(Begins):
    """Shows what every rule says and the plan, journals a run of it, and claims it for this Airflow run.

    The open run of the same target is gone on with when the same was asked for. Without ``execute`` the run
    is a preview: it locks nothing and never acts."""

    def __init__(self, *, move: str, **kwargs: Any) -> None:
        super().__init__(**{"run": "", **kwargs})
        self.move = move

    def execute(self, context: Context) -> str:
        """Plan the run, claim it, and return its id.

        Raises:
            Rejected: the run may not begin.
            Conflict: another run is in the way.
            Fenced: somebody holds the open run, and it is not to be taken over.
        """
        from groupshift.bootstrap.moves import journal, opened, tools_of
        from groupshift.domain.requests import request_of
        from groupshift.domain.run import plan_from
        from groupshift.engine.begin import assess, begin, run_to_resume
        from groupshift.engine.installed_moves import move_named

        params, run = context["params"], context["dag_run"]
        execute, origin = bool(params["execute"]), f"{run.dag_id}/{run.run_id}"
        with telling(context):
            move, settings = move_named(self.move), self.settings()
            request = request_of(move.request, values_of(move.request, params))
            with journal(settings) as runs, opened(move, run_place(settings), request) as ports:
                tools, options = tools_of(runs, settings), self.options_of(context)
                target = move.target(ports, request)
                record = runs.of_origin(origin)
                if record is None and execute:
                    record = run_to_resume(move, runs, target, request)
                if record is None:
                    self.say(assess(move, tools, ports, request)[1])
                    record = begin(move, tools, ports, request, options, execute=execute, origin=origin)
                self.show(plan_from(record.plan))
                self.log.info("run %s of %s is %s", record.run, record.target, record.state)
                if execute:
                    now, over = tools.clock.now_ms(), bool(params["take_over"])
                    runs.claim(record.run, self.holder, now, anew=True, take_over=over)
        return self.end(context, record.run)


class BeginRollBack(Begins):
    """Lets a run of any move go back; shows what is undone. Without ``execute`` nothing is begun."""

    template_fields: Sequence[str] = (*RunTask.template_fields, "to")

    def __init__(self, *, to: str = "{{ params.to or '' }}", **kwargs: Any) -> None:
        super().__init__(**{"run": "{{ params.run }}", **kwargs})
        self.to = to

    def execute(self, context: Context) -> str:
        """Begin the rollback, and return the run's id; a run that changed nothing is rejected.

        Raises:
            Rejected: the rollback is closed; that is found before any claim, so whoever has the run goes on.
            Fenced: somebody holds the run, and it is not to be taken over.
        """
        from groupshift.engine.roll_back import require_begun, rollback_of, take_back
        from groupshift.engine.run import give_up

        params = context["params"]
        with telling(context), self.opened() as journaled:
            self.log.info("run %s of %s is %s", self.run, journaled.record.target, journaled.record.state)
            require_begun(journaled.record)
            reader = journaled.reader()
            to = self.to or journaled.move.falls_back_to(reader)
            plan = rollback_of(reader, to)
            if params["execute"]:
                options = self.options_of(context, direction="back")
                run = journaled.claim(options, take_over=bool(params["take_over"]))
                try:
                    plan = run.plan if take_back(run, to) else None
                except GroupshiftError as why:
                    give_up(run, str(why))
                    raise
            if plan is not None:
                self.show(plan)
        return self.end(context, self.run)


class Watch(RunTask):
    """Judges again what a run of a move left that is over: red where that does not hold, skipped where no run
    of this target is over. Without a run it is the latest one. It changes nothing."""

    def __init__(self, *, move: str, **kwargs: Any) -> None:
        super().__init__(**{"run": "{{ params.run or '' }}", **kwargs})
        self.move = move

    def execute(self, context: Context) -> None:
        """Log every finding.

        Raises:
            Rejected: the run is not over, or is of another move or target.
            AirflowFailException: what it left is not as it was left.
            AirflowSkipException: no run is over here.
        """
        from groupshift.bootstrap.moves import journal, opened, tools_of
        from groupshift.engine.installed_moves import move_named
        from groupshift.engine.watch import watch

        with telling(context):
            move, settings = move_named(self.move), self.settings()
            with journal(settings) as runs:
                for record in self.candidates(runs):
                    request = move.request_from(json.loads(record.request))
                    with opened(move, run_place(settings), request) as ports:
                        if self.run or move.target(ports, request) == record.target:
                            self.show(record.run, watch(move, tools_of(runs, settings), ports, record.run))
                            return
        raise AirflowSkipException(f"no run of {self.move} is over here: there is nothing to watch")

    def candidates(self, runs: Runs) -> list[RunRecord]:
        """The named run, or the latest one of each target that is over, latest first."""
        if self.run:
            return [runs.find(self.run)]
        latest: dict[Target, RunRecord] = {}
        for each in runs.recent(_RECENT, move=self.move):
            if each.state in _OVER:
                latest.setdefault(each.target, each)
        return list(latest.values())

    def show(self, run: str, checked: Checked) -> None:
        """Log what was found. Raises `AirflowFailException` where it is not as it was left."""
        bad = [each for each in checked.findings if each.verdict is not Judged.PASS]
        for each in bad[:_SHOWN]:
            self.log.warning("%-12s %s", each.verdict, each.with_remedy)
        self.log.info("run %s: %s: %s", run, checked.outcome, checked.detail or "what it left is as it was")
        if checked.outcome is not Outcome.PASS:
            said = "; ".join(checked.sentences[:3]) or checked.outcome.value
            raise AirflowFailException(f"run {run}: {said}; see: groupshift watch {run}")


class GoingBack(RunTask):
    """The entrance of the rollback inside a run: skips unless a step or a person has begun it."""

    def execute(self, context: Context) -> None:  # noqa: ARG002
        """Skip when the run does not go back, or another one has it."""
        from groupshift.engine.begin import require_held
        from groupshift.errors import Fenced

        if self.run in {"", UNKNOWN}:
            raise AirflowSkipException("no run was begun, so nothing is to be undone")
        with self.opened() as journaled:
            if journaled.record.state is not RunState.ROLLING_BACK:
                raise AirflowSkipException(
                    f"run {self.run} is {journaled.record.state}: nothing is to be undone"
                )
            try:
                require_held(journaled.tools.runs, self.run, self.holder)
            except Fenced as lost:
                raise AirflowSkipException(str(lost)) from lost


class Verdict(RunTask):
    """The last task of every run: it raises on a bad verdict, for a run of Airflow is green when its leaves
    are. Green is a run that is moved or finalised, with ``back`` one that is rolled back; and red, too, where
    something was only accepted or the run went back by itself, as on the command line."""

    def __init__(self, *, back: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.back = back

    def execute(self, context: Context) -> None:
        """Log how the run ended; give up one that is still open, so that whoever goes on need not take it
        over.

        Raises:
            AirflowFailException: what was asked for was not reached, or not by this Airflow run.
            AirflowSkipException: no run was begun.
        """
        from groupshift.engine.run_end import closing_of

        if self.run in {"", UNKNOWN}:
            raise AirflowSkipException("no run was begun and nothing was changed: the red task says why")
        if not context["params"]["execute"]:
            self.log.info("nothing was changed: trigger again with 'execute' to act on this plan")
            return
        with self.opened() as journaled:
            held = journaled.tools.runs.held(self.run)
            holder = held.holder if held is not None else "nobody"
            ours = holder == self.holder
            if journaled.record.state.is_open:
                lost = f"{holder} has it: look there"
                said = self._left_open(journaled, context) if ours else f"run {self.run} is open and {lost}"
                raise AirflowFailException(said)
            closing = closing_of(journaled.reader())
        self.log.info("run %s is %s: %s", self.run, closing.state, closing.reason)
        if not ours:
            by = f"not by this Airflow run: {holder} had it last"
            raise AirflowFailException(f"run {self.run} is {closing.state}, but {by}")
        if self.back and closing.state in _UNCHANGED:
            return
        missed = closing.state not in ({RunState.ROLLED_BACK} if self.back else _OVER)
        if missed or closing.verdict is not Judged.PASS:
            raise AirflowFailException(f"{closing.state}: {closing.reason}; next: {closing.following}")

    def _left_open(self, journaled: Opened, context: Context) -> str:
        """Give the run up; return where it waits. The journal is all it asks: the cluster may be what does
        not answer."""
        from groupshift.engine.move import Run
        from groupshift.engine.run import upcoming
        from groupshift.engine.status import status_of
        from groupshift.engine.step_transitions import stopped_event

        tools = journaled.tools
        token = tools.runs.claim(self.run, self.holder, tools.clock.now_ms(), anew=False)
        run = Run(journaled.move, tools, journaled.ports, self.options_of(context), (self.run, token))
        step, status = upcoming(run), status_of(tools.runs, self.run)
        if step is not None and not status.stopped:
            said = Checked(outcome=Outcome.WAIT, detail=f"the Airflow run {self.holder} is over")
            run.write(stopped_event(step, said))
        at = f" at step {step.key}" if step else ""
        why = f": {status.waits_for}" if status.waits_for else ""
        return f"run {self.run} is {journaled.record.state}{at}{why}; next: {status.following}"
