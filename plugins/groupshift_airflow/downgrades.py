"""Brokers to an older release: operators that each do some kinds of steps of one run; XCom carries its id."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from groupshift.domain.cluster_run.steps import RunAct
from groupshift.errors import Transient
from groupshift_airflow.gates import APPROVE, DEPLOYED, NOBODY, REJECT, STOP
from groupshift_airflow.hooks import KafkaClusterHook, base_settings
from groupshift_airflow.operators import UNKNOWN, require_execute

if TYPE_CHECKING:
    from airflow.sdk import Context

    from groupshift.application.downgrade_work import DowngradeTools
    from groupshift.application.run_engine import RunOutcome
    from groupshift.application.run_work import RunTerms

NODES_VARIABLE = "GROUPSHIFT_NODES"
"""Environment variable that names the file of who replaces nodes (docs/downgrade.md); without it a person
does."""
GATE = frozenset({RunAct.APPROVE})
CONVERT = frozenset({RunAct.SNAPSHOT, RunAct.CONVERT, RunAct.CONVERT_EMPTY, RunAct.COMPARE})
COMPACT = frozenset({RunAct.QUICKEN, RunAct.COMPACT, RunAct.SETTLE})
LOWER = frozenset({RunAct.DELETE_CONFIGS, RunAct.LOWER})
CHECKPOINT = frozenset({RunAct.AWAIT_SNAPSHOT})
BROKERS = frozenset({RunAct.PROVE, RunAct.COMPARE, RunAct.REPLACE})
_TIMEOUT_S = 30.0
_NODES = 50
"""Tries of a task that asks again for each node."""
ASKED = "asked"
"""XCom key of the step that a parked task shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What ``who`` said (None: nothing yet) of the step that was shown: a run that is driven from elsewhere
    too may wait at another one when the answer comes."""

    step: str = ""
    said: bool | None = None
    who: str = "airflow"


NO_ANSWER = Answer()


@contextmanager
def opened(kafka_conn_id: str) -> Iterator[DowngradeTools]:
    """Every port of a run over this connection. Raises `Rejected` for a missing or wrong one, and for
    evidence that is no local folder."""
    from groupshift.errors import Rejected
    from groupshift.sandbox.replacement import driver_of
    from groupshift.settings import KafkaSettings
    from groupshift.spark.downgrade_tools import open_tools
    from groupshift.spark.run_tools import RunPlace

    base, file = base_settings(), os.environ.get(NODES_VARIABLE)
    root = str(base["evidence"]["root"])
    if "://" in root:
        raise Rejected("evidence.root is no local folder, which a downgrade needs; name one in the settings")
    place = RunPlace(
        kafka=KafkaSettings(**KafkaClusterHook(kafka_conn_id).section()),
        journal=str(base["journal"]["url"]),
        evidence=Path(root) / "downgrades",
        java_home=str(base.get("spark", {}).get("java_home", "")),
    )
    with open_tools(place, driver_of(Path(file) if file else None), timeout_s=_TIMEOUT_S) as tools:
        yield tools


class DowngradeTask(BaseOperator):
    """Base: which run, over which connection."""

    template_fields: Sequence[str] = ("run_id", "kafka_conn_id")

    def __init__(
        self,
        *,
        run_id: str = "{{ ti.xcom_pull(task_ids='plan') }}",
        kafka_conn_id: str = "{{ params.kafka_conn_id }}",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.run_id = run_id
        self.kafka_conn_id = kafka_conn_id

    def terms(self, acts: Collection[RunAct], *, yes: Answer = NO_ANSWER) -> RunTerms:
        """What this task does; ``yes`` answers the step that was shown to somebody, and no other one."""
        from groupshift.application.run_work import RunTerms

        return RunTerms(
            decide=lambda asked: yes.said if asked.step.key == yes.step else None,
            who=yes.who,
            seen=bool(yes.said),
            seen_of=yes.step,
            acts=frozenset(acts),
            told=lambda step, detail: self.log.info("%s: %s", step.key, detail),
        )

    def walk(self, terms: RunTerms) -> RunOutcome:
        """Drive the run as far as these terms go; the task fails where the run does. Raises `Conflict` for a
        run that is being taken back."""
        from groupshift.application.downgrade_run import go_on
        from groupshift.application.run_demands import demand_forward
        from groupshift.application.run_engine import Ended

        with opened(self.kafka_conn_id) as tools:
            run = tools.runs.find(self.run_id)
            demand_forward(run)
            outcome = go_on(tools, terms, run)
        if outcome.ended in {Ended.FAILED, Ended.DECLINED}:
            for number, text in enumerate(outcome.undo, 1):
                self.log.warning("way back %d: %s", number, text)
            raise AirflowFailException(f"{outcome.ended} at {outcome.step}: {outcome.detail}")
        return outcome


class Plan(DowngradeTask):
    """Shows what every rule says and the plan; with ``execute`` journals a run of it, or goes on with the
    cluster's open one, and returns its id."""

    def execute(self, context: Context) -> str:
        """Raises `Rejected` when the run may not begin, or an open one is another than asked for, `Conflict`
        when another one just began."""
        from groupshift.application.downgrade_demands import demand_same
        from groupshift.application.downgrade_run import begin, plan_run

        params = context["params"]
        with opened(self.kafka_conn_id) as tools:
            going = tools.runs.open_of(tools.reader.cluster_id())
            if going is not None:
                demand_same(going, _wanted(params))
                self.log.info("run %s of this cluster is open: it is gone on with", going.run)
                return going.run
            planned = plan_run(tools, _request(params), live=params["live"])
            for finding in planned.judgement.findings:
                self.log.info("%-12s %s: %s", finding.verdict, finding.rule, finding.reason)
            for step in planned.plan.steps:
                self.log.info("%s: %s", step.key, step.does)
            if not params["execute"] and planned.possible:
                return UNKNOWN
            return begin(tools, planned).run


def _coordinator(params: Any) -> Any:
    """The one that was chosen, or None for the release's own."""
    from groupshift.domain.coordinator_log.releases import Coordinator

    chosen = params["coordinator"]
    return None if chosen == "default" else Coordinator(chosen)


def _wanted(params: Any) -> Any:
    from groupshift.application.downgrade_demands import Wanted

    return Wanted(
        release=params["to"],
        now=params["from"],
        coordinator=_coordinator(params),
        live=params["live"],
        brokers_only=params.get("brokers_only", False),
    )


def _request(params: Any) -> Any:
    from groupshift.application.downgrade import DowngradeRequest
    from groupshift.domain.downgrade.releases import target_of
    from groupshift.domain.hazards.versions import Version

    return DowngradeRequest(
        target=target_of(params["to"], _coordinator(params)),
        said=Version.parse(params["from"], "from"),
        brokers_only=params.get("brokers_only", False),
    )


class Asking(DowngradeTask, HITLOperator):
    """Base of tasks that may park until a person answers; nobody answering changes nothing."""

    # Not subject and body: they are shown as they are, never rendered as a template.
    template_fields: Sequence[str] = DowngradeTask.template_fields

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"subject": "groupshift", **kwargs})

    def park(self, context: Context, step: str, subject: str, body: str) -> Any:
        """Ask this of a step. Does not return."""
        context["ti"].xcom_push(key=ASKED, value=step)
        self.subject, self.body = subject, body
        self.response_timeout = timedelta(seconds=context["params"]["gate_expiry_s"])
        return HITLOperator.execute(self, context)

    def answered(self, context: Context, event: dict[str, Any], yes: str) -> Answer:
        """Whether this was chosen, of which step, and by whom. Raises `Transient` where nothing was shown."""
        answer = HITLOperator.execute_complete(self, context, event)
        user = answer["responded_by_user"]
        who = str((user.get("name") or user.get("id")) if user else NOBODY)
        step = context["ti"].xcom_pull(task_ids=self.task_id, key=ASKED)
        if not step:
            raise Transient(f"nothing tells what {who} was shown; the next try asks again")
        return Answer(step=str(step), said=answer["chosen_options"][0] == yes, who=who)


class Approval(Asking):
    """Asks where the next step is an approval; else there is nothing to ask."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"options": [APPROVE, REJECT], "defaults": REJECT, **kwargs})

    def execute(self, context: Context) -> Any:
        """Park with the plan. Raises `Conflict` for a run that is being taken back."""
        from groupshift.application.downgrade_run import statuses
        from groupshift.application.run_demands import demand_forward
        from groupshift.domain.cluster_run.progress import Stand

        require_execute(context)
        with opened(self.kafka_conn_id) as tools:
            run = tools.runs.find(self.run_id)
            demand_forward(run)
            left = [each.step for each in statuses(tools.runs, run) if each.stand is not Stand.DONE]
        if not left or left[0].act is not RunAct.APPROVE:
            return None
        rows = "".join(f"| {step.key} | {step.does} | {step.inverse or '-'} |\n" for step in left)
        head = "| step | what is done | way back |\n|---|---|---|\n"
        named = f"Plan `{run.plan_hash[:12]}` of run `{run.run}`"
        return self.park(context, left[0].key, left[0].does, f"{named}\n\n{head}{rows}")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Journal the answer. Raises `Conflict` when the approval is void, `Transient` where the run asks for
        another one by now."""
        answer = self.answered(context, event, APPROVE)
        outcome = self.walk(self.terms(GATE, yes=answer))
        if outcome.detail:
            raise Transient(f"waiting at {outcome.step}: {outcome.detail}; the next try asks")
        self.log.info("approved by %s", answer.who)


class Walk(Asking):
    """Does all steps of some kinds that come next; parks where a person has to act."""

    def __init__(self, *, acts: Collection[RunAct], **kwargs: Any) -> None:
        super().__init__(**{"options": [DEPLOYED, STOP], "defaults": STOP, "retries": _NODES, **kwargs})
        self.acts = frozenset(acts)

    def execute(self, context: Context) -> Any:
        """Nothing where the next step is of another kind."""
        require_execute(context)
        return self._went(context, self.walk(self.terms(self.acts)))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Look again after a person acted; what only a person can see counts as seen.

        Raises `Transient` where somebody has to act again, such as for the next node."""
        answer = self.answered(context, event, DEPLOYED)
        if not answer.said:
            raise AirflowFailException(
                f"{answer.who} stopped; the run is open: trigger again, or take it back"
            )
        outcome = self.walk(self.terms(self.acts, yes=answer))
        if outcome.detail:
            raise Transient(f"waiting at {outcome.step}: {outcome.detail}; the next try asks")

    def _went(self, context: Context, outcome: RunOutcome) -> Any:
        from groupshift.application.run_engine import Ended

        if outcome.ended is not Ended.WAITING:
            return None
        return self.park(context, outcome.step, f"By hand: {outcome.step}", outcome.detail)


class Verdict(DowngradeTask):
    """The last task of every run: red unless every step was read back."""

    def execute(self, context: Context) -> None:
        """Log where it ended."""
        from groupshift.ports.cluster_runs import RunState

        if self.run_id in {"", UNKNOWN}:
            if context["params"]["execute"]:
                raise AirflowFailException("no run was begun and nothing was changed; the task plan says why")
            self.log.info("nothing was changed: trigger again with 'execute' to act on this plan")
            return
        with opened(self.kafka_conn_id) as tools:
            run = tools.runs.find(self.run_id)
        self.log.info("run %s is %s", run.run, run.state)
        if context["params"]["execute"] and run.state is not RunState.DONE:
            raise AirflowFailException(
                f"run {run.run} is {run.state}: trigger again to go on, or take it back"
            )
