"""Both logs of a replication, read whole by a plain client: what is a copy of what, and what to wait for.

Contents have to differ from record to record, as numbered records do; then the truth follows from the logs
alone, whatever copied them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken, Transient
from groupshift.links.link import Link, SyncLocation
from groupshift.links.mirrormaker import (
    Checkpoint,
    CheckpointKey,
    OffsetSync,
    Tombstone,
    decode_checkpoint,
    decode_sync,
)
from groupshift.ports.records import LogRecordView
from groupshift_sandbox.processes import wait_until
from groupshift_testing.replication import Copies

_ANSWER_S = 60.0
_AT_ONCE = 1_000
_TURN_S = 0.1
_TAIL = 200

COMPACTED_SOON = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1000",
    "delete.retention.ms": "0",
}
"""Configuration of a topic whose records lose their predecessors within seconds, once one more record is
written: that rolls the segment. Brokers need a short ``log.cleaner.backoff.ms``, as `clusters.SMALL` has."""


def compact_soon(bootstrap: str, topic: str) -> None:
    """Give a topic, such as MirrorMaker's offset syncs, the configuration of `COMPACTED_SOON`."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in COMPACTED_SOON.items()
    ]
    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for each in admin.incremental_alter_configs([wanted], request_timeout=_ANSWER_S).values():
        each.result(timeout=_ANSWER_S)


def await_compacted(bootstrap: str, at: TopicPartition, records: int, deadline_s: float = 120.0) -> None:
    """Wait until at most so many records are left. Raises `Transient` at the deadline."""

    def compacted() -> bool:
        return len(read_log(bootstrap, at).records) <= records

    wait_until(compacted, deadline_s, f"{at.topic}-{at.partition} compacted to {records}", every_s=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLog:
    """The records of a partition, from ``start`` (or where reading began) to the log ``end``; what has no
    record there is a marker, or was compacted, or is hidden by the isolation level."""

    start: int
    end: int
    records: tuple[LogRecordView, ...]


def read_log(
    bootstrap: str,
    at: TopicPartition,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    last: int | None = None,
) -> PartitionLog:
    """Read a partition whole, or its ``last`` offsets only. Raises `Transient` when that takes too long."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "groupshift-log-reader",
        "isolation.level": isolation.value,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,  # the end of a log is told by a fetch that finds nothing
        "auto.offset.reset": "error",
        "log_level": 0,
    }
    with closing(Consumer(settings)) as consumer:
        start, end = consumer.get_watermark_offsets(KafkaPartition(*at), timeout=_ANSWER_S)
        start = start if last is None else max(start, end - last)
        consumer.assign([KafkaPartition(*at, start)])
        records: list[LogRecordView] = []
        ended = False

        def complete() -> bool:
            nonlocal ended
            for message in consumer.consume(_AT_ONCE, timeout=_TURN_S):
                error = message.error()
                if error is None:
                    records.append(
                        LogRecordView(
                            offset=int(message.offset() or 0),
                            timestamp_ms=message.timestamp()[1],
                            value=message.value(),
                            key=message.key(),
                            headers=tuple(message.headers() or ()),
                        )
                    )
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    ended = True
                else:
                    raise Transient(f"{at} could not be read from {bootstrap}: {error.str()}")
            return ended

        wait_until(complete, _ANSWER_S, f"{at} read from {bootstrap}")
    return PartitionLog(start=start, end=max(end, _end(records)), records=tuple(records))


def _end(records: list[LogRecordView]) -> int:
    return records[-1].offset + 1 if records else 0


def copies(source: PartitionLog, target: PartitionLog) -> Copies:
    """What the target holds copies of, by content. Raises `Broken` when contents of the source repeat."""
    origin = {(record.key, record.value): record.offset for record in source.records}
    if len(origin) != len(source.records):
        repeated = len(source.records) - len(origin)
        raise Broken(
            f"{repeated} records of the source repeat others, so content does not tell a copy's origin"
        )
    found_at = {record.offset: origin.get((record.key, record.value)) for record in target.records}
    return Copies({d: s for d, s in found_at.items() if s is not None}, target.end)


def read_syncs(link: Link, source: str, target: str) -> list[OffsetSync | Tombstone[TopicPartition]]:
    """The link's offset-syncs topic, whole and in order. Raises as `read_log`."""
    own = link.internal_topics
    assert own is not None  # noqa: S101 - it is MirrorMaker's, or a program's that writes like it
    address = source if link.sync_location is SyncLocation.SOURCE else target
    log = read_log(address, TopicPartition(own.offset_syncs, 0))
    return [decode_sync(record.key, record.value) for record in log.records]


def read_checkpoints(link: Link, target: str) -> list[Checkpoint | Tombstone[CheckpointKey]]:
    """The link's checkpoints topic, whole and in order. Raises as `read_log`."""
    own = link.internal_topics
    assert own is not None  # noqa: S101 - as above
    log = read_log(target, TopicPartition(own.checkpoints, 0))
    return [decode_checkpoint(record.key, record.value) for record in log.records]


def await_copied(
    source: str, target: str, partitions: Mapping[TopicPartition, TopicPartition], deadline_s: float = 120.0
) -> None:
    """Wait until the target has the last record of each source partition (the keys), by content. Dropped
    last records are never there. Raises `Transient` at the deadline."""
    wanted = {at: _last_record(source, at) for at in partitions}

    def copied() -> bool:
        for at, record in list(wanted.items()):
            tail = read_log(target, partitions[at], last=_TAIL).records
            if record is None or any((each.key, each.value) == (record.key, record.value) for each in tail):
                del wanted[at]
        return not wanted

    wait_until(copied, deadline_s, f"{len(wanted)} partitions copied to {target}", every_s=0.2)


def _last_record(bootstrap: str, at: TopicPartition) -> LogRecordView | None:
    tail = read_log(bootstrap, at, last=_TAIL)
    records = tail.records or read_log(bootstrap, at).records
    return records[-1] if records else None


def await_synced(
    link: Link, source: str, target: str, partitions: list[TopicPartition], deadline_s: float = 120.0
) -> None:
    """Wait until the newest sync of each source partition is its last record's: what MirrorMaker knows best.
    Raises `Transient` at the deadline."""
    last = {at: record.offset for at in partitions if (record := _last_record(source, at)) is not None}

    def synced() -> bool:
        newest = {
            sync.key: sync.upstream
            for sync in read_syncs(link, source, target)
            if isinstance(sync, OffsetSync)
        }
        return all(newest.get(at) == offset for at, offset in last.items())

    wait_until(synced, deadline_s, f"offset syncs of link {link.name} at the log ends", every_s=0.2)
