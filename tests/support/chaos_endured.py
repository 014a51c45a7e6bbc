"""Random faults on a mixed group, and what may not come of them."""

from __future__ import annotations

from groupshift_sandbox.chaos.judgement import evidence
from groupshift_sandbox.chaos.run import ChaosOptions, run
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home


def assert_endured(home: Home, options: ChaosOptions) -> None:
    """0 lost, nobody of ours delivers what it does not own, and all is owned soon after the last fault."""
    try:
        judged = run(home, options, print)
        print("\n".join(evidence(judged)))
    finally:
        down(home)
    assert judged.lost == ()
    assert judged.outside == ()
    assert judged.owned_s <= 15.0
    assert judged.written >= options.enough
