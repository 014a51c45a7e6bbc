"""Killed anywhere, or left without an answer anywhere, an expansion that is run again keeps every offset; and
each of its steps is needed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.application.expansion_run import begin, go_on, plan_run, turn_back
from groupshift.application.run_engine import Ended
from groupshift.domain.step import RunAct
from groupshift.errors import Transient
from groupshift.log.releases import Coordinator
from groupshift.ports.clock import CrashPoint, NoStepCrash, StepCrashPoints
from support.kill_once import KillOnce
from support.simulated_downgrade import KillAt, Killed, yes
from support.simulated_expansion import Expansible, committed, equal, tools_of

KINDS = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])


def ended(
    kind: Coordinator,
    crashes: Iterable[StepCrashPoints] = (),
    lost: frozenset[int] = frozenset(),
    *,
    to: int = 8,
    back: bool = False,
    dies: frozenset[int] = frozenset(),
) -> Expansible:
    """What is left after processes with these crash points, the n-th answer ``lost``, brokers that were
    killed while they restarted, and processes that are left alone; a run that is to go ``back`` first deleted
    its groups."""
    world = committed(kind)
    acts = count()
    world.answers_lost, world.dies = lambda: next(acts) in lost, set(dies)
    tools = tools_of(world)
    run = begin(tools, plan_run(tools, to))
    if back:
        with suppress(Transient):
            go_on(tools, yes(acts=frozenset(RunAct) - {RunAct.CREATE_PARTITIONS}), run)
        run = turn_back(tools, yes(), run)
    wanted = Ended.TAKEN_BACK if back else Ended.DONE
    spare = len(lost) + len(dies) + 1
    for crash in (*crashes, *(NoStepCrash() for _ in range(spare))):
        if tools.runs.find(run.run).open:
            with suppress(Killed, Transient):
                found = go_on(replace(tools, crash=crash), yes(), tools.runs.find(run.run))
                assert found.ended is wanted or dies
    assert tools.runs.open_of("simulated") is None
    assert len(world.world.logs) == (5 if back else to)
    for partition in range(len(world.world.logs)):
        world.world.bounce(partition)
    return world


@pytest.mark.parametrize("back", [False, True], ids=["there", "back"])
@KINDS
def test_every_crash_point_of_every_step_is_survived(kind: Coordinator, *, back: bool) -> None:
    """Each process dies at the first point that none before it died at."""
    crash = KillOnce()
    assert equal(ended(kind, [crash] * 90, back=back))
    assert len({step for step, _ in crash.killed}) == (4 if back else 17)
    assert {point for _, point in crash.killed} == set(CrashPoint)


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(Coordinator),
    kills=st.lists(st.integers(1, 30), max_size=6),
    lost=st.frozensets(st.integers(0, 8), max_size=4),
    dies=st.frozensets(st.integers(1, 3), max_size=2),
    to=st.sampled_from([6, 8, 10]),
    back=st.booleans(),
)
def test_any_faults_in_any_order_are_survived(
    kind: Coordinator,
    kills: list[int],
    lost: frozenset[int],
    dies: frozenset[int],
    to: int,
    *,
    back: bool,
) -> None:
    """Several kills, acts that were done although their answer was lost, brokers that did not come up."""
    crashes = [KillAt(number) for number in kills]
    assert equal(ended(kind, crashes, lost, to=to, back=back, dies=frozenset() if back else dies))


@pytest.mark.parametrize("skipped", ["delete", "create", "restore"])
@KINDS
def test_a_step_that_did_nothing_is_caught(kind: Coordinator, skipped: str) -> None:
    """Whatever the broker answered: the run stops at that step (others: `test_expansion_steps.py`)."""
    world = committed(kind)
    world.skips = {skipped}
    tools = tools_of(world)
    run = begin(tools, plan_run(tools, 8))
    found = go_on(tools, yes(patience_s=5.0), run)
    assert found.ended in {Ended.WAITING, Ended.FAILED}
    assert skipped in found.step
