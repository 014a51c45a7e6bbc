"""What is written of a plan, what is not, and why; one writer at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from groupshift.domain.partitions import TopicPartition
from groupshift.domain.run import RunState, Target
from groupshift.engine.status import status_of
from groupshift.errors import Conflict, Fenced, Rejected, Transient
from groupshift.links.link import LinkKind
from groupshift.links.sync_apply import apply_plan, lease, positions_of
from groupshift.links.sync_history import BeforeFirstSync
from groupshift.links.sync_plan import SyncPlan
from groupshift.links.translation import Certainty, OffsetPair
from groupshift.links.write_rules import RewindPolicy
from groupshift_testing.link_sides import LinkWorld
from support.link_worlds import Cycles, brief, filled, link, only

COPY = TopicPartition("primary.orders", 0)
# -- the write -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (None, ("WRITE", 250, "OK_NEW_GROUP")),
        (-1, ("WRITE", 250, "OK")),
        (249, ("WRITE", 250, "OK")),
        (250, ("SKIP", 250, "OK")),
        (251, ("SKIP", 250, "SKIP_WATERMARK")),
    ],
)
def test_cluster_07_what_is_absent_null_or_behind_is_written_and_nothing_else(
    there: int | None, wanted: tuple[str, int, str]
) -> None:
    """With the whole way from both clusters to the coordinator."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    if there is not None:
        cycles.world.target.commit_as_client("billing", COPY, there)
    row = only(cycles.cycle())
    assert brief(row) == wanted
    assert cycles.world.offset("billing") == max(250, there or 0)
    assert len(cycles.world.target.written) == (wanted[0] == "WRITE")


def test_cluster_07_a_new_partition_on_the_target_is_written() -> None:
    """The others are at their offset already."""
    world = LinkWorld(link(), partitions=2)
    world.fill(300)
    for partition in (0, 1):
        world.commit("billing", partition, 250)
    world.target.commit_as_client("billing", COPY, 250)
    cycles = Cycles(world)
    assert [brief(row)[0] for row in cycles.cycle().rows] == ["SKIP", "WRITE"]
    assert world.offset("billing", 1) == 250


def test_what_is_written_has_no_leader_epoch_and_the_metadata_byte_for_byte() -> None:
    """The source's epochs mean nothing on the target; a ledger of source offsets is dropped."""
    cycles = filled(partitions=2)
    cycles.world.commit("streams", 0, 250, "AQ\0")
    cycles.world.commit("streams", 1, 250, "kpr1;0:17")
    assert cycles.cycle().is_clean
    written = {row.partition: row for row in cycles.world.target.written}
    assert (written[0].leader_epoch, written[0].metadata) == (None, "AQ\0")
    assert written[1].metadata == ""


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "Assigning", "Unknown", "NotReady"])
def test_cluster_08_a_live_group_is_never_written(state: str) -> None:
    """Not by any policy, and not where it came to life between plan and apply."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan = cycles.plan(rewind_policy=RewindPolicy.FORCE)
    cycles.world.target.join("billing", state)
    cycles.world.target.commit_as_client("billing", COPY, 10)
    for row in (only(cycles.apply(plan)), only(cycles.cycle(rewind_policy=RewindPolicy.FORCE))):
        assert (row.action.value, row.reason.value[:5]) == ("SKIP", "SKIP_")
        assert state in row.said
    assert cycles.world.target.written == []


def test_cluster_08_a_coordinator_that_refuses_is_told_by_name() -> None:
    """A member joined after the last look: UNKNOWN_MEMBER_ID, and nothing was written."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    cycles.world.target.between = cycles.world.target.join
    row = only(cycles.cycle())
    assert brief(row) == ("SKIP", 250, "SKIP_ADMIN_ERROR")
    assert "UNKNOWN_MEMBER_ID" in row.said
    assert cycles.world.offset("billing") is None


def test_cluster_11_a_target_made_anew_after_the_last_look_refuses_the_write() -> None:
    """The offset is committed for the topic of the id that was looked at."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    cycles.world.target.between = lambda _group: cycles.world.replications[0].recreate_target()
    row = only(cycles.cycle())
    assert (row.action.value, row.reason.value) == ("SKIP", "SKIP_ADMIN_ERROR")
    assert "UNKNOWN_TOPIC_ID" in row.said
    assert cycles.world.offset("billing") is None


def progress(cycles: Cycles, offset: int) -> Any:
    """A consumer that joins, commits and leaves."""

    def between(group: str) -> None:
        cycles.world.target.join(group)
        cycles.world.target.commit_as_client(group, COPY, offset)
        cycles.world.target.leave(group)

    return between


def test_cluster_09_a_group_that_was_active_and_is_empty_again_is_not_rewound() -> None:
    """Its progress is on the target before the last look; MirrorMaker would write over it."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan = cycles.plan()
    progress(cycles, 380)("billing")
    row = only(cycles.apply(plan))
    assert (row.action.value, row.reason.value) == ("SKIP", "SKIP_ACTIVE")
    assert cycles.world.offset("billing") == 380
    assert brief(only(cycles.cycle())) == ("SKIP", 250, "SKIP_WATERMARK")


def test_cluster_09_a_join_between_the_last_look_and_a_fenced_write_has_it_refused() -> None:
    """Without the fence the progress is lost, in the moment that no look can close."""
    for fenced, offset in ((True, 380), (False, 250)):
        cycles = filled()
        cycles.world.commit("billing", 0, 250)
        cycles.world.target.between = progress(cycles, 380)
        row = only(cycles.cycle(fenced_writes=fenced))
        assert cycles.world.offset("billing") == offset
        assert ("ILLEGAL_GENERATION" in row.said) is fenced


def test_cluster_09_somebody_who_commits_right_after_the_write_is_reported() -> None:
    """Read back: another offset, other metadata, or members."""
    for metadata, offset, word in (("mine", 250, "metadata"), ("", 251, "251")):
        cycles = filled()
        cycles.world.commit("billing", 0, 250)
        crash = AfterAct(partial(cycles.world.target.commit_as_client, "billing", COPY, offset, metadata))
        row = only(cycles.apply(cycles.plan(), crash=crash))
        assert (row.action.value, row.reason.value) == ("WRITE", "RACED")
        assert word in row.said
        assert cycles.world.positions.writes == 0


class AfterAct:
    """Something happens between a write and its reading back."""

    def __init__(self, happens: Any) -> None:
        self._happens = happens

    def reached(self, _step: str, point: str) -> None:
        """See the port."""
        if point == "after_act":
            self._happens()


@pytest.mark.parametrize("call", ["states", "committed"])
def test_cluster_10_groups_that_a_failed_look_hides_are_named_and_not_written(call: str) -> None:
    """On the target; at the plan, and between plan and write."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan = cycles.plan()
    cycles.world.target.down.add(call)
    for row in (only(cycles.plan()), only(cycles.apply(plan))):
        assert (row.group, row.reason.value) == ("billing", "SKIP_ADMIN_ERROR")
        assert f"({call})" in row.said
    cycles.world.target.down.clear()
    assert cycles.world.target.written == []
    assert brief(only(cycles.cycle())) == ("WRITE", 250, "OK_NEW_GROUP")


@pytest.mark.parametrize("call", ["groups", "committed"])
def test_cluster_10_a_source_that_does_not_list_its_groups_hides_none(call: str) -> None:
    """Nothing is planned from half a list (H5)."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    cycles.world.source.down.add(call)
    with pytest.raises(Transient, match=call):
        cycles.plan()


def test_cluster_10_one_group_that_is_not_described_hides_no_other() -> None:
    """Each by itself."""
    cycles = filled()
    for group in ("billing", "odd"):
        cycles.world.commit(group, 0, 250)
    cycles.world.target.states_unread["odd"] = "COORDINATOR_NOT_AVAILABLE"
    assert {row.group: row.action.value for row in cycles.cycle().rows} == {"billing": "WRITE", "odd": "SKIP"}


def test_cluster_10_a_leader_that_does_not_answer_skips_its_partition_alone() -> None:
    """The other one is translated."""
    cycles = filled(partitions=2)
    for partition in (0, 1):
        cycles.world.commit("billing", partition, 250)
    cycles.world.target.down.add("open primary.orders-1")
    reasons = [row.reason.value for row in cycles.cycle().rows]
    assert reasons == ["OK_NEW_GROUP", "SKIP_ADMIN_ERROR"]


# -- what is kept --------------------------------------------------------------------------------------------


def test_only_what_is_proven_is_in_the_topic_of_the_link() -> None:
    """The journal has the conservative offset, too, beside the pair that was proven last."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    cycles.cycle()
    cycles.world.link = replace(cycles.world.link, altered_topics=frozenset({"orders"}))
    cycles.world.commit("billing", 0, 350)
    row = only(cycles.cycle())
    assert (row.x, row.certainty) == (304, Certainty.CONSERVATIVE)
    (proven,) = cycles.world.positions.rows.values()
    assert (proven.source_offset, proven.target_offset) == (250, 250)
    (position,) = positions_of(cycles.world.opened, cycles.runs).values()
    assert (position.committed, position.written, position.proven) == (350, 304, OffsetPair(250, 250))


def test_positions_of_a_topic_that_is_gone_are_forgotten() -> None:
    """In the topic and in the journal; the group keeps its commits on the target."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    cycles.cycle()
    cycles.world.gone.add("orders")
    row = only(cycles.cycle())
    assert row.reason.value == "SKIP_TOPIC_MISSING"
    assert cycles.world.positions.rows == {}
    assert positions_of(cycles.world.opened, cycles.runs) == {}
    assert cycles.world.offset("billing") == 250


def test_a_group_that_is_gone_on_the_source_is_not_written_and_not_deleted() -> None:
    """Between plan and apply, and later."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan = cycles.plan()
    del cycles.world.source.members["billing"]
    assert brief(only(cycles.apply(plan))) == ("SKIP", 250, "SKIP_NO_SYNC")
    cycles.world.target.commit_as_client("billing", COPY, 100)
    assert cycles.cycle().rows == ()
    assert cycles.world.offset("billing") == 100


# -- edges of the logs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        (BeforeFirstSync.SKIP, ("SKIP", None, "SKIP_BEFORE_FIRST_SYNC")),
        (BeforeFirstSync.EARLIEST, ("WRITE", 0, "OK_NEW_GROUP")),
    ],
)
def test_cluster_14_a_commit_before_the_first_sync_follows_the_policy(
    policy: BeforeFirstSync, wanted: tuple[str, int | None, str]
) -> None:
    """The replicator began in the middle of the log."""
    world = LinkWorld(link())
    replication = world.replications[0]
    for number in range(100):
        replication.produce(b"%d" % number)
    replication.position = replication.committed = 60
    world.settle()
    world.commit("billing", 0, 30)
    assert brief(only(Cycles(world).plan(before_first_sync=policy))) == wanted
    with pytest.raises(Rejected, match="link dr, orders-0: committed offset 30 lies before the first"):
        Cycles(world).plan(before_first_sync=BeforeFirstSync.FAIL)


def test_cluster_14_a_commit_below_the_source_s_log_start_reads_what_the_target_still_has() -> None:
    """The log start would skip it. What expired on the source is counted."""
    cycles = filled()
    cycles.world.commit("billing", 0, 50)
    cycles.world.replications[0].source.delete_before(120)
    planned = only(cycles.plan())
    assert planned.x is not None
    assert 0 < planned.x <= cycles.world.replications[0].exact(50)
    assert (planned.est_lost, planned.evidence["expired"]) == (0, 70)
    applied = cycles.cycle()
    assert (only(applied).x, only(applied).est_lost, applied.is_clean) == (planned.x, 0, True)
    assert "deleted up to 70 records" in only(applied).said
    assert cycles.world.positions.rows == {}, "nothing but syncs says where it is"


def test_cluster_14_a_commit_that_expired_is_kept_as_proven_where_its_own_place_is() -> None:
    """A link that preserves offsets needs no records of the source; the target still has them."""
    world = LinkWorld(link(kind=LinkKind.OFFSET_PRESERVING))
    world.fill(300)
    world.commit("billing", 0, 50)
    cycles = Cycles(world)
    cycles.plan()
    world.replications[0].source.delete_before(120)
    row = only(cycles.cycle())
    assert (row.x, row.certainty, row.evidence["expired"]) == (50, Certainty.EXACT_PROVEN, 70)
    (proven,) = world.positions.rows.values()
    assert (proven.source_offset, proven.target_offset) == (50, 50)


def test_cluster_14_an_empty_partition_gets_no_offset_also_when_the_target_has_grown() -> None:
    """KAFKA-12635: the source's offset means nothing where nothing was ever replicated."""
    world = LinkWorld(link())
    world.commit("billing", 0, 0)
    cycles = Cycles(world)
    assert only(cycles.cycle()).reason.value == "SKIP_NO_SYNC"
    for _ in range(50):
        world.replications[0].write_foreign(b"local")
    assert only(cycles.cycle()).reason.value == "SKIP_NO_SYNC"
    assert world.offset("billing") is None


def test_a_replicator_that_is_restarted_while_a_group_lags_changes_nothing() -> None:
    """KAFKA-15905: MirrorMaker forgets the older syncs, the archive does not."""
    cycles = filled(1000)
    cycles.world.commit("billing", 0, 450)
    cycles.world.replications[0].crash()
    cycles.world.fill(500)
    row = only(cycles.cycle())
    assert (brief(row), row.certainty) == (("WRITE", 450, "OK_NEW_GROUP"), Certainty.EXACT_PROVEN)
    assert row.mm2_x is not None
    assert row.mm2_x < 450


def test_cluster_14_a_commit_beyond_the_source_s_log_end_is_of_another_topic() -> None:
    """Where brokers tell no topic ids, and it was never seen within the log."""
    cycles = filled()
    cycles.world.source.tells_ids = False
    cycles.world.commit("billing", 0, 450)
    row = only(cycles.cycle())
    assert (row.action.value, row.reason.value) == ("SKIP", "SKIP_TOPIC_RECREATED")


def test_cluster_11_a_commit_of_a_source_topic_that_was_made_anew_is_not_translated() -> None:
    """By the id that the coordinator tells, or by the one that was remembered with the commit."""
    for tells_ids in (True, False):
        cycles = filled()
        cycles.world.source.tells_ids = tells_ids
        cycles.world.commit("billing", 0, 250)
        assert cycles.cycle().is_clean
        cycles.world.replications[0].recreate_source()
        cycles.world.fill(300)
        row = only(cycles.cycle())
        assert (row.action.value, row.reason.value) == ("SKIP", "SKIP_TOPIC_RECREATED")
        cycles.world.fill(200)
        cycles.world.commit("billing", 0, 480)
        row = only(cycles.cycle())
        assert (row.action.value, row.x) == ("WRITE", cycles.world.replications[0].exact(480))


def test_cluster_11_a_target_made_anew_between_plan_and_apply_is_not_written() -> None:
    """The planned offset is of the old log; the next plan knows nothing of the new one yet."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan = cycles.plan()
    cycles.world.replications[0].recreate_target()
    row = only(cycles.apply(plan))
    assert (row.action.value, row.reason.value) == ("SKIP", "SKIP_TOPIC_RECREATED")
    row = only(cycles.cycle())
    assert (row.action.value, row.reason.value) == ("SKIP", "SKIP_NO_SYNC")


def test_cluster_11_an_offset_of_a_former_target_topic_counts_as_none() -> None:
    """MirrorMaker would leave it, as it is the higher one; a consumer would skip."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    assert cycles.cycle().is_clean
    replication = cycles.world.replications[0]
    replication.recreate_target()
    replication.position = replication.committed = 0
    cycles.world.settle()
    row = only(cycles.cycle())
    assert (row.action.value, row.t_current) == ("WRITE", None)
    assert cycles.world.lost() == 0


def test_retention_of_the_target_that_passed_the_offset_is_clamped_and_counted() -> None:
    """The records between are lost, and the exit code says so."""
    cycles = filled()
    cycles.world.commit("billing", 0, 50)
    cycles.world.replications[0].delete_target_before(120)
    applied = cycles.cycle()
    row = only(applied)
    assert brief(row) == ("WRITE", 120, "CLAMPED_LOW")
    assert (row.est_lost, applied.is_clean) == (120 - row.translated if row.translated else 0, False)


# -- rewinds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        (RewindPolicy.NEVER, ("SKIP", 150, "SKIP_SOURCE_REWIND")),
        (RewindPolicy.FOLLOW_SOURCE, ("WRITE", 150, "OK")),
        (RewindPolicy.FORCE, ("WRITE", 150, "OK")),
    ],
)
def test_cluster_15_a_source_rewind_follows_the_policy(
    policy: RewindPolicy, wanted: tuple[str, int, str]
) -> None:
    """The commit of our last write is in the journal."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    assert cycles.cycle().is_clean
    cycles.world.commit("billing", 0, 150)
    assert brief(only(cycles.cycle(rewind_policy=policy))) == wanted
    assert cycles.world.offset("billing") == (250 if wanted[0] == "SKIP" else 150)


def test_cluster_15_a_target_that_is_ahead_is_lowered_by_force_alone() -> None:
    """It went on by itself: the source did not go back."""
    cycles = filled()
    cycles.world.commit("billing", 0, 150)
    cycles.world.target.commit_as_client("billing", COPY, 250)
    for policy, offset in (
        (RewindPolicy.NEVER, 250),
        (RewindPolicy.FOLLOW_SOURCE, 250),
        (RewindPolicy.FORCE, 150),
    ):
        cycles.cycle(rewind_policy=policy)
        assert cycles.world.offset("billing") == offset


def test_cluster_15_a_rewind_between_plan_and_apply_is_not_skipped_over() -> None:
    """The planned offset lies behind what the group has to read again; the next plan has it right."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan = cycles.plan()
    cycles.world.commit("billing", 0, 100)
    row = only(cycles.apply(plan))
    assert (row.action.value, row.reason.value) == ("SKIP", "SKIP_SOURCE_REWIND")
    assert "from 250 to 100" in row.said
    assert brief(only(cycles.cycle())) == ("WRITE", 100, "OK_NEW_GROUP")
    assert cycles.world.lost() == 0


def test_a_commit_that_went_on_since_the_plan_is_written_as_planned() -> None:
    """It only has more read again, until the next cycle."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan = cycles.plan()
    cycles.world.commit("billing", 0, 390)
    assert brief(only(cycles.apply(plan))) == ("WRITE", 250, "OK_NEW_GROUP")
    assert brief(only(cycles.cycle())) == ("WRITE", 390, "OK")


def test_a_consumer_that_joins_no_group_is_left_alone() -> None:
    """It commits without members, between plan and apply."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan = cycles.plan()
    cycles.world.target.commit_as_client("billing", COPY, 40)
    row = only(cycles.apply(plan))
    assert (row.action.value, row.reason.value) == ("SKIP", "SKIP_ACTIVE")
    assert "assign()" in row.said


# -- one writer, and killed ones -----------------------------------------------------------------------------


def test_a_second_cycle_writes_nothing() -> None:
    """Neither offsets nor positions."""
    cycles = filled(partitions=2)
    for partition in (0, 1):
        cycles.world.commit("billing", partition, 250 + partition)
    assert cycles.cycle().writes == 2
    again = cycles.cycle()
    assert (again.writes, again.is_clean) == (0, True)
    assert len(cycles.world.target.written) == 2
    assert cycles.world.positions.writes == 2


def test_cluster_17_a_second_writer_is_refused_until_the_first_is_done() -> None:
    """By the claim of the journal; one that is gone is taken over only where somebody says so."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan = cycles.plan()
    at = cycles.world.opened
    with lease(at, cycles.runs, "first"):
        with pytest.raises(
            Fenced, match="link dr is being written by first; wait until it ends, or add --tak"
        ):
            cycles.apply(plan)
        assert cycles.world.target.written == []
    assert cycles.apply(plan).is_clean


def test_cluster_17_the_link_has_one_lease_from_the_first_sync_on() -> None:
    """Its positions and its history go on, whichever process holds it; it is closed between two."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    cycles.cycle()
    cycles.world.commit("billing", 0, 260)
    cycles.cycle()
    (record,) = cycles.runs.recent(9)
    assert (record.move, str(record.target), record.target.within) == ("sync", "link dr", "cluster-t")
    assert not record.state.is_open
    assert status_of(cycles.runs, record.run).reason == "1 offsets were written: 1 OK"
    with lease(cycles.world.opened, cycles.runs, "somebody"):
        assert cycles.holder == "somebody"
        assert cycles.runs.in_the_way(Target(kind="cluster", name="cluster-t"))
    assert cycles.runs.in_the_way(Target(kind="cluster", name="cluster-t")) == ()


def test_cluster_17_a_run_on_the_target_cluster_is_in_the_way() -> None:
    """An expansion of its offsets topic, for one; nothing is written then."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    cycles.cycle()
    cycles.world.commit("billing", 0, 260)
    plan = cycles.plan()
    (record,) = cycles.runs.recent(9)
    target = Target(kind="cluster", name="cluster-t")
    cycles.runs.create(
        replace(record, run="expansion-1", move="expansion", target=target, state=RunState.RUNNING)
    )
    with pytest.raises(Conflict, match="run expansion-1 of cluster cluster-t is running and is in the way"):
        cycles.apply(plan)
    assert cycles.world.offset("billing") == 250


def test_cluster_17_who_was_taken_over_writes_nothing_more() -> None:
    """Its token is void: it stops before the next act."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan, at = cycles.plan(), cycles.world.opened
    with (
        pytest.raises(Fenced, match="second took the link over"),
        lease(at, cycles.runs, "first") as held,
        lease(at, cycles.runs, "second", take_over=True),
    ):
        apply_plan(at, plan, held)
    assert cycles.world.target.written == []


# -- plans that are not applied ------------------------------------------------------------------------------


def test_a_plan_that_is_too_old_is_refused() -> None:
    """With its age, and nothing is written."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan = cycles.plan(plan_max_age_s=60)
    cycles.world.clock.sleep(61)
    with pytest.raises(Rejected, match="the plan is 61 s old, and plan_max_age_s is 60; plan again"):
        cycles.apply(plan)
    assert cycles.world.target.written == []


@pytest.mark.parametrize("field", ["source_cluster", "target_cluster"])
def test_a_plan_of_another_cluster_is_refused(field: str) -> None:
    """The servers of the settings changed since."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    plan: SyncPlan = replace(cycles.plan(), **{field: "other"})
    with pytest.raises(Rejected, match=r"cluster is other, and cluster-. answers; plan again"):
        cycles.apply(plan)
