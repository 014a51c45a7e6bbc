"""Many groups with committed offsets, made quickly: what tests and benchmarks read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.wire import Api, BrokerError, fill, raise_for
from groupshift.domain.partitions import TopicPartition

_NO_MEMBER, _NO_GENERATION = "", -1
NO_EPOCH = -1
_NAMED_TOPICS = 9

Commits = Mapping[str, Mapping[TopicPartition, tuple[int, str]]]
"""By group and partition: offset and metadata (stored exactly so)."""


def commit(cluster: KafkaCluster, commits: Commits, *, leader_epoch: int = NO_EPOCH) -> None:
    """Commit for groups without members, one request a group; again while coordinators move.

    ``leader_epoch`` is committed with each offset (-1: none).
    Raises `Transient` when a coordinator does not answer in time, `Rejected` when one refuses."""
    left = dict(commits)

    def work() -> None:
        nodes, errors = cluster.coordinators(left)
        asked: dict[int, list[tuple[Any, str]]] = defaultdict(list)
        for group, node in nodes.items():
            asked[node].append((_request(cluster, node, group, left[group], leader_epoch), group))
        for group, answer in cluster.ask_each(asked):
            codes = {int(each.error_code) for topic in answer.topics for each in topic.partitions} - {0}
            if not codes:
                del left[group]
            elif any(not BrokerError(code, group).retriable for code in codes):
                raise_for(min(codes), f"offsets of group {group!r} are not committed")
            else:
                errors[group] = min(codes)
        for group, code in errors.items():
            raise_for(code, f"group {group!r} has no coordinator")

    cluster.attempt(work)


def _request(
    cluster: KafkaCluster,
    node: int,
    group: str,
    offsets: Mapping[TopicPartition, tuple[int, str]],
    leader_epoch: int,
) -> Any:
    module = cluster.broker(node).messages(Api.OFFSET_COMMIT, at_least=2, at_most=_NAMED_TOPICS)
    partitions: dict[str, list[Any]] = defaultdict(list)
    for at, (offset, metadata) in sorted(offsets.items()):
        schema = module.OffsetCommitRequestPartition
        values = {"committed_offset": offset, "committed_metadata": metadata}
        partitions[at.topic].append(
            fill(schema, partition_index=at.partition, committed_leader_epoch=leader_epoch, **values)
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
