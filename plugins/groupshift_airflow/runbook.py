"""The words that the DAG of a move is written with; each makes a task, or a group of tasks.

A DAG is a chain of them::

    chain(
        runbook.plan("expansion"),
        runbook.approval("approve_plan", phase="approve"),
        runbook.phase("delete"),
        runbook.nodes("brokers"),
        runbook.going_back(),
        runbook.verdict(),
    )

The graph never depends on a journal or a plan: a task does the steps of its phase that the run's plan has,
and is skipped where the plan does not have the phase (``passes``: it is green then).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import TaskGroup, TriggerRule, chain

from groupshift_airflow import form as forms
from groupshift_airflow import retries
from groupshift_airflow.plan_and_verdict_tasks import (
    PLANNED,
    VERDICT,
    BeginRollBack,
    GoingBack,
    PlanRun,
    Verdict,
    Watch,
)
from groupshift_airflow.run_steps import Compare, LastGate, Steps

if TYPE_CHECKING:
    from airflow.sdk import Param

DEFAULT_ARGS = retries.DEFAULT_ARGS
roll_back_form, watch_form = forms.roll_back_form, forms.watch_form
_ACT, _JUDGE, _COMPARE = "act", "judge", "compare"
_MEASURES = ("snapshot", _COMPARE, _JUDGE)
ALL_PARTS = (*(f"{e}_before" for e in _MEASURES), _ACT, "wait", *(f"{e}_after" for e in _MEASURES))
"""The parts of a phase, in their order: what is measured, before and after, and the act between."""
WITHOUT_ACT = tuple(each for each in ALL_PARTS if each != "act")
"""The parts of a phase that only waits."""


def form(move: str, *, zookeeper: bool = False) -> dict[str, Param]:
    """Return the trigger form of a move, from the options of its request. Raises `Rejected` where the move is
    not installed."""
    from groupshift.engine.installed_moves import move_named

    return forms.of_request(move_named(move).request, zookeeper=zookeeper)


def watch(move: str) -> Watch:
    """Return the only task of a DAG that watches: it judges again what a run left that is over, and is red by
    itself. It needs `watch_form`."""
    return Watch(task_id="watch", move=move)


def plan(move: str) -> PlanRun:
    """Return the first task: it plans the run. Behind it stands a leaf that no worker runs: the Airflow run
    is red when there is no plan, although every later task is skipped."""
    first = PlanRun(task_id="plan", move=move)
    first >> EmptyOperator(task_id=PLANNED)
    return first


def roll_back() -> BeginRollBack:
    """Return the first task of the DAG that takes a run back. With ``execute`` that is the decision: the
    plan has no gate, but what a move undoes may have one of its own."""
    first = BeginRollBack(task_id="plan")
    first >> EmptyOperator(task_id=PLANNED)
    return first


def approval(
    name: str,
    *,
    phase: str,
    subject: str = "",
    entered: TriggerRule = TriggerRule.NONE_FAILED,
    passes: bool = False,
) -> Steps:
    """Return the gate of an approve step: the one of this subject, or the last one of a phase. What comes
    before it is done first. ``passes``: it is green where the plan does not have the phase."""
    about: dict[str, Any] = {"phase": phase, "part": "approve", "subject_of": subject}
    gate = Steps(task_id=name, **about, trigger_rule=entered)
    gate.passes = passes
    return gate


def rehearsal(name: str, *, phase: str, entered: TriggerRule = TriggerRule.NONE_FAILED) -> Steps:
    """Return the task that asks what each claim asks anew before the approval of a phase."""
    return Steps(task_id=name, phase=phase, part="rehearse", trigger_rule=entered)


def last_gate(name: str, *, phase: str, finalise: str, keep: str) -> LastGate:
    """Return the gate of an optional phase: a yes goes on with task ``finalise``, anything else with task
    ``keep``; the other one is skipped."""
    about: dict[str, Any] = {"phase": phase, "part": "approve", "trigger_rule": TriggerRule.ALL_SUCCESS}
    return LastGate(task_id=name, finalise=finalise, keep=keep, **about)


def keep(name: str = "keep") -> Steps:
    """Return the task that ends a run as far as asked: the rollback stays open."""
    return Steps(task_id=name, trigger_rule=TriggerRule.ALL_SUCCESS)


def phase(
    name: str,
    *parts: str,
    entered: TriggerRule = TriggerRule.NONE_FAILED,
    back: bool = False,
    passes: bool = False,
) -> TaskGroup:
    """Return a phase as a chain of tasks: snapshot, compare, judge, act, wait, snapshot, compare, judge, or
    those of them that are named. A phase without acts has ``snapshot``, ``compare``, ``judge``.

    A judge runs when its comparison succeeded or failed, not when the phase was skipped. ``entered`` is the
    trigger rule of the first task; ``back``: the phase is one of a rollback."""
    wanted = parts or ALL_PARTS
    tasks: dict[str, Steps] = {}
    with TaskGroup(group_id=name) as group:
        for part in wanted:
            kind, _, moment = part.partition("_")
            rule = TriggerRule.ALL_SUCCESS if tasks else entered
            if kind == _JUDGE and rule is TriggerRule.ALL_SUCCESS:
                rule = TriggerRule.ALL_DONE_MIN_ONE_SUCCESS
            about: dict[str, Any] = {"task_id": part, "phase": name, "part": part, "back": back}
            about["trigger_rule"] = rule
            if kind == _COMPARE:
                judged = "_".join(filter(None, [_JUDGE, moment])) in wanted
                tasks[part] = Compare(**about, asking=not judged)
            else:
                tasks[part] = Steps(**about, hands_on=kind == _ACT and "wait" in wanted)
            tasks[part].passes = passes
        chain(*tasks.values())
        for moment in ("", "_before", "_after"):  # each judge sees the snapshot of its comparison
            if {f"snapshot{moment}", f"{_JUDGE}{moment}"} <= tasks.keys():
                tasks[f"snapshot{moment}"] >> tasks[f"{_JUDGE}{moment}"]
        if {"judge_before", "judge_after"} <= tasks.keys():
            tasks["judge_before"] >> tasks["judge_after"]
    return group


def nodes(
    name: str,
    *,
    entered: TriggerRule = TriggerRule.NONE_FAILED,
    back: bool = False,
    passes: bool = False,
) -> TaskGroup:
    """Return a phase that repeats, such as for each node; with ``back`` all that is left of a rollback.

    Its two tasks are entered again until no step of it is left: ``walk`` acts, waits and judges, ``compare``
    submits the Spark jobs."""
    about: dict[str, Any] = {"phase": "" if back else name, "back": back, "trigger_rule": entered}
    with TaskGroup(group_id=name) as group:
        walk = Steps(task_id="walk", beside=f"{name}.compare", **about)
        compare = Compare(task_id="compare", beside=f"{name}.walk", **about)
        walk.passes = compare.passes = passes
    return group


def going_back(*phases: str) -> TaskGroup:
    """Return the rollback inside a run: skipped unless a step or a person has begun it, whatever happened
    before. Named ``phases`` are a chain of tasks each, in this order; without one its tasks are entered again
    until no step is left."""
    with TaskGroup(
        group_id="roll_back", tooltip="only after a rollback was begun", prefix_group_id=False
    ) as group:
        begun = GoingBack(task_id="going_back", trigger_rule=TriggerRule.ALL_DONE)
        chain(begun, *([phase(each, back=True) for each in phases] or [undo()]))
    return group


def undo(*, entered: TriggerRule = TriggerRule.ALL_SUCCESS) -> TaskGroup:
    """Return all steps of a rollback that are left: tasks that are entered again until none is."""
    return nodes("undo", back=True, entered=entered)


def verdict(*, back: bool = False) -> Verdict:
    """Return the last task: red on a bad verdict. ``back``: rolled back is what was asked for."""
    return Verdict(task_id=VERDICT, back=back, trigger_rule=TriggerRule.ALL_DONE)
