"""Killed anywhere, or left without an answer anywhere, a downgrade that is run again on the engine ends the
same, there and back; there it may be taken back from wherever it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import deepcopy
from functools import cache
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.domain.run import RunState
from groupshift.engine.progress import Ended, Stopped
from groupshift.errors import Transient
from groupshift.moves.downgrade.facts import DowngradeRequest
from groupshift.ports.clock import CrashPoint, NoStepCrash, StepCrashPoints
from support.driven_moves import Driver
from support.kill_once import KillOnce
from support.simulated_downgrade import KillAt, Killed, World, driver_of, one_of_39, two_of_43

STORIES: dict[str, tuple[Callable[[], World], DowngradeRequest]] = {
    "4.3.1 to 3.9.2": (two_of_43, DowngradeRequest(to="3.9.2", from_="4.3.1")),
    "3.9.2 to 3.4.0": (one_of_39, DowngradeRequest(to="3.4.0", from_="3.9.2")),
}


def ended(
    story: str,
    crashes: Iterable[StepCrashPoints] = (),
    lost: frozenset[int] = frozenset(),
    *,
    back: bool = False,
) -> tuple[object, ...]:
    """What is left after processes with these crash points, the n-th answer ``lost``, and one that is left
    alone; a run that is to go ``back`` first stops at a group that its first node loses."""
    make, request = STORIES[story]
    world = make()
    acts = count()
    world.answers_lost = lambda: next(acts) in lost
    driver = driver_of(world)
    run = driver.begin(request).run
    if back:
        _stop_at_a_loss(driver, world, run)
        driver.roll_back(run)
    wanted = RunState.ROLLED_BACK if back else RunState.MOVED
    for crash in (*crashes, *(NoStepCrash() for _ in range(len(lost) + 1))):
        if driver.runs.find(run).state.is_open:
            with suppress(Killed, Transient):
                found = driver.go_on(run, crash)
                assert isinstance(found, Ended), found
                assert found.closing.state is wanted
    assert driver.runs.find(run).state is wanted
    return world.end()


def _stop_at_a_loss(driver: Driver, world: World, run: str) -> None:
    world.lose, kept = {"simple"}, deepcopy(world.groups["simple"])
    stopped = False
    while not stopped:
        with suppress(Transient):
            stopped = isinstance(driver.go_on(run), Stopped)
    world.groups["simple"], world.lose = kept, set()


@cache
def undisturbed(story: str, *, back: bool) -> tuple[object, ...]:
    """What is left without any fault."""
    return ended(story, back=back)


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("story", STORIES)
def test_every_crash_point_of_every_step_is_survived(story: str, *, back: bool) -> None:
    """Each process dies at the first point that none before it died at."""
    crash = KillOnce()
    assert ended(story, [crash] * 120, back=back) == undisturbed(story, back=back)
    steps = {step for step, _ in crash.killed}
    assert len(steps) > (3 if back else 8)
    assert {point for _, point in crash.killed} == set(CrashPoint)


@settings(max_examples=60, deadline=None)
@given(
    story=st.sampled_from([*STORIES]),
    kills=st.lists(st.integers(1, 60), max_size=5),
    lost=st.frozensets(st.integers(0, 12), max_size=4),
    back=st.booleans(),
)
def test_processes_die_and_answers_are_lost_and_the_end_is_the_same(
    story: str,
    kills: list[int],
    lost: frozenset[int],
    back: bool,  # noqa: FBT001 - given by hypothesis
) -> None:
    """Wherever that is, and whichever answers are lost."""
    crashes = [KillAt(number) for number in kills]
    assert ended(story, crashes, lost, back=back) == undisturbed(story, back=back)


@settings(max_examples=60, deadline=None)
@given(story=st.sampled_from([*STORIES]), at=st.integers(1, 60))
def test_whatever_was_begun_can_be_taken_back(story: str, at: int) -> None:
    """Killed at any point, the run is rolled back: releases, features and configurations are as they were;
    conversions and a compaction stay."""
    make, request = STORIES[story]
    world, before = make(), make()
    driver = driver_of(world)
    run = driver.begin(request).run
    with suppress(Killed):
        driver.go_on(run, KillAt(at))
    if driver.roll_back(run):
        found = driver.go_on(run)
        assert isinstance(found, Ended), found
        assert found.closing.state is RunState.ROLLED_BACK
    assert (world.releases, world.features, world.topic) == (before.releases, before.features, before.topic)
    assert world.group_configs == before.group_configs
    assert world.coordinators == before.coordinators
