"""What clients commit while an expansion goes on is met, also where the offset is the same."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.application.expansion_run import begin, go_on, plan_run
from groupshift.application.expansion_work import ExpansionTools, sized
from groupshift.application.run_engine import Ended, RunOutcome
from groupshift.domain.placement import partition_of
from groupshift.domain.rows import ClusterState, Committed, OffsetRow, ProblemRow
from groupshift.domain.step import RunAct
from groupshift.log import LogRecord, encode_key, encode_value
from groupshift.log.releases import Coordinator
from support.simulated_downgrade import yes
from support.simulated_expansion import GROUPS, Expansible, committed, equal, tools_of

MOVING = [group for group in GROUPS if partition_of(group, 5) != partition_of(group, 8)]
STAYING = [group for group in GROUPS if group not in MOVING]
BOTH = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])


def run_to(world: Expansible, *without: RunAct) -> ExpansionTools:
    """A run to 8 partitions, as far as the first of these acts."""
    tools = tools_of(world)
    run = begin(tools, plan_run(tools, 8))
    acts = frozenset(RunAct) - frozenset(without)
    assert go_on(tools, yes(acts=acts), run).ended is Ended.PAUSED
    return tools


def gone_on(tools: ExpansionTools, **changes: object) -> RunOutcome:
    """The same run, as far as it goes."""
    return go_on(tools, yes(**changes), tools.runs.recent(1)[0])


@BOTH
@pytest.mark.parametrize("group", [MOVING[0], STAYING[0]])
def test_the_same_offset_committed_anew_tells_that_somebody_runs(kind: Coordinator, group: str) -> None:
    """A client that closes commits where it is: the log shows it, answers do not."""
    world = committed(kind)
    tools = run_to(world, RunAct.COMPARE)
    assert world.commit_as_client(group, world.told[group], 1)
    stopped = gone_on(tools)
    assert (stopped.ended, stopped.step, stopped.hopeless) == (Ended.FAILED, "05 compare S0", True)
    assert f"commit of group {group!r}" in stopped.detail
    assert "committed anew" in stopped.detail


@BOTH
def test_what_a_group_that_stays_commits_before_the_end_is_told(kind: Coordinator) -> None:
    """Also the same offset: clients may not run yet; a person may say that it does no harm."""
    world = committed(kind)
    tools = run_to(world, RunAct.RESTORE)
    assert world.commit_as_client(STAYING[0], world.told[STAYING[0]], 1)
    stopped = gone_on(tools)
    assert stopped.step == "15 compare V"
    assert "committed anew" in stopped.detail
    assert gone_on(tools, seen=True).ended is Ended.DONE
    assert equal(world)


def test_other_metadata_of_the_same_offset_is_not_overwritten() -> None:
    """Streams and Connect keep state in metadata: committed at the former coordinator after the deletion."""
    world = committed(Coordinator.NEW)
    tools = run_to(world, RunAct.RESTART)
    group = MOVING[0]
    node = world.world.find_coordinator(1, group)
    row = OffsetRow(group=group, topic="t", partition=0, offset=world.told[group], metadata="newer")
    world.world.commit_at(node, [row])
    waiting = gone_on(tools)
    assert (waiting.ended, waiting.step) == (Ended.WAITING, "14 restore S")
    told = f"{world.told[group]} with another epoch or other metadata was committed at its former coordinator"
    assert told in waiting.detail


@BOTH
def test_an_offset_that_expired_after_the_snapshot_may_be_accepted(kind: Coordinator) -> None:
    """While the approval waited, of a group that stays; both comparisons ask."""
    world = committed(kind)
    tools = run_to(world, RunAct.COMPARE)
    world.world.delete_at(world.coordinator(STAYING[0]), STAYING[0])
    del world.told[STAYING[0]]
    stopped = gone_on(tools)
    assert (stopped.ended, stopped.hopeless) == (Ended.FAILED, True)
    assert "accept it with --seen" in stopped.detail
    assert gone_on(tools, seen=True).step == "15 compare V"
    assert gone_on(tools, seen=True).ended is Ended.DONE
    assert equal(world)


class Sick:
    """The same reader; the log end of one topic cannot be read."""

    def __init__(self, world: Expansible) -> None:
        self._world = world

    def take(self, *given: object, **named: object) -> ClusterState:
        """See the port."""
        found = self._world.take(*given, **named)  # type: ignore[arg-type]
        said = ProblemRow(problem="the log end of orders-0 cannot be read")
        return replace(found, problems=[*found.problems, said])

    def committed(self, groups: Collection[str]) -> Committed:
        """See the port."""
        return self._world.committed(groups)

    def cluster_id(self) -> str:
        """See the port."""
        return self._world.cluster_id()


def test_a_topic_that_nobody_leads_keeps_no_offset_from_being_restored() -> None:
    """It lost its leader after the restarts: offsets are committed and read back; the comparison says it, and
    a person goes on."""
    world = committed(Coordinator.NEW)
    tools = replace(run_to(world, RunAct.RESTORE), reader=Sick(world))
    stopped = gone_on(tools)
    assert stopped.step == "15 compare V"
    assert "the log end of orders-0 cannot be read" in stopped.detail
    assert equal(world)
    assert gone_on(tools, seen=True).ended is Ended.DONE


def leave(world: Expansible, group: str, key_type: int, at: int) -> None:
    """A record of the consumer protocol that a careless downgrade left."""
    records = world.world.logs[at]
    records.append(
        LogRecord(
            partition=at,
            offset=len(records),
            timestamp_ms=world.world.now_ms,
            key=encode_key(key_type, {"groupId": group}),
            value=encode_value(key_type, 0, {"epoch": 3}),
        )
    )


@pytest.mark.parametrize("group", [MOVING[0], "only-left"])
def test_what_old_coordinators_do_not_load_holds_up_nobody(group: str) -> None:
    """They never write a tombstone for it, and list no group for it (types 3 and up)."""
    world = committed(Coordinator.OLD)
    leave(world, group, 3, partition_of(group, 5))
    tools = tools_of(world)
    assert go_on(tools, yes(patience_s=5.0), begin(tools, plan_run(tools, 8))).ended is Ended.DONE
    assert equal(world)


def test_a_committed_minus_one_is_no_offset() -> None:
    """Coordinators answer it as they answer none (§1.4): both sources tell the same."""
    world = committed(Coordinator.NEW)
    group = STAYING[0]
    world.world.commit_at(
        world.coordinator(group), [OffsetRow(group=group, topic="never", partition=3, offset=-1)]
    )
    tools = tools_of(world)
    assert go_on(tools, yes(), begin(tools, plan_run(tools, 8))).ended is Ended.DONE


def test_deletions_are_cut_where_their_tombstones_become_one_large_batch() -> None:
    """By the keys that are written; a group alone is never cut, and none is left out."""
    groups = [f"group-{number}" for number in range(40)]
    rows = [
        OffsetRow(group=group, topic="t" * 100, partition=number, offset=1)
        for group in groups
        for number in range(300)
    ]
    cut = list(sized(groups, rows))
    assert [group for some in cut for group in some] == groups
    assert [len(some) for some in cut] == [6, 6, 6, 6, 6, 6, 4]
    assert list(sized(groups, ())) == [groups]


def test_the_log_is_held_against_what_coordinators_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that answers what its log has not: answers are as in the snapshot, the log is not."""
    world = committed(Coordinator.NEW)
    tools = run_to(world, RunAct.VERIFY)
    group = MOVING[0]
    lost = partition_of(group, 8)
    key = encode_key(1, {"group": group, "topic": "t", "partition": 0})
    world.erase([(lost, key)])
    waiting = gone_on(tools)
    assert (waiting.ended, waiting.step) == (Ended.WAITING, "16 verify V")
    assert f"{group!r} t-0: answered offset {world.told[group]}" in waiting.detail
    record = tools.runs.steps(tools.runs.recent(1)[0].run)["16 verify V"]
    assert Path(record.result["folder"]).name.startswith("log-")
