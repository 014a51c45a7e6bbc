"""The DAG files: short, quick to parse, and shaped as the runbook says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DAG_FILES = sorted((PROJECT / "dags").glob("*.py"))
HEAVY = ("pyspark", "great_expectations", "confluent_kafka", "kazoo", "pyarrow")

PARSE = f"""
import json, sys, time
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag
errors, seconds = {{}}, {{}}
for file in {[str(file) for file in DAG_FILES]!r}:
    begun = time.process_time()
    bag = DagBag(file)
    seconds[file] = time.process_time() - begun
    errors |= bag.import_errors
found = {{
    "errors": errors,
    "seconds": seconds,
    "heavy": [name for name in {HEAVY!r} if name in sys.modules],
}}
print("PARSED" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def parsed() -> dict[str, Any]:
    """What a fresh process that has imported airflow.sdk sees when it parses the DAG files."""
    command = [sys.executable, "-c", PARSE]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "plugins")}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("PARSED"))
    return dict(json.loads(line.removeprefix("PARSED")))


def test_dags_import_without_errors(parsed: dict[str, Any]) -> None:
    """Every runbook parses."""
    assert parsed["errors"] == {}
    assert len(parsed["seconds"]) == len(DAG_FILES) == 8


def test_each_dag_file_parses_in_less_than_a_second(parsed: dict[str, Any]) -> None:
    """Every task re-parses its file, so parsing is paid with every task (budget of the architecture). Seconds
    of processor time: how long a machine that does something else takes says nothing about the file."""
    assert {file: seconds for file, seconds in parsed["seconds"].items() if seconds >= 1} == {}


def test_parsing_loads_no_heavy_library(parsed: dict[str, Any]) -> None:
    """Spark, Great Expectations and the cluster clients are loaded by the tasks that need them."""
    assert parsed["heavy"] == []


@pytest.mark.parametrize("file", DAG_FILES, ids=lambda file: file.name)
def test_a_dag_file_is_at_most_eighty_lines(file: Path) -> None:
    """A DAG is a runbook."""
    assert len(file.read_text().splitlines()) <= 80


def test_the_defaults_of_every_form_change_nothing(dagbag: Any) -> None:
    """Noop unless execute; group and run have no default, so they must be filled in."""
    forms = {name: dag.params for name, dag in dagbag.dags.items()}
    assert "execute" not in forms.pop("audit_offsets")  # it cannot change anything
    assert "execute" not in forms.pop("watch_offsets_topic")
    assert {name: form["execute"] for name, form in forms.items()} == {
        "downgrade_coordinator": False,
        "expand_offsets_topic": False,
        "migrate_coordination": False,
        "migrate_protocol": False,
        "roll_back": False,
        "scan_fleet": False,
    }
    assert not forms["scan_fleet"]["toggle"]
    assert forms["scan_fleet"]["take_back"] == []
    assert not forms["migrate_coordination"].get_param("group").has_value
    assert not forms["roll_back"].get_param("run").has_value
    assert forms["roll_back"]["to"] == "", "all the way"


def test_every_parameter_has_a_title_a_section_and_an_explanation(dagbag: Any) -> None:
    """The trigger form explains itself."""
    for dag in dagbag.dags.values():
        for name in dag.params:
            schema = dag.params.get_param(name).schema
            assert {"title", "section", "description_md"} <= set(schema), name


@pytest.mark.parametrize(
    "dag",
    [
        "migrate_coordination",
        "migrate_protocol",
        "roll_back",
        "downgrade_coordinator",
        "expand_offsets_topic",
    ],
)
def test_the_verdict_is_the_only_leaf_that_does_anything_and_always_runs(dagbag: Any, dag: str) -> None:
    """A run is green when its leaves are: the task that raises on a bad verdict, and one right behind the
    plan that does nothing, so that a run without a plan is red by its plan alone."""
    leaves = {task.task_id: task for task in dagbag.dags[dag].tasks if not task.downstream_task_ids}
    assert set(leaves) == {"verdict", "planned"}
    assert leaves["verdict"].trigger_rule.value == "all_done"
    assert (leaves["planned"].task_type, leaves["planned"].upstream_task_ids) == ("EmptyOperator", {"plan"})


def test_a_watch_is_one_task_that_is_red_by_itself(dagbag: Any) -> None:
    """Without a choice it is the latest expansion that is done; daily, but in a deployment that says else."""
    dag = dagbag.dags["watch_offsets_topic"]
    assert [task.task_id for task in dag.tasks] == ["watch"]
    assert (dag.params["run"], dag.schedule) == ("", "@daily")


def test_an_audit_ends_with_its_verdict_and_covers_every_group_by_default(dagbag: Any) -> None:
    """The verdict is its only leaf; without a choice no group is left out."""
    dag = dagbag.dags["audit_offsets"]
    assert [task.task_id for task in dag.topological_sort()] == ["audit", "verdict"]
    assert [task.task_id for task in dag.tasks if not task.downstream_task_ids] == ["verdict"]
    assert dag.params["groups"] == []


def test_phases_come_in_order_with_the_rehearsal_before_the_toggles_approval(dagbag: Any) -> None:
    """plan, approval, canary, roll, rehearsal, approval, toggle, retire, soak, last gate, verdict."""
    order = [task.task_id for task in dagbag.dags["migrate_coordination"].topological_sort()]
    wanted = [
        "plan",
        "approve_plan",
        "canary.act",
        "roll.act",
        "rehearse",
        "approve_toggle",
        "toggle.act",
        "retire.act",
        "soak.wait",
        "last_gate",
        "finalise.act",
        "going_back",
        "undo_retire.act",
        "undo_toggle.act",
        "undo_members.act",
        "verdict",
    ]
    assert [task for task in order if task in wanted] == wanted


def test_every_phase_is_the_same_chain(dagbag: Any) -> None:
    """There and back: snapshot, compare, judge, act, wait, snapshot, compare, judge; the soak has no act."""
    chain = [
        "snapshot_before",
        "compare_before",
        "judge_before",
        "act",
        "wait",
        "snapshot_after",
        "compare_after",
        "judge_after",
    ]
    dag = dagbag.dags["migrate_coordination"]
    groups: dict[str, list[str]] = {}
    for task in dag.topological_sort():
        group, _, name = task.task_id.rpartition(".")
        groups.setdefault(group, []).append(name)
    assert groups.pop("soak") == [name for name in chain if name != "act"]
    assert groups.pop("finalise") == ["act", "wait"]
    del groups[""]
    assert set(groups) == {
        "canary",
        "roll",
        "toggle",
        "retire",
        "undo_retire",
        "undo_toggle",
        "undo_members",
    }
    assert all(names == chain for names in groups.values())


def test_whatever_waits_frees_its_slot_and_may_be_asked_often(dagbag: Any) -> None:
    """No process waits for a group or a person; a look that a busy scheduler counts as failed, and an answer
    in the instant in which a gate parks, do not use up the tries."""
    from airflow.sdk import BaseSensorOperator

    from groupshift_airflow.run_steps import ENTRIES, Steps

    tasks = [task for dag in dagbag.dags.values() for task in dag.tasks]
    assert {task.mode for task in tasks if isinstance(task, BaseSensorOperator)} == {"reschedule"}
    assert {task.retries for task in tasks if isinstance(task, Steps)} == {ENTRIES}


def test_every_task_uses_the_one_retry_table(dagbag: Any) -> None:
    """Transient is tried again; Rejected, Conflict and Broken fail at once."""
    from airflow.sdk import RetryAction

    from groupshift.errors import Broken, Conflict, Rejected, Transient

    policies = {id(task.retry_policy) for dag in dagbag.dags.values() for task in dag.tasks}
    policy = next(iter(dagbag.dags["roll_back"].tasks)).retry_policy
    decided = {
        kind.__name__: policy.evaluate(kind("x"), 1, 2).action
        for kind in (Transient, Rejected, Conflict, Broken)
    }
    assert len(policies) == 1
    assert decided == {
        "Transient": RetryAction.RETRY,
        "Rejected": RetryAction.FAIL,
        "Conflict": RetryAction.FAIL,
        "Broken": RetryAction.FAIL,
    }


def test_every_gate_defaults_to_changing_nothing() -> None:
    """An expired gate stops; it never acts. What a gate asks brings its own default (`test_gates`). The DAGs
    are parsed anew: other tests of this folder leave what they asked in theirs."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.providers.standard.operators.hitl import HITLOperator

    dags = DagBag(str(PROJECT / "dags")).dags.values()
    gates = [task for dag in dags for task in dag.tasks if isinstance(task, HITLOperator)]
    assert {tuple(task.defaults) for task in gates} == {("Stop here",)}


@pytest.mark.parametrize("dag", ["migrate_coordination", "migrate_protocol"])
@pytest.mark.parametrize(
    ("value", "end"), [(-5, "refused"), (604_801, "refused"), (0, "held"), (604_800, "held")]
)
def test_a_number_out_of_its_limits_is_refused_and_not_replaced(
    dagbag: Any, dag: str, value: int, end: str
) -> None:
    """The form of Airflow puts ``minimum`` in place of -5; without it the server says what is wrong."""
    from airflow.sdk.exceptions import ParamValidationError

    param = dagbag.dags[dag].params.get_param("soak")
    assert not {"minimum", "maximum"} & set(param.schema)
    assert "From 0 to 604800." in param.schema["description_md"]
    if end == "held":
        assert param.resolve(value=value) == value
    else:
        with pytest.raises(ParamValidationError, match=str(value)):
            param.resolve(value=value)


@pytest.mark.parametrize(
    ("dag", "name", "value", "end"),
    [
        ("migrate_coordination", "canary_share", 25, "refused"),
        ("migrate_coordination", "canary_share", -0.25, "refused"),
        ("migrate_coordination", "canary_share", 0, "held"),
        ("migrate_coordination", "canary_share", 1, "held"),
        ("expand_offsets_topic", "to", 0, "refused"),
        ("expand_offsets_topic", "to", 2, "held"),
    ],
)
def test_no_number_of_a_form_is_replaced(dagbag: Any, dag: str, name: str, value: float, end: str) -> None:
    """A share of 25, meant as a percentage, would become 1: every member a canary."""
    from airflow.sdk.exceptions import ParamValidationError

    for every in dagbag.dags.values():
        for each in every.params:
            assert not {"minimum", "maximum"} & set(every.params.get_param(each).schema), (every.dag_id, each)
    param = dagbag.dags[dag].params.get_param(name)
    if end == "held":
        assert param.resolve(value=value) == value
    else:
        with pytest.raises(ParamValidationError, match=str(value)):
            param.resolve(value=value)
