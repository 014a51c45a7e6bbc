"""Whole DAGs in this process, over a simulated group: what a run does after each look and answer.

Tasks run one after the other, in Airflow's order and by its trigger rules, without its database. Parking,
rescheduling and tries are as in Airflow; that a real one does the same: `tests/airflow/test_real_airflow.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)
from airflow.sdk.timezone import utcnow

from groupshift.bootstrap import moves
from groupshift.domain.run import SparkJob
from groupshift.errors import GroupshiftError, Transient
from groupshift.ports.clock import NoStepCrash, StepCrashPoints
from groupshift_airflow import run_tasks
from groupshift_airflow.run_steps import Compare, Steps
from support.simulated_runs import Processes

POLL_S = 5.0
"""Seconds of the simulated clock between two looks of a sensor."""
TURNS = 2000
ACTS = frozenset({"replace_members", "set_mode", "delete_mode_node"})
"""Kinds of steps that change a group."""
YES: Mapping[str, str | None] = {"approve_plan": "Approve", "approve_toggle": "Approve", "last_gate": "Keep"}
SUCCESS, FAILED, SKIPPED, UPSTREAM_FAILED = "success", "failed", "skipped", "upstream_failed"
_BAD = frozenset({FAILED, UPSTREAM_FAILED})


class Parked(Exception):
    """A task parked with a question, and this is the event of its answer."""

    def __init__(self, event: dict[str, Any]) -> None:
        super().__init__("parked")
        self.event = event


def by_rule(rule: str, upstream: Iterable[str]) -> str:
    """What a trigger rule makes of the ends of the tasks right before: a state, or empty: the task runs."""
    ends = list(upstream)
    bad, skipped, good = bool(_BAD & set(ends)), SKIPPED in ends, SUCCESS in ends or not ends
    match rule:
        case "all_done":
            return ""
        case "all_done_min_one_success":
            return SKIPPED if skipped else "" if good else UPSTREAM_FAILED
        case "all_success":
            return UPSTREAM_FAILED if bad else SKIPPED if skipped else ""
        case "none_failed":
            return UPSTREAM_FAILED if bad else ""
        case "none_failed_min_one_success":
            return UPSTREAM_FAILED if bad else "" if good else SKIPPED
    raise AssertionError(rule)


@dataclass
class Instance:
    """The part of a task instance that tasks use."""

    told: Going
    task_id: str
    try_number: int = 1
    max_tries: int = 50
    looks: int = 0

    @property
    def dag_id(self) -> str:
        """Of the run."""
        return self.told.dag.dag_id

    @property
    def run_id(self) -> str:
        """Of the run."""
        return self.told.run_id

    def xcom_push(self, key: str, value: Any) -> None:
        """Keep."""
        self.told.kept[self.task_id, key] = value

    def xcom_pull(self, *, task_ids: str, key: str = "return_value") -> Any:
        """What was kept, if anything."""
        return self.told.kept.get((task_ids, key))

    def get_task_states(self, *, task_ids: list[str], **_: Any) -> dict[str, dict[str, str]]:
        """How these tasks of the run stand."""
        return {self.run_id: {each: self.told.states.get(each, "running") for each in task_ids}}


@dataclass
class Going:
    """One run of a DAG."""

    dag: Any
    run_id: str
    params: dict[str, Any]
    states: dict[str, str] = field(default_factory=dict)
    kept: dict[tuple[str, str], Any] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)


@dataclass
class SimulatedDags:
    """Runs DAGs over ``bench``.

    ``answers`` are by task id; None is the expiry of the question: its default, chosen by nobody. ``asked``
    is which tasks asked, with subject and answers; ``said`` why tasks of the last run failed or were skipped.
    ``crash`` calls back at crash points, ``before`` with a task's id before each entry of it, ``parked``
    between its question and the answer. ``fails`` says which Spark jobs leave nothing.
    ``kept`` is what tasks of the last run left for others. ``jobs`` are
    the tasks that ran a Spark job, with its output."""

    bench: Processes
    dags: Any
    answers: dict[str, str | None]
    asked: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    jobs: list[tuple[str, str]] = field(default_factory=list)
    crash: StepCrashPoints = field(default_factory=NoStepCrash)
    before: Callable[[str], None] = lambda _task: None
    parked: Callable[[str], None] = lambda _task: None
    fails: Callable[[SparkJob], bool] = lambda _job: False
    said: dict[str, str] = field(default_factory=dict)
    kept: dict[tuple[str, str], Any] = field(default_factory=dict)
    count: int = 0

    def go(self, dag: str, **conf: Any) -> tuple[str, dict[str, str]]:
        """Run a DAG to its end; returns the run's state and the state of every task."""
        self.count += 1
        found = self.dags[dag]
        given = {"group": self.bench.world.group, "execute": True, **conf}
        params = {}
        for name in found.params:
            param = deepcopy(found.params.get_param(name))
            params[name] = param.resolve(given[name]) if name in given else param.resolve()
        going = Going(dag=found, run_id=f"run-{self.count}", params=params)
        instances = {each.task_id: Instance(going, each.task_id) for each in found.tasks}
        order = list(found.topological_sort())
        for _ in range(TURNS):
            left = [each for each in order if each.task_id not in going.states]
            if not left:
                break
            for task in left:
                self._turn(going, task, instances[task.task_id])
        self.said, self.kept = going.said, going.kept
        leaves = [going.states[each.task_id] for each in found.tasks if not each.downstream_task_ids]
        return FAILED if _BAD & set(leaves) else SUCCESS, going.states

    def _turn(self, going: Going, task: Any, instance: Instance) -> None:
        """Let a task run whose turn it is; a sensor that has to come again stays without a state."""
        upstream = [going.states.get(each, "") for each in task.upstream_task_ids]
        if task.task_id in going.states or "" in upstream:
            return
        state = by_rule(task.trigger_rule.value, upstream)
        if not state and hasattr(task, "holder"):
            self.before(task.task_id)
            self._render(going, task)
            state = self._ends(going, task, instance)
        elif not state:
            state = SUCCESS
        if state:
            going.states[task.task_id] = state

    def _ends(self, going: Going, task: Any, instance: Instance) -> str:
        """Enter a task; returns its state, empty where it comes again."""
        try:
            if self._enter(going, task, instance):
                return SUCCESS
            instance.looks += 1
            self.bench.clock.sleep(POLL_S)
        except Transient as again:
            instance.try_number, instance.looks = instance.try_number + 1, 0
            going.said[task.task_id] = str(again)
            return FAILED if instance.try_number > instance.max_tries else ""
        except DownstreamTasksSkipped as skips:
            going.states.update({str(each): SKIPPED for each in skips.tasks})
            return SUCCESS
        except (AirflowSkipException, AirflowFailException, GroupshiftError) as why:
            going.said[task.task_id] = str(why)
            return SKIPPED if isinstance(why, AirflowSkipException) else FAILED
        return ""

    def _render(self, going: Going, task: Any) -> None:
        """As Airflow renders the templates of a task."""
        params = going.params
        task.holder = f"{going.dag.dag_id}/{going.run_id}"
        task.run = str(going.kept.get(("plan", "return_value")))
        if task.task_id in {"plan", "watch"}:
            task.run = params.get("run") or ""
        if hasattr(task, "to"):
            task.to = params["to"] or ""

    def _enter(self, going: Going, task: Any, instance: Instance) -> bool:
        """One entry of a task; returns whether it is over."""
        about = {"dag_id": going.dag.dag_id, "run_id": going.run_id, "triggering_user_name": "ann"}
        context = {
            "params": going.params,
            "ti": instance,
            "dag_run": type("DagRun", (), about)(),
            "task_reschedule_count": instance.looks,
        }
        if not isinstance(task, Steps):
            made = task.execute(context)
            if made is not None:
                instance.xcom_push("return_value", made)
            return True
        task.answered = ""
        try:
            return task.poke(context)
        except Parked as parked:
            self.parked(task.task_id)
            task.execute_complete(context, parked.event)
            return True
        finally:
            task.answered = ""

    @property
    def run(self) -> str:
        """The latest run of the journal."""
        return self.bench.runs.recent(1)[0].run

    def acts(self) -> list[str]:
        """The phases whose acts changed the group, in order."""
        events = self.bench.runs.events(self.run)
        plans = [each.body["plan"]["steps"] for each in events if each.kind == "rollback_begun"]
        phases = {step["key"]: step["phase"] for plan in plans for step in plan}
        found = [each.step for each in events if each.kind == "acted" and each.step.partition("/")[2] in ACTS]
        return [phases.get(key) or key.partition("/")[0].rpartition(" ")[2] for key in found]


def simulated_dags(bench: Processes, dags: Any, patch: pytest.MonkeyPatch) -> SimulatedDags:
    """DAGs whose tasks open this world. Nobody waits: a question is answered at once, and each look of a
    sensor that has to come again lets the simulated clock go on."""
    told = SimulatedDags(bench=bench, dags=dags, answers=dict(YES))

    def park(self: HITLOperator, context: Any) -> None:
        told.asked.append((self.task_id, self.subject, tuple(self.options)))
        assert self.task_id in told.answers, (self.task_id, self.body)
        choice = told.answers[self.task_id]
        user = {"id": "alice", "name": "alice"} if choice else None
        given = {"chosen_options": [choice] if choice else self.defaults, "responded_by_user": user}
        assert set(given["chosen_options"] or ()) <= set(self.options), (self.task_id, self.options)
        raise Parked({**given, "params_input": {}, "responded_at": utcnow()})

    def submit(self: Steps, context: Any, job: SparkJob, settings: Any) -> None:
        told.jobs.append((self.task_id, job.output))
        if not told.fails(job):
            bench.submit(job)

    patch.setattr(HITLOperator, "execute", park)
    patch.setattr(Steps, "submit", submit)
    patch.setattr(Compare, "submit", submit)
    patch.setattr(moves, "journal", lambda _settings: nullcontext(bench.runs))
    patch.setattr(moves, "opened", lambda *_: nullcontext(bench.ports()))
    patch.setattr(moves, "tools_of", lambda *_: bench.tools(told.crash))
    patch.setattr(run_tasks, "cluster_settings", lambda *_: None)
    return told
