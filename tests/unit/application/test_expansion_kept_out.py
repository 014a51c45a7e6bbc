"""An expansion with a driver that keeps clients out, also those that start again by themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.application.expansion_run import begin, go_on, plan_run, turn_back
from groupshift.application.expansion_work import ExpansionTools
from groupshift.application.run_engine import Ended, RunOutcome
from groupshift.domain.step import RunAct
from groupshift.errors import Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.ports.driver import ClientFence
from groupshift.ports.journal import RunState
from support.simulated_downgrade import KillAt, Killed, yes
from support.simulated_expansion import Expansible, committed, equal, tools_of


class Fenced:
    """The same driver, with a fence; ``fails`` times it does not answer."""

    def __init__(self, world: Expansible, fails: int = 0) -> None:
        self._world, self._fails = world, fails
        self.closed_by: set[str] = set()

    def __getattr__(self, name: str) -> object:
        return getattr(self._world, name)

    def keep_out(self, run: str) -> None:
        """See the port."""
        if self._fails:
            self._fails -= 1
            raise Transient("the program of fence.keep_out ended with 1")
        self.closed_by.add(run)
        self._world.asked.append("closed")

    def let_in(self, run: str) -> None:
        """See the port."""
        self.closed_by.discard(run)
        self._world.asked.append("opened")


def begun(world: Expansible, fence: Fenced) -> ExpansionTools:
    """A run to 8 partitions."""
    tools = replace(tools_of(world), nodes=fence)
    begin(tools, plan_run(tools, 8))
    return tools


def gone_on(tools: ExpansionTools, *without: RunAct) -> RunOutcome:
    """The run, gone on with, up to the first of these acts."""
    acts = frozenset(RunAct) - frozenset(without)
    return go_on(tools, yes(acts=acts, patience_s=5.0), tools.runs.recent(1)[0])


def test_clients_are_kept_out_from_the_approval_to_the_end() -> None:
    """Before anything is deleted, and until the log was read."""
    world = committed(Coordinator.OLD)
    fence = Fenced(world)
    assert isinstance(fence, ClientFence)
    tools = begun(world, fence)
    steps = [each.act for each in plan_run(tools, 8).plan.steps]
    assert steps[steps.index(RunAct.APPROVE) + 1] is RunAct.FENCE
    assert steps[-2:] == [RunAct.AUDIT, RunAct.REOPEN]
    assert gone_on(tools).ended is Ended.DONE
    done = [each for each in world.asked if each in {"closed", "delete", "create", "opened"}]
    assert done == ["closed", "delete", "create", "opened"]
    assert (fence.closed_by, equal(world)) == (set(), True)


def test_without_a_fence_the_plan_has_none() -> None:
    """Drivers that cannot."""
    tools = tools_of(committed(Coordinator.NEW))
    assert not {RunAct.FENCE, RunAct.REOPEN} & {each.act for each in plan_run(tools, 8).plan.steps}


@pytest.mark.parametrize("until", [RunAct.COMPARE, RunAct.CREATE_PARTITIONS])
def test_the_way_back_lets_clients_in_again(until: RunAct) -> None:
    """Whether groups were deleted or not."""
    world = committed(Coordinator.NEW)
    fence = Fenced(world)
    tools = begun(world, fence)
    assert gone_on(tools, until).ended is Ended.PAUSED
    assert fence.closed_by
    turned = turn_back(tools, yes(), tools.runs.recent(1)[0])
    assert go_on(tools, yes(), turned).ended is Ended.TAKEN_BACK
    assert (fence.closed_by, equal(world)) == (set(), True)


def test_a_fence_that_fails_stops_the_run_before_anything_is_changed() -> None:
    """The next run closes it; a process without that file says what it lacks."""
    world = committed(Coordinator.NEW)
    tools = begun(world, Fenced(world, fails=1))
    with pytest.raises(Transient, match=r"fence\.keep_out"):
        gone_on(tools)
    with pytest.raises(Rejected, match="name that file with --nodes"):
        gone_on(replace(tools, nodes=world))
    assert world.asked == []
    assert gone_on(tools).ended is Ended.DONE


@pytest.mark.parametrize("point", range(1, 5))
def test_a_process_killed_around_the_fence_ends_with_it_open(point: int) -> None:
    """At every point of both steps."""
    world = committed(Coordinator.NEW)
    fence = Fenced(world)
    tools = begun(world, fence)
    for act in (RunAct.FENCE, RunAct.REOPEN):
        assert gone_on(tools, act).ended is Ended.PAUSED
        try:
            gone_on(replace(tools, crash=KillAt(point)))
        except Killed:
            continue
    while tools.runs.recent(1)[0].state is RunState.OPEN:
        gone_on(tools)
    assert (fence.closed_by, equal(world)) == (set(), True)
