"""An expansion's last looks: each act of it is fenced, and believes nothing that it did not see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from groupshift.application import expansion_work
from groupshift.application.expansion_run import begin, go_on, plan_run, turn_back
from groupshift.application.expansion_work import ExpansionTools
from groupshift.application.run_engine import Ended, RunOutcome
from groupshift.domain.placement import partition_of
from groupshift.domain.step import RunAct
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.log import LogRecord
from groupshift.log.releases import Coordinator
from groupshift.ports.journal import ClusterRun, RunStepRecord, StepState
from groupshift_testing.offset_brokers import OffsetBroker
from support.simulated_downgrade import KillAt, Killed, yes
from support.simulated_expansion import GROUPS, Expansible, committed, equal, tools_of

MOVING = [group for group in GROUPS if partition_of(group, 5) != partition_of(group, 8)]
DELETE = "08 delete-groups __consumer_offsets"


def begun(world: Expansible, to: int = 8) -> tuple[ExpansionTools, ClusterRun]:
    """A run to that count."""
    tools = tools_of(world)
    return tools, begin(tools, plan_run(tools, to))


def gone_on(tools: ExpansionTools, *without: RunAct, **changes: object) -> RunOutcome:
    """The run, gone on with, up to the first of these acts."""
    acts = frozenset(RunAct) - frozenset(without)
    return go_on(tools, yes(acts=acts, **changes), tools.runs.recent(1)[0])


def about_to_delete(world: Expansible) -> tuple[ExpansionTools, ClusterRun]:
    """A process was killed when it had written the deletion down."""
    tools, run = begun(world)
    assert gone_on(tools, RunAct.DELETE_GROUPS).ended is Ended.PAUSED
    token = tools.runs.claim(run.run, "killed", 1)
    tools.runs.put(run.run, RunStepRecord(step=DELETE, state=StepState.INTENDED, token=token, at_ms=1))
    return tools, run


def test_members_that_came_back_are_met_before_a_deletion_that_was_written_down() -> None:
    """Whatever group they are in."""
    world = committed(Coordinator.NEW)
    tools, _ = about_to_delete(world)
    world.members = {MOVING[1]}
    with pytest.raises(Conflict, match=f"members are in 1 group: {MOVING[1]}"):
        gone_on(tools)
    assert "delete" not in world.asked


def test_a_group_that_does_not_answer_is_not_deleted() -> None:
    """What it has may not be in the snapshot."""
    world = committed(Coordinator.NEW)
    tools, _ = about_to_delete(world)
    world.silent = {MOVING[1]}
    with pytest.raises(Transient, match="is not answered"):
        gone_on(tools)
    assert "delete" not in world.asked


@pytest.mark.parametrize(
    ("act", "done"),
    [(RunAct.REHEARSE, "commit"), (RunAct.DELETE_GROUPS, "delete"), (RunAct.RESTORE, "commit")],
)
def test_each_batch_is_fenced(act: RunAct, done: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process takes the run over after the first batch: there is no second one."""
    monkeypatch.setattr(expansion_work, "_AT_A_TIME", 5)
    world = committed(Coordinator.NEW)
    tools, run = begun(world)
    assert gone_on(tools, act).ended is Ended.PAUSED
    before, change = world.asked.count(done), world.changed

    def overtaken(what: str) -> None:
        change(what)
        if what == done and world.asked.count(done) == before + 1:
            tools.runs.claim(run.run, "another", 1)

    world_class = type(world)
    monkeypatch.setattr(world_class, "changed", lambda _self, what: overtaken(what))
    with pytest.raises(Conflict):
        gone_on(tools)
    assert world.asked.count(done) <= before + 1
    monkeypatch.undo()
    monkeypatch.setattr(expansion_work, "_AT_A_TIME", 5)
    assert gone_on(tools).ended is Ended.DONE
    assert equal(world)


def test_partitions_are_not_made_by_a_process_that_was_overtaken() -> None:
    """Between its last look and its request."""
    world = committed(Coordinator.NEW)
    tools, run = begun(world)
    assert gone_on(tools, RunAct.CREATE_PARTITIONS).ended is Ended.PAUSED

    class Log:
        """As the world's, and another process claims the run while it is read."""

        position = staticmethod(world.position)

        @staticmethod
        def read(*arguments: object) -> Iterator[LogRecord]:
            tools.runs.claim(run.run, "another", 1)
            return world.read(*arguments)  # type: ignore[arg-type]

    with pytest.raises(Conflict):
        gone_on(replace(tools, log=Log()))
    assert (len(world.world.logs), "create" in world.asked) == (5, False)


def test_tombstones_that_are_not_on_all_replicas_are_waited_for() -> None:
    """A broker that is stopped right then would hand its partitions to one without them."""
    world = committed(Coordinator.OLD)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.DELETE_GROUPS).ended is Ended.PAUSED
    hidden, said = [3], list[str]()

    class Log:
        """As the world's, without its tombstones the first times."""

        position = staticmethod(world.position)

        @staticmethod
        def read(*arguments: object) -> Iterator[LogRecord]:
            lagging = hidden[0] > 0 and "delete" in world.asked
            hidden[0] -= lagging
            found = world.read(*arguments)  # type: ignore[arg-type]
            return (each for each in found if each.value is not None) if lagging else found

    outcome = gone_on(
        replace(tools, log=Log()), RunAct.CREATE_PARTITIONS, told=lambda _step, detail: said.append(detail)
    )
    assert outcome.ended is Ended.PAUSED
    late = [each for each in said if "tombstones are not on all replicas yet" in each]
    assert len(late) == 3
    assert gone_on(tools).ended is Ended.DONE


def test_a_broker_that_joined_after_the_approval_is_no_go() -> None:
    """It was not approved, and nobody would restart it."""
    world = committed(Coordinator.NEW)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.PROVE).ended is Ended.PAUSED
    world.world.brokers[4] = OffsetBroker(node_id=4, configured=5)
    world.world.start(4)
    stopped = gone_on(tools)
    assert (stopped.ended, stopped.step) == (Ended.FAILED, "06 prove 8")
    assert "broker 4: not there is now" in stopped.detail
    assert "delete" not in world.asked


def test_a_count_made_long_ago_is_taken_up_only_while_nobody_commits() -> None:
    """There the restarts are what cannot be undone: the last look is before them."""
    world = committed(Coordinator.NEW)
    world.world.expand(8)
    tools, run = begun(world)
    assert gone_on(tools, RunAct.CREATE_PARTITIONS).ended is Ended.PAUSED
    assert world.commit_as_client(MOVING[0], 150, 1)
    with pytest.raises(Conflict, match="came or committed since groups were deleted"):
        gone_on(tools)
    world.delete([MOVING[0]])
    assert gone_on(tools, RunAct.PLACE).ended is Ended.PAUSED
    with pytest.raises(Rejected, match="broker 2 may count 8 already"):
        turn_back(tools, yes(), run)


def test_a_way_back_waits_until_brokers_tell_one_count() -> None:
    """One may tell the former count when partitions were just made."""
    world = committed(Coordinator.NEW)
    tools, run = begun(world)
    assert gone_on(tools, RunAct.CREATE_PARTITIONS).ended is Ended.PAUSED

    class Views:
        """Broker 3 tells another topic."""

        owners, answering, close = world.owners, world.answering, world.close

        @staticmethod
        def look():
            return replace(world.look(), differing=(3,))

    with pytest.raises(Transient, match="brokers tell different counts"):
        turn_back(replace(tools, views=Views()), yes(), run)


def test_what_is_there_already_is_not_committed_again() -> None:
    """A restore that was cut off goes on with what is missing; silence after a commit is no success."""
    world = committed(Coordinator.NEW)
    tools, _ = begun(world)
    assert gone_on(tools, RunAct.RESTORE).ended is Ended.PAUSED
    with pytest.raises(Killed):
        gone_on(replace(tools, crash=KillAt(3)))
    records = sum(map(len, world.world.logs))
    commit = world.commit

    class Restoring:
        """As the world's, and no coordinator answers after it."""

        delete, close = world.delete, world.close

        @staticmethod
        def commit(rows):
            found = commit(rows)
            world.silent = {MOVING[0]}
            return found

    with pytest.raises(Transient, match="is not answered"):
        gone_on(replace(tools, restoring=Restoring()))
    world.silent = set()
    assert gone_on(tools).ended is Ended.DONE
    assert sum(map(len, world.world.logs)) == records
    assert equal(world)
