"""``expand_offsets_topic``: its tasks one after the other, over simulated brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, DownstreamTasksSkipped

from groupshift.domain.run import RunState, Target, plan_from
from groupshift.errors import Conflict, Rejected
from groupshift.log.releases import Coordinator
from support.dag_shape import file_problems, plan_problems, shape_problems, tasks_of
from support.driven_expansion import MOVING, accepting
from support.simulated_expansion import committed, driver_of, equal
from support.task_story import Story, telling

DAG, WATCH = "expand_offsets_topic", "watch_offsets_topic"
PARAMS = {"to": 8, "drain": 20, "execute": True, "take_over": False, "gate_expiry_s": 60}
BEFORE = ("drain", "snapshot")
TASKS = (*BEFORE, "approve_plan", "delete", "create", "restart", "place", "restore", "prove", "reopen")


@pytest.fixture
def story(database: None, dagbag: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Story]:
    """A story of a world; gates park in a list."""
    return telling(dagbag.dags[DAG], dict(PARAMS), driver_of, monkeypatch)


def through(told: Story, *names: str) -> list[int]:
    """Execute these tasks, approving the plan; how much was changed after each."""
    done = []
    for name in names:
        told.execute(name)
        if name == "approve_plan":
            told.answer("Approve")
        done.append(len(told.driver.ports.views.asked))
    return done


def state(told: Story) -> RunState:
    """Where the journal has the run."""
    return told.driver.runs.find(told.run).state


def asked(told: Story) -> list[Any]:
    """What was changed in the cluster."""
    return list(told.driver.ports.views.asked)


def test_the_file_and_its_graph_are_those_of_every_move(dagbag: Any) -> None:
    """It imports Airflow and the plugin; what waits holds no slot; the verdict is last."""
    assert file_problems(Path(__file__).parents[2] / "dags" / f"{DAG}.py") == []
    assert shape_problems(dagbag.dags[DAG]) == []


def test_each_step_of_a_plan_has_its_task(story: Any, dagbag: Any) -> None:
    """Comparisons are Spark tasks, the approval is a gate."""
    told = story(committed(Coordinator.NEW))
    told.execute("plan")
    plan = plan_from(told.driver.runs.find(told.run).plan)
    assert plan_problems(dagbag.dags[DAG], plan) == []
    named = {each.rpartition("/")[2]: task for each, task in tasks_of(dagbag.dags[DAG], plan).items()}
    assert named["drain"] == "drain.wait"
    assert named["snapshot S"] == named["agree S"] == "snapshot.act"
    assert named["approve plan"] == "approve_plan"
    assert (named["compare S0"], named["compare V"]) == ("delete.compare", "prove.compare")
    assert named["restart 3"] == "restart.walk"


@pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])
def test_every_task_does_its_part_of_the_run(story: Any, kind: Coordinator) -> None:
    """Each is a process of its own; nothing is changed before the approval, which says what follows it."""
    told = story(committed(kind))
    told.execute("plan")
    assert through(told, *TASKS) == [0, 0, 0, 2, 3, 6, 6, 7, 7, 7]
    (gate,) = told.parked
    assert "approve 5 to 8 partitions of" in gate.body
    assert f"{len(MOVING)} groups move" in gate.body
    told.execute("verdict")
    assert (state(told), equal(told.driver.ports.views)) == (RunState.FINALISED, True)
    assert told.states == {
        **dict.fromkeys(told.states, "success"),
        "reopen.act": "skipped",  # nothing keeps clients out here
    }


def test_who_does_not_stop_is_named_and_the_cluster_is_free_again(story: Any) -> None:
    """The drain is red after its seconds, and the verdict too."""
    world = committed(Coordinator.NEW)
    world.members = {"g7"}
    told = story(world)
    told.execute("plan")
    with pytest.raises(AirflowFailException, match=r"rejected: .*members are in 1 group: g7"):
        told.execute("drain")
    with pytest.raises(AirflowFailException, match="rejected"):
        told.execute("verdict")
    assert (asked(told), told.driver.runs.in_the_way(Target(kind="cluster", name="simulated"))) == ([], ())


@pytest.mark.parametrize("choice", ["Reject", None])
def test_without_an_approval_nothing_is_changed(story: Any, choice: str | None) -> None:
    """Rejected or expired, the task is red and the cluster free."""
    told = story(committed(Coordinator.NEW))
    told.execute("plan")
    through(told, *BEFORE)
    told.execute("approve_plan")
    with pytest.raises(AirflowFailException, match="rejected"):
        told.answer(choice)
    assert (asked(told), state(told)) == ([], RunState.REJECTED)


def test_an_expansion_is_watched_after_its_end(story: Any, dagbag: Any) -> None:
    """Skipped while none is over; green as it was left; red when an offset fell, with the run to look at."""
    told = story(committed(Coordinator.NEW))
    watch = dagbag.dags[WATCH].get_task("watch")
    watch.run = ""
    with pytest.raises(AirflowSkipException, match="nothing to watch"):
        watch.execute({"params": {}})
    told.execute("plan")
    through(told, *TASKS)
    watch.execute({"params": {}})
    assert told.driver.ports.views.commit_as_client("g7", 3, 1)
    said = r"group g7, t-0: 107 then, 3 now.*groupshift watch expansion-"
    with pytest.raises(AirflowFailException, match=said):
        watch.execute({"params": {}})


def test_what_was_only_accepted_is_red(story: Any) -> None:
    """An offset that could not be committed: alice accepts that in Airflow, and on the command line what it
    leads to. The run is over, and the verdict of its Airflow run is red."""
    world = committed(Coordinator.NEW)
    told = story(world)
    told.execute("plan")
    through(told, *TASKS[: TASKS.index("restore")])
    world.uncommitted = {"g7": "TOPIC_AUTHORIZATION_FAILED (29)"}
    assert told.execute("restore") is False
    assert "g7" in told.parked[-1].body
    told.answer("Accept")
    with pytest.raises(AirflowFailException, match=r"prove/compare V: .*g7: 107 is None"):
        told.execute("prove")
    accepting(told.driver, told.run)
    assert state(told) is RunState.FINALISED
    with pytest.raises(AirflowFailException, match="is finalised, but not by this Airflow run"):
        told.execute("verdict")


def test_without_execute_only_the_plan_is_shown(story: Any) -> None:
    """The run is a preview that locks nothing; the rest is skipped and the run is green."""
    told = story(committed(Coordinator.NEW))
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        told.execute("plan", execute=False)
    assert {"drain.wait", "approve_plan", "restart.walk", "prove.walk"} <= set(skipped.value.tasks)
    (preview,) = told.driver.runs.recent(9, previews=True)
    assert (preview.state, asked(told)) == (RunState.PREVIEW, [])


def test_a_run_to_another_count_is_not_begun_beside_one(story: Any) -> None:
    """One is open: another count is refused by name; the same one is gone on with."""
    told = story(committed(Coordinator.NEW))
    first = told.execute("plan")
    told.again("second")
    with pytest.raises(Rejected, match="to: the run has 8, asked for is 10"):
        told.execute("plan", to=10)
    assert (told.execute("plan", take_over=True), asked(told)) == (first, [])


def test_an_approval_of_a_run_that_was_taken_back_is_refused(story: Any) -> None:
    """Alice answers the gate of a run to 8 that was taken back meanwhile: she is told so, nothing is changed,
    and that opens no gate of the one to 10."""
    told = story(committed(Coordinator.NEW))
    told.execute("plan")
    through(told, *BEFORE)
    told.execute("approve_plan")
    first, gate = told.run, told.parked[-1]
    assert not told.driver.roll_back(first)
    told.driver.clock.sleep(1.0)  # a run is named by when it was begun
    told.again("second")
    told.execute("plan", to=10)
    through(told, *BEFORE)
    told.execute("approve_plan")
    second = told.run
    assert first != second
    told.run, told.named = first, "run"
    told.parked.append(gate)
    with pytest.raises((Conflict, AirflowFailException, AirflowSkipException), match=first):
        told.answer("Approve")
    assert (asked(told), told.driver.runs.find(second).state) == ([], RunState.PLANNED)


def test_what_cannot_begin_is_red_at_once(story: Any) -> None:
    """A broker is down: one sentence with the remedy; the verdict is skipped."""
    world = committed(Coordinator.NEW)
    world.world.stop(3)
    told = story(world)
    with pytest.raises(Rejected, match=r"nothing was journaled: X02: .* is not in sync on broker 3"):
        told.execute("plan")
    with pytest.raises(AirflowSkipException, match="no run was begun"):
        told.execute("verdict")


def test_a_commit_while_the_approval_waited_stops_before_anything_is_deleted(story: Any) -> None:
    """The tasks before the deletion compare first; only a rollback helps."""
    told = story(committed(Coordinator.OLD))
    told.execute("plan")
    through(told, *BEFORE)
    told.execute("approve_plan")
    assert told.driver.ports.views.commit_as_client("g1", 999, 1)
    told.answer("Approve")
    with pytest.raises(AirflowFailException, match=r"compare S0: .*; roll it back with the DAG roll_back"):
        told.execute("delete")
    assert asked(told) == []


def test_a_person_restarts_each_broker_and_says_so(story: Any) -> None:
    """What the broker uses is the proof; the next try asks for the next one."""
    world = committed(Coordinator.NEW)
    world.knows = False
    told = story(world)
    told.execute("plan")
    through(told, *TASKS[: TASKS.index("restart")])
    assert told.execute("restart") is False
    for node in (2, 3, 1):
        assert f"restart broker {node}" in told.parked[-1].body
        world.world.restart(node)
        over = told.answer("Done")
    assert over
    through(told, "place", "restore", "prove", "verdict")
    assert equal(world)


def test_another_run_of_this_cluster_is_ended_first(story: Any) -> None:
    """One thing at a time."""
    told = story(committed(Coordinator.NEW))
    found = told.driver.runs.find(told.execute("plan"))
    other = story(committed(Coordinator.NEW))
    other.driver.runs.create(replace(found, run="downgrade-simulated-1", move="downgrade", origin=""))
    with pytest.raises(Conflict, match="run downgrade-simulated-1 of cluster simulated is planned"):
        other.execute("plan")


def _taken_over(told: Story) -> None:
    told.driver.runs.claim(told.run, "cli-run-bob", told.driver.clock.now_ms(), anew=True, take_over=True)


def test_u01_every_task_of_a_run_that_was_taken_over_is_skipped(story: Any) -> None:
    """Another process drives it now: it is not claimed back, nobody is asked, the last task is red."""
    told = story(committed(Coordinator.NEW))
    told.execute("plan")
    _taken_over(told)
    steps, claim = dict(told.driver.runs.steps(told.run)), told.driver.runs.held(told.run)
    for name in TASKS:
        told.execute(name)
    assert set(told.states.values()) == {"skipped"}
    with pytest.raises(AirflowFailException, match="is open and cli-run-bob has it: look there"):
        told.execute("verdict")
    assert (told.parked, asked(told)) == ([], [])
    assert (dict(told.driver.runs.steps(told.run)), told.driver.runs.held(told.run)) == (steps, claim)


def test_u01_an_answer_at_a_gate_of_a_run_that_was_taken_over_is_refused(story: Any) -> None:
    """The person that approves reads who drives it now; nothing is approved."""
    told = story(committed(Coordinator.NEW))
    told.execute("plan")
    through(told, *BEFORE)
    told.execute("approve_plan")
    _taken_over(told)
    steps = dict(told.driver.runs.steps(told.run))
    with pytest.raises(AirflowFailException, match="the answer of alice is not taken: run cli-run-bob took"):
        told.answer("Approve")
    assert (dict(told.driver.runs.steps(told.run)), asked(told)) == (steps, [])
