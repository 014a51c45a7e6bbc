"""What a run of ``migrate_protocol`` does, with scripted use cases: online, offline, and back."""

from __future__ import annotations

from typing import Any

import pytest

from groupshift.domain.verdict import Verdict

pytestmark = pytest.mark.timeout(600)

CONF = {"group": "orders", "execute": True, "soak_s": 0}
ONLINE, OFFLINE = ("canary", "roll", "soak"), ("empty", "fill", "soak")


def _acts(scripted: Any) -> list[str]:
    return [call for call in scripted.calls if call.startswith("act")]


def test_online_members_are_rolled_and_nothing_is_emptied(run: Any, scripted: Any) -> None:
    """Canary and roll act once each; the way back stays open without a question."""
    scripted.planned = ONLINE
    state, tasks = run("migrate_protocol", CONF)
    assert state == "success"
    assert _acts(scripted) == ["act canary", "act roll"]
    assert (tasks["empty.act"], tasks["fill.act"]) == ("skipped", "skipped")
    assert (tasks["soak.judge_after"], tasks["keep"], tasks["going_back"]) == (
        "success",
        "success",
        "skipped",
    )


def test_offline_the_group_is_emptied_and_filled(run: Any, scripted: Any) -> None:
    """Nobody is rolled; the soak follows."""
    scripted.planned = OFFLINE
    state, tasks = run("migrate_protocol", {**CONF, "way": "offline", "to": "classic"})
    assert state == "success"
    assert _acts(scripted) == ["act empty", "act fill"]
    assert (tasks["canary.act"], tasks["roll.act"]) == ("skipped", "skipped")
    assert tasks["soak.judge_after"] == "success"


def test_until_canary_nobody_else_is_replaced(run: Any, scripted: Any) -> None:
    """The soak follows the canary."""
    scripted.planned = ("canary", "soak")
    state, tasks = run("migrate_protocol", {**CONF, "until": "canary"})
    assert (state, _acts(scripted)) == ("success", ["act canary"])
    assert (tasks["roll.act"], tasks["soak.judge_after"]) == ("skipped", "success")


@pytest.mark.parametrize(
    ("planned", "failed", "undone"),
    [
        (ONLINE, "roll", ["act canary", "act roll", "act undo_members"]),
        (OFFLINE, "fill", ["act empty", "act fill", "act undo_fill", "act undo_empty"]),
        (OFFLINE, "empty", ["act empty", "act undo_empty"]),
    ],
)
def test_a_failed_judgement_walks_back_and_ends_red(
    run: Any, scripted: Any, planned: tuple[str, ...], failed: str, undone: list[str]
) -> None:
    """The inverses of what was done, last one first; the soak never starts."""
    scripted.planned = planned
    scripted.verdicts = {f"{failed}/after": Verdict.FAIL}
    state, tasks = run("migrate_protocol", CONF)
    assert (state, _acts(scripted)) == ("failed", undone)
    assert tasks["soak.wait"] == "upstream_failed"


def test_without_execute_the_run_ends_green_after_the_plan(run: Any, scripted: Any) -> None:
    """No gate is opened and nothing is acted on."""
    scripted.planned = ONLINE
    state, tasks = run("migrate_protocol", {**CONF, "execute": False})
    assert (state, tasks["approve_plan"], tasks["verdict"]) == ("success", "skipped", "success")
    assert not [call for call in scripted.calls if call.split()[0] in {"act", "answer", "snapshot"}]


def test_a_plan_that_is_rejected_changes_nothing(run: Any, scripted: Any, answers: Any) -> None:
    """A red run without an act."""
    scripted.planned, answers["approve_plan"] = OFFLINE, "Reject"
    state, tasks = run("migrate_protocol", CONF)
    assert (state, tasks["empty.snapshot_before"]) == ("failed", "upstream_failed")
    assert _acts(scripted) == []
