"""Topic ids of committed offsets, as coordinators answer; and their request, which is written by hand."""

from __future__ import annotations

import io
from collections.abc import Collection
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st
from kio.serial import entity_writer

from groupshift.adapters.kafka.commit_places import BY_ID, fetch_by_id, with_topic_ids
from groupshift.adapters.kafka.wire import Api, fill, id_text, request_schema
from groupshift.domain.commit_places import FORMER, TopicNow, Topics
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.rows import OffsetRow
from support.fake_brokers import NEWEST, FakeGroup, FakeWorld

TOPICS = {"orders": UUID(int=7), "grüße": UUID(int=2**127 + 5), "t" * 200: UUID(int=2**64)}
ROWS = st.lists(
    st.tuples(st.sampled_from(list(TOPICS)), st.integers(0, 2**31 - 1)), unique=True, min_size=1, max_size=200
)


@example({f"{'g' * number}": [("orders", each) for each in range(200)] for number in range(1, 201)})
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), ROWS, max_size=150))
def test_it_is_written_as_kio_would(groups: dict[str, list[tuple[str, int]]]) -> None:
    """Byte by byte, also with names and arrays whose counts take two bytes."""
    rows = {
        group: [OffsetRow(group=group, topic=topic, partition=number, offset=0) for topic, number in places]
        for group, places in groups.items()
    }
    entries = [
        {
            "group_id": group,
            "topics": [
                {"topic_id": TOPICS[topic], "partition_indexes": numbers}
                for topic, numbers in grouped(places).items()
            ],
        }
        for group, places in groups.items()
    ]
    request = fill(request_schema(Api.OFFSET_FETCH, BY_ID), groups=entries, require_stable=True)
    out = io.BytesIO()
    entity_writer(type(request))(out, request)
    assert fetch_by_id(rows, {name: each.bytes for name, each in TOPICS.items()}) == out.getvalue()


def committed(group: str, *topics: str) -> list[OffsetRow]:
    """Offset 5 in partition 0 of each."""
    return [OffsetRow(group=group, topic=topic, partition=0, offset=5) for topic in topics]


def test_each_offset_gets_the_id_of_the_topic_that_it_was_committed_for() -> None:
    """The same by id: the topic's; none by id and still there by name: a former one. Not known where the
    topic has no id, the group has another coordinator since, or somebody committed meanwhile."""
    ids = {"orders": UUID(int=7), "renewed": UUID(int=8)}
    every = ("orders", "plain", "renewed")
    offsets: dict[TopicPartition, tuple[int, str] | int] = {
        TopicPartition(each, 0): (5, "") for each in every
    }
    former = {TopicPartition("renewed", 0)}
    groups = {
        "still": FakeGroup(offsets=offsets, former=former),
        "moved": FakeGroup(offsets=offsets),
        "later": FakeGroup(offsets={**offsets, TopicPartition("orders", 0): (6, "")}),
    }
    world = FakeWorld(topics={each: [1] for each in every}, ids=ids, groups=groups, moved={"moved": 2})
    topics = {each: TopicNow(topic=each, topic_id=id_text(ids.get(each))) for each in every}
    rows = {group: committed(group, *every) for group in groups}

    def again(names: Collection[str]) -> list[OffsetRow]:
        return [row for name in names for row in rows[name]]

    answered = with_topic_ids(world.observer(), rows, Topics(now=topics), again)
    orders, renewed = (id_text(ids[each]) for each in ("orders", "renewed"))
    assert answered == [row for of_group in rows.values() for row in of_group]
    assert [row.topic_id for row in answered] == [
        *(orders, None, FORMER),
        *(None, None, None),
        *(None, None, renewed),
    ]
    assert [api for _, api, _ in world.asked].count(Api.OFFSET_FETCH) == 1


def test_only_of_a_group_that_moved_the_coordinator_is_asked_for_again() -> None:
    """The others are where the snapshot's last question found them."""
    ids, offsets = {"orders": UUID(int=7)}, {TopicPartition("orders", 0): (5, "")}
    groups = {name: FakeGroup(offsets=dict(offsets)) for name in ("moved", "still")}
    world = FakeWorld(topics={"orders": [1]}, ids=ids, groups=groups, moved={"moved": 2})
    topics = Topics(now={"orders": TopicNow(topic="orders", topic_id=id_text(ids["orders"]))})
    rows = {group: committed(group, "orders") for group in groups}
    cluster = world.observer()
    for group in groups:
        cluster.coordinators([group])
    world.asked.clear()
    answered = with_topic_ids(cluster, rows, topics, lambda _: ())
    assert [row.topic_id for row in answered] == [id_text(ids["orders"])] * 2
    questions = [(api, node) for node, api, _ in world.asked if api is not Api.METADATA]
    assert questions == [
        (Api.OFFSET_FETCH, 1),
        (Api.FIND_COORDINATOR, 1),
        (Api.OFFSET_FETCH, 2),
    ]
    cluster.close()
    assert not cluster.told_last, "an address that may be old is not kept"


def test_coordinators_that_are_too_old_are_asked_nothing_more() -> None:
    """Before Kafka 4.1 none answers by id: nobody is asked again who coordinates thousands of groups."""
    offsets = {TopicPartition("orders", 0): (5, "")}
    world = FakeWorld(
        versions={**NEWEST, Api.OFFSET_FETCH: BY_ID - 1},
        topics={"orders": [1]},
        groups={"old": FakeGroup(offsets=dict(offsets))},
    )
    topics = Topics(now={"orders": TopicNow(topic="orders", topic_id=id_text(UUID(int=7)))})
    cluster = world.observer()
    cluster.coordinators(["old"])
    world.asked.clear()
    rows = {"old": committed("old", "orders")}
    assert [row.topic_id for row in with_topic_ids(cluster, rows, topics, lambda _: ())] == [None]
    assert world.asked == []


def test_a_group_without_a_coordinator_has_none_that_is_remembered() -> None:
    """Its former one would be asked first, and no longer answers for it."""
    world = FakeWorld(groups={"lost": FakeGroup()})
    cluster = world.observer()
    assert cluster.coordinators(["lost"]) == ({"lost": 1}, {})
    assert cluster.told_last == {"lost": 1}
    world.hidden_groups.add("lost")
    nodes, errors = cluster.coordinators(["lost"])
    assert (nodes, list(errors)) == ({}, ["lost"])
    assert cluster.told_last == {}
