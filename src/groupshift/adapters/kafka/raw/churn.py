"""Groups of groupshift's own that commit once to every partition of the offsets topic.

A segment is rolled only when something is appended, and only what is not in the newest segment is
compacted. The groups commit for the offsets topic itself, so nobody's topic is named, and are deleted again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.transactions import OFFSETS_TOPIC
from groupshift.adapters.kafka.raw.wire import Api, UnsupportedByBroker, fill, raise_for
from groupshift.domain.placement import partition_of

PREFIX = "groupshift-compaction-"
_DELETE_GROUPS, _DELETE_VERSION = 42, 1
_NOT_FOUND = 69
_NAMED_TOPICS = 9


def names(partitions: int) -> dict[int, str]:
    """The group of each partition of the offsets topic."""
    found: dict[int, str] = {}
    tried = 0
    while len(found) < partitions:
        name = f"{PREFIX}{tried}"
        found.setdefault(partition_of(name, partitions), name)
        tried += 1
    return found


def commit_each(cluster: KafkaCluster, groups: Mapping[int, str]) -> None:
    """One commit a group. Raises `BrokerError`."""
    by_group = {group: number for number, group in groups.items()}
    asked: dict[int, list[tuple[Any, str]]] = defaultdict(list)
    for group, node in _coordinated(cluster, by_group).items():
        asked[node].append((_commit(cluster.broker(node), group, by_group[group]), group))
    for group, answer in cluster.ask_each(asked):
        for topic in answer.topics:
            for each in topic.partitions:
                raise_for(each.error_code, f"group {group!r} does not commit")


def delete(cluster: KafkaCluster, groups: Iterable[str]) -> None:
    """Delete these groups; one that is gone already is no error. Raises `BrokerError`."""
    by_node: dict[int, list[str]] = defaultdict(list)
    for group, node in _coordinated(cluster, groups).items():
        by_node[node].append(group)
    for node, wanted in by_node.items():
        connection = cluster.broker(node)
        module = _deleting(connection)
        answer = connection.ask(fill(module.DeleteGroupsRequest, groups_names=tuple(wanted)))
        for each in answer.results:
            if each.error_code != _NOT_FOUND:
                raise_for(each.error_code, f"group {each.group_id!r} is not deleted")


def _coordinated(cluster: KafkaCluster, groups: Iterable[str]) -> dict[str, int]:
    nodes, errors = cluster.coordinators(groups)
    for group, code in errors.items():
        raise_for(code, f"group {group!r} has no coordinator")
    return nodes


def _deleting(connection: BrokerConnection) -> ModuleType:
    theirs = connection.versions.get(_DELETE_GROUPS)
    if theirs is None or not theirs.lowest <= _DELETE_VERSION <= theirs.highest:
        raise UnsupportedByBroker(f"{connection.address} does not delete groups in version {_DELETE_VERSION}")
    return load_payload_module(_DELETE_GROUPS, _DELETE_VERSION, EntityType.request)


def _commit(connection: BrokerConnection, group: str, number: int) -> Any:
    module = connection.messages(Api.OFFSET_COMMIT, at_least=2, at_most=_NAMED_TOPICS)
    partition = fill(
        module.OffsetCommitRequestPartition,
        partition_index=number,
        committed_offset=0,
        committed_leader_epoch=-1,
        committed_metadata="",
    )
    topic = module.OffsetCommitRequestTopic(name=OFFSETS_TOPIC, partitions=(partition,))
    return fill(
        module.OffsetCommitRequest,
        group_id=group,
        generation_id=-1,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=(topic,),
    )
