"""DAG files in the vocabulary of the plugin: imports, graphs, and which task does which step."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ENGINE = Path(__file__).parents[1] / "engine"
if str(ENGINE) not in sys.path:
    sys.path.insert(0, str(ENGINE))

from toy_move.move import Facts, ToyMove, ToyRequest  # noqa: E402
from toy_move.target import BEGINNING  # noqa: E402 - the path comes first

from groupshift.domain.reactions_to_verdicts import OnFail  # noqa: E402
from groupshift.domain.requests import option  # noqa: E402
from groupshift.domain.run import Step, make_plan  # noqa: E402
from groupshift.errors import Rejected  # noqa: E402
from support.dag_shape import file_problems, plan_problems, shape_problems, tasks_of  # noqa: E402

FILES = sorted((ENGINE / "dags").glob("*.py"))
"""The moves' own files come here when they are switched."""


@pytest.fixture(scope="module")
def dags() -> Any:
    """The DAGs of these files, with the toy installed."""
    from airflow.dag_processing.dagbag import DagBag

    sys.path.insert(0, str(ENGINE / "installed"))
    bag = DagBag(str(ENGINE / "dags"))
    sys.path.remove(str(ENGINE / "installed"))
    assert bag.import_errors == {}
    return bag.dags


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_dag_file_imports_airflow_and_the_plugin_only(file: Path) -> None:
    """And is at most eighty lines long."""
    assert file_problems(file) == []


def test_what_a_dag_file_may_not_have_is_found(tmp_path: Path) -> None:
    """The check above can fail."""
    file = tmp_path / "wrong.py"
    file.write_text("import kazoo\nfrom groupshift.domain import run\n" + "\n" * 80)
    assert file_problems(file) == [
        "wrong.py has 82 lines",
        "wrong.py imports kazoo",
        "wrong.py imports groupshift.domain",
    ]


@pytest.mark.parametrize("name", [file.stem for file in FILES])
def test_waits_free_their_slot_and_the_verdict_is_last(dags: Any, name: str) -> None:
    """Comparisons stand before and behind each act where the group has them."""
    assert shape_problems(dags[name]) == []


def test_each_step_of_the_plan_has_its_task(dags: Any) -> None:
    """The comparison is a Spark task, each approval a gate."""
    plan = ToyMove().plan(ToyRequest(), Facts(values=BEGINNING, items=2))
    assert {name: plan_problems(dags[name], plan) for name in ("toy", "toy_in_turns")} == {
        "toy": [],
        "toy_in_turns": [],
    }
    assert tasks_of(dags["toy"], plan) == {
        "01 ask/approve plan": "approve_plan",
        "02 ask/rehearse": "prepare.snapshot",
        "03 prepare/snapshot before": "prepare.snapshot",
        "04 prepare/set colour": "prepare.act",
        "05 prepare/count": "prepare.act",
        "06 prepare/set size": "prepare.act",
        "07 prepare/agree": "prepare.act",
        "08 people/ask_person": "people.act",
        "09 prove/snapshot after": "prove.snapshot",
        "10 prove/compare": "prove.compare",
        "11 prove/judge": "prove.judge",
        "12 settle/start": "settle.act",
        "13 go/ready": "go.act",
        "14 go/clean": "go.act",
        "15 go/approve burn": "approve_burn",
        "16 burn/burn": "burn.act",
        "17 finish/set finish": "finish.act",
        "18 soak/soak": "soak.wait",
    }


def _phase(name: str, *kinds: str) -> list[Step]:
    return [Step(phase=name, kind=kind, subject=f"{number}") for number, kind in enumerate(kinds)]


def test_a_whole_phase_and_one_that_repeats_do_each_step_in_its_task() -> None:
    """A phase is eight tasks; one over nodes is two that take turns."""
    from airflow.sdk import DAG, chain

    from groupshift_airflow import runbook

    usual = ("snapshot", "compare", "judge")
    node = ("replace", "snapshot", "compare", "judge")
    steps = [*_phase("canary", *usual, "replace", *usual), *_phase("brokers", *node, *node, *node)]
    plan = make_plan(steps)
    with DAG("moves", params={}, schedule=None) as dag:
        chain(runbook.plan("any"), runbook.phase("canary"), runbook.nodes("brokers"), runbook.verdict())
    assert shape_problems(dag) == []
    assert plan_problems(dag, plan) == []
    found = list(tasks_of(dag, plan).values())
    assert found[:7] == [
        "canary.snapshot_before",
        "canary.compare_before",
        "canary.judge_before",
        "canary.act",
        "canary.snapshot_after",
        "canary.compare_after",
        "canary.judge_after",
    ]
    assert found[7:] == ["brokers.walk", "brokers.walk", "brokers.compare", "brokers.walk"] * 3


def test_a_plan_that_a_dag_does_not_do_is_found() -> None:
    """A step without a task, a comparison that no Spark task does, an approval that is no gate."""
    from airflow.sdk import DAG, chain

    from groupshift_airflow import runbook

    plan = make_plan([*_phase("one", "approve", "compare", "set"), *_phase("two", "set")])
    with DAG("moves", params={}, schedule=None) as dag:
        chain(runbook.plan("any"), runbook.phase("one", "act"), runbook.verdict())
    assert plan_problems(dag, plan) == [
        "step 01 one/approve 0 is an approval, and task one.act is no gate",
        "step 02 one/compare 1 is a Spark job, and task one.act submits none",
        "no task does step 04 two/set 0",
    ]


def test_an_act_without_its_comparisons_is_found() -> None:
    """The check of the graph can fail."""
    from airflow.sdk import DAG

    from groupshift_airflow import runbook
    from groupshift_airflow.run_steps import Steps

    with DAG("moves", params={}, schedule=None) as dag:
        (
            runbook.plan("any")
            >> runbook.phase("one", "act", "compare_before", "compare_after")
            >> runbook.verdict()
        )
        Steps(task_id="waits", mode="poke") >> dag.get_task("verdict")
    assert shape_problems(dag) == [
        "waits holds a slot while it waits",
        "one.compare_before is not before its act",
    ]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One option of each kind."""

    to: str = option("Release that the brokers get.")
    partitions: int = option("New count.", default=50, minimum=1, maximum=100)
    share: float = option("Share.", default=0.5, minimum=0)
    on_fail: OnFail = option("What a failure does.", default=OnFail.STOP)
    clients: tuple[str, ...] = option("What members run.", default=())
    again: int | None = option("How often.", default=None)
    live: bool = option("Commits go on.", default=False)
    from_: str = option("What they run.", default="")
    copy: str = option("A copy of the log.", default="", assesses=True)


@dataclass(frozen=True, kw_only=True)
class Clash:
    """Has an option that every run has."""

    execute: bool = option("Also.", default=True)


def test_the_form_has_help_choices_and_bounds_of_the_request() -> None:
    """What has no default must be filled in; the defaults change nothing; no number is replaced."""
    from groupshift_airflow.form import of_request, values_of

    form = of_request(Request)
    filled = {**{name: each.value for name, each in form.items()}, "to": "3.9.2"}
    assert not form["to"].has_value
    assert form["execute"].value is False
    assert form["take_over"].value is False
    assert form["partitions"].schema["description_md"] == "New count. From 1 to 100."
    assert form["share"].schema["description_md"] == "Share. At least 0."
    assert (form["partitions"].resolve(1), form["partitions"].resolve(100)) == (1, 100)
    for name, wrong in (("partitions", 0), ("partitions", 101), ("share", -0.1), ("on_fail", "perhaps")):
        with pytest.raises(Exception, match=str(wrong)):
            form[name].resolve(wrong)
    assert form["share"].resolve(0) == 0
    assert form["on_fail"].schema["enum"] == ["roll back", "stop"]
    assert values_of(Request, filled) == {
        "to": "3.9.2",
        "partitions": 50,
        "share": 0.5,
        "on_fail": "stop",
        "clients": [],
        "again": None,
        "live": False,
        "from_": "",
    }
    assert ("from" in form, {"from_", "copy"} & form.keys()) == (True, set())
    assert all({"title", "section", "description_md"} <= set(each.schema) for each in form.values())

    with pytest.raises(Rejected, match="execute is a parameter of every run"):
        of_request(Clash)
