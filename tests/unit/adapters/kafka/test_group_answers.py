"""Observers read one group and many from brokers of every release alike; nothing is lost that one says."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from groupshift.adapters.kafka import groups
from groupshift.adapters.kafka.groups import KafkaGroups, KafkaRights, ListedKafkaGroups
from groupshift.adapters.kafka.wire import Api
from groupshift.domain.group import GroupView
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Rejected, Transient
from support.fake_brokers import ABSENT, NEWEST, OLD, FakeGroup, FakeWorld

ORDERS = [TopicPartition("orders", number) for number in range(3)]
RELEASES = pytest.mark.parametrize(
    "versions", [NEWEST, OLD, {**NEWEST, Api.OFFSET_FETCH: 7}], ids=["4.2", "1.1", "2.5"]
)


def subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription 0."""
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def assignment(topic: str, *numbers: int) -> bytes:
    """ConsumerProtocolAssignment 0."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    return struct.pack(">hi", 0, 1) + name + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


def member(name: str, metadata: bytes, assigned: bytes) -> dict[str, object]:
    """A member as its coordinator describes it."""
    about = {"member_id": f"{name}-id", "client_id": name, "client_host": "/10.0.0.1"}
    return {**about, "member_metadata": metadata, "member_assignment": assigned}


@pytest.fixture
def world(versions: dict[Api, int]) -> FakeWorld:
    """Two brokers, one topic; a group with two members, one that is empty."""
    made = FakeWorld(versions=versions, topics={"orders": [1, 2, -1], "other": [1]})
    read = member("reads", subscription("orders"), assignment("orders", 0, 1))
    made.groups["busy"] = FakeGroup(
        node=2,
        state="Stable",
        members=[read, member("aware", b"\0", b"")],
        offsets={ORDERS[0]: (7, "note\0"), ORDERS[1]: 88},
    )
    made.groups["idle"] = FakeGroup(node=1, offsets={ORDERS[0]: (3, "")})
    return made


@RELEASES
def test_one_group_is_told_with_members_offsets_and_topics(world: FakeWorld) -> None:
    """Metadata to the byte; an offset that the coordinator does not tell is a problem."""
    side = KafkaGroups(world.observer()).observe("busy", ["aware"])
    assert (side.kafka.state, side.kafka.protocol) == ("Stable", "range")
    assert [(each.client_id, each.host, sorted(each.assigned)) for each in side.kafka.members] == [
        ("aware", "10.0.0.1", []),
        ("reads", "10.0.0.1", ORDERS[:2]),
    ]
    assert [each.topics for each in side.kafka.members] == [(), ("orders",)]
    assert side.topics == {"orders": 3, "other": 1}
    assert [(at.at, at.offset, at.metadata) for at in side.kafka_offsets] == [(ORDERS[0], 7, "note\0")]
    (problem,) = side.problems
    assert "for orders-1 cannot be read (UNSTABLE_OFFSET_COMMIT (88))" in problem
    assert [each.partition(",")[0] for each in side.brokers] == [
        "broker 1 at broker-1:9092",
        "broker 2 at broker-2:9092",
    ]
    assert Api.LIST_GROUPS not in {api for _, api, _ in world.asked}


@RELEASES
def test_bytes_of_a_strange_member_are_a_problem_of_it(world: FakeWorld) -> None:
    """It was not said to be aware."""
    side = KafkaGroups(world.observer()).observe("busy")
    assert "the subscription of Kafka member 'aware-id' cannot be read" in side.problems[1]


@RELEASES
def test_a_window_of_groups_is_read_as_each_alone(world: FakeWorld) -> None:
    """One description a coordinator; an unlisted group is Dead."""
    reader, single = ListedKafkaGroups(world.observer()), KafkaGroups(world.observer())
    assert reader.groups() == ("busy", "idle")
    before = len(world.asked)
    found = reader.observe({"busy": ["aware"], "idle": (), "nobody": ()})
    asked = [api for _, api, _ in world.asked[before:]]
    assert asked.count(Api.DESCRIBE_GROUPS) == 2
    assert asked.count(Api.OFFSET_FETCH) == 2
    for group, embedded in (("busy", ["aware"]), ("idle", []), ("nobody", [])):
        alone = single.observe(group, embedded)
        assert found[group] == replace(alone, brokers=())
    assert found["nobody"].kafka.state == "Dead"


@RELEASES
def test_positions_are_asked_for_by_name(world: FakeWorld) -> None:
    """Those that were not answered; about a partition without a word the coordinator said nothing."""
    world.topics["orders"][2] = 1
    world.groups["busy"].silent_about.add(ORDERS[2])
    seen = GroupView(group="busy", kafka_offsets=(OffsetRow(group="g", **ORDERS[0]._asdict(), offset=7),))
    told = KafkaGroups(world.observer()).positions(seen, ORDERS)
    assert [(end.at, end.log_start, end.log_end) for end in told.log_ends] == [
        (at, at.partition, 10 * (at.partition + 1)) for at in ORDERS
    ]
    assert told.kafka_offsets == seen.kafka_offsets
    assert len(told.problems) == 2
    assert "said nothing about the committed offsets of orders-2" in told.problems[1]
    again = KafkaGroups(world.observer()).positions(GroupView(group="busy"), ORDERS[:1])
    assert [(at.offset, at.metadata) for at in again.kafka_offsets] == [(7, "note\0")]


@RELEASES
def test_a_partition_without_leader_stops_one_group_and_is_a_sentence_among_many(world: FakeWorld) -> None:
    """Log ends of the others are told; the leaders are learnt anew before."""
    with pytest.raises(Transient, match=r"orders-2: LEADER_NOT_AVAILABLE \(5\)"):
        KafkaGroups(world.observer(0.3)).positions(GroupView(group="busy"), ORDERS)
    reader = ListedKafkaGroups(world.observer())
    reader.groups()
    world.topics["orders"][0] = 2
    ends, problems = reader.log_ends([*ORDERS, TopicPartition("gone", 0)])
    assert sorted(ends) == ORDERS[:2]
    assert [each.partition(":")[0] for each in problems] == [
        "the log end of gone-0 cannot be read (UNKNOWN_TOPIC_OR_PARTITION (3))",
        "the log end of orders-2 cannot be read (LEADER_NOT_AVAILABLE (5))",
    ]


@RELEASES
def test_a_group_that_moves_is_asked_again_where_it_is(world: FakeWorld) -> None:
    """One and many: the old coordinator is not believed, and says nothing of the others."""
    world.moved["busy"] = 1
    assert KafkaGroups(world.observer()).observe("busy", ["aware"]).kafka.state == "Stable"
    reader = ListedKafkaGroups(world.observer())
    reader.groups()
    world.moved["busy"] = 2
    assert reader.observe({"busy": ["aware"], "idle": ()})["busy"].kafka.state == "Stable"


@RELEASES
def test_a_slow_broker_is_asked_again_without_learning_the_cluster_anew(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it knows takes time to learn, too; other errors may mean that it changed."""
    reader, ask, failures = (
        ListedKafkaGroups(world.observer(2.0)),
        groups._ask,
        list[Exception]([TimeoutError()]),
    )

    def sometimes(*asked: Any, **more: Any) -> Any:
        if failures:
            raise failures.pop()
        return ask(*asked, **more)

    monkeypatch.setattr(groups, "_ask", sometimes)
    reader.groups()
    before = len(world.asked)
    assert reader.observe({"idle": ()})["idle"].kafka.state == "Empty"
    assert {api for _, api, _ in world.asked[before:]} == {Api.DESCRIBE_GROUPS, Api.OFFSET_FETCH}
    failures.append(ConnectionResetError())
    reader.observe({"idle": ()})
    assert Api.LIST_GROUPS in {api for _, api, _ in world.asked[before:]}


@RELEASES
def test_dead_is_believed_unless_the_brokers_list_the_group(world: FakeWorld) -> None:
    """Brokers since 4.0 are asked in the version that calls an absent group Dead."""
    assert KafkaGroups(world.observer()).observe("nobody").problems == ()
    world.groups["native"] = FakeGroup(node=1, state="Dead", kind="")
    (alone,) = KafkaGroups(world.observer()).observe("native").problems
    (among,) = ListedKafkaGroups(world.observer()).observe({"native": ()})["native"].problems
    assert alone == among
    assert "its coordinator describes it as Dead" in alone
    assert ListedKafkaGroups(world.observer()).observe({"young": ["young-1"]})["young"].problems == ()


@RELEASES
def test_what_is_refused_is_said_of_one_group_only(world: FakeWorld) -> None:
    """Among many a problem; alone the operation that lacks."""
    world.groups["idle"].error = 30
    found = ListedKafkaGroups(world.observer()).observe({"idle": (), "busy": ["aware"]})
    assert found["idle"].kafka.state == "Unknown"
    assert "GROUP_AUTHORIZATION_FAILED (30)): check the ACLs" in found["idle"].problems[0]
    assert found["busy"].kafka.state == "Stable"
    with pytest.raises(Rejected, match="Describe the group"):
        KafkaGroups(world.observer()).observe("idle")
    world.hidden_topics.add("orders")
    with pytest.raises(Rejected, match="Describe a topic"):
        KafkaGroups(world.observer()).positions(GroupView(group="busy"), ORDERS[:1])


@RELEASES
def test_rights_name_the_group_and_each_topic(world: FakeWorld) -> None:
    """Asked for by name; a topic that is not there is no missing right."""
    rights = KafkaRights(world.observer())
    assert rights.identity("busy", ["orders", "gone"]).missing == ()
    world.hidden_topics.add("orders")
    world.hidden_groups.add("busy")
    told = rights.identity("busy", ["other", "orders"])
    assert told.missing == ("Describe group busy", "Describe topic orders")
    assert told.who == "a connection without a user name"
    assert rights.identity("idle", []).missing == ()


@RELEASES
def test_another_error_of_the_group_is_no_missing_right(world: FakeWorld) -> None:
    """It is asked again, and then said."""
    world.groups["busy"].error = ABSENT
    with pytest.raises(Transient, match=r"GROUP_ID_NOT_FOUND \(69\)"):
        KafkaRights(world.observer(0.3)).identity("busy", [])
