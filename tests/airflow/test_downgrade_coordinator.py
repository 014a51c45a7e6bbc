"""``downgrade_coordinator``: its tasks one after the other, over a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from groupshift.adapters.drivers.manual import ManualReplacement
from groupshift.domain.group_protocol import Kind
from groupshift.domain.run import RunState, plan_from
from groupshift.errors import Fenced, Rejected
from groupshift.log.releases import Coordinator
from support.dag_shape import file_problems, plan_problems, shape_problems, tasks_of
from support.driven_moves import approves, nobody
from support.simulated_downgrade import Group, World, driver_of, one_of_39, two_of_43
from support.task_story import Story, telling

DAG = "downgrade_coordinator"
PARAMS = {
    "to": "3.9.2",
    "from": "4.3.1",
    "coordinator": None,
    "live": False,
    "brokers_only": False,
    "soak_s": 0,
    "execute": True,
    "take_over": False,
    "gate_expiry_s": 60,
}
TO_34 = {"to": "3.4.0", "from": "3.9.2"}
PHASES = ("prepare", "convert", "approve_forward_only", "compact", "features", "go", "replace", "soak")


@pytest.fixture
def story(database: None, dagbag: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Story]:
    """A story of a world; gates park in a list."""
    return telling(dagbag.dags[DAG], dict(PARAMS), driver_of, monkeypatch)


def begun(told: Story, choice: str = "Approve", **params: object) -> None:
    """A run that is planned, and its plan answered."""
    told.params.update(params)
    told.execute("plan")
    assert told.execute("approve_plan") is False
    told.answer(choice)


def state(told: Story) -> RunState:
    """Where the journal has the run."""
    return told.driver.runs.find(told.run).state


def test_the_file_and_its_graph_are_those_of_every_move(dagbag: Any) -> None:
    """It imports Airflow and the plugin; what waits holds no slot; verdict is last."""
    assert file_problems(Path(__file__).parents[2] / "dags" / f"{DAG}.py") == []
    assert shape_problems(dagbag.dags[DAG]) == []


@pytest.mark.parametrize(("world", "request_of"), [(two_of_43, {}), (one_of_39, TO_34)])
def test_each_step_of_a_plan_has_its_task(
    story: Any, dagbag: Any, world: Callable[[], World], request_of: dict[str, str]
) -> None:
    """With what is compacted, and without; a soak where one is asked for."""
    told = story(world())
    told.execute("plan", **request_of, soak_s=60)
    plan = plan_from(told.driver.runs.find(told.run).plan)
    assert plan_problems(dagbag.dags[DAG], plan) == []
    named = {each.rpartition("/")[2]: task for each, task in tasks_of(dagbag.dags[DAG], plan).items()}
    assert named["approve plan"] == "approve_plan"
    assert named["snapshot A"] == "prepare.snapshot"
    assert named["convert-empty left"] == "convert.walk"
    assert named["compare C1"] == "replace.compare"
    assert named.get("approve forward-only", "approve_forward_only") == "approve_forward_only"
    assert named["soak"] == "soak.wait"


def test_every_task_does_its_part_of_the_run(story: Any) -> None:
    """Approved by name; nothing to compact here; the verdict is green."""
    told = story(two_of_43())
    told.execute("plan")
    told.execute("approve_plan")
    assert (told.parked[0].task.task_id, "stop broker 2 cleanly" in told.parked[0].body) == (
        "approve_plan",
        True,
    )
    told.answer("Approve")
    done = []
    for name in PHASES:
        told.execute(name)
        done.append(len(told.driver.ports.views.asked))
    assert done == [0, 1, 1, 1, 3, 3, 5, 5]
    told.execute("verdict")
    assert (len(told.parked), state(told)) == (1, RunState.MOVED)
    assert set(told.states.values()) == {"success"}, "a phase that the plan lacks is green"


@pytest.mark.parametrize("choice", ["Reject", None])
def test_without_an_approval_nothing_is_changed(story: Any, choice: str | None) -> None:
    """Rejected or expired, the task is red and the cluster free."""
    told = story(two_of_43())
    with pytest.raises(AirflowFailException, match="rejected"):
        begun(told, choice)  # type: ignore[arg-type]
    assert (told.driver.ports.views.asked, state(told)) == ([], RunState.REJECTED)
    with pytest.raises(AirflowFailException, match="rejected"):
        told.execute("verdict")


def test_without_execute_only_the_plan_is_shown(story: Any) -> None:
    """The run is a preview that locks nothing; the rest is skipped and the run is green."""
    told = story(two_of_43())
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        told.execute("plan", execute=False)
    assert {"approve_plan", "convert.walk", "replace.walk"} <= set(skipped.value.tasks)
    (preview,) = told.driver.runs.recent(9, previews=True)
    told.run = preview.run
    for name in ("approve_plan", "convert.walk", "replace.walk"):
        told.execute(name, execute=False)
        assert told.states[name] == "skipped"
    told.execute("verdict", execute=False)
    assert (preview.state, told.driver.ports.views.asked) == (RunState.PREVIEW, [])


def test_a_person_is_asked_for_what_a_person_has_to_do(story: Any) -> None:
    """To restart native members, then to replace each node; who stops leaves the run open. Nobody else goes
    on with the run meanwhile, unless they take it over."""
    world = two_of_43()
    world.groups["busy"] = Group(kind=Kind.CONSUMER, members=1)
    told = story(world)
    told.driver.ports = replace(told.driver.ports, nodes=ManualReplacement())
    begun(told)
    told.execute("prepare")
    assert told.execute("convert") is False
    assert "group busy has members" in told.parked[-1].body
    with pytest.raises(Fenced):
        told.driver.runs.claim(told.run, "cli-bob", told.driver.clock.now_ms(), anew=True)
    with pytest.raises(
        AirflowFailException,
        match=r"alice stopped .*: clear the tasks convert\.walk and convert\.compare, or",
    ):
        told.answer("Stop here")
    assert told.execute("convert") is False
    world.groups["busy"] = Group(kind=Kind.CLASSIC, members=1)
    assert told.answer("Done") is True
    assert told.execute("features") is False
    assert "up to offset 100" in told.parked[-1].body
    assert told.answer("Done") is True
    told.execute("go")
    assert told.execute("replace") is False
    assert "Stop node 2 cleanly" in told.parked[-1].body
    world.releases[2], world.coordinators[2] = "3.9.2", Coordinator.OLD
    assert told.answer("Done") is False
    assert "Stop node 1 cleanly" in told.parked[-1].body
    world.releases[1], world.coordinators[1] = "3.9.2", Coordinator.OLD
    assert told.answer("Done") is True
    told.execute("verdict")
    assert state(told) is RunState.MOVED


def test_a_difference_is_red_with_the_rollback_and_a_new_run_of_the_dag_goes_on(story: Any) -> None:
    """The cluster's open run is taken up again."""
    world = two_of_43()
    world.lose = {"simple"}
    told = story(world)
    begun(told)
    for name in ("prepare", "convert", "features", "go"):
        told.execute(name)
    kept = dict(world.groups)
    with pytest.raises(AirflowFailException, match=r"compare C2.*group simple: lost"):
        told.execute("replace")
    with pytest.raises(AirflowFailException, match=r"is running at step .*compare C2.*next: groupshift "):
        told.execute("verdict")
    first, world.groups, world.lose = told.run, kept, set()
    told.again("later")
    told.execute("plan")
    assert told.run == first
    told.execute("replace")
    told.execute("verdict")
    assert state(told) is RunState.MOVED


def test_an_answer_counts_for_the_question_that_was_shown(story: Any) -> None:
    """The plan was approved elsewhere while a gate showed it: that approves nothing that is forward only."""
    told = story(one_of_39())
    told.params.update(TO_34)
    told.execute("plan")
    told.execute("approve_plan")

    def elsewhere(question: Any) -> Any:
        return (approves if question.gate.endswith("approve plan") else nobody)(question)

    told.driver.go_on(told.run, decide=elsewhere, holder=told.holder)
    assert told.answer("Approve") is True
    assert told.execute("approve_forward_only") is False
    assert "forward-only" in told.parked[-1].body
    assert (told.answer("Approve"), told.driver.ports.views.churns) == (True, 0)


def test_an_open_run_to_another_release_is_not_gone_on_with(story: Any) -> None:
    """Nobody approved it in this run of the DAG."""
    told = story(two_of_43())
    told.execute("plan")
    told.again("later")
    with pytest.raises(Rejected, match=r"is open and was asked for otherwise: to: the run has '3.9.2'"):
        told.execute("plan", to="3.8.1")


def test_a_task_that_died_after_the_last_step_is_green_when_tried_again(story: Any) -> None:
    """The run is over, and Airflow was not told."""
    told = story(two_of_43())
    begun(told)
    for name in PHASES:
        told.execute(name)
    done = list(told.driver.ports.views.asked)
    told.execute("replace")
    told.execute("verdict")
    assert (told.driver.ports.views.asked, told.states["replace.walk"]) == (done, "success")


def test_what_no_step_answers_is_refused_by_the_plan(story: Any) -> None:
    """With or without execute; nothing is journaled."""
    told = story(World(groups={}, releases={1: "4.3.1"}, features={"metadata.version": 30}))
    for execute in (False, True):
        with pytest.raises(Rejected, match="is not ready, nothing was journaled"):
            told.execute("plan", execute=execute, to="4.2.1")
    assert told.driver.runs.recent(9, previews=True) == ()


def test_a_run_of_airflow_that_another_one_took_over_asks_nothing_more(story: Any) -> None:
    """Its answer is not taken, and its verdict is red."""
    told = story(two_of_43())
    told.execute("plan")
    told.execute("approve_plan")
    told.driver.claim(told.run, holder="somebody else")
    with pytest.raises(AirflowFailException, match="the answer of alice is not taken"):
        told.answer("Approve")
    assert told.execute("convert") is True
    assert told.states["convert.walk"] == "skipped"
    with pytest.raises(AirflowFailException, match="somebody else has it"):
        told.execute("verdict")
    assert told.driver.ports.views.asked == []
