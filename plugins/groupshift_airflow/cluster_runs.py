"""Runs that change a whole cluster: operators that each do some kinds of steps; XCom carries its id."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from groupshift.application.brief_text import (
    APPROVE,
    DEPLOYED,
    REJECT,
    STOP,
    links_text,
    run_by_hand,
    run_text,
)
from groupshift.domain.foreign_text import code, shown, visible
from groupshift.domain.step import RunAct
from groupshift.errors import Fenced, Transient
from groupshift_airflow.gates import person
from groupshift_airflow.hooks import approval_settings
from groupshift_airflow.links import run_links
from groupshift_airflow.operators import UNKNOWN, requester_of, require_execute
from groupshift_airflow.retries import LATE

if TYPE_CHECKING:
    from airflow.sdk import Context

    from groupshift.application.run_engine import RunOutcome
    from groupshift.application.run_work import RunTerms

GATE = frozenset({RunAct.APPROVE})
_PATIENCE_S = 1800.0
_NODES = 50
"""Tries of a task that asks again for each node."""
ASKED = "asked"
"""XCom key of the step that a parked task shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What ``who`` said (None: nothing yet) of the step that was shown: a run that is driven from elsewhere
    too may wait at another one when the answer comes. ``requester`` triggered the DAG run."""

    step: str = ""
    said: bool | None = None
    who: str = "airflow"
    requester: str = "airflow"


NO_ANSWER = Answer()


def _until(context: Context) -> int:
    """When a gate that opens now expires, epoch ms."""
    return int((time.time() + float(context["params"]["gate_expiry_s"])) * 1000)


class RunTask(BaseOperator):
    """Base: which run, over which connection."""

    @abstractmethod
    def opened(self) -> AbstractContextManager[Any]:
        """Every port of a run over this connection."""

    @abstractmethod
    def move(self) -> Any:
        """What kind of run (`groupshift.application.run_engine.Move`)."""

    template_fields: Sequence[str] = ("run_id", "holder", "kafka_conn_id")

    def __init__(
        self,
        *,
        run_id: str = "{{ ti.xcom_pull(task_ids='plan') }}",
        holder: str = "{{ dag.dag_id }}/{{ run_id }}",
        kafka_conn_id: str = "{{ params.kafka_conn_id }}",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.run_id = run_id
        self.holder = holder
        self.kafka_conn_id = kafka_conn_id

    @contextmanager
    def ours(self) -> Iterator[Any]:
        """The ports, while this run of the DAG has the run; else the task is skipped with the sentence that
        says who took it over, and nothing is asked."""
        from groupshift.application.run_demands import demand_held

        with self.opened() as tools:
            try:
                demand_held(tools.runs, self.run_id, self.holder)
                yield tools
            except Fenced as lost:
                raise AirflowSkipException(str(lost)) from lost

    def take(self, tools: Any, run: str) -> str:
        """Claim the run for this run of the DAG; the last one to do so has it."""
        tools.runs.claim(run, self.holder, tools.clock.now_ms())
        return run

    def terms(
        self, acts: Collection[RunAct], *, yes: Answer = NO_ANSWER, patience_s: float = _PATIENCE_S
    ) -> RunTerms:
        """What this task does; ``yes`` answers the step that was shown to somebody, and no other one."""
        from groupshift.application.run_work import RunTerms

        return RunTerms(
            decide=lambda asked: yes.said if asked.step.key == yes.step else None,
            who=yes.who,
            holder=self.holder,
            taking=False,
            requester=yes.requester,
            approval=approval_settings(),
            seen=bool(yes.said),
            seen_of=yes.step,
            acts=frozenset(acts),
            patience_s=patience_s,
            told=lambda step, detail: self.log.info("%s: %s", step.key, detail),
        )

    def walk(self, terms: RunTerms) -> RunOutcome:
        """Drive the run as far as these terms go; the task fails where the run does. Raises `Conflict` for a
        run that is being taken back."""
        from groupshift.application.run_demands import demand_forward
        from groupshift.application.run_engine import Ended, go_on

        with self.ours() as tools:
            run = tools.runs.find(self.run_id)
            demand_forward(run)
            outcome = go_on(self.move(), tools, terms, run)
            closed = not tools.runs.find(self.run_id).open and outcome.ended is Ended.WAITING
        if closed or outcome.ended in {Ended.FAILED, Ended.DECLINED}:
            for number, text in enumerate(outcome.undo, 1):
                self.log.warning("way back %d: %s", number, text)
            raise AirflowFailException(f"{outcome.ended} at {outcome.step}: {outcome.detail}")
        return outcome


class Asking(RunTask, HITLOperator):
    """Base of tasks that may park until a person answers; nobody answering changes nothing."""

    # Not subject and body: they are shown as they are, never rendered as a template.
    template_fields: Sequence[str] = RunTask.template_fields

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"subject": "groupshift", **kwargs})

    def park(self, context: Context, step: str, subject: str, body: str) -> Any:
        """Ask this of a step. Does not return."""
        context["ti"].xcom_push(key=ASKED, value=step)
        links = links_text(run_links(self.run_id, self.move().name))
        self.subject, self.body = subject, f"{body}\n\n{links}"
        self.response_timeout = timedelta(seconds=context["params"]["gate_expiry_s"])
        return HITLOperator.execute(self, context)

    def answered(self, context: Context, event: dict[str, Any], yes: str) -> Answer:
        """Whether this was chosen, of which step, and by whom. Raises `Transient` where nothing was shown."""
        answer = HITLOperator.execute_complete(self, context, event)
        user = answer["responded_by_user"]
        who = person(user)
        step = context["ti"].xcom_pull(task_ids=self.task_id, key=ASKED)
        if not step:
            raise Transient(f"nothing tells what {who} was shown; the next try asks again")
        requester = requester_of(context.get("dag_run"))
        said = answer["chosen_options"][0] == yes
        try:
            with self.ours():
                return Answer(step=str(step), said=said, who=who, requester=requester)
        except AirflowSkipException as lost:
            raise AirflowFailException(f"the answer of {who} is not taken: {lost}") from lost


class Approval(Asking):
    """Asks where the next step is an approval; else there is nothing to ask."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"options": [APPROVE, REJECT], "defaults": REJECT, "retries": LATE, **kwargs})

    def execute(self, context: Context) -> Any:
        """Park with the plan. Raises `Conflict` for a run that is being taken back."""
        from groupshift.application.run_demands import demand_forward
        from groupshift.application.run_engine import statuses
        from groupshift.domain.step import Stand

        require_execute(context)
        with self.ours() as tools:
            run = tools.runs.find(self.run_id)
            demand_forward(run)
            found = statuses(self.move(), tools.runs, run)
        left = [each.step for each in found if each.stand is not Stand.DONE]
        if not left or left[0].act is not RunAct.APPROVE:
            return None
        named = f"Plan `{run.plan_hash[:12]}` of run {code(run.run)}"
        done = [each.step for each in found if each.stand is Stand.DONE]
        text = run_text(run.move, left, _until(context), done=done)
        return self.park(context, left[0].key, visible(left[0].does), f"{named}\n\n{text}")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Journal the answer. Raises `Conflict` when the approval is void, `Transient` where the run asks for
        another one by now."""
        answer = self.answered(context, event, APPROVE)
        outcome = self.walk(self.terms(GATE, yes=answer))
        if outcome.detail:
            raise Transient(f"waiting at {outcome.step}: {outcome.detail}; the next try asks")
        self.log.info("approved by %s", answer.who)


class Walk(Asking):
    """Does all steps of some kinds that come next; parks where a person has to act. ``patience`` names the
    parameter that says how many seconds one of them may take; unless ``accepting``, an answer lets it look
    again and accepts nothing."""

    def __init__(
        self, *, acts: Collection[RunAct], patience: str = "", accepting: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(**{"options": [DEPLOYED, STOP], "defaults": STOP, "retries": _NODES, **kwargs})
        self.acts = frozenset(acts)
        self.patience = patience
        self.accepting = accepting

    def execute(self, context: Context) -> Any:
        """Nothing where the next step is of another kind."""
        require_execute(context)
        patience_s = float(context["params"][self.patience]) if self.patience else _PATIENCE_S
        return self._went(context, self.walk(self.terms(self.acts, patience_s=patience_s)))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Look again after a person acted; what only a person can see counts as seen.

        Raises `Transient` where somebody has to act again, such as for the next node."""
        answer = self.answered(context, event, DEPLOYED)
        if not answer.said:
            raise AirflowFailException(
                f"{answer.who} stopped; the run is open: trigger again, or take it back"
            )
        terms = self.terms(self.acts, yes=answer)
        outcome = self.walk(replace(terms, seen=terms.seen and self.accepting))
        if outcome.detail:
            raise Transient(f"waiting at {outcome.step}: {outcome.detail}; the next try asks")

    def _went(self, context: Context, outcome: RunOutcome) -> Any:
        from groupshift.application.run_engine import Ended

        if outcome.ended is not Ended.WAITING:
            return None
        until = run_by_hand(self.move().name, _until(context), accepting=self.accepting)
        body = f"{shown(outcome.detail)}\n\n{until}"
        return self.park(context, outcome.step, f"By hand: {visible(outcome.step)}", body)


class Verdict(RunTask):
    """The last task of every run: red unless every step was read back, and nothing that was found wrong was
    only accepted."""

    def execute(self, context: Context) -> None:
        """Log where it ended."""
        from groupshift.application.run_account import accepted
        from groupshift.application.run_accounts import account_of
        from groupshift.application.run_demands import lost_to
        from groupshift.ports.journal import RunState

        if self.run_id in {"", UNKNOWN}:
            if context["params"]["execute"]:
                raise AirflowSkipException(
                    "no run was begun and nothing was changed: the red task plan says why"
                )
            self.log.info("nothing was changed: trigger again with 'execute' to act on this plan")
            return
        with self.opened() as tools:
            run = tools.runs.find(self.run_id)
            found = accepted(account_of(run, tools.runs.steps(run.run)))
            lost = lost_to(tools.runs, run.run, self.holder)
        self.log.info("run %s is %s", run.run, run.state)
        if context["params"]["execute"] and run.state is not RunState.DONE:
            then = "trigger again to go on, or take it back" if run.open else "trigger again to plan anew"
            raise AirflowFailException(f"run {run.run} is {run.state}: {lost or then}")
        if context["params"]["execute"] and found:
            wrong = "; ".join(f"{each.what} (accepted by {each.who})" for each in found)
            raise AirflowFailException(
                f"run {run.run} is {run.state}, and not all is as it has to be: {wrong}; what to do says: "
                f"groupshift {run.move} report {run.run}"
            )
        if context["params"]["execute"] and lost:
            raise AirflowFailException(
                f"run {run.run} is {run.state}, but not by this run of the DAG: {lost}"
            )
