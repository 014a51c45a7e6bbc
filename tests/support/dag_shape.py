"""What every DAG of a move promises, held against the DAG file and against plans of its move."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseSensorOperator

from groupshift.domain.run import APPROVE, Plan
from groupshift_airflow.run_steps import Steps, place_of

ALLOWED = {"airflow", "groupshift_airflow"}
LINES = 80
COMPARE = "compare"


def file_problems(file: Path) -> list[str]:
    """Return what is wrong with a DAG file: what it imports, how long it is."""
    text = file.read_text()
    found = [f"{file.name} has {len(text.splitlines())} lines"] if len(text.splitlines()) > LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        found += [f"{file.name} imports {each}" for each in names if each.partition(".")[0] not in ALLOWED]
    return found


def shape_problems(dag: Any) -> list[str]:
    """Return what is wrong with the graph of a DAG."""
    leaves = {each.task_id: each for each in dag.tasks if not each.downstream_task_ids}
    found = [] if set(leaves) == {"verdict", "planned"} else [f"its leaves are {sorted(leaves)}"]
    if leaves["verdict"].trigger_rule.value != "all_done":
        found.append("verdict does not always run")
    planned = leaves["planned"]
    if (planned.task_type, planned.upstream_task_ids) != ("EmptyOperator", {"plan"}):
        found.append("planned does something, or stands behind more than the plan")
    sensors = [each for each in dag.tasks if isinstance(each, BaseSensorOperator)]
    found += [f"{each.task_id} holds a slot while it waits" for each in sensors if each.mode != "reschedule"]
    for task in dag.tasks:
        if isinstance(task, Steps):
            found += _turns(dag, task) if task.beside else _chain(dag, task)
    return found


def _turns(dag: Any, task: Steps) -> list[str]:
    other = dag.get_task(task.beside)
    found = []
    if other.beside != task.task_id or other.submits is task.submits:
        found.append(f"{task.task_id} and {task.beside} do not take turns")
    if other.task_id in _behind(dag, task.task_id) | _behind(dag, task.task_id, up=True):
        found.append(f"{task.task_id} and {task.beside} wait for each other")
    return found


def _chain(dag: Any, task: Steps) -> list[str]:
    """An act has comparisons of its group before and behind it, and the wait in between."""
    if task.part != "act":
        return []
    group = {
        each.part: each.task_id
        for each in dag.tasks
        if isinstance(each, Steps) and each.task_group is task.task_group
    }
    after, before = _behind(dag, task.task_id), _behind(dag, task.task_id, up=True)
    found = []
    if "wait" in group:
        if group["wait"] not in after:
            found.append(f"{group['wait']} is not behind its act")
        after = _behind(dag, group["wait"])
    for part, named in group.items():
        if part.startswith(COMPARE) and not isinstance(dag.get_task(named), SparkSubmitOperator):
            found.append(f"{named} is no Spark task")
        if part == "compare_before" and named not in before:
            found.append(f"{named} is not before its act")
        if part == "compare_after" and named not in after:
            found.append(f"{named} is not behind its act and its wait")
    return found


def _behind(dag: Any, task: str, *, up: bool = False) -> set[str]:
    """Every task behind this one, or before it."""
    found: set[str] = set()
    waiting = [task]
    while waiting:
        each = dag.get_task(waiting.pop())
        following = set(each.upstream_task_ids if up else each.downstream_task_ids) - found
        found |= following
        waiting += following
    return found


def tasks_of(dag: Any, plan: Plan, spark: Iterable[str] = (COMPARE,)) -> dict[str, str]:
    """Return which task does each step of a plan, by the step's key; empty where none does. ``spark`` are the
    kinds of steps that are Spark jobs."""
    places = []
    for task in dag.topological_sort():
        if not isinstance(task, Steps) or task.back:
            continue
        place = place_of(plan, task.phase, task.part, task.subject_of) if task.phase else len(plan.steps) - 1
        if place is not None:
            places.append((task, place))
    found = {}
    for number, step in enumerate(plan.steps):
        fitting = [task for task, place in places if place >= number]
        first = fitting[0] if fitting else None
        if first is not None and first.beside and first.submits is not (step.kind in spark):
            first = dag.get_task(first.beside)
        found[step.key] = first.task_id if first is not None else ""
    return found


def plan_problems(dag: Any, plan: Plan, spark: Iterable[str] = (COMPARE,)) -> list[str]:
    """Return what is wrong with a DAG for this plan of its move: a step that no task does, a comparison that
    is no Spark task of its own, an approval that is no gate."""
    found, kinds = [], tuple(spark)
    for key, name in tasks_of(dag, plan, kinds).items():
        step = plan.step(key)
        assert step is not None
        if not name:
            found.append(f"no task does step {key}")
        elif step.kind in kinds and not isinstance(dag.get_task(name), SparkSubmitOperator):
            found.append(f"step {key} is a Spark job, and task {name} submits none")
        elif step.kind == APPROVE and dag.get_task(name).part != APPROVE and not dag.get_task(name).beside:
            found.append(f"step {key} is an approval, and task {name} is no gate")
    return found
