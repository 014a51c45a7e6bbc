"""Which commits ``groupshift repair epochs`` writes again, and which it leaves alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from groupshift.domain.rows import ClusterState, Committed, GroupRow, LogEndRow, OffsetRow

_Key = tuple[str, str, int]


def row(group: str, partition: int, epoch: int | None, **more: Any) -> OffsetRow:
    """A commit at 150 with metadata."""
    fields = {"topic": "t", "offset": 150, "metadata": "m\0"} | more
    return OffsetRow(group=group, partition=partition, leader_epoch=epoch, **fields)


@dataclass(kw_only=True)
class Coordinator:
    """Groups with their offsets in memory; topic t has the leader epochs 3 and 0, its logs end at 200, and
    epoch 0 of the first partition ended at 100."""

    rows: dict[_Key, OffsetRow]
    busy: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    written: list[OffsetRow] = field(default_factory=list)
    looks: int = 0
    meanwhile: Mapping[_Key, OffsetRow | None] = field(default_factory=dict)

    def take(self, groups: Collection[str] | None = None, **_: Any) -> ClusterState:
        """As a cluster tells it; ``meanwhile`` happens after the first look."""
        from groupshift.domain.commit_places import TopicNow, Topics

        names = {key[0] for key in self.rows} if groups is None else set(groups)
        found = [each for key, each in sorted(self.rows.items()) if key[0] in names]
        state = ClusterState(
            cluster_id="c",
            taken_at_ms=0,
            groups=[
                GroupRow(group=name, type="classic", state="Stable" if name in self.busy else "Empty")
                for name in sorted(names - self.gone)
            ]
            + [GroupRow(group=name, type="classic", state="Dead") for name in sorted(names & self.gone)],
            offsets=found,
            log_ends=[LogEndRow(topic="t", partition=at, log_start=0, log_end=200) for at in (0, 1)],
            topics=Topics(
                now={"t": TopicNow(topic="t", topic_id="i", epochs={0: 3, 1: 0})}, ends={("t", 0, 0): 100}
            ),
        )
        if not self.looks:
            self.rows |= {key: each for key, each in self.meanwhile.items() if each is not None}
        self.looks += 1
        return state

    def committed(self, groups: Collection[str]) -> Committed:
        """Only the offsets."""
        return Committed(offsets=self.take(groups).offsets)

    def commit(self, rows: Iterable[OffsetRow]) -> Mapping[str, str]:
        """Kept as it is, and remembered."""
        for each in rows:
            self.written.append(each)
            self.rows[each.group, each.topic, each.partition] = each
        return {}


def cluster(*rows: OffsetRow, **more: Any) -> Coordinator:
    """These commits."""
    return Coordinator(rows={(each.group, each.topic, each.partition): each for each in rows}, **more)


def done(world: Coordinator) -> Any:
    """Planned and executed."""
    from groupshift.moves.expansion.repair_leader_epochs import plan_epochs, repair_epochs

    return repair_epochs(plan_epochs(world), world, world)


HIGH, LOW, SOUND = row("a", 0, 4), row("b", 0, 0), row("a", 1, 0)


def test_f10_a_repair_writes_foreign_epochs_again_and_nothing_else() -> None:
    """Same offset, same metadata, no epoch; a second repair finds nothing."""
    others = (SOUND, row("c", 0, 3), row("c", 1, None), row("d", 0, 0, offset=90), row("e", 7, 9))
    world = cluster(HIGH, LOW, *others)
    found = done(world)
    assert world.written == [replace(HIGH, leader_epoch=None), replace(LOW, leader_epoch=None)]
    assert (found.equal, found.differing) == (2, ())
    assert {world.rows[each.group, each.topic, each.partition] for each in others} == set(others)
    world.written.clear()
    assert (done(world).equal, world.written) == (0, [])


@pytest.mark.parametrize(
    ("more", "busy", "said"),
    [
        ({}, {"a"}, "group 'a' has members (state Stable): stop them first"),
        ({"offset": 201}, set(), "offset 201 is beyond the log end 200"),
        ({"topic_id": "former"}, set(), "it belongs to a former topic 't'"),
    ],
)
def test_f10_a_repair_says_what_it_leaves_alone(more: dict[str, Any], busy: set[str], said: str) -> None:
    """Members would be refused; the others are no question of an epoch."""
    from groupshift.moves.expansion.repair_leader_epochs import plan_epochs

    world = cluster(row("a", 0, 4, **more), busy=busy)
    (found,) = plan_epochs(world).left
    assert found.left.startswith(said)
    assert (done(world).equal, world.written) == (0, [])


def test_f10_a_repair_leaves_what_somebody_changed_meanwhile() -> None:
    """Another offset with the same epoch, or a commit that is sound by now."""
    for now in (row("a", 0, 4, offset=151), row("a", 0, 3)):
        world = cluster(HIGH, meanwhile={("a", "t", 0): now})
        found = done(world)
        assert world.written == []
        assert [each.reason for each in found.differing] == [
            "somebody changed it since it was planned: nothing was written"
        ]
        assert world.rows["a", "t", 0] == now


def test_f10_a_name_that_nobody_knows_is_no_clean_group() -> None:
    """A slip in ``--groups`` finds nothing to repair: said, and not taken for the end of it."""
    from groupshift.cli.repair import _epochs_clean
    from groupshift.moves.expansion.repair_leader_epochs import plan_epochs

    world = cluster(SOUND, gone={"orders-ap"})
    found = plan_epochs(world, ["a", "orders-ap"])
    (problem,) = found.problems
    assert problem.group == "orders-ap"
    assert "group 'orders-ap': no coordinator knows it" in problem.problem
    assert not _epochs_clean(found, None)
    assert plan_epochs(world, ["a"]).problems == ()


def test_f10_the_command_that_repairs_names_the_groups_it_was_planned_for() -> None:
    """It would write the commits of all others else."""
    from groupshift.cli.repair import _next_of_epochs
    from groupshift.moves.expansion.repair_leader_epochs import plan_epochs

    planned = plan_epochs(cluster(HIGH), ["a"])
    for groups, options in (("a", "--groups a "), ("a b", "--groups 'a b' "), ("", "")):
        said = _next_of_epochs(planned, None, groups)
        assert said == f"groupshift repair epochs {options}--execute"
    left = plan_epochs(cluster(row("a", 0, 4), busy={"a"}), ["a"])
    assert _next_of_epochs(left, None, "a").endswith("then: groupshift repair epochs --groups a --execute")
