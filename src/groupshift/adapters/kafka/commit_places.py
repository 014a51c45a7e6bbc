"""To which topics committed offsets belong: ids and leader epochs of the topics, and what coordinators answer
who ask by topic id.

Source: docs/reference/epochs-and-topic-ids.md §§A, C.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from struct import pack
from typing import Any

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.wire import Api, Encoded, id_of, in_parts
from groupshift.domain.commit_places import FORMER, Place, TopicNow, Topics
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.rows import OffsetRow

BY_ID = 10
"""The first OffsetFetch and OffsetCommit that name topics by id: Kafka 4.1."""
_PARTITIONS_A_REQUEST = 2000
_GROUPS_A_REQUEST = 500
_NONE = -1
_CONTINUES = 0x80


def topics_now(cluster: KafkaCluster, rows: Collection[OffsetRow]) -> Topics:
    """What there is to know of the topics of these commits: one Metadata request, and one
    OffsetForLeaderEpoch to each leader of a partition with a commit of an earlier epoch.

    Raises what `KafkaCluster` raises."""
    known = Topics(now=told_topics(cluster, {row.topic for row in rows}))
    return replace(known, ends=_epoch_ends(cluster, known.unproven(rows)))


def told_topics(cluster: KafkaCluster, names: Collection[str]) -> dict[str, TopicNow]:
    """These topics as a broker tells them; what it does not know it is asked again, for it may learn of a
    topic a moment later. Raises what `KafkaCluster` raises."""
    now = cluster.topics_now(names)
    gone = [name for name, each in now.items() if not each.exists]
    return now | cluster.topics_now(gone)


def _epoch_ends(cluster: KafkaCluster, places: Sequence[Place]) -> dict[Place, int]:
    """The end offset of each epoch that its leader tells; one that is refused or has no leader is absent."""
    leaders, _ = cluster.partitions_of({topic for topic, _, _ in places})
    led = ((leaders.get(TopicPartition(*place[:2]), _NONE), place) for place in places)
    ends: dict[Place, int] = {}
    for epoch, answer in cluster.ask_at((each for each in led if each[0] != _NONE), _epoch_questions):
        for topic in answer.topics:
            for each in topic.partitions:
                if not each.error_code:
                    ends[str(topic.topic), int(each.partition), epoch] = int(each.end_offset)
    return ends


def _epoch_questions(connection: BrokerConnection, places: Iterable[Place]) -> Iterable[tuple[Any, int]]:
    """One request for each epoch: an answer does not repeat which was asked for."""
    ask = partial(connection.request, Api.OFFSET_FOR_LEADER_EPOCH, at_least=2, replica_id=-1)
    for epoch, partitions in grouped((epoch, (topic, number)) for topic, number, epoch in places).items():
        known = {"current_leader_epoch": -1, "leader_epoch": epoch}
        for part in in_parts(partitions, _PARTITIONS_A_REQUEST):
            named = grouped((topic, {"partition": number, **known}) for topic, number in part)
            yield ask(topics=[{"topic": name, "partitions": each} for name, each in named.items()]), epoch


def with_topic_ids(
    cluster: KafkaCluster,
    groups: Mapping[str, Sequence[OffsetRow]],
    topics: Topics,
    again: Callable[[Collection[str]], Iterable[OffsetRow]],
) -> list[OffsetRow]:
    """The rows with the id of their topic where the coordinator answers the same by it, and `FORMER` where it
    answers none by id and still the offset by name (``again``: what groups have committed now).

    A coordinator before 4.1, or one that does not answer now, leaves its rows without. Raises what
    `KafkaCluster` raises."""
    ids = {name: each.topic_id for name, each in topics.now.items() if each.topic_id}
    answers = _by_id(cluster, groups, ids)
    doubted = [group for group, offsets in answers.items() if _NONE in offsets.values()]
    still = {(row.group, row.at): row.offset for row in again(doubted)} if doubted else {}

    def with_id(row: OffsetRow, offset: int | None) -> OffsetRow:
        if offset == row.offset:
            return row.of_topic(ids[row.topic])
        former = offset == _NONE and still.get((row.group, row.at)) == row.offset
        return row.of_topic(FORMER) if former else row

    rows_with_ids: list[OffsetRow] = []
    for group, rows in groups.items():
        offsets = answers.get(group, {})
        rows_with_ids += [with_id(row, offsets.get((row.topic, row.partition))) for row in rows]
    return rows_with_ids


def _by_id(
    cluster: KafkaCluster, groups: Mapping[str, Sequence[OffsetRow]], ids: Mapping[str, str]
) -> dict[str, dict[tuple[str, int], int]]:
    """By group the offset that coordinators answer to topic and partition by the topic's id; -1: none."""
    names = {id_of(topic_id): name for name, topic_id in ids.items()}
    ids_by_name = {name: topic_id.bytes for topic_id, name in names.items()}
    with_topics = [group for group, rows in groups.items() if any(row.topic in ids for row in rows)]
    too_old: set[str] = set()

    def questions(connection: BrokerConnection, of_node: Sequence[str]) -> Iterator[tuple[Any, None]]:
        if connection.highest(Api.OFFSET_FETCH) < BY_ID:
            too_old.update(of_node)
            return
        for part in in_parts(of_node, _GROUPS_A_REQUEST):
            like = connection.request(Api.OFFSET_FETCH, at_least=BY_ID, at_most=BY_ID, groups=())
            yield Encoded(like, fetch_by_id({group: groups[group] for group in part}, ids_by_name)), None

    def answered(nodes: Mapping[str, int]) -> dict[str, dict[tuple[str, int], int]]:
        by_node = ((nodes[group], group) for group in with_topics if group in nodes)
        return {
            group.group_id: {
                (name, each.partition_index): each.committed_offset
                for topic in group.topics
                if (name := names.get(topic.topic_id))
                for each in topic.partitions
                if not each.error_code
            }
            for _, answer in cluster.ask_at(by_node, questions)
            for group in answer.groups
            if not group.error_code
        }

    answers = answered(cluster.told_last)
    moved = [group for group in with_topics if group not in answers and group not in too_old]
    return answers | answered(cluster.coordinators(moved)[0]) if moved else answers


def fetch_by_id(groups: Mapping[str, Iterable[OffsetRow]], ids: Mapping[str, bytes]) -> bytes:
    """Return the body of the request for these offsets by the ids (16 bytes) of their topics, without those
    that open transactions commit.

    Source: Apache Kafka, "OffsetFetchRequest.json" version 10. By hand, for a snapshot asks for each
    partition of every group, and kio takes five times as long."""
    body = bytearray(_count(len(groups)))
    for group, rows in groups.items():
        numbers = grouped((row.topic, row.partition) for row in rows if row.topic in ids)
        name = group.encode()
        body += _count(len(name)) + name + _NO_MEMBER + _count(len(numbers))
        for topic, each in numbers.items():
            body += ids[topic] + _count(len(each)) + pack(f">{len(each)}i", *each) + _NO_TAGS
        body += _NO_TAGS
    return bytes(body + _STABLE + _NO_TAGS)


_NO_MEMBER, _STABLE, _NO_TAGS = b"\x00\xff\xff\xff\xff", b"\x01", b"\x00"
"""No member id and epoch -1; only what no open transaction commits."""


def _count(items: int) -> bytes:
    """The count before a compact array or text: an unsigned varint of one more."""
    high, low = divmod(items + 1, _CONTINUES)
    return bytes([low + _CONTINUES]) + _count(high - 1) if high else bytes([low])
