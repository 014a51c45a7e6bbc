"""What a rollback leaves behind in Kafka: read from the last snapshot, and removed where it is safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupshift.application.environment import Environment
from groupshift.application.records import Migration
from groupshift.domain.evidence import Row, Store
from groupshift.domain.leftover import Leftover, leftover
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import MoveName
from groupshift.errors import GroupshiftError


def left_behind(env: Environment, found: Migration) -> Leftover | None:
    """What a migration that was taken back to its old members left in Kafka, by its last snapshot; None where
    that is nothing, or what was there before. Evidence that cannot be read is another sentence's business."""
    taken = found.snapshots()
    if found.plan.move is not MoveName.COORDINATION or not taken or not taken[-1][0].undoes:
        return None
    try:
        last = env.evidence.read(found.id, taken[-1][0].value, taken[-1][1])
        first = env.evidence.read(found.id, taken[0][0].value, taken[0][1])
    except GroupshiftError:
        return None
    kinds = {str(row["kind"]) for row in last["members"]}
    kafka = _offsets(last, Store.KAFKA)
    if kinds - {MemberKind.OLD.value} or kafka == _offsets(first, Store.KAFKA):
        return None
    return leftover(found.record.group, kafka, _offsets(last, Store.ZOOKEEPER))


def _offsets(tables: Mapping[str, Sequence[Row]], store: Store) -> dict[TopicPartition, int]:
    return {
        TopicPartition(str(row["topic"]), int(row["partition"] or 0)): int(row["offset"] or 0)
        for row in tables["offsets"]
        if row["store"] == store.value and row["offset"] is not None and int(row["offset"]) >= 0
    }
