"""After an expansion on the engine: what fell below the snapshot, what lies elsewhere, and until when that is
looked at."""

from __future__ import annotations

import pytest

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.run import Checked, Outcome
from groupshift.domain.verdict import Verdict
from groupshift.engine.watch import watch
from groupshift.errors import Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.move import STRAYS
from support.driven_expansion import MOVING, begun
from support.driven_moves import Driver, where
from support.placement_clusters import commit
from support.simulated_expansion import Expansible, committed, driver_of

_WEEK_S = 7 * 24 * 3600


@pytest.fixture(params=[Coordinator.OLD, Coordinator.NEW])
def world(request: pytest.FixtureRequest) -> Expansible:
    """Brokers of each kind, every group with an offset."""
    return committed(request.param)


def done(world: Expansible) -> tuple[Driver, str]:
    """A run that is over."""
    driver = driver_of(world)
    run = begun(driver)
    assert where(driver.go_on(run)) == ("finalised", "")
    return driver, run


def watched(driver: Driver, run: str) -> Checked:
    """One look at it."""
    return watch(driver.move, driver.tools(), driver.ports, run)


def bad(found: Checked) -> str:
    """What did not pass."""
    return "; ".join(each.with_remedy for each in found.findings if each.verdict is Verdict.FAIL)


def test_what_goes_on_is_clean(world: Expansible) -> None:
    """Higher offsets are what consumers do; it is said until when it is looked at."""
    driver, run = done(world)
    assert world.commit_as_client("g7", 900, 1)
    found = watched(driver, run)
    assert (found.outcome, bad(found)) == (Outcome.PASS, "")
    assert "watch it once a day" in found.detail


def test_what_fell_and_what_is_gone_is_named(world: Expansible) -> None:
    """Both with the offset of the snapshot; after the retention what is gone has expired."""
    driver, run = done(world)
    assert world.commit_as_client("g7", 3, 1)
    world.delete({"g8"})
    found = watched(driver, run)
    assert found.outcome is Outcome.FAIL
    assert "group g7, t-0: 107 then, 3 now" in bad(found)
    assert "group g8, t-0: 108 then, none now" in bad(found)
    driver.clock.sleep(_WEEK_S + 60)
    late = watched(driver, run)
    assert late.outcome is Outcome.FAIL
    assert "group g7, t-0: 107 then, 3 now" in bad(late)
    assert "g8" not in bad(late)


def test_what_lies_elsewhere_is_found(world: Expansible) -> None:
    """A broker that coordinates by the former count again took a commit: the audit names it, and the remedy,
    although not every group answers because of it."""
    driver, run = done(world)
    world.world.brokers[2].count = 5
    found = watched(driver, run)
    assert found.outcome is Outcome.FAIL
    assert "restart broker 2" in bad(found)
    assert "X04" in {each.rule for each in found.findings if each.verdict is Verdict.FAIL}


def test_a_commit_at_a_former_coordinator_is_found_although_it_harms_nothing(world: Expansible) -> None:
    """The run left nothing there: on NEW coordinators an audit of any cluster only warns of such residue."""
    driver, run = done(world)
    group = MOVING[0]
    place = partition_of(group, 5)
    world.world.logs[place].append(commit(group, place, at=len(world.world.logs[place]), ms=1))
    found = watched(driver, run)
    assert found.outcome is Outcome.FAIL
    assert STRAYS in {each.rule for each in found.findings if each.verdict is Verdict.FAIL}
    assert f"something lies elsewhere of 1 group: {group}, which" in bad(found)


def test_only_what_is_over_is_watched(world: Expansible) -> None:
    """An open run is refused in one sentence; silence is not taken for a loss."""
    driver = driver_of(world)
    run = begun(driver)
    with pytest.raises(Rejected, match=f"run {run} of move expansion is planned: only .* that is over"):
        watched(driver, run)
    driver.go_on(run)
    world.silent = {"g7"}
    with pytest.raises(Transient, match="not every group answers"):
        watched(driver, run)
