"""Many groups with committed offsets, made quickly, and offsets lost: what tests and benchmarks read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.group_changes import commit_rows
from groupshift.adapters.kafka.wire import Api, raise_for
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Rejected

NO_EPOCH = -1

Commits = Mapping[str, Mapping[TopicPartition, tuple[int, str]]]
"""By group and partition: offset and metadata (stored exactly so)."""


def commit(cluster: KafkaCluster, commits: Commits, *, leader_epoch: int = NO_EPOCH) -> None:
    """Commit for groups without members, one request a group; again while coordinators move.

    ``leader_epoch`` is committed with each offset (-1: none).
    Raises `Transient` when a coordinator does not answer in time, `Rejected` when one refuses."""
    refused = commit_rows(
        cluster,
        (
            OffsetRow(
                group=group,
                topic=at.topic,
                partition=at.partition,
                offset=offset,
                leader_epoch=leader_epoch,
                metadata=metadata,
            )
            for group, offsets in commits.items()
            for at, (offset, metadata) in sorted(offsets.items())
        ),
    )
    if refused:
        raise Rejected("; ".join(refused.values()))


def forget(cluster: KafkaCluster, group: str, topic: str, numbers: Sequence[int]) -> None:
    """Delete the group's committed offsets of these partitions (OffsetDelete, KIP-496). Raises as
    `KafkaCluster.attempt`."""

    def delete() -> None:
        connection = cluster.coordinator(group)
        named = {"name": topic, "partitions": [{"partition_index": number} for number in numbers]}
        answer = connection.ask(connection.request(Api.OFFSET_DELETE, group_id=group, topics=[named]))
        raise_for(answer.error_code, f"offsets of group {group!r}")
        for topic_answer in answer.topics:
            for each in topic_answer.partitions:
                raise_for(each.error_code, f"offset of {topic}-{each.partition_index}")

    cluster.attempt(delete)
