"""Killed anywhere, or left without an answer anywhere, a downgrade that is run again ends the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_run import begin, go_on, plan_run, turn_back
from groupshift.application.downgrade_work import DowngradeTools
from groupshift.application.run_engine import Ended
from groupshift.domain.versions import Version
from groupshift.errors import Transient
from groupshift.moves.downgrade.releases import target_of
from groupshift.ports.clock import CrashPoint, NoStepCrash, StepCrashPoints
from groupshift.ports.journal import ClusterRun
from support.kill_once import KillOnce
from support.simulated_downgrade import KillAt, Killed, World, one_of_39, tools_of, two_of_43, yes

STORIES: dict[str, tuple[Callable[[], World], DowngradeRequest]] = {
    "4.3.1 to 3.9.2": (two_of_43, DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))),
    "3.9.2 to 3.4.0": (one_of_39, DowngradeRequest(target=target_of("3.4.0"), said=Version.parse("3.9.2"))),
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
    tools = tools_of(world)
    run = begin(tools, plan_run(tools, request))
    if back:
        run = _turned(tools, world, run)
    wanted = Ended.TAKEN_BACK if back else Ended.DONE
    for crash in (*crashes, *(NoStepCrash() for _ in range(len(lost) + 1))):
        if tools.runs.find(run.run).open:
            with suppress(Killed, Transient):
                found = go_on(replace(tools, crash=crash), yes(), tools.runs.find(run.run))
                assert found.ended is wanted
    assert tools.runs.open_of("cluster") is None
    return world.end()


def _turned(tools: DowngradeTools, world: World, run: ClusterRun) -> ClusterRun:
    world.lose, kept = {"simple"}, deepcopy(world.groups["simple"])
    stopped = False
    while not stopped:
        with suppress(Transient):
            stopped = go_on(tools, yes(), run).ended is Ended.FAILED
    world.groups["simple"], world.lose = kept, set()
    return turn_back(tools, yes(), run)


@cache
def undisturbed(story: str, *, back: bool) -> tuple[object, ...]:
    """What is left without any fault."""
    return ended(story, back=back)


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@pytest.mark.parametrize("story", STORIES)
def test_every_crash_point_of_every_step_is_survived(story: str, *, back: bool) -> None:
    """Each process dies at the first point that none before it died at."""
    crash = KillOnce()
    assert ended(story, [crash] * 90, back=back) == undisturbed(story, back=back)
    steps = {step for step, _ in crash.killed}
    assert len(steps) > (3 if back else 8)
    assert {point for _, point in crash.killed} == set(CrashPoint)


@settings(max_examples=10, deadline=None)
@given(
    story=st.sampled_from(sorted(STORIES)),
    kills=st.lists(st.integers(1, 30), max_size=6),
    lost=st.frozensets(st.integers(0, 12), max_size=4),
    back=st.booleans(),
)
def test_any_faults_in_any_order_are_survived(
    story: str, kills: list[int], lost: frozenset[int], *, back: bool
) -> None:
    """Several kills, and acts that were done although their answer was lost."""
    crashes = [KillAt(number) for number in kills]
    assert ended(story, crashes, lost, back=back) == undisturbed(story, back=back)
