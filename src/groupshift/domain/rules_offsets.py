"""Rules about committed offsets: N3, O8, and offsets that point at deleted records."""

from __future__ import annotations

from collections.abc import Iterator

from groupshift.domain.facts import Complaint, Facts, OffsetTable, sentence_list
from groupshift.domain.group import GroupView
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Verdict


def _missing(view: GroupView, offsets: OffsetTable) -> Iterator[tuple[Verdict, list[str]]]:
    """Partitions without a committed offset: a failure where there are records, else a warning."""
    absent = [end for end in view.log_ends if end.partition not in offsets.by_partition]
    for verdict, found in (
        (Verdict.FAIL, sorted(end.partition for end in absent if end.end > end.start)),
        (Verdict.INCONCLUSIVE, sorted(end.partition for end in absent if end.end <= end.start)),
    ):
        if found:
            yield verdict, [str(partition) for partition in found]


def znode_offsets_complete(facts: Facts) -> Iterator[Complaint]:
    """N3: an old consumer reads only ZooKeeper."""
    for verdict, names in _missing(facts.view, OffsetTable.of(facts.view.zookeeper_offsets)):
        yield (
            verdict,
            (
                f"no offset in ZooKeeper for {sentence_list(names)}: an old consumer would start at its "
                "reset position and lose or repeat records (N3)"
            ),
            "let the group commit once to ZooKeeper, then assess again",
        )


def kafka_offsets_complete(facts: Facts) -> Iterator[Complaint]:
    """O8: a plain Kafka consumer reads only Kafka."""
    view = facts.view
    kafka = OffsetTable.of(view.kafka_offsets)
    for verdict, names in _missing(view, kafka):
        yield (
            verdict,
            f"no offset in Kafka for {sentence_list(names)}: Kafka consumers would reset (O8)",
            _COMMIT,
        )
    behind = [
        f"{offset.partition} (Kafka {kafka.by_partition[offset.partition]}, ZooKeeper {offset.offset})"
        for offset in view.zookeeper_offsets
        if kafka.by_partition.get(offset.partition, offset.offset) < offset.offset
    ]
    if behind:
        yield (
            Verdict.FAIL,
            f"the offset in Kafka is behind ZooKeeper for {sentence_list(sorted(behind))} (O8)",
            "wait for the next commit of the members",
        )


_COMMIT = "let the migration-aware members commit once"


def kafka_offsets_begun(facts: Facts) -> Iterator[Complaint]:
    """O8, ahead of time: once aware members are in the group, offsets should appear in Kafka."""
    view = facts.view
    absent = [name for _, names in _missing(view, OffsetTable.of(view.kafka_offsets)) for name in names]
    if absent and view.migration_ids:
        said = f"no offset in Kafka yet for {sentence_list(absent)}: the toggle will ask for them (O8)"
        yield Verdict.INCONCLUSIVE, said, _COMMIT


def offsets_in_log(facts: Facts) -> Iterator[Complaint]:
    """Committed, but deleted since."""
    ends = {end.partition: end for end in facts.view.log_ends}
    committed = (*facts.view.zookeeper_offsets, *facts.view.kafka_offsets)
    outside: set[TopicPartition] = {
        offset.partition
        for offset in committed
        if offset.partition in ends and not ends[offset.partition].start <= offset.offset
    }
    if outside:
        yield (
            Verdict.INCONCLUSIVE,
            (
                f"committed offsets of {sentence_list(sorted(map(str, outside)))} lie below the log start: "
                "those records are already deleted"
            ),
            "check the retention of the topic",
        )
