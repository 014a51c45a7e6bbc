"""What a run of ``migrate_protocol`` does over a simulated group: online, offline, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.domain.run import RunState
from groupshift.ports.clock import CrashPoint
from support.simulated_dags import SimulatedDags, simulated_dags
from support.simulated_runs import At, Processes, make_processes

pytestmark = pytest.mark.timeout(600)

DAG = "migrate_protocol"
CONF = {"to": "consumer", "soak": 0, "offline": False, "canary_only": False}
"""All that a test changes: what a run was given stays in the DAG for the next one."""
PLAIN, NATIVE = MemberKind.PLAIN, MemberKind.NATIVE


@pytest.fixture
def group() -> Processes:
    """Three classic members."""
    return make_processes(PLAIN)


@pytest.fixture
def told(group: Processes, database: None, runnable: Any, monkeypatch: pytest.MonkeyPatch) -> SimulatedDags:
    """The DAGs over that group."""
    return simulated_dags(group, runnable.dags, monkeypatch)


def of(tasks: dict[str, str], *names: str) -> list[str]:
    """The states of these tasks."""
    return [str(tasks[each]) for each in names]


def test_online_members_are_rolled_and_nothing_is_emptied(told: SimulatedDags, group: Processes) -> None:
    """Canary and roll act once each; the rollback stays open without a question. Each comparison is a Spark
    task of its own, before and after each act."""
    state, tasks = told.go(DAG, **CONF)
    assert (state, group.state(told.run), told.acts()) == ("success", RunState.MOVED, ["canary", "roll"])
    assert group.kinds() == [NATIVE] * 3
    assert [task for task, _, _ in told.asked] == ["approve_plan"]
    assert [task for task, _ in told.jobs] == [
        f"{phase}.compare_{moment}" for phase in ("canary", "roll", "soak") for moment in ("before", "after")
    ]
    assert of(tasks, "empty.act", "fill.act", "going_back") == ["skipped"] * 3
    assert of(tasks, "soak.judge_after", "keep", "verdict", "planned") == ["success"] * 4


def test_offline_the_group_is_emptied_and_filled(told: SimulatedDags, group: Processes) -> None:
    """Nobody is rolled; the soak follows."""
    state, tasks = told.go(DAG, **{**CONF, "offline": True})
    assert (state, group.state(told.run), told.acts()) == ("success", RunState.MOVED, ["empty", "fill"])
    assert group.kinds() == [NATIVE] * 3
    assert of(tasks, "canary.act", "roll.act", "soak.judge_after") == ["skipped", "skipped", "success"]


def test_until_canary_nobody_else_is_replaced(told: SimulatedDags, group: Processes) -> None:
    """The soak follows the canary."""
    state, tasks = told.go(DAG, **{**CONF, "canary_only": True})
    assert (state, told.acts()) == ("success", ["canary"])
    assert sorted(group.kinds()) == sorted([NATIVE, PLAIN, PLAIN])
    assert of(tasks, "roll.act", "soak.judge_after") == ["skipped", "success"]


@pytest.mark.parametrize(
    ("offline", "failed", "undone"),
    [
        (False, "roll", ["canary", "roll", "undo_members"]),
        (True, "fill", ["empty", "fill", "undo_fill", "undo_empty"]),
        (True, "empty", ["empty", "undo_empty"]),
    ],
)
def test_a_failed_judgement_walks_back_and_ends_red(
    told: SimulatedDags, group: Processes, *, offline: bool, failed: str, undone: list[str]
) -> None:
    """An offset goes back under an act: the inverses of what was done, last one first, each by the
    name of what it undoes; no soak starts."""
    at, kept = next(iter(group.world.kafka.items()))

    def set_to(offset: int) -> Callable[[], None]:
        return lambda: group.world.kafka.__setitem__(at, offset)

    after = CrashPoint.AFTER_READ_BACK.value
    told.crash = At(
        {
            f"{failed}/replace_members {after}": set_to(kept - 50),
            f"{failed}/judge after {after}": set_to(kept),
        }
    )
    state, tasks = told.go(DAG, **{**CONF, "offline": offline})
    assert (state, group.state(told.run), told.acts()) == ("failed", RunState.ROLLED_BACK, undone)
    assert group.kinds() == [PLAIN] * 3
    assert of(tasks, f"{failed}.judge_after", "soak.wait", "going_back") == [
        "failed",
        "upstream_failed",
        "success",
    ]


def test_without_execute_the_run_ends_green_after_the_plan(told: SimulatedDags, group: Processes) -> None:
    """No gate is opened and nothing is acted on."""
    state, tasks = told.go(DAG, **CONF, execute=False)
    assert (state, group.state(told.run), told.asked, told.acts()) == ("success", RunState.PREVIEW, [], [])
    assert of(tasks, "approve_plan", "verdict") == ["skipped", "success"]
    assert group.kinds() == [PLAIN] * 3


@pytest.mark.parametrize("answer", ["Reject", None])
def test_a_plan_that_nobody_approves_changes_nothing(
    told: SimulatedDags, group: Processes, answer: str | None
) -> None:
    """A red run without an act."""
    told.answers["approve_plan"] = answer
    state, tasks = told.go(DAG, **{**CONF, "offline": True})
    assert (state, group.state(told.run), told.acts()) == ("failed", RunState.REJECTED, [])
    assert tasks["empty.snapshot_before"] == "upstream_failed"


@pytest.mark.parametrize("offline", [False, True])
def test_roll_back_undoes_a_run_that_is_over(told: SimulatedDags, group: Processes, *, offline: bool) -> None:
    """The members that were there before come back, proven; triggering it is the decision."""
    assert told.go(DAG, **{**CONF, "offline": offline})[0] == "success"
    run, there = told.run, told.acts()
    state, tasks = told.go("roll_back", run=run, to="old_members")
    back = ["undo_fill", "undo_empty"] if offline else ["undo_members"]
    assert (state, group.state(run), told.acts()) == ("success", RunState.ROLLED_BACK, [*there, *back])
    assert group.kinds() == [PLAIN] * 3
    assert of(tasks, f"{back[-1]}.judge_after", "undo_toggle.act", "verdict") == [
        "success",
        "skipped",
        "success",
    ]
