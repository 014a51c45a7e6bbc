"""Groups that ZooKeeper coordinates, in the tables of a cluster snapshot."""

from __future__ import annotations

from groupshift.adapters.groups import in_force
from groupshift.domain.group import GroupView, Member, Owner, zookeeper_rows
from groupshift.domain.modes import MemberKind, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import ClusterState, OffsetRow

KNOWN = ("__consumer_offsets", "orders", "payments")


def member(name: str, *topics: str, pattern: str = "static") -> Member:
    """An old member."""
    return Member(
        member_id=f"g_{name}",
        kind=MemberKind.ZOOKEEPER,
        pattern=pattern,
        subscription=tuple((topic, 1) for topic in topics),
    )


def side(*members: Member, mode: bytes | None = None, aware: tuple[str, ...] = ()) -> GroupView:
    """These members, the first of which owns ``orders``-1, and two committed offsets."""
    owner = f"{members[0].member_id}-0" if members else "g_gone-0"
    return GroupView(
        group="g",
        exists=True,
        mode=ModeNode(data=mode, version=0, czxid=1, mzxid=2),
        ids=tuple(each.member_id for each in members),
        migration_ids=aware,
        members=members,
        owners=(Owner(partition=TopicPartition("orders", 1), thread_id=owner, czxid=1, session_id=2),),
        zookeeper_offsets=(
            OffsetRow(group="g", topic="orders", partition=1, offset=7),
            OffsetRow(group="g", topic="orders", partition=0, offset=5),
        ),
    )


def rows(*views: GroupView) -> ClusterState:
    """Those of these groups alone."""
    return zookeeper_rows(ClusterState(cluster_id="c", taken_at_ms=1), views, KNOWN)


def test_members_owners_and_offsets_become_rows() -> None:
    """In the order of their keys; what ZooKeeper does not know is null."""
    found = rows(side(member("b", "orders"), member("a", "orders")))
    assert [(row.group, row.type, row.state, row.generation) for row in found.groups] == [
        ("g", "zookeeper", "Stable", None)
    ]
    assert [(row.member_id, row.client_id, row.member_type) for row in found.members] == [
        ("g_a", None, "old"),
        ("g_b", None, "old"),
    ]
    assert [(row.member_id, row.topic, row.partition) for row in found.assignments] == [("g_b", "orders", 1)]
    assert [(row.partition, row.offset, row.leader_epoch, row.metadata) for row in found.offsets] == [
        (0, 5, None, None),
        (1, 7, None, None),
    ]
    assert (found.committed_topics, found.read_topics) == ({"orders"}, {"orders"})
    assert found.problems == []


def test_a_wildcard_subscribes_to_the_topics_that_it_sees() -> None:
    """A blacklist too; internal topics are not among them."""
    wild = [member("a", "ord.*", pattern="white_list"), member("b", "ord.*", pattern="black_list")]
    found = rows(side(*wild))
    assert [(row.member_id, row.topic) for row in found.subscriptions] == [
        ("g_a", "orders"),
        ("g_b", "payments"),
    ]


def test_a_wildcard_that_cannot_be_evaluated_is_a_problem_of_its_group() -> None:
    """Named with the member; the group's other rows are there."""
    found = rows(side(member("a", r"\p{IsGreek}(?<=x)+", pattern="white_list")))
    (problem,) = found.problems
    assert problem.group == "g"
    assert "member g_a (/consumers/g/ids/g_a) subscribes by the pattern" in problem.problem
    assert [row.offset for row in found.offsets] == [5, 7]


def test_a_group_without_members_is_empty_and_an_absent_one_dead() -> None:
    """Its offsets stay; of an absent one there is nothing else."""
    found = rows(side(), GroupView(group="h"))
    assert [(row.group, row.state) for row in found.groups] == [("g", "Empty"), ("h", "Dead")]
    assert {row.group for row in found.offsets} == {"g"}


def test_who_coordinates_a_group_now() -> None:
    """Kafka only where the node says so and every member is aware of it."""
    one = member("a", "orders")
    assert in_force(side(one))
    assert in_force(side(one, mode=b"kafka"))
    assert not in_force(side(one, mode=b"kafka", aware=("g_a",)))
    assert not in_force(GroupView(group="g"))
