"""How long a run that is over is looked at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupshift.domain.run import Checked, Outcome
from groupshift.engine.watch import Looks, looked
from groupshift.errors import Transient
from groupshift_testing.clock import ManualClock

BAD, GOOD, SILENT = Outcome.FAIL, Outcome.PASS, Outcome.ERROR


def _told(*outcomes: Outcome) -> tuple[Callable[[], Checked], list[Outcome]]:
    """Looks that come to these, and then to the last one again; an error is nobody's answer."""
    seen: list[Outcome] = []

    def look() -> Checked:
        seen.append(outcomes[min(len(seen), len(outcomes) - 1)])
        if seen[-1] is SILENT:
            raise Transient("broker 2 does not answer")
        return Checked(outcome=seen[-1])

    return look, seen


@pytest.mark.parametrize(
    ("outcomes", "looks", "count", "ends"),
    [
        ((BAD, GOOD), Looks(), 1, BAD),
        ((GOOD, BAD), Looks(), 1, GOOD),
        ((BAD, SILENT, GOOD, BAD), Looks(within_s=60), 3, GOOD),
        ((BAD,), Looks(within_s=2), 3, BAD),
        ((GOOD,), Looks(for_s=3), 4, GOOD),
        ((GOOD, GOOD, BAD, GOOD), Looks(within_s=60, for_s=60), 3, BAD),
    ],
)
def test_it_is_looked_until_it_holds_and_then_as_long_as_it_does(
    outcomes: tuple[Outcome, ...], looks: Looks, count: int, ends: Outcome
) -> None:
    """A broker that does not answer is waited for as well; the first look that fails after one that held ends
    it."""
    look, seen = _told(*outcomes)
    assert looked(look, ManualClock(), looks).outcome is ends
    assert len(seen) == count


@pytest.mark.parametrize("looks", [Looks(), Looks(within_s=2)])
def test_a_look_that_nobody_answers_in_time_is_told(looks: Looks) -> None:
    """Its own error is raised at the deadline."""
    look, _ = _told(SILENT)
    with pytest.raises(Transient, match="broker 2"):
        looked(look, ManualClock(), looks)
