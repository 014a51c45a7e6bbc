"""What is planned for each group and partition, and links that are described wrongly."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected
from groupshift.links import translate
from groupshift.links.link import LinkKind, SyncLocation
from groupshift.links.sync import SyncPlanner
from groupshift.links.sync_history import BeforeFirstSync
from groupshift.links.sync_plan import SyncRow, partition_from, plan_from
from groupshift.links.translation import Certainty, Method, OffsetPair
from groupshift_testing.link_sides import LinkWorld
from support.link_worlds import Cycles, brief, filled, link, only, request

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("primary.orders", 0)
FIELDS = [
    "group", "source_tp", "target_tp", "c", "s_start", "s_end", "t_start", "t_end", "t_current", "x", "mm2_x",
    "method", "certainty", "evidence", "action", "reason", "est_again", "est_lost",
]  # fmt: skip
"""What a plan's line has, by the reference."""


# -- the plan ------------------------------------------------------------------------------------------------


def test_a_plan_says_of_each_partition_what_it_gets_and_changes_nothing() -> None:
    """Exact, beside what MirrorMaker's store makes of the same syncs."""
    cycles = filled(400, partitions=2)
    cycles.world.commit("billing", 0, 250)
    cycles.world.commit("billing", 1, 400)
    plan = cycles.plan()
    assert [(row.source_tp, row.target_tp, row.c, row.x, row.mm2_x) for row in plan.rows] == [
        ("orders-0", "primary.orders-0", 250, 250, 203),
        ("orders-1", "primary.orders-1", 400, 400, 400),
    ]
    assert {row.certainty for row in plan.rows} == {Certainty.EXACT_PROVEN}
    assert [row.mm2_again for row in plan.rows] == [47, 0]
    assert plan.is_clean
    assert cycles.world.target.members == {}
    assert cycles.world.target.written == []


def test_cluster_18_every_group_and_partition_in_scope_has_a_row_and_nothing_is_written() -> None:
    """Whatever is filtered, active, missing or unreadable has its reason."""
    world = LinkWorld(link(), partitions=3)
    world.fill(300)
    for group in ("billing", "live", "gone", "ahead", "odd", "connect-x"):
        for partition in range(3):
            world.commit(group, partition, 100)
    world.source.commit_as_client("billing", TopicPartition("foreign.internal", 0), 5)
    world.source.commit_as_client("billing", TopicPartition("lost", 0), 5)
    world.target.join("live")
    world.target.states_unread["odd"] = "REQUEST_TIMED_OUT"
    world.target.commit_as_client("ahead", COPY, 200)
    world.source.unread["gone"] = "group 'gone': offsets are not given"
    plan = Cycles(world).plan()
    reasons = {(row.group, row.source_tp): row.reason.value for row in plan.rows}
    partitions = [f"orders-{at}" for at in range(3)]
    assert reasons == {
        **{("billing", at): "OK_NEW_GROUP" for at in partitions},
        ("billing", "foreign.internal-0"): "SKIP_FILTERED",
        ("billing", "lost-0"): "SKIP_TOPIC_MISSING",
        **{("live", at): "SKIP_ACTIVE" for at in partitions},
        **{("odd", at): "SKIP_ADMIN_ERROR" for at in partitions},
        ("ahead", "orders-0"): "SKIP_WATERMARK",
        ("ahead", "orders-1"): "OK",
        ("ahead", "orders-2"): "OK",
        ("gone", ""): "SKIP_ADMIN_ERROR",
        ("gone", "orders-0"): "OK_NEW_GROUP",
        ("gone", "orders-1"): "OK_NEW_GROUP",
        ("connect-x", ""): "SKIP_FILTERED",
    }
    assert all(row.said for row in plan.rows)
    assert world.target.written == []
    assert not plan.is_clean


def test_a_plan_is_the_same_after_it_was_written_and_read() -> None:
    """With the fields of the reference first, in its order."""
    cycles = filled()
    cycles.world.commit("a,b", 0, 250, "über\0")
    cycles.world.source.commit_as_client("a,b", TopicPartition("lost-2", 7), 5)
    plan = cycles.plan(groups=("a,b",), before_first_sync=BeforeFirstSync.EARLIEST)
    read = plan_from(plan.lines("groupshift sync apply"), "plan.jsonl")
    assert [row.line() for row in read.rows] == [row.line() for row in plan.rows]
    assert read.request == plan.request
    assert [each.name for each in fields(SyncRow)][: len(FIELDS)] == FIELDS
    assert plan.notes == ("group a,b: MirrorMaker never syncs a group id with a comma; groupshift does",)
    assert [row.mm2_x for row in plan.rows] == [None, None]
    assert read.rows[0].key.partition == TopicPartition("lost-2", 7)


@pytest.mark.parametrize(
    ("line", "old", "new", "sentence"),
    [
        (1, None, None, "has 0 of its 1 rows; plan again"),
        (0, None, None, "has 0 of its 1 rows"),
        (0, "format", "shape", "line 1: .* give a file that groupshift sync plan wrote"),
        (0, '"version": 1', '"version": 2', " 2 is no plan of this release"),
        (1, '"OK_NEW_GROUP"', '"FINE"', "line 2: .*reason"),
        (1, '"c": 250', '"c": "250"', "line 2: .*c"),
        (0, '"applied": false', '"applied": true', "was applied"),
    ],
    ids=["cut", "empty", "another file", "newer", "unknown reason", "wrong type", "applied"],
)
def test_a_file_that_is_no_whole_plan_is_refused(
    line: int, old: str | None, new: str | None, sentence: str
) -> None:
    """Cut before a line, or changed in it."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    lines = list(cycles.plan().lines())
    lines = (
        lines[:line]
        if old is None
        else [*lines[:line], lines[line].replace(old, new or ""), *lines[line + 1 :]]
    )
    with pytest.raises(Rejected, match=f"plan.jsonl.*{sentence}"):
        plan_from(lines, "plan.jsonl")


@pytest.mark.parametrize("text", ["orders", "-3", "orders-", "orders-x", "orders-99999999999"])
def test_a_text_that_no_partition_prints_is_refused(text: str) -> None:
    """The last dash divides."""
    assert partition_from("a-b-3") == TopicPartition("a-b", 3)
    with pytest.raises(Rejected, match="is no partition; write topic-number"):
        partition_from(text)


def test_what_mirrormaker_would_write_is_its_last_checkpoint() -> None:
    """Its store forgets, and its translation falls back; the checkpoint stays, until the commit goes back."""
    world = LinkWorld(link(), offset_lag_max=0)
    world.fill(200)
    world.commit("billing", 0, 150)
    planner = SyncPlanner(world.opened, request())
    first = only(planner.plan()).mm2_x
    world.fill(3_000)
    assert only(SyncPlanner(world.opened, request()).plan()).mm2_x != first
    assert only(planner.plan()).mm2_x == first
    world.commit("billing", 0, 149)
    assert only(planner.plan()).mm2_x != first


def test_a_link_without_mirrormaker_is_not_compared_with_it() -> None:
    """Nor is it where nobody asked."""
    assert only(filled_of(LinkKind.OFFSET_PRESERVING).plan()).mm2_x is None
    cycles = filled_of(LinkKind.MM2_DEFAULT)
    assert only(SyncPlanner(cycles.world.opened, request(), compares=False).plan()).mm2_x is None


def filled_of(kind: LinkKind) -> Cycles:
    """A link of this kind with one commit."""
    world = LinkWorld(link(kind=kind))
    world.fill(300)
    world.commit("billing", 0, 250)
    return Cycles(world)


# -- translate -----------------------------------------------------------------------------------------------


def test_translate_answers_for_one_group_with_what_it_stands_on() -> None:
    """And nothing for a group without commits; one that sync leaves out by default is answered, too."""
    cycles = filled()
    cycles.world.commit("connect-sink", 0, 250)
    (row,) = translate(cycles.world.opened, "connect-sink")
    assert (row.target_tp, row.x, row.method) == ("primary.orders-0", 250, Method.PREDICTION)
    assert row.evidence == {"anchor": OffsetPair(202, 202), "next_sync": OffsetPair(303, 303)}
    assert translate(cycles.world.opened, "nobody") == ()


def test_translate_names_what_could_not_be_read() -> None:
    """It never answers with less than all (H7)."""
    cycles = filled()
    cycles.world.commit("billing", 0, 250)
    cycles.world.source.unread["billing"] = "group 'billing': the offset of orders-1 is not given"
    assert [(row.reason.value, row.said) for row in translate(cycles.world.opened, "billing")] == [
        ("SKIP_ADMIN_ERROR", "group 'billing': the offset of orders-1 is not given")
    ]


# -- links that are described wrongly ------------------------------------------------------------------------


def refused(world: LinkWorld, **changes: Any) -> str:
    """The sentence for a link that is described so."""
    world.link = replace(world.link, **changes)
    with pytest.raises(Rejected) as why:
        Cycles(world).plan()
    assert world.target.written == []
    return str(why.value)


def ready(**changes: Any) -> LinkWorld:
    """A world with a commit."""
    world = LinkWorld(link(**changes))
    world.fill(100)
    world.commit("billing", 0, 50)
    return world


def test_the_same_cluster_twice_is_refused() -> None:
    """By its id."""
    world = ready()
    world.target.name = world.source.name
    assert "source and target are the same cluster (cluster-s)" in refused(world)


def test_a_wrong_alias_is_refused_with_the_topic_that_is_there() -> None:
    """The offset-syncs topic has the alias in its name."""
    said = refused(ready(), target_alias="backpu")
    assert "has no offset-syncs topic mm2-offset-syncs.backpu.internal" in said
    assert "it has mm2-offset-syncs.backup.internal; correct target_alias 'backpu'" in said


def test_a_sync_topic_on_the_other_cluster_is_refused_with_its_place() -> None:
    """By the name that it has there."""
    world = ready(sync_location=SyncLocation.TARGET)
    world.source.internal.clear()
    world.target.internal.add("mm2-offset-syncs.primary.internal")
    assert "set sync_location to target" in refused(world, sync_location=SyncLocation.SOURCE)


def test_a_missing_sync_topic_is_refused() -> None:
    """It is nowhere."""
    world = ready()
    world.source.internal.clear()
    assert "start MirrorMaker with this pair of aliases" in refused(world)


def test_the_wrong_policy_is_refused_with_the_right_one() -> None:
    """The copies are named as the other policy names them."""
    said = refused(ready(), kind=LinkKind.MM2_IDENTITY)
    assert "it has primary.orders, as kind mm2-default names it; set kind to mm2-default" in said


def test_a_target_without_any_copy_is_refused() -> None:
    """Nothing could be written; one topic of several is a row."""
    world = ready()
    world.gone.add("primary.orders")
    assert "the target has no copy of any topic in scope (orders would be primary.orders)" in refused(world)


def test_a_link_that_is_behind_the_commit_says_so_beside_the_exact_offset() -> None:
    """It is exact as of now; the copies that are missing will lie behind it."""
    cycles = filled()
    cycles.world.commit("head", 0, 400)
    assert not only(cycles.plan()).evidence.get("is_behind")
    for number in range(30):
        cycles.world.replications[0].produce(b"more %d" % number)
    cycles.world.commit("head", 0, 420)
    row = only(cycles.plan())
    assert (row.x, row.evidence.get("is_behind")) == (400, True)
    assert "has not copied all records before the commit yet: plan again" in row.said
    cycles.world.replications[0].replicate(20)
    row = only(cycles.plan())
    assert (row.x, row.evidence.get("is_behind")) == (420, None)


# -- links that preserve offsets -----------------------------------------------------------------------------


def preserving(**changes: Any) -> Cycles:
    """A link whose target has each record at its source offset."""
    world = LinkWorld(link(kind=LinkKind.OFFSET_PRESERVING, **changes))
    world.fill(300)
    return Cycles(world)


def test_offsets_that_are_proven_to_be_the_same_are_copied() -> None:
    """By the records at three positions; a link that is behind bounds them."""
    cycles = preserving()
    cycles.world.commit("billing", 0, 250)
    row = only(cycles.cycle())
    assert (brief(row), row.method) == (("WRITE", 250, "OK_NEW_GROUP"), Method.IDENTITY)
    for number in range(50):
        cycles.world.replications[0].produce(b"more %d" % number)
    cycles.world.commit("billing", 0, 340)
    row = only(cycles.cycle())
    assert brief(row) == ("WRITE", 300, "CLAMPED_HIGH")
    assert "the link has copied primary.orders-0 up to 300" not in row.said
    assert "the link has copied orders-0 up to 300" in row.said
    cycles.world.settle()
    assert brief(only(cycles.cycle())) == ("WRITE", 340, "OK")


def test_offsets_that_are_not_the_same_are_never_copied() -> None:
    """A record of somebody else shifts what follows."""
    world = LinkWorld(link(kind=LinkKind.OFFSET_PRESERVING))
    world.replications[0].write_foreign(b"foreign")
    world.fill(300)
    world.commit("billing", 0, 250)
    row = only(Cycles(world).cycle())
    assert (row.action.value, row.reason.value) == ("SKIP", "SKIP_NO_SYNC")
    assert "offsets are not proven to be the same: the target ends at 301" in row.said
