"""Runs of the toy move in a real Airflow that do not end well, and the one DAG that takes any run back.

One that ends well is part of every run of the tests: `tests/airflow/test_toy_run.py`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ENGINE = str(Path(__file__).parents[1] / "engine")
if ENGINE not in sys.path:
    sys.path.insert(0, ENGINE)

from toy_world import BACK  # noqa: E402

from groupshift.domain.run import RunState  # noqa: E402
from support.toy_airflow import Act, Story, ToyAirflow, toy_airflow  # noqa: E402

pytestmark = pytest.mark.timeout(2400)  # longer than all runs may take, with the start of Airflow

KILL = {
    "GROUPSHIFT_TEST_HOOKS": "1",
    "GROUPSHIFT_CRASH_AT_STEP": "set colour.after_journal",
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyAirflow]:
    """One Airflow for all runs of this file."""
    with toy_airflow(tmp_path_factory.mktemp("toys"), KILL) as found:
        yield found


def test_runs_that_do_not_end_well_are_red_and_say_why(real: ToyAirflow) -> None:
    """Rejected; rolled back by a failed judge, in the same Airflow run; accepted only; taken over."""
    toys = {name: real.toy(name) for name in ("rejected", "failed", "accepted", "taken")}
    toys["accepted"].write("scratch", "yes")
    usual = {"approve_plan": "Approve", "people.act": "Done", "approve_burn": "Approve"}

    def plug(name: str) -> Act:
        return lambda: toys[name].write("plugged", "yes")

    def spoil() -> None:
        toys["failed"].write("plugged", "yes")
        toys["failed"].write("colour", "blue")

    def take_over() -> None:
        run = real.run_of(taken)
        real.runs.claim(run, "somebody else", int(time.time() * 1000), anew=True, take_over=True)

    rejected = Story("toy", "rejected", real.conf("rejected"), answers={"approve_plan": "Reject"})
    failed = Story(
        "toy",
        "failed",
        real.conf("failed"),
        answers={**usual, "undo.walk": "Done"},
        acts={"people.act": spoil, "undo.walk": lambda: toys["failed"].write("plugged", "no")},
    )
    accepted = Story(
        "toy_in_turns",
        "accepted",
        real.conf("accepted"),
        answers={**usual, "go.act": "Accept"},
        acts={"people.act": plug("accepted")},
    )
    taken = Story(
        "toy",
        "taken",
        real.conf("taken"),
        answers=usual,
        acts={"people.act": plug("taken"), "approve_burn": take_over},
    )
    real.tell(rejected, failed, accepted, taken)
    stories = (rejected, failed, accepted, taken)
    assert [each.end for each in stories] == ["failed"] * 4
    states = [real.runs.find(real.run_of(each)).state for each in stories]
    assert states == [RunState.REJECTED, RunState.ROLLED_BACK, RunState.FINALISED, RunState.RUNNING]

    assert real.red(rejected) == ["approve_plan", "verdict"]
    assert toys["rejected"].acts() == []
    assert real.red(failed) == ["prove.judge", "verdict"]
    assert (toys["failed"].values()["colour"], toys["failed"].values()["size"]) == ("red", "0")
    assert "T05" in real.said(failed, "verdict") or "the colour" in real.said(failed, "verdict")
    assert real.red(accepted) == ["verdict"]
    assert "Spark-Submit cmd" in real.said(accepted, "prove.compare")
    assert "Spark-Submit cmd" not in real.said(accepted, "prove.walk")
    assert "there is a scratch" in accepted.bodies["go.act"]
    assert "a difference was only accepted" in real.said(accepted, "verdict")
    assert real.red(taken) == ["approve_burn", "verdict"]
    assert "the answer of admin is not taken" in real.said(taken, "approve_burn")
    assert "somebody else has it" in real.said(taken, "verdict")
    assert toys["taken"].values()["burned"] == "no"


def test_a_run_is_rolled_back_by_one_dag_for_every_move(real: ToyAirflow) -> None:
    """Shown without execute; refused while somebody holds the run; then taken over and undone."""
    run = next(each.run for each in real.runs.recent(10) if each.target.name == "taken")
    toy = real.found("taken")
    conf = {"run": run, "to": "start"}
    shown = Story("roll_back_run", "shown", conf)
    held = Story("roll_back_run", "held", {**conf, "execute": True})
    real.tell(shown, held)
    assert (shown.end, held.end) == ("success", "failed")
    assert real.red(held) == ["plan"]
    assert "back 04 prepare/set colour" in real.said(shown, "plan")
    assert real.runs.find(run).state is RunState.RUNNING
    back = Story(
        "roll_back_run",
        "back",
        {**conf, "execute": True, "take_over": True},
        answers={"undo.walk": "Done"},
        acts={"undo.walk": lambda: toy.write("plugged", "no")},
    )
    real.tell(back)
    assert (back.end, real.red(back)) == ("success", []), real.said(back, "verdict")
    assert real.runs.find(run).state is RunState.ROLLED_BACK
    assert {name: toy.values()[name] for name in BACK} == BACK
