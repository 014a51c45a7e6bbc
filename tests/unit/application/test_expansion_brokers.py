"""Brokers that die while an expansion restarts them, and what is set in their files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from groupshift.application.expansion_run import begin, go_on, plan_run
from groupshift.application.expansion_work import ExpansionTools
from groupshift.application.run_engine import Ended, RunOutcome
from groupshift.domain.step import RunAct
from groupshift.errors import Conflict
from groupshift.log.releases import Coordinator
from groupshift.ports.driver import Accepted, ForPerson, Replacement
from support.simulated_downgrade import yes
from support.simulated_expansion import Expansible, committed, equal, tools_of

BOTH = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])


class Once:
    """A driver that makes a change once, whatever becomes of the broker, as its port says."""

    def __init__(self, world: Expansible) -> None:
        self._world = world
        self.made: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._world, name)

    def start(self, replacement: Replacement) -> Accepted | ForPerson:
        """See the port."""
        if replacement.change_id in self.made:
            return Accepted(change_id=replacement.change_id)
        self.made.append(replacement.change_id)
        return self._world.start(replacement)


def gone_on(tools: ExpansionTools, *without: RunAct, **changes: object) -> RunOutcome:
    """The run, gone on with, up to the first of these acts."""
    acts = frozenset(RunAct) - frozenset(without)
    return go_on(tools, yes(acts=acts, patience_s=5.0, **changes), tools.runs.recent(1)[0])


def begun(world: Expansible, nodes: object | None = None) -> ExpansionTools:
    """A run to 8 partitions."""
    tools = replace(tools_of(world), nodes=nodes or world)
    begin(tools, plan_run(tools, 8))
    return tools


@BOTH
def test_a_broker_that_died_is_started_by_another_change(kind: Coordinator) -> None:
    """A driver that was told of the same change again would do nothing."""
    world = committed(kind)
    world.dies = {3}
    driver = Once(world)
    tools = begun(world, driver)
    stopped = gone_on(tools)
    assert (stopped.ended, "broker 3 does not run" in stopped.detail) == (Ended.FAILED, True)
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)
    assert len([each for each in driver.made if "restart_3" in each]) == 2


@BOTH
def test_a_broker_that_died_after_its_restart_is_started_before_the_next(kind: Coordinator) -> None:
    """No step is left that would, and no broker is restarted while one is away."""
    world = committed(kind)
    world.dies = {3}
    tools = begun(world, Once(world))
    assert gone_on(tools).ended is Ended.FAILED
    world.world.stop(2)
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)


@pytest.mark.parametrize("act", [RunAct.RESTART, RunAct.PLACE])
def test_a_process_that_was_overtaken_while_it_waited_restarts_nothing(act: RunAct) -> None:
    """The fence is read after the waiting, right before the driver is asked."""
    world = committed(Coordinator.NEW)
    if act is RunAct.PLACE:
        world.lies = {3}
    tools = begun(world)
    assert gone_on(tools, act).ended is Ended.PAUSED
    before = list(world.asked)
    overtaken = replace(tools, topic=_Overtaken(world, tools))
    with pytest.raises(Conflict):
        gone_on(overtaken)
    assert world.asked == before


class _Overtaken:
    """The same topic; another process claims the run while it is asked whether the cluster is whole."""

    def __init__(self, world: Expansible, tools: ExpansionTools) -> None:
        self._world, self._tools = world, tools

    def __getattr__(self, name: str) -> object:
        return getattr(self._world, name)

    def cluster_lacks(self, brokers: Collection[int]) -> str:
        """See the port."""
        self._tools.runs.claim(self._tools.runs.recent(1)[0].run, "another", 1)
        return self._world.cluster_lacks(brokers)


@BOTH
def test_a_count_that_is_not_in_the_file_of_a_broker_is_asked_about(kind: Coordinator) -> None:
    """Restarted without it: all offsets are there, and a person says whether it may stay so."""
    world = committed(kind)
    world.unset = {2}
    tools = begun(world)
    waiting = gone_on(tools)
    assert (waiting.ended, waiting.step) == (Ended.WAITING, "17 audit __consumer_offsets")
    assert "broker 2 has offsets.topic.num.partitions=5" in waiting.detail
    assert gone_on(tools, seen=True).ended is Ended.DONE
    assert equal(world)
