"""`groupshift.ports.offset_restoring.OffsetRestoring` by raw requests.

Not by confluent-kafka: it appends a NUL to metadata, takes one group a call, and does not repeat what a
coordinator answers that moves or loads (specs/verified-coordinator.md §A 21).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.wire import (
    Api,
    BrokerError,
    UnsupportedByBroker,
    error_name,
    fill,
    raise_for,
)
from groupshift.domain.cluster_rows import OffsetRow

_NO_MEMBER, _NO_GENERATION, _NO_EPOCH = "", -1, -1
_NAMED_TOPICS = 9
_IN_FLIGHT = 16
_DELETE_GROUPS, _DELETE_VERSION = 42, 1
_NOT_FOUND = 69
_UNKNOWN_TOPIC = 3
_GROUPS_A_REQUEST = 500
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

    def delete(self, groups: Collection[str]) -> Mapping[str, str]:
        """See the port."""
        return delete_groups(self._cluster, groups)

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()


def commit_rows(cluster: KafkaCluster, rows: Iterable[OffsetRow]) -> dict[str, str]:
    """Commit for groups without members, a group's rows in requests of a limited size; again while
    coordinators move or load.

    What was refused for good, by group. Raises as `KafkaCluster.attempt`."""
    left = dict(_parts(rows))
    refused: dict[str, str] = {}

    def work() -> None:
        asked: dict[int, list[tuple[Any, _Part]]] = defaultdict(list)
        nodes = _coordinated(cluster, sorted({group for group, _ in left}))
        for part, rows_ in left.items():
            node = nodes[part[0]]
            asked[node].append((_commit(cluster.broker(node), part[0], rows_), part))
        again = 0
        for part, answer in cluster.ask_each(asked, in_flight=_IN_FLIGHT):
            codes = {int(each.error_code) for topic in answer.topics for each in topic.partitions} - {0}
            lasting = sorted(code for code in codes if _is_lasting(code))
            if lasting:
                refused[part[0]] = f"offsets of group {part[0]!r} are not committed: {error_name(lasting[0])}"
            if lasting or not codes:
                del left[part]
            else:
                again = max(codes)
        raise_for(again, f"{len(left)} groups are not committed yet")

    if left:
        cluster.attempt(work)
    return refused


def _parts(rows: Iterable[OffsetRow]) -> Iterator[tuple[_Part, list[OffsetRow]]]:
    """The rows of each group, cut where a request would become one that a coordinator may refuse as too
    large: it writes each as one batch."""
    by_group: dict[str, list[OffsetRow]] = defaultdict(list)
    for row in rows:
        by_group[row.group].append(row)
    for group, found in by_group.items():
        number, size, part = 0, 0, list[OffsetRow]()
        for row in found:
            bytes_ = _ROW_BYTES + len((row.group + row.topic + (row.metadata or "")).encode())
            if part and size + bytes_ > _PART_BYTES:
                yield (group, number), part
                number, size, part = number + 1, 0, []
            size += bytes_
            part.append(row)
        yield (group, number), part


def delete_groups(cluster: KafkaCluster, groups: Iterable[str]) -> dict[str, str]:
    """Delete these groups; what was refused for good, by group. Raises as `KafkaCluster.attempt`."""
    left, refused = set(groups), dict[str, str]()

    def work() -> None:
        by_node: dict[int, list[str]] = defaultdict(list)
        for group, node in _coordinated(cluster, left).items():
            by_node[node].append(group)
        again = 0
        asked = {node: _deletions(cluster.broker(node), sorted(wanted)) for node, wanted in by_node.items()}
        for _, answer in cluster.ask_each(asked):
            for each in answer.results:
                code, group = int(each.error_code), str(each.group_id)
                if code and code != _NOT_FOUND and BrokerError(code, group).retriable:
                    again = code
                    continue
                if code and code != _NOT_FOUND:
                    refused[group] = f"group {group!r} is not deleted: {error_name(code)}"
                left.discard(group)
        raise_for(again, f"{len(left)} groups are not deleted yet")

    if left:
        cluster.attempt(work)
    return refused


def _is_lasting(code: int) -> bool:
    """A topic that is not there stays so, although Kafka calls that worth asking again."""
    return code == _UNKNOWN_TOPIC or not BrokerError(code, "").retriable


def _coordinated(cluster: KafkaCluster, groups: Iterable[str]) -> dict[str, int]:
    nodes, errors = cluster.coordinators(groups)
    for group, code in errors.items():
        raise_for(code, f"group {group!r} has no coordinator")
    return nodes


def _commit(connection: BrokerConnection, group: str, rows: Iterable[OffsetRow]) -> Any:
    module = connection.messages(Api.OFFSET_COMMIT, at_least=2, at_most=_NAMED_TOPICS)
    partitions: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        partitions[row.topic].append(
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
            module.OffsetCommitRequestTopic(name=name, partitions=tuple(each))
            for name, each in partitions.items()
        ),
    )


def _deletions(connection: BrokerConnection, groups: list[str]) -> list[tuple[Any, None]]:
    module = _deleting(connection)
    parts = (groups[at : at + _GROUPS_A_REQUEST] for at in range(0, len(groups), _GROUPS_A_REQUEST))
    return [(fill(module.DeleteGroupsRequest, groups_names=tuple(part)), None) for part in parts]


def _deleting(connection: BrokerConnection) -> ModuleType:
    theirs = connection.versions.get(_DELETE_GROUPS)
    if theirs is None or not theirs.lowest <= _DELETE_VERSION <= theirs.highest:
        raise UnsupportedByBroker(f"{connection.address} does not delete groups in version {_DELETE_VERSION}")
    return load_payload_module(_DELETE_GROUPS, _DELETE_VERSION, EntityType.request)
