"""The DAGs of the moves: imports, graphs, and which task does which step of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Until
from groupshift.domain.run import APPROVE, Plan, canonical, plan_from
from groupshift.ports.runs import EventKind
from groupshift_airflow.run_steps import Steps, place_of
from support.coordination_runs import CoordinationProcesses, make_coordination
from support.dag_shape import file_problems, plan_problems, shape_problems, tasks_of

FILES = sorted(
    each
    for each in (Path(__file__).parents[2] / "dags").glob("*.py")
    if "runbook.verdict" in each.read_text()
)
NAMES = [each.stem for each in FILES]
DAG = "migrate_coordination"


def test_every_move_has_its_dag_in_the_vocabulary() -> None:
    """And there is one that takes a run of any move back."""
    moves = {"migrate_coordination", "migrate_protocol", "downgrade_coordinator", "expand_offsets_topic"}
    assert set(NAMES) == {*moves, "roll_back"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_dag_file_imports_airflow_and_the_plugin_only(file: Path) -> None:
    """And is at most eighty lines long."""
    assert file_problems(file) == []


@pytest.mark.parametrize("name", NAMES)
def test_each_act_has_comparisons_and_each_wait_frees_its_slot(dagbag: Any, name: str) -> None:
    """Comparisons stand before and behind each act where the group has them; the verdict is last."""
    assert shape_problems(dagbag.dags[name]) == []


@pytest.mark.parametrize("name", ["migrate_coordination", "migrate_protocol", "roll_back"])
def test_each_act_on_a_group_has_a_comparison_before_and_behind_it(dagbag: Any, name: str) -> None:
    """In its own phase, there and back; only the mode node goes without: its gate comes right before."""
    tasks = dagbag.dags[name].tasks
    acts = {each.phase for each in tasks if isinstance(each, Steps) and each.part == "act"} - {"finalise"}
    assert acts
    for phase in acts:
        parts = {each.part for each in tasks if isinstance(each, Steps) and each.phase == phase}
        assert {"compare_before", "compare_after", "judge_before", "judge_after", "wait"} <= parts, phase


def plan_of(group: CoordinationProcesses, until: Until) -> Plan:
    """The plan of a run of this group."""
    return plan_from(group.runs.find(group.begin(until=until)).plan)


@pytest.mark.parametrize("until", list(Until))
@pytest.mark.parametrize("kind", [MemberKind.ZOOKEEPER, MemberKind.AWARE])
def test_each_step_of_a_plan_of_coordination_has_its_task(
    dagbag: Any, until: Until, kind: MemberKind
) -> None:
    """However far it goes, and wherever the group stands: each comparison is a Spark task of its own."""
    if kind is MemberKind.AWARE and until in {Until.CANARY, Until.ROLL}:
        pytest.skip("nothing is left to do")
    plan = plan_of(make_coordination(kind), until)
    assert plan_problems(dagbag.dags[DAG], plan) == []
    found = tasks_of(dagbag.dags[DAG], plan)
    compared = [task for key, task in found.items() if "/compare " in key]
    assert len(set(compared)) == len(compared)
    assert {task for key, task in found.items() if key.endswith("toggle/rehearse")} <= {"rehearse"}
    gates = {task for key, task in found.items() if f"/{APPROVE}" in key}
    assert gates <= {"approve_plan", "approve_toggle", "last_gate"}


@pytest.mark.parametrize("until", list(Until))
@pytest.mark.parametrize("dag", [DAG, "roll_back"])
def test_each_step_of_a_rollback_of_coordination_has_its_task(dagbag: Any, dag: str, until: Until) -> None:
    """A chain of tasks for each of its phases, with the comparisons as Spark tasks."""
    group = make_coordination()
    group.declines = frozenset({"finalise/approve"})
    name = group.begin(until=until)
    group.drive(name)
    group.roll_back(name)
    begun = next(e for e in group.runs.events(name) if e.kind is EventKind.ROLLBACK_BEGUN)
    plan = plan_from(canonical(begun.body["plan"]))
    tasks = [each for each in dagbag.dags[dag].topological_sort() if isinstance(each, Steps) and each.back]
    for number, step in enumerate(plan.steps):
        places = {
            each.task_id: place_of(plan, each.phase, each.part) for each in tasks if each.phase == step.phase
        }
        fitting = [task for task, place in places.items() if place is not None and place >= number]
        assert fitting, step.key
        if step.kind == "compare":
            assert fitting[0].startswith(f"{step.phase}.compare_"), (step.key, fitting[0])
