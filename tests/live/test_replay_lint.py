"""The replay lint against coordinators that load the very log it judged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from groupshift.log.releases import Coordinator
from groupshift.log.replay import LoadOutcome
from groupshift_sandbox.home import Home
from support.replayed_log import Replayed, replay

pytestmark = pytest.mark.timeout(600)
"""Two starts of a broker each: minutes where the machine is busy."""


def disagreements(found: dict[str, Replayed]) -> dict[str, Replayed]:
    """Stories in which the broker did something else than the lint says."""
    return {story: one for story, one in found.items() if not one.agrees}


def test_the_lint_agrees_with_a_new_coordinator(tmp_path: Path) -> None:
    """4.3.1: shards fail where it says, by the record that it names, and everything else loads."""
    found = replay(Home(tmp_path / "h").create(), "4.3.1", Coordinator.NEW, {})
    assert disagreements(found) == {}
    assert Counter(one.verdict.outcome for one in found.values()) == {
        LoadOutcome.LOADS: 15,
        LoadOutcome.FAILS_SHARD: 15,
        LoadOutcome.LOADS_WITH_LOSS: 2,
    }
    assert sum(one.stopped_at is not None for one in found.values()) == 14


def test_the_lint_agrees_with_an_old_coordinator(tmp_path: Path) -> None:
    """3.9.2 as it comes: offsets load from everything, the newer protocols are ignored."""
    found = replay(Home(tmp_path / "h").create(), "3.9.2", Coordinator.OLD, {})
    assert disagreements(found) == {}
    assert {one.verdict.rule for one in found.values()} == {"L0", "O4"}
