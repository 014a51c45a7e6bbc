"""Groups of groupshift's own that commit once to every partition of the offsets topic.

A segment is rolled only when something is appended, and only what is not in the newest segment is
compacted. The groups commit for the offsets topic itself, so nobody's topic is named, and are deleted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.group_deleting import delete_groups
from groupshift.adapters.kafka.raw.offset_restoring import commit_rows
from groupshift.adapters.kafka.raw.transactions import OFFSETS_TOPIC
from groupshift.domain.placement import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Rejected

PREFIX = "groupshift-compaction-"


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
    """One commit a group. Raises `BrokerError` and what `commit_rows` does."""
    rows = [
        OffsetRow(group=group, topic=OFFSETS_TOPIC, partition=number, offset=0, metadata="")
        for number, group in groups.items()
    ]
    _refuse(commit_rows(cluster, rows))


def delete(cluster: KafkaCluster, groups: Iterable[str]) -> None:
    """Delete these groups; one that is gone already is no error. Raises as `commit_each`."""
    _refuse(delete_groups(cluster, groups))


def _refuse(refused: Mapping[str, str]) -> None:
    if refused:
        raise Rejected("; ".join(refused.values()))
