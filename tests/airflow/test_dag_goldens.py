"""Each DAG still has the tasks that it had when the goldens were written, in the same order.

Kept in ``tests/goldens/dags.json``: recorded once, never edited. A renamed task is a line in
``tests/goldens/renames.toml``, as ``dag.task`` where two DAGs have one of that name; two that became one task
have the same new name. New tasks may stand between the kept ones: what is held is which kept task
comes before which, and how a task takes what came before it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

KEPT = Path(__file__).parents[1] / "goldens"
DAGS: Mapping[str, Mapping[str, Any]] = json.loads((KEPT / "dags.json").read_text())
RENAMES: Mapping[str, str] = tomllib.loads((KEPT / "renames.toml").read_text())["tasks"]


def graph_of(dag: Any) -> dict[str, Any]:
    """Tasks by id: those right behind each, and its trigger rule."""
    return {
        task.task_id: {"before": sorted(task.downstream_task_ids), "rule": task.trigger_rule.value}
        for task in dag.tasks
    }


def renamed(dag: str, task: str) -> str:
    """How a kept task is called now."""
    return RENAMES.get(f"{dag}.{task}", RENAMES.get(task, task))


def behind(graph: Mapping[str, Any], task: str) -> set[str]:
    """Every task that comes after this one."""
    found: set[str] = set()
    waiting = [task]
    while waiting:
        following = set(graph[waiting.pop()]["before"]) - found
        found |= following
        waiting += following
    return found


@pytest.mark.parametrize("name", DAGS)
def test_a_dag_has_its_tasks_in_their_order(name: str, dagbag: Any) -> None:
    """Each kept arrow is a way still, and each kept task has its trigger rule."""
    now = graph_of(dagbag.dags[name])
    wrong = []
    for task, kept in DAGS[name].items():
        here = renamed(name, task)
        if here not in now:
            wrong.append(f"{task} is gone")
            continue
        after = behind(now, here)
        later = {each: renamed(name, each) for each in kept["before"]}
        wrong += [f"{task} is not before {each}" for each in later if later[each] not in {here, *after}]
        if now[here]["rule"] != kept["rule"]:
            wrong.append(f"{task} had rule {kept['rule']}, has {now[here]['rule']}")
    assert wrong == []
