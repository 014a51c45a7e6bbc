"""Many groups with committed offsets, made quickly: what tests and benchmarks read."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.group_changes import commit_rows
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
