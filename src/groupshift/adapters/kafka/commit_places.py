"""To which topics committed offsets belong: ids and leader epochs of the topics, and what coordinators answer
who ask by topic id.

Source: docs/reference/epochs-and-topic-ids.md §§A, C.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from groupshift.adapters.kafka.broker import BrokerConnection
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.wire import Api, id_of, id_text, in_parts
from groupshift.domain.commit_places import FORMER, Place, TopicNow, Topics
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.rows import OffsetRow

BY_ID = 10
"""The first OffsetFetch and OffsetCommit that name topics by id: Kafka 4.1."""
_PARTITIONS_A_REQUEST = 2000
_GROUPS_A_REQUEST = 100
_NONE = -1
_Key = tuple[str, str, int]


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
    rows: Sequence[OffsetRow],
    topics: Topics,
    again: Callable[[Collection[str]], Iterable[OffsetRow]],
) -> list[OffsetRow]:
    """The rows with the id of their topic where the coordinator answers the same by it, and `FORMER` where it
    answers none by id and still the offset by name (``again``: what groups have committed now).

    A coordinator before 4.1, or one that does not answer now, leaves its rows without. Raises what
    `KafkaCluster` raises."""
    ids = {name: each for name, each in topics.now.items() if each.topic_id}
    answers = _by_id(cluster, [row for row in rows if row.topic in ids], ids)
    offsets = [answers.get(_key(row)) for row in rows]
    doubted = {row.group for row, offset in zip(rows, offsets, strict=True) if offset == _NONE}
    still = {_key(row): row.offset for row in again(doubted)} if doubted else {}

    def with_id(row: OffsetRow, offset: int | None) -> OffsetRow:
        if offset == row.offset:
            return row.of_topic(ids[row.topic].topic_id)
        former = offset == _NONE and still.get(_key(row)) == row.offset
        return row.of_topic(FORMER) if former else row

    return list(map(with_id, rows, offsets))


def _by_id(cluster: KafkaCluster, rows: Iterable[OffsetRow], ids: Mapping[str, TopicNow]) -> dict[_Key, int]:
    """The offset that coordinators answer to each key by the id of its topic; -1: none."""
    by_group = grouped((row.group, row) for row in rows)
    nodes, _ = cluster.coordinators(by_group) if by_group else ({}, {})

    def questions(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[tuple[Any, None]]:
        able = groups if connection.highest(Api.OFFSET_FETCH) >= BY_ID else ()
        ask = partial(connection.request, Api.OFFSET_FETCH, at_least=BY_ID, at_most=BY_ID)
        for part in in_parts(able, _GROUPS_A_REQUEST):
            entries = []
            for group in part:
                numbers = grouped((ids[row.topic].topic_id, row.partition) for row in by_group[group])
                topics = [{"topic_id": id_of(at), "partition_indexes": each} for at, each in numbers.items()]
                entries.append({"group_id": group, "topics": topics})
            yield ask(groups=entries, require_stable=True), None

    names = {each.topic_id: name for name, each in ids.items()}
    offsets: dict[_Key, int] = {}
    for _, answer in cluster.ask_at(((nodes[group], group) for group in sorted(nodes)), questions):
        for group in answer.groups:
            for topic in group.topics if not group.error_code else ():
                name = names.get(id_text(topic.topic_id))
                for each in topic.partitions:
                    if name is not None and not each.error_code:
                        offsets[group.group_id, name, int(each.partition_index)] = int(each.committed_offset)
    return offsets


def _key(row: OffsetRow) -> _Key:
    return row.group, row.topic, row.partition
