"""``downgrade_coordinator``: its tasks one after the other, over a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from groupshift.adapters.drivers.manual import ManualReplacement
from groupshift.application.downgrade_run import go_on
from groupshift.domain.group_protocol import Kind
from groupshift.errors import Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.ports.journal import RunState
from groupshift_airflow import downgrades
from support.dag_story import Story, Told, telling
from support.simulated_downgrade import Group, World, one_of_39, tools_of, two_of_43, yes

PARAMS = {
    "to": "3.9.2",
    "from": "4.3.1",
    "coordinator": "default",
    "live": False,
    "brokers_only": False,
    "execute": True,
    "gate_expiry_s": 60,
}


@pytest.fixture
def story(database: None, dagbag: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Story]:
    """A story of a world; gates park in a list."""
    return telling(
        Told(dag="downgrade_coordinator", module=downgrades, params=PARAMS), tools_of, dagbag, monkeypatch
    )


def test_every_task_does_its_part_of_the_run(story: Any) -> None:
    """Approved by name; nothing to compact here; the verdict is green."""
    told = story(two_of_43())
    told.execute("plan")
    told.execute("approve_plan")
    assert (told.parked[0].task_id, "replace 2" in told.parked[0].body) == ("approve_plan", True)
    told.answer("approve_plan", "Approve")
    done = []
    for name in ("convert", "approve_forward_only", "compact", "lower", "checkpoint", "brokers"):
        told.execute(name)
        done.append(len(told.world.asked))
    assert done == [1, 1, 1, 3, 3, 5]
    told.execute("verdict")
    assert (len(told.parked), told.tools.runs.find(told.run).state) == (1, RunState.DONE)


@pytest.mark.parametrize("choice", ["Reject", None])
def test_without_an_approval_nothing_is_changed(story: Any, choice: str | None) -> None:
    """Rejected or expired, the task is red and the cluster free."""
    told = story(two_of_43())
    told.execute("plan")
    told.execute("approve_plan")
    with pytest.raises(AirflowFailException, match="declined at 01 approve plan"):
        told.answer("approve_plan", choice)
    assert (told.world.asked, told.tools.runs.open_of("cluster")) == ([], None)
    with pytest.raises(AirflowFailException, match="is ended"):
        told.execute("verdict")


def test_without_execute_only_the_plan_is_shown(story: Any) -> None:
    """No run is journaled; the rest is skipped and the run is green."""
    told = story(two_of_43())
    told.execute("plan", execute=False)
    for name in ("approve_plan", "convert", "brokers"):
        with pytest.raises(AirflowSkipException, match="planned only"):
            told.execute(name, execute=False)
    told.execute("verdict", execute=False)
    assert (told.tools.runs.recent(9), told.world.asked) == ((), [])


def test_a_person_is_asked_for_what_a_person_has_to_do(story: Any) -> None:
    """To restart native members, then to replace each node; who stops leaves the run open."""
    world = two_of_43()
    world.groups["busy"] = Group(kind=Kind.CONSUMER, members=1)
    told = story(world, nodes=ManualReplacement())
    told.execute("plan")
    told.execute("approve_plan")
    told.answer("approve_plan", "Approve")
    told.execute("convert")
    assert "group busy has members" in told.parked[-1].body
    with pytest.raises(AirflowFailException, match="alice stopped"):
        told.answer("convert", "Stop here")
    told.execute("convert")
    world.groups["busy"] = Group(kind=Kind.CLASSIC, members=1)
    told.answer("convert", "Deployed")
    told.execute("lower")
    told.execute("checkpoint")
    assert "up to offset 100" in told.parked[-1].body
    told.answer("checkpoint", "Deployed")
    told.execute("brokers")
    assert "Stop node 2 cleanly" in told.parked[-1].body
    world.releases[2], world.coordinators[2] = "3.9.2", Coordinator.OLD
    with pytest.raises(Transient, match="Stop node 1 cleanly"):
        told.answer("brokers", "Deployed")
    told.execute("brokers")
    world.releases[1], world.coordinators[1] = "3.9.2", Coordinator.OLD
    told.answer("brokers", "Deployed")
    told.execute("verdict")
    assert told.tools.runs.find(told.run).state is RunState.DONE


def test_a_difference_is_red_with_the_way_back_and_a_new_run_of_the_dag_goes_on(story: Any) -> None:
    """The cluster's open run is taken up again."""
    world = two_of_43()
    world.lose = {"simple"}
    told = story(world)
    told.execute("plan")
    told.execute("approve_plan")
    told.answer("approve_plan", "Approve")
    for name in ("convert", "lower", "checkpoint"):
        told.execute(name)
    kept = dict(world.groups)
    with pytest.raises(AirflowFailException, match=r"compare C2.*group simple: lost"):
        told.execute("brokers")
    with pytest.raises(AirflowFailException, match="is open: trigger again to go on, or take it back"):
        told.execute("verdict")
    first, world.groups, world.lose = told.run, kept, set()
    told.execute("plan")
    assert told.run == first
    told.execute("brokers")
    told.execute("verdict")


def test_an_answer_counts_for_the_question_that_was_shown(story: Any) -> None:
    """The plan was approved elsewhere while a gate showed it: that approves nothing that is forward only."""
    told = story(one_of_39())
    releases = {"to": "3.4.0", "from": "3.9.2"}
    told.execute("plan", **releases)
    told.execute("approve_plan", **releases)
    run, plan = told.tools.runs.find(told.run), "01 approve plan"
    go_on(told.tools, yes(decide=lambda asked: True if asked.step.key == plan else None), run)
    with pytest.raises(Transient, match=r"waiting at .*forward-only"):
        told.answer("approve_plan", "Approve")
    records = told.tools.runs.steps(told.run)
    assert [name for name, each in records.items() if each.result.get("approved")] == [plan]
    told.execute("approve_plan", **releases)
    told.answer("approve_plan", "Approve")
    approved = [name for name, each in told.tools.runs.steps(told.run).items() if each.result.get("approved")]
    assert len(approved) == 2


def test_an_answer_without_a_question_asks_again(story: Any) -> None:
    """Nothing tells what was shown."""
    told = story(two_of_43())
    told.execute("plan")
    with pytest.raises(Transient, match="nothing tells what alice was shown"):
        told.answer("approve_plan", "Approve")


def test_an_open_run_to_another_release_is_not_gone_on_with(story: Any) -> None:
    """Nobody approved it in this run of the DAG."""
    told = story(two_of_43())
    told.execute("plan")
    with pytest.raises(Rejected, match=r"to 3\.8\.1 was asked for, and run .* is open"):
        told.execute("plan", to="3.8.1")


def test_a_task_that_died_after_the_last_step_is_green_when_tried_again(story: Any) -> None:
    """The run is done, and Airflow was not told."""
    told = story(two_of_43())
    told.execute("plan")
    told.execute("approve_plan")
    told.answer("approve_plan", "Approve")
    for name in ("convert", "lower", "checkpoint", "brokers"):
        told.execute(name)
    done = list(told.world.asked)
    told.execute("brokers")
    told.execute("verdict")
    assert told.world.asked == done


def test_what_no_step_answers_is_refused_by_the_plan(story: Any) -> None:
    """With or without execute; nothing is journaled."""
    told = story(World(groups={}, releases={1: "4.3.1"}, features={"metadata.version": 30}))
    for execute in (False, True):
        with pytest.raises(Rejected, match="may not begin"):
            told.execute("plan", execute=execute, to="4.2.1")
    assert told.tools.runs.recent(9) == ()
