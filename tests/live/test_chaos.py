"""Four minutes of random faults on a mixed group; `make chaos` runs longer and with other seeds."""

from __future__ import annotations

import pytest

from groupshift_sandbox.chaos.judgement import evidence
from groupshift_sandbox.chaos.run import ChaosOptions, run
from groupshift_sandbox.chaos.schedule import Act, draw_schedule
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home

OPTIONS = ChaosOptions(seed=3, seconds=240.0)


@pytest.mark.timeout(1200)
def test_chaos(tmp_path):
    """0 lost, nobody of ours delivers what it does not own, and all is owned soon after the last fault."""
    home = Home(tmp_path / "home")
    try:
        judged = run(home, OPTIONS, print)
        print("\n".join(evidence(judged)))
    finally:
        down(home)
    assert judged.lost == ()
    assert judged.outside == ()
    assert judged.owned_s <= 15.0
    assert judged.written >= OPTIONS.enough


def test_the_schedule_is_replayable_and_holds_every_kind_of_fault():
    """Else the run above proves less than it says."""
    schedule = draw_schedule(OPTIONS.seed, OPTIONS.seconds)
    assert schedule == draw_schedule(OPTIONS.seed, OPTIONS.seconds)
    assert {event.act for event in schedule} == set(Act)
    assert schedule != draw_schedule(OPTIONS.seed + 1, OPTIONS.seconds)
