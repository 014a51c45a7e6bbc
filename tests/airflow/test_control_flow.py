"""What a run does after each verdict and answer: the wiring of the DAGs, with scripted use cases."""

from __future__ import annotations

from typing import Any

import pytest

from groupshift.domain.plan import Until
from groupshift.domain.verdict import Verdict

pytestmark = pytest.mark.timeout(600)

CONF = {"group": "orders", "execute": True, "soak_s": 0}


def test_a_full_run_walks_every_planned_stage_and_ends_green(run: Any, scripted: Any) -> None:
    """Until toggle: canary, roll, rehearsal, toggle act once each, retire is skipped, soak follows."""
    state, tasks = run("migrate_coordination", CONF)
    assert state == "success"
    assert [call for call in scripted.calls if call.startswith("act")] == [
        "act canary",
        "act roll",
        "act toggle",
    ]
    assert scripted.calls.index("rehearse") < scripted.calls.index("answer toggle approve alice")
    assert tasks["retire.snapshot_before"] == "skipped"
    assert tasks["soak.judge_after"] == "success"
    assert (tasks["keep"], tasks["finalise"]) == ("success", "skipped")
    assert (tasks["going_back"], tasks["undo_members.act"]) == ("skipped", "skipped")


def test_without_execute_the_run_ends_green_after_the_plan(run: Any, scripted: Any) -> None:
    """Plan only: no gate is opened, nothing is acted on, no soak."""
    state, tasks = run("migrate_coordination", {**CONF, "execute": False})
    assert state == "success"
    assert (tasks["plan"], tasks["approve_plan"], tasks["verdict"]) == ("success", "skipped", "success")
    assert not [call for call in scripted.calls if call.split()[0] in {"act", "answer", "snapshot"}]
    assert tasks["soak.snapshot_before"] == "skipped"


def test_a_run_until_canary_soaks_and_skips_what_was_not_asked_for(run: Any, scripted: Any) -> None:
    """Stages beyond ``until`` are skipped and the final part still runs."""
    scripted.until = Until.CANARY
    state, tasks = run("migrate_coordination", {**CONF, "until": "canary"})
    assert state == "success"
    assert tasks["canary.judge_after"] == "success"
    assert {tasks["roll.act"], tasks["rehearse"], tasks["approve_toggle"], tasks["last_gate"]} == {"skipped"}
    assert tasks["soak.judge_after"] == "success"


@pytest.mark.parametrize(
    ("until", "planned", "acts"),
    [
        (Until.TOGGLE, ("toggle", "soak"), ["act toggle"]),
        (Until.RETIRE, ("toggle", "retire", "soak", "finalise"), ["act toggle", "act retire"]),
        (Until.RETIRE, ("retire", "soak", "finalise"), ["act retire"]),
        (Until.ROLL, ("roll", "soak"), ["act roll"]),
        (Until.TOGGLE, ("canary", "toggle", "soak"), ["act canary", "act toggle"]),
    ],
)
def test_a_group_that_has_come_some_way_before_goes_on_from_there(
    run: Any, scripted: Any, answers: Any, until: Until, planned: tuple[str, ...], acts: list[str]
) -> None:
    """Stages that the plan lacks are skipped, wherever they stand, and the others are done: all members may
    be migration-aware already, the mode may be kafka already."""
    scripted.until, scripted.planned = until, planned
    state, tasks = run("migrate_coordination", {**CONF, "until": str(until)})
    assert (state, [call for call in scripted.calls if call.startswith("act")]) == ("success", acts)
    toggled = "toggle" in planned
    asked = {tasks[task] for task in ("rehearse", "approve_toggle", "toggle.act")}
    assert asked == {"success" if toggled else "skipped"}
    assert tasks["soak.judge_after"] == "success"


@pytest.mark.parametrize("stage", ["roll", "toggle", "retire"])
def test_nothing_is_done_behind_a_stage_at_which_a_person_stopped(
    run: Any, scripted: Any, answers: Any, stage: str
) -> None:
    """Though the first stages are not in the plan, and the plan was approved."""
    scripted.until, scripted.planned = Until.RETIRE, ("roll", "toggle", "retire", "soak", "finalise")
    scripted.verdicts[f"{stage}/after"] = Verdict.INCONCLUSIVE
    answers[f"{stage}.judge_after"] = "Stop here"
    state, tasks = run("migrate_coordination", {**CONF, "until": "retire"})
    done = [call.removeprefix("act ") for call in scripted.calls if call.startswith("act")]
    assert (state, done[-1], tasks["soak.snapshot_before"]) == ("failed", stage, "upstream_failed")


def test_a_plan_that_nobody_approves_changes_nothing_and_ends_red(
    run: Any, scripted: Any, answers: Any
) -> None:
    """Expired is rejected by nobody: journaled, no act, no way back, a red run."""
    answers["approve_plan"] = None
    state, tasks = run("migrate_coordination", CONF)
    assert state == "failed"
    assert (tasks["approve_plan"], tasks["canary.snapshot_before"]) == ("failed", "upstream_failed")
    assert "answer plan reject nobody (expired)" in scripted.calls
    assert not [call for call in scripted.calls if call.startswith(("act", "begin_roll_back", "snapshot"))]


def test_a_rejected_toggle_stops_there_with_the_way_back_open(run: Any, scripted: Any, answers: Any) -> None:
    """Members stay migration-aware in zookeeper mode; nothing is undone without being asked for."""
    answers["approve_toggle"] = "Reject"
    state, tasks = run("migrate_coordination", CONF)
    assert state == "failed"
    assert "act toggle" not in scripted.calls
    assert "begin_roll_back old_members" not in scripted.calls
    assert tasks["going_back"] == "skipped"


def test_a_failed_judgement_goes_back_without_asking_and_ends_red(run: Any, scripted: Any) -> None:
    """The same stages walk back what was done; later forward stages never start."""
    scripted.verdicts = {"toggle/after": Verdict.FAIL}
    state, tasks = run("migrate_coordination", CONF)
    assert state == "failed"
    assert scripted.calls[-1] == "judge undo_members after"
    assert "act undo_toggle" in scripted.calls
    assert tasks["undo_members.judge_after"] == "success"
    assert tasks["undo_retire.act"] == "skipped"
    assert tasks["soak.snapshot_before"] == "upstream_failed"


def test_an_inconclusive_judgement_asks_and_goes_on(run: Any, scripted: Any, answers: Any) -> None:
    """A person accepts it and the run ends green."""
    scripted.verdicts = {"roll/after": Verdict.INCONCLUSIVE}
    answers["judge_after"] = answers["roll.judge_after"] = "Go on"
    state, _ = run("migrate_coordination", CONF)
    assert state == "success"
    assert "answer review approve alice" in scripted.calls


def test_an_unanswered_review_changes_nothing_more(run: Any, scripted: Any, answers: Any) -> None:
    """Silence is no decision to act: neither on nor back."""
    scripted.verdicts = {"roll/after": Verdict.INCONCLUSIVE}
    answers["roll.judge_after"] = None
    state, tasks = run("migrate_coordination", CONF)
    assert (state, tasks["roll.judge_after"], tasks["going_back"]) == ("failed", "failed", "skipped")
    assert "act toggle" not in scripted.calls


def test_a_failed_proof_of_the_way_back_stops_it(run: Any, scripted: Any) -> None:
    """Undo of the mode not proven: the members are not touched, a person has to look."""
    scripted.verdicts = {"toggle/after": Verdict.FAIL, "undo_toggle/after": Verdict.FAIL}
    state, tasks = run("migrate_coordination", CONF)
    assert (state, tasks["undo_members.snapshot_before"]) == ("failed", "upstream_failed")
    assert scripted.calls.count("begin_roll_back old_members") == 1


def test_roll_back_without_execute_changes_nothing(run: Any, scripted: Any) -> None:
    """It says where the migration stands."""
    scripted.status = lambda _: (type("S", (), {"group": "orders", "phase": "moved"})(),)
    state, tasks = run("roll_back", {"migration": "orders-1", "execute": False})
    assert (state, tasks["undo_toggle.act"]) == ("success", "skipped")
    assert scripted.calls == []
