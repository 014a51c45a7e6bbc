"""Random faults on a mixed group for a hundred seconds, each kind once at least.

Four minutes: `make matrix MATRIX=chaos`; longer and with other seeds: `make chaos`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift_sandbox.chaos.run import ChaosOptions
from groupshift_sandbox.chaos.schedule import Act, draw_schedule
from groupshift_sandbox.home import Home
from support.chaos_endured import assert_endured

OPTIONS = ChaosOptions(seed=82, seconds=100.0)


@pytest.mark.timeout(1200)
def test_chaos(tmp_path: Path) -> None:
    """Nothing is lost, delivered beside its owner, or left unowned."""
    assert_endured(Home(tmp_path / "home"), OPTIONS)


def test_the_schedule_is_replayable_and_holds_every_kind_of_fault() -> None:
    """Else the run above proves less than it says."""
    schedule = draw_schedule(OPTIONS.seed, OPTIONS.seconds)
    assert schedule == draw_schedule(OPTIONS.seed, OPTIONS.seconds)
    assert {event.act for event in schedule} == set(Act)
    assert schedule != draw_schedule(OPTIONS.seed + 1, OPTIONS.seconds)
