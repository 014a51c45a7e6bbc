"""Joining what ZooKeeper and Kafka say about one group."""

from __future__ import annotations

from dataclasses import replace

from groupshift.domain.group import (
    GroupView,
    Member,
    Owner,
    merge,
    partitions_of,
    topics_of_group,
)
from groupshift.domain.group_protocol import KafkaGroup, KafkaMember
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import LogEndRow, OffsetRow

NOTHING = GroupView(group="g", topics={"orders": 2, "other": 1})
OLD = Member(member_id="g_m1-1", kind=MemberKind.ZOOKEEPER, subscription=(("orders", 1),))
AWARE = Member(member_id="g_m2-1", kind=MemberKind.AWARE, subscription=(("orders", 1),))


def zookeeper(*members: Member, **more: object) -> GroupView:
    """A ZooKeeper half with these members, consistently listed."""
    ids = tuple(member.member_id for member in members)
    aware = tuple(member.member_id for member in members if member.kind is MemberKind.AWARE)
    return GroupView(group="g", exists=True, ids=ids, migration_ids=aware, members=members, **more)


def kafka(*members: KafkaMember, **more: object) -> GroupView:
    """A Kafka half with these members."""
    group = KafkaGroup(state="Stable", members=members)
    return GroupView(group="g", kafka=group, topics={"orders": 2, "other": 1}, **more)


def embedded(client_id: str, *partitions: int) -> KafkaMember:
    """A Kafka member with that client id holding these partitions of orders."""
    held = frozenset(TopicPartition("orders", number) for number in partitions)
    return KafkaMember(member_id=f"{client_id}-uuid", client_id=client_id, host="h", assigned=held)


def offset(topic: str, partition: int, at: int = 5) -> OffsetRow:
    """A committed offset."""
    return OffsetRow(group="g", topic=topic, partition=partition, offset=at)


def view_of(left: GroupView, right: GroupView, *ends: LogEndRow):
    """The merged view of group g."""
    return merge(7, left, replace(right, log_ends=ends))


def test_an_aware_member_and_the_kafka_member_of_its_client_id_are_one() -> None:
    """The embedded consumer adds client id and host, not a second member."""
    view = view_of(zookeeper(AWARE), kafka(embedded("g_m2-1", 0)))
    assert [(m.member_id, m.kind, m.client_id, m.host) for m in view.members] == [
        ("g_m2-1", MemberKind.AWARE, "g_m2-1", "h")
    ]


def test_a_kafka_member_unknown_to_migration_ids_is_plain() -> None:
    """A client id that is no migration id is a plain consumer, even if an old member has that id."""
    side = kafka(replace(embedded("g_m1-1", 0), topics=("other", "orders")))
    view = view_of(zookeeper(OLD), side)
    plain = view.of_kind(MemberKind.PLAIN)
    assert [(m.member_id, m.client_id, m.subscription) for m in plain] == [
        ("g_m1-1-uuid", "g_m1-1", (("orders", 1), ("other", 1)))
    ]
    assert len(view.of_kind(MemberKind.ZOOKEEPER)) == 1


def test_a_plain_member_whose_subscription_is_unreadable_is_known_by_its_assignment() -> None:
    """Without subscription bytes the topics it holds are what it wants."""
    (plain,) = view_of(GroupView(group="g"), kafka(embedded("app", 0, 1))).members
    assert plain.subscription == (("orders", 1),)


def test_topics_come_from_subscriptions_else_owners_else_offsets() -> None:
    """A left-over offset of another topic does not make it a topic of the group."""
    owner = Owner(partition=TopicPartition("orders", 0), thread_id="g_m1-1-0", czxid=1, session_id=1)
    stale = (offset("other", 0),)
    assert topics_of_group(zookeeper(OLD, zookeeper_offsets=stale), NOTHING) == ("orders",)
    assert topics_of_group(zookeeper(owners=(owner,), zookeeper_offsets=stale), NOTHING) == ("orders",)
    assert topics_of_group(zookeeper(zookeeper_offsets=stale), NOTHING) == ("other",)


def test_a_wildcard_is_expanded_over_the_topics_of_the_brokers() -> None:
    """White and black lists match whole names; internal topics are left out."""
    known = GroupView(group="g", topics={"a": 1, "ab": 1, "__consumer_offsets": 50})
    white = Member(
        member_id="w", kind=MemberKind.ZOOKEEPER, pattern="white_list", subscription=((" a.* ", 1),)
    )
    black = Member(member_id="b", kind=MemberKind.ZOOKEEPER, pattern="black_list", subscription=(("a", 1),))
    assert topics_of_group(zookeeper(white), known) == ("a", "ab")
    assert topics_of_group(zookeeper(black), known) == ("ab",)


def test_a_pattern_that_cannot_be_evaluated_is_a_problem() -> None:
    """The sentence names the member and the pattern."""
    broken = Member(member_id="w", kind=MemberKind.ZOOKEEPER, pattern="white_list", subscription=(("a(", 1),))
    (problem,) = view_of(zookeeper(broken), NOTHING).problems
    assert "member w" in problem
    assert "'a('" in problem


def test_topics_the_brokers_do_not_know_are_problems() -> None:
    """Subscribed ones are named; what is committed of such is left over, and no problem."""
    gone = Member(member_id="g_m1-1", kind=MemberKind.ZOOKEEPER, subscription=(("gone", 1),))
    left = zookeeper(gone, zookeeper_offsets=(offset("gone", 0), offset("gone", 1), offset("orders", 9)))
    (problem,) = view_of(left, NOTHING).problems
    assert "g_m1-1 subscribes to topic 'gone'" in problem


def test_partitions_are_all_those_of_known_topics() -> None:
    """Unknown topics have none."""
    assert partitions_of(("orders", "gone"), {"orders": 2}) == (
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    )


def test_offsets_of_both_answers_are_merged_in_order() -> None:
    """What was found by asking for a partition by name joins what was listed."""
    view = view_of(
        GroupView(group="g"),
        replace(kafka(), kafka_offsets=(offset("orders", 1), offset("orders", 0))),
    )
    assert [at.partition for at in view.kafka_offsets] == [0, 1]


def test_a_group_exists_when_either_side_knows_it() -> None:
    """Absent only when ZooKeeper has no node, the coordinator says Dead and nothing is committed."""
    absent = GroupView(group="g")
    assert not view_of(absent, NOTHING).exists
    assert view_of(zookeeper(), NOTHING).exists
    assert view_of(absent, kafka()).exists
    committed = replace(NOTHING, kafka_offsets=(offset("orders", 0),))
    assert view_of(absent, committed).exists


def test_f01_a_node_without_an_offset_is_a_problem_only_where_somebody_reads() -> None:
    """Empty, or a word, at a topic that nobody subscribes to: a leftover, named with what it holds."""
    from groupshift.domain.group import NoOffset
    from groupshift.domain.group_rules import leftovers

    end = LogEndRow(topic="orders", partition=0, log_start=0, log_end=9)
    nodes = tuple(
        NoOffset(partition=TopicPartition(topic, 0), held="''", problem=f"{topic} holds no offset")
        for topic in ("gone", "orders", "other")
    )
    view = view_of(replace(zookeeper(OLD), no_offsets=nodes), NOTHING, end)
    assert view.problems == ("orders holds no offset",)
    assert view.leftovers == (nodes[0].partition, nodes[2].partition)
    (said,) = leftovers(view)
    assert said == (
        "no member reads it: kept as it is: gone-0 (ZooKeeper holds '', which is no offset), "
        "other-0 (ZooKeeper holds '', which is no offset)"
    )
    assert topics_of_group(replace(zookeeper(), no_offsets=nodes), NOTHING) == ("gone", "orders", "other")
    nobody = view_of(replace(zookeeper(), no_offsets=nodes), NOTHING, end)
    assert nobody.problems == ("orders holds no offset",)


def test_f01_offsets_of_what_the_brokers_do_not_know_are_no_problem() -> None:
    """A deleted topic, a partition that is gone, a topic that nobody subscribes to: in either store."""
    offsets = (offset("gone", 3), offset("orders", 9), offset("other", 0))
    end = LogEndRow(topic="orders", partition=0, log_start=0, log_end=9)
    for left, right in (
        (zookeeper(OLD, zookeeper_offsets=offsets), NOTHING),
        (zookeeper(OLD), replace(NOTHING, kafka_offsets=offsets)),
    ):
        view = view_of(left, right, end)
        assert view.problems == ()
        assert view.leftovers == tuple(row.at for row in offsets)
