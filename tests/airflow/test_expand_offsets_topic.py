"""``expand_offsets_topic``: its tasks one after the other, over simulated brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from groupshift.application.expansion_run import go_on, turn_back
from groupshift.application.run_engine import Ended
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.ports.journal import RunState
from groupshift_airflow import expansions
from support.dag_story import Story, Told, telling
from support.simulated_downgrade import yes
from support.simulated_expansion import committed, equal, tools_of

PARAMS = {"to": 8, "execute": True, "gate_expiry_s": 60, "drain_s": 20}
TASKS = ("drain", "snapshot", "approve_plan", "delete", "create", "brokers", "restore", "verify")


@pytest.fixture
def story(database: None, dagbag: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Story]:
    """A story of a world; gates park in a list."""
    return telling(
        Told(dag="expand_offsets_topic", module=expansions, params=PARAMS), tools_of, dagbag, monkeypatch
    )


def through(told: Story, *names: str) -> list[int]:
    """Execute these tasks, approving the plan; how much was changed after each."""
    done = []
    for name in names:
        told.execute(name)
        if name == "approve_plan":
            told.answer(name, "Approve")
        done.append(len(told.world.asked))
    return done


@pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])
def test_every_task_does_its_part_of_the_run(story: Any, kind: Coordinator) -> None:
    """Each is a process of its own; nothing is changed before the approval, which shows the way back."""
    told = story(committed(kind))
    told.execute("plan")
    assert through(told, *TASKS) == [0, 0, 0, 2, 3, 6, 7, 7]
    (gate,) = told.parked
    assert "approve 5 to 8 partitions of __consumer_offsets: 2" in gate.subject
    assert "forward only: a count never shrinks" in gate.body
    told.execute("verdict")
    assert told.tools.runs.find(told.run).state is RunState.DONE
    assert equal(told.world)


def test_who_does_not_stop_is_named_and_the_cluster_is_free_again(story: Any) -> None:
    """The drain is red after its seconds, and the verdict too."""
    world = committed(Coordinator.NEW)
    world.members = {"g7"}
    told = story(world)
    told.execute("plan")
    with pytest.raises(AirflowFailException, match="waiting at 01 drain: members are in 1 group: g7"):
        told.execute("drain")
    with pytest.raises(AirflowFailException, match="is ended"):
        told.execute("verdict")
    assert (world.asked, told.tools.runs.open_of("simulated")) == ([], None)


@pytest.mark.parametrize("choice", ["Reject", None])
def test_without_an_approval_nothing_is_changed(story: Any, choice: str | None) -> None:
    """Rejected or expired, the task is red and the cluster free."""
    told = story(committed(Coordinator.NEW))
    told.execute("plan")
    told.execute("drain")
    told.execute("snapshot")
    told.execute("approve_plan")
    with pytest.raises(AirflowFailException, match="declined at 04 approve plan"):
        told.answer("approve_plan", choice)
    assert (told.world.asked, told.tools.runs.open_of("simulated")) == ([], None)


def test_an_expansion_is_watched_after_its_end(
    story: Any, dagbag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Skipped while none is done; green as it was left; red when an offset fell, with how that may be."""
    told = story(committed(Coordinator.NEW))
    (watch,) = telling(
        Told(dag="watch_offsets_topic", module=expansions, params={}), tools_of, dagbag, monkeypatch
    )(told.world, runs=told.tools.runs).tasks
    watch.run_id = ""
    with pytest.raises(AirflowSkipException, match="nothing to watch"):
        watch.execute({})
    told.execute("plan")
    through(told, *TASKS)
    watch.execute({})
    assert told.world.commit_as_client("g7", 3, 1)
    said = (
        r"1 offsets fell .* 'g7' t-0: 107 when it moved, 3 now: somebody reset it.*expansion watch expansion-"
    )
    with pytest.raises(AirflowFailException, match=said):
        watch.execute({})


def test_what_was_only_accepted_is_red(story: Any) -> None:
    """An offset that could not be committed, accepted on the command line: the run is done, its last task
    says what is wrong."""
    world = committed(Coordinator.NEW)
    told = story(world)
    told.execute("plan")
    through(told, *TASKS[:6])
    world.uncommitted = {"g7": "TOPIC_AUTHORIZATION_FAILED (29)"}
    outcome = go_on(told.tools, yes(), told.tools.runs.find(told.run))
    while outcome.ended is not Ended.DONE:
        assert outcome.ended in {Ended.WAITING, Ended.FAILED}
        outcome = go_on(told.tools, yes(seen=True, who="bob"), told.tools.runs.find(told.run))
    said = rf"is done, and not all .* snapshot S \(accepted by bob\).*groupshift expansion report {told.run}"
    with pytest.raises(AirflowFailException, match=said):
        told.execute("verdict")


def test_without_execute_only_the_plan_is_shown(story: Any) -> None:
    """No run is journaled; the rest is skipped and the run is green."""
    told = story(committed(Coordinator.NEW))
    told.execute("plan", execute=False)
    for name in TASKS:
        with pytest.raises(AirflowSkipException, match="planned only"):
            told.execute(name, execute=False)
    told.execute("verdict", execute=False)
    assert (told.tools.runs.recent(9), told.world.asked) == ((), [])


def test_a_run_to_another_count_is_not_begun_beside_one(story: Any) -> None:
    """One is open: another count is refused by name."""
    told = story(committed(Coordinator.NEW))
    told.execute("plan")
    with pytest.raises(Rejected, match=r"--to 10 was asked for, and run .* to 8 partitions is open"):
        told.execute("plan", to=10)
    assert told.world.asked == []


def _two_gates(told: Story) -> tuple[str, str]:
    """A run to 8 that waited at its gate and was taken back since, and one to 10 that waits at its own."""
    runs, found = told.tools.runs, []
    for count in (8, 10):
        told.execute("plan", to=count)
        through(told, "drain", "snapshot")
        told.execute("approve_plan")
        assert told.run in told.parked[-1].body
        found.append(told.run)
        if count == 8:
            go_on(told.tools, yes(), turn_back(told.tools, yes(), runs.find(told.run)))
            told.tools.clock.sleep(1.0)  # a run is named by when it was begun
    first, second = found
    assert first != second
    return first, second


def test_an_approval_for_another_count_is_none(story: Any) -> None:
    """Alice answers the gate of a run to 8 that was taken back meanwhile: that opens no gate of the one to
    10, nothing is changed, and the run of her gate is red at its end."""
    told = story(committed(Coordinator.NEW))
    first, second = _two_gates(told)
    told.run = first
    with pytest.raises(Conflict, match="was taken back"):
        told.answer("approve_plan", "Approve")
    with pytest.raises(AirflowFailException, match=f"run {first} is taken.back"):
        told.execute("verdict")
    told.run = second
    told.execute("delete")
    assert (told.world.asked, told.tools.runs.find(second).state) == ([], RunState.OPEN)
    told.answer("approve_plan", "Approve")
    told.execute("delete")
    assert told.world.asked != []


def test_an_approval_of_a_run_that_was_taken_back_is_refused(story: Any) -> None:
    """Who answers it is told that the run is over."""
    told = story(committed(Coordinator.NEW))
    told.run, _ = _two_gates(told)
    with pytest.raises(Conflict, match=r"was taken back, and nothing was changed"):
        told.answer("approve_plan", "Approve")


def test_what_cannot_begin_is_red_at_once(story: Any) -> None:
    """A broker is down: one sentence with the remedy; the verdict is red."""
    world = committed(Coordinator.NEW)
    world.world.stop(3)
    told = story(world)
    with pytest.raises(Rejected, match=r"nothing was changed: X02: .* is not in sync on broker 3"):
        told.execute("plan")
    with pytest.raises(AirflowSkipException, match="no run was begun"):
        told.execute("verdict")


def test_a_commit_while_the_approval_waited_stops_before_anything_is_deleted(story: Any) -> None:
    """The task that deletes compares first."""
    told = story(committed(Coordinator.OLD))
    told.execute("plan")
    through(told, "drain", "snapshot")
    told.execute("approve_plan")
    assert told.world.commit_as_client("g1", 999, 1)
    told.answer("approve_plan", "Approve")
    with pytest.raises(AirflowFailException, match=r"failed at 05 compare S0: .* g1: 101 is 999"):
        told.execute("delete")
    assert told.world.asked == []


def test_a_person_restarts_each_broker_and_says_so(story: Any) -> None:
    """What the broker counts is the proof; the next try asks for the next one."""
    world = committed(Coordinator.NEW)
    world.knows = False
    told = story(world)
    told.execute("plan")
    through(told, "drain", "snapshot", "approve_plan", "delete", "create")
    for node in (2, 3, 1):
        told.execute("brokers")
        assert f"restart broker {node}" in told.parked[-1].body
        world.world.restart(node)
        if node == 1:
            told.answer("brokers", "Deployed")
        else:
            with pytest.raises(Transient, match="waiting at"):
                told.answer("brokers", "Deployed")
    through(told, "restore", "verify", "verdict")
    assert equal(world)


def test_another_move_of_this_cluster_is_ended_first(story: Any) -> None:
    """One thing at a time."""
    told = story(committed(Coordinator.NEW))
    run = replace(_a_run(told), run="downgrade-simulated-1")
    told.tools.runs.create(run)
    with pytest.raises(Conflict, match="run downgrade-simulated-1 of this cluster is open: end it first"):
        told.execute("plan")


def _a_run(told: Story) -> Any:
    from groupshift.application.expansion_run import begin, plan_run

    other = tools_of(committed(Coordinator.NEW))
    assert told.world.asked == []
    return begin(other, plan_run(other, 8))
