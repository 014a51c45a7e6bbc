"""What clients commit while an expansion goes on is found, also where the offset is the same."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.rows import LISTED_TOO, ClusterState, Committed, OffsetRow, ProblemRow
from groupshift.log import LogRecord
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.ports import sized
from groupshift_testing.log_encoder import encode_key, encode_value
from support.driven_expansion import BOTH, MOVING, STAYING, accepted, begun, killed
from support.driven_moves import Driver, detail, where
from support.simulated_expansion import Expansible, committed, driver_of, equal


def run_to(world: Expansible, kind: str) -> tuple[Driver, str]:
    """A run to 8 partitions, up to the first step of this kind."""
    driver = driver_of(world)
    run = begun(driver)
    killed(driver, run, kind)
    return driver, run


@BOTH
@pytest.mark.parametrize("group", [MOVING[0], STAYING[0]])
def test_the_same_offset_committed_anew_shows_that_somebody_runs(kind: Coordinator, group: str) -> None:
    """A client that closes commits where it is: the log shows it, answers do not."""
    world = committed(kind)
    driver, run = run_to(world, "compare S0")
    assert world.commit_as_client(group, world.told[group], 1)
    stopped = driver.go_on(run)
    assert (where(stopped), stopped.checked.only_rollback_helps) == (("failed", "compare S0"), True)
    assert f"commit of group {group!r}" in detail(stopped)
    assert "committed anew" in detail(stopped)


@BOTH
def test_what_a_group_that_stays_commits_before_the_end_is_shown(kind: Coordinator) -> None:
    """Also the same offset: clients may not run yet; a person may say that it does no harm."""
    world = committed(kind)
    driver, run = run_to(world, "restore S")
    assert world.commit_as_client(STAYING[0], world.told[STAYING[0]], 1)
    stopped = driver.go_on(run)
    assert where(stopped) == ("failed", "compare V")
    assert "committed anew" in detail(stopped)
    end = accepted(driver, run, stopped)
    assert where(end) == ("finalised", "")
    assert end.closing.verdict.value == "fail", "what was only accepted is red"
    assert equal(world)


def test_other_metadata_of_the_same_offset_is_not_overwritten() -> None:
    """Streams and Connect keep state in metadata: committed at the former coordinator after the deletion."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restart 2")
    group = MOVING[0]
    node = world.world.find_coordinator(1, group)
    row = OffsetRow(group=group, topic="t", partition=0, offset=world.told[group], metadata="newer")
    world.world.commit_at(node, [row])
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "restore S")
    said = f"{world.told[group]} with another epoch or other metadata was committed at its former coordinator"
    assert said in detail(waiting)


@BOTH
def test_an_offset_that_expired_after_the_snapshot_may_be_accepted(kind: Coordinator) -> None:
    """While the approval waited, of a group that stays; both comparisons ask."""
    world = committed(kind)
    driver, run = run_to(world, "compare S0")
    world.world.delete_at(world.coordinator(STAYING[0]), STAYING[0])
    del world.told[STAYING[0]]
    stopped = driver.go_on(run)
    assert (where(stopped), stopped.checked.only_rollback_helps) == (("failed", "compare S0"), True)
    assert f"--accept '{stopped.step.key}'" in detail(stopped)
    later = accepted(driver, run, stopped)
    assert where(later) == ("failed", "compare V")
    assert where(accepted(driver, run, later)) == ("finalised", "")
    assert equal(world)


def test_two_differences_before_the_deletion_may_both_be_accepted() -> None:
    """An offset that expired, and one that cannot be committed again: both steps are done anew by each
    process, and what was accepted of one still counts when the other is accepted."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "compare S0")
    world.world.delete_at(world.coordinator(STAYING[0]), STAYING[0])
    del world.told[STAYING[0]]
    world.uncommitted = {MOVING[0]: "UNKNOWN_TOPIC_OR_PARTITION (3)"}
    expired = driver.go_on(run)
    assert where(expired) == ("failed", "compare S0")
    refused = accepted(driver, run, expired)
    assert where(refused) == ("waiting", "rehearse S")
    assert where(accepted(driver, run, refused)) == ("waiting", "restore S")


@dataclass(slots=True)
class Sick:
    """The same reader, with this problem beside what it reads."""

    world: Expansible
    problem: ProblemRow

    def take(self, *given: object, **named: object) -> ClusterState:
        """See the port."""
        found = self.world.take(*given, **named)  # type: ignore[arg-type]
        return replace(found, problems=[*found.problems, self.problem])

    def committed(self, groups: Collection[str]) -> Committed:
        """See the port."""
        return self.world.committed(groups)

    def cluster_id(self) -> str:
        """See the port."""
        return self.world.cluster_id()


def test_a_topic_that_nobody_leads_keeps_no_offset_from_being_restored() -> None:
    """It lost its leader after the restarts: offsets are committed and read back; the comparison shows it,
    and a person goes on."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "restore S")
    problem = ProblemRow(problem="the log end of orders-0 cannot be read")
    driver.ports = replace(driver.ports, reader=Sick(world, problem))
    stopped = driver.go_on(run)
    assert where(stopped) == ("failed", "compare V")
    assert "the log end of orders-0 cannot be read" in detail(stopped)
    assert equal(world)
    assert where(accepted(driver, run, stopped)) == ("finalised", "")


@pytest.mark.parametrize(
    ("group", "end"), [(STAYING[0], ("finalised", "")), (MOVING[0], ("declined", "snapshot S"))]
)
def test_residue_of_a_group_that_stays_holds_up_nothing(group: str, end: tuple[str, str]) -> None:
    """Of one that moves the deletion could not be proven: nothing was changed."""
    world = committed(Coordinator.NEW)
    driver = driver_of(world)
    problem = ProblemRow(group=group, problem=f"broker 1{LISTED_TOO}2")
    driver.ports = replace(driver.ports, reader=Sick(world, problem))
    assert where(driver.go_on(begun(driver))) == end
    assert bool(world.asked) is (group == STAYING[0])


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
    driver = driver_of(world)
    assert where(driver.go_on(begun(driver), patience_s=5.0)) == ("finalised", "")
    assert equal(world)


def test_a_committed_minus_one_is_no_offset() -> None:
    """Coordinators answer it as they answer none (§1.4): both sources say the same."""
    world = committed(Coordinator.NEW)
    group = STAYING[0]
    row = OffsetRow(group=group, topic="never", partition=3, offset=-1)
    world.world.commit_at(world.coordinator(group), [row])
    driver = driver_of(world)
    assert where(driver.go_on(begun(driver))) == ("finalised", "")


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


def test_the_log_is_compared_with_what_coordinators_answer() -> None:
    """A cache that answers what its log has not: answers are as in the snapshot, the log is not."""
    world = committed(Coordinator.NEW)
    driver, run = run_to(world, "verify V")
    group = MOVING[0]
    key = encode_key(1, {"group": group, "topic": "t", "partition": 0})
    world.erase([(partition_of(group, 8), key)])
    waiting = driver.go_on(run)
    assert where(waiting) == ("waiting", "verify V")
    assert f"{group!r} t-0: answered offset {world.told[group]}" in detail(waiting)
    record = driver.runs.steps(run)[waiting.step.key]
    assert Path(record.result["verification"]).parent.name == run
