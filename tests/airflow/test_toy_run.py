"""A run of the toy move in a real Airflow, with real Spark: the plugin's vocabulary knows no move.

Its first act is killed -9 right after it was journaled; Airflow tries its task again. Runs that do not end
well, and the DAG that takes any run back: `make matrix MATRIX=airflow_toy`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ENGINE = str(Path(__file__).parents[1] / "engine")
if ENGINE not in sys.path:
    sys.path.insert(0, ENGINE)


from groupshift.domain.run import RunState  # noqa: E402
from groupshift.ports.runs import EventKind  # noqa: E402 - the path comes first
from support.toy_airflow import Story, ToyAirflow, toy_airflow  # noqa: E402

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


def test_a_run_is_planned_killed_waited_for_reviewed_and_ends_green(real: ToyAirflow) -> None:
    """A preview changes nothing. With execute: approvals, one person's step, one Spark job, a wait that holds
    no slot, a task that was killed, and a review."""
    toy = real.toy("green")

    def plug() -> None:
        toy.write("plugged", "yes")
        toy.write("lamp", "unclear")

    preview = Story("toy", "preview", real.conf("green", execute=False))
    story = Story(
        "toy",
        "green",
        real.conf("green"),
        answers={
            "approve_plan": "Approve",
            "people.act": "Done",
            "go.act": "Go on",
            "approve_burn": "Approve",
        },
        acts={"people.act": plug},
    )
    real.tell(preview, story)
    assert (preview.end, real.red(preview)) == ("success", [])
    assert real.runs.find(real.run_of(preview)).state is RunState.PREVIEW
    assert {task for task, states in preview.states.items() if "success" in states} <= {
        "plan",
        "planned",
        "verdict",
    }

    assert (story.end, real.red(story)) == ("success", []), real.said(story, "verdict")
    run = real.run_of(story)
    assert real.runs.find(run).state is RunState.FINALISED
    assert (toy.values()["colour"], toy.values()["burned"]) == ("green", "yes")
    assert [what.split()[0] for what, _ in toy.acts()] == ["colour", "size", "started", "burned", "finish"]
    resumed = [each.step for each in real.runs.events(run) if each.kind is EventKind.RESUMED]
    assert "04 prepare/set colour" in resumed
    assert "UP_FOR_RESCHEDULE" in real.said(story, "soak.wait")
    assert "awaiting_input" in story.states["people.act"]
    assert real.api.xcom("toy", "green", "prove.compare", "spark_job")["job"] == "toy-compare"
    assert "write yes into plugged" in story.bodies["people.act"]
    assert "nobody can tell whether the lamp burns" in story.bodies["go.act"]
    holders = {claim.holder for claim in [real.runs.held(run)] if claim}
    assert holders == {"toy/green"}
