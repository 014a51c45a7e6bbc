"""`groupshift.ports.changes.OffsetRestoring` by raw requests.

Not by confluent-kafka: it appends a NUL to metadata, takes one group a call, and does not repeat what a
coordinator answers that moves or loads (specs/verified-coordinator.md §A 21).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.group_deleting import coordinated, delete_groups
from groupshift.adapters.kafka.raw.wire import (
    Api,
    BrokerError,
    error_name,
    fill,
    id_of,
    id_text,
    raise_for,
)
from groupshift.domain.commit_places import FORMER
from groupshift.domain.rows import OffsetRow
from groupshift.ports.changes import Refusals, unheld

_NO_MEMBER, _NO_GENERATION, _NO_EPOCH = "", -1, -1
_NAMED_TOPICS, _TOPICS_BY_ID = 9, 10
_IN_FLIGHT = 16
_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID = 3, 100
_FORMER = "it belongs to a former topic of that name, and is not committed to the topic of today"
_PART_BYTES, _ROW_BYTES = 256 * 1024, 64
"""At most so many bytes of offsets in a request, with what each adds to its names: coordinators take one
batch of ``max.message.bytes`` of the offsets topic (1 MiB by default)."""
_Part = tuple[str, int]
"""A group, and which part of its offsets."""


class LiveOffsetRestoring:
    """Acts through one `KafkaCluster`, which it closes."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def commit(self, rows: Iterable[OffsetRow]) -> Mapping[str, str]:
        """See the port."""
        return commit_rows(self._cluster, rows)

    def delete(self, groups: Collection[str], hold: Callable[[], None] = unheld) -> Mapping[str, str]:
        """See the port."""
        return delete_groups(self._cluster, groups, hold)

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()


def commit_rows(cluster: KafkaCluster, rows: Iterable[OffsetRow]) -> Refusals:
    """Commit for groups without members, a group's rows in requests of a limited size; again while
    coordinators move or load.

    An offset with a topic id goes to the topic of that id only, where the broker knows how (4.1); one of a
    former topic goes nowhere. What was refused for good, by group. Raises as `KafkaCluster.attempt`."""
    refused, chosen = Refusals(), list[OffsetRow]()
    for row in rows:
        if row.topic_id == FORMER:
            refused.add(row, f"the offset of {row.topic}-{row.partition} is not committed: {_FORMER}")
        else:
            chosen.append(row)
    left = dict(_parts(chosen))

    def work() -> None:
        asked: dict[int, list[tuple[Any, _Part]]] = defaultdict(list)
        nodes = coordinated(cluster, sorted({group for group, _ in left}))
        for part, rows_ in left.items():
            node = nodes[part[0]]
            asked[node].append((_commit(cluster.broker(node), part[0], rows_), part))
        again = 0
        for part, answer in cluster.ask_each(asked, in_flight=_IN_FLIGHT):
            codes = _codes(left.pop(part), answer)
            lasting = [(row, code) for row, code in codes if _is_lasting(code)]
            for row, code in sorted(lasting, key=lambda each: each[1]):
                refused.add(row, f"offsets of group {part[0]!r} are not committed: {error_name(code)}")
            passing = [(row, code) for row, code in codes if not _is_lasting(code)]
            if passing:
                left[part] = [row for row, _ in passing]
                again = max(code for _, code in passing)
        raise_for(again, f"{len(left)} groups are not committed yet")

    if left:
        cluster.attempt(work)
    return refused


def _parts(rows: Iterable[OffsetRow]) -> Iterator[tuple[_Part, list[OffsetRow]]]:
    """The rows of each group, cut where a request would become one that a coordinator may refuse as too
    large: it writes each as one batch. Those with a topic id are asked apart, so that one without does not
    take the others' protection away."""
    by_group: dict[tuple[str, bool], list[OffsetRow]] = defaultdict(list)
    for row in rows:
        by_group[row.group, bool(row.topic_id)].append(row)
    numbers = Counter[str]()
    for (group, _), found in by_group.items():
        size, part = 0, list[OffsetRow]()
        for row in found:
            bytes_ = _ROW_BYTES + len((row.group + row.topic + (row.metadata or "")).encode())
            if part and size + bytes_ > _PART_BYTES:
                yield (group, numbers[group]), part
                numbers[group] += 1
                size, part = 0, []
            size += bytes_
            part.append(row)
        yield (group, numbers[group]), part
        numbers[group] += 1


def _codes(rows: Iterable[OffsetRow], answer: Any) -> list[tuple[OffsetRow, int]]:
    """The offsets that were refused, with the error code of each."""
    codes = {
        (str(getattr(topic, "name", "")) or id_text(topic.topic_id), int(each.partition_index)): int(
            each.error_code
        )
        for topic in answer.topics
        for each in topic.partitions
    }
    found = [
        (row, codes.get((row.topic, row.partition)) or codes.get((row.topic_id or "", row.partition), 0))
        for row in rows
    ]
    return [(row, code) for row, code in found if code]


def _is_lasting(code: int) -> bool:
    """A topic that is not there stays so, although Kafka calls that worth asking again."""
    return code in {_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID} or not BrokerError(code, "").retriable


def _commit(connection: BrokerConnection, group: str, rows: Iterable[OffsetRow]) -> Any:
    """By topic ids where the rows have them (all or none do) and the broker takes them, else by name."""
    found = list(rows)
    by_id = all(row.topic_id for row in found) and connection.highest(Api.OFFSET_COMMIT) >= _TOPICS_BY_ID
    least, most = (_TOPICS_BY_ID, _TOPICS_BY_ID) if by_id else (2, _NAMED_TOPICS)
    module = connection.messages(Api.OFFSET_COMMIT, at_least=least, at_most=most)
    partitions: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in found:
        partitions[row.topic, (row.topic_id or "") if by_id else ""].append(
            fill(
                module.OffsetCommitRequestPartition,
                partition_index=row.partition,
                committed_offset=row.offset,
                committed_leader_epoch=_NO_EPOCH if row.leader_epoch is None else row.leader_epoch,
                committed_metadata=row.metadata,
            )
        )
    return fill(
        module.OffsetCommitRequest,
        group_id=group,
        generation_id=_NO_GENERATION,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id=_NO_MEMBER,
        topics=tuple(
            fill(
                module.OffsetCommitRequestTopic,
                name=name,
                topic_id=id_of(topic_id) if topic_id else None,
                partitions=tuple(each),
            )
            for (name, topic_id), each in partitions.items()
        ),
    )
