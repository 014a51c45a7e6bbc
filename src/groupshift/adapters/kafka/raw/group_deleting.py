"""Deleting groups with all their offsets, however many those are.

A coordinator writes the tombstones of one request to a partition as one batch, which may not be larger than
``max.message.bytes`` of the offsets topic. A NEW one refuses it then; an OLD one forgets the group, answers
that it is deleted, and leaves everything in the log (H39). So a large group loses its offsets in parts first
(KIP-496), by both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.group_calls import (
    describe_classic,
    describe_consumer,
    fetch_offsets,
    fetched,
)
from groupshift.adapters.kafka.raw.group_rows import offset_rows
from groupshift.adapters.kafka.raw.wire import (
    Api,
    BrokerError,
    UnsupportedByBroker,
    error_name,
    fill,
    raise_for,
)
from groupshift.domain.rows import OffsetRow
from groupshift.ports.changes import unheld

_DELETE_GROUPS, _DELETE_VERSION = 42, 1
_NOT_FOUND = 69
_TOO_LARGE = frozenset({-1, 10, 18})
"""UNKNOWN_SERVER_ERROR, which NEW coordinators say of it, MESSAGE_TOO_LARGE and RECORD_LIST_TOO_LARGE."""
_UNUSED = frozenset({"Empty", "Dead"})
_GROUPS_A_REQUEST = 500
_WHOLE_BYTES, _ROW_BYTES = 64 * 1024, 64
"""Up to so many bytes of tombstones a group is deleted whole; each offset adds so many to its names."""
_PART = 100
"""Offsets that one request deletes; their tombstones fit the smallest batch that anybody sets."""
_Place = tuple[str, int]


def delete_groups(
    cluster: KafkaCluster, groups: Iterable[str], hold: Callable[[], None] = unheld
) -> dict[str, str]:
    """Delete these groups; what was refused for good, by group. ``hold`` is called before each request that
    deletes. Raises as `KafkaCluster.attempt`, and what ``hold`` raises."""
    wanted = set(groups)
    left = {group: _thin(cluster, group, hold) for group in _large(cluster, wanted)}
    refused = {group: why for group, why in left.items() if why}
    for group, code in _deleted(cluster, wanted - refused.keys(), hold).items():
        why = _thin(cluster, group, hold) if code in _TOO_LARGE else error_name(code)
        again = {} if why else _deleted(cluster, {group}, hold)
        refused |= {group: why or error_name(again[group])} if why or again else {}
    return {group: f"group {group!r} is not deleted: {why}" for group, why in sorted(refused.items())}


def coordinated(cluster: KafkaCluster, groups: Iterable[str]) -> dict[str, int]:
    """Node id of the coordinator of each group. Raises `BrokerError` where one has none."""
    nodes, errors = cluster.coordinators(groups)
    for group, code in errors.items():
        raise_for(code, f"group {group!r} has no coordinator")
    return nodes


def _deleted(cluster: KafkaCluster, groups: Collection[str], hold: Callable[[], None]) -> dict[str, int]:
    """Ask until each is deleted, or refused for good: with which code."""
    left, refused = set(groups), dict[str, int]()

    def work() -> None:
        by_node: dict[int, list[str]] = defaultdict(list)
        for group, node in coordinated(cluster, left).items():
            by_node[node].append(group)
        again = 0
        hold()
        asked = {node: _deletions(cluster.broker(node), sorted(wanted)) for node, wanted in by_node.items()}
        for _, answer in cluster.ask_each(asked):
            for each in answer.results:
                code, group = int(each.error_code), str(each.group_id)
                if code and code != _NOT_FOUND and BrokerError(code, group).retriable:
                    again = code
                    continue
                if code and code != _NOT_FOUND:
                    refused[group] = code
                left.discard(group)
        raise_for(again, f"{len(left)} groups are not deleted yet")

    if left:
        cluster.attempt(work)
    return refused


def _large(cluster: KafkaCluster, groups: Collection[str]) -> list[str]:
    """Those whose tombstones are more than `_WHOLE_BYTES`."""
    bytes_: dict[str, int] = {}

    def work() -> None:
        by_node: dict[int, list[str]] = defaultdict(list)
        for group, node in coordinated(cluster, groups).items():
            by_node[node].append(group)
        asked = {node: fetch_offsets(cluster.broker(node), sorted(of)) for node, of in by_node.items()}
        for part, answer in cluster.ask_each(asked):
            for group, code, topics in fetched(part, answer):
                if BrokerError(code, group).retriable:
                    raise_for(code, f"offsets of group {group!r} are not given yet")
                bytes_[group] = sum(map(_tombstone, offset_rows(group, topics)[0]))

    if groups:
        cluster.attempt(work)
    return sorted(group for group, size in bytes_.items() if size > _WHOLE_BYTES)


def _tombstone(row: OffsetRow) -> int:
    return _ROW_BYTES + len((row.group + row.topic).encode())


def _thin(cluster: KafkaCluster, group: str, hold: Callable[[], None]) -> str:
    """Delete its offsets, some at a time, while it has no members. Why it may not be deleted whole then;
    empty where it may. Offsets of topics that are gone stay: the deletion of the group takes them."""
    said: list[str] = []
    gone: set[_Place] = set()

    def work() -> None:
        connection = cluster.broker(coordinated(cluster, [group])[group])
        for part in _parts(_committed(connection, group)):
            if state := _in_use(connection, group):
                already = f", and {len(gone)} of its offsets are deleted already" if gone else ""
                said[:] = [f"it is {state}{already}"]
                return
            hold()
            code = int(connection.ask(_offset_deletion(connection, group, part)).error_code)
            if BrokerError(code, group).retriable:
                raise_for(code, f"offsets of group {group!r} are not deleted yet")
            gone.update((row.topic, row.partition) for row in part)
        rest = _committed(connection, group)
        if sum(map(_tombstone, rest)) > _WHOLE_BYTES:
            said[:] = [f"its coordinator keeps {len(rest)} offsets, which are too many for one batch"]

    cluster.attempt(work)
    return "".join(said)


def _in_use(connection: BrokerConnection, group: str) -> str:
    """Its state where it has members or may get some, by either protocol; empty where it has none. A
    coordinator deletes single offsets of such a group, too."""
    told = [connection.ask(request) for request, _ in describe_classic(connection, [group])]
    if connection.highest(Api.CONSUMER_GROUP_DESCRIBE) >= 0:
        told += [connection.ask(request) for request, _ in describe_consumer(connection, [group])]
    found = [str(each.group_state) for answer in told for each in answer.groups if not each.error_code]
    return next((state for state in found if state not in _UNUSED), "")


def _committed(connection: BrokerConnection, group: str) -> list[OffsetRow]:
    found: list[OffsetRow] = []
    for request, asked in fetch_offsets(connection, [group]):
        for _, code, topics in fetched(asked, connection.ask(request)):
            if code != _NOT_FOUND:
                raise_for(code, f"offsets of group {group!r} are not given")
                found += offset_rows(group, topics)[0]
    return found


def _parts(rows: Sequence[OffsetRow]) -> Iterator[Sequence[OffsetRow]]:
    return (rows[at : at + _PART] for at in range(0, len(rows), _PART))


def _offset_deletion(connection: BrokerConnection, group: str, rows: Iterable[OffsetRow]) -> Any:
    module = connection.messages(Api.OFFSET_DELETE)
    partitions: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        partition = fill(module.OffsetDeleteRequestPartition, partition_index=row.partition)
        partitions[row.topic].append(partition)
    topics = tuple(
        fill(module.OffsetDeleteRequestTopic, name=name, partitions=tuple(each))
        for name, each in partitions.items()
    )
    return fill(module.OffsetDeleteRequest, group_id=group, topics=topics)


def _deletions(connection: BrokerConnection, groups: list[str]) -> list[tuple[Any, None]]:
    module = _deleting(connection)
    parts = (groups[at : at + _GROUPS_A_REQUEST] for at in range(0, len(groups), _GROUPS_A_REQUEST))
    return [(fill(module.DeleteGroupsRequest, groups_names=tuple(part)), None) for part in parts]


def _deleting(connection: BrokerConnection) -> ModuleType:
    theirs = connection.versions.get(_DELETE_GROUPS)
    if theirs is None or not theirs.lowest <= _DELETE_VERSION <= theirs.highest:
        raise UnsupportedByBroker(f"{connection.address} does not delete groups in version {_DELETE_VERSION}")
    return load_payload_module(_DELETE_GROUPS, _DELETE_VERSION, EntityType.request)
