"""Copies records from one cluster to another, as the kind of its link does, with exceptions that are chosen.

A `Replicator` is driven step by step, or follows the source as a process (`start_replicator`, which runs
``python -m groupshift_sandbox.replication.replicator``). What it does beside copying follows from the link:

- ``mm2-default``, ``mm2-identity``: writes offset syncs when MirrorMaker's source task would.
- ``header``: writes the source offset into a header, as Redpanda's migrator does: eight bytes, big-endian, in
  the place of one from an earlier hop; and the source's cluster id as provenance, if there is none yet.
- ``offset-preserving``: writes each record at its own offset, into a topic that was empty. A hole of the
  source cannot be written so: at the first one it ends with a sentence, and the target is then equal up to
  there. Holes are copied as files (`groupshift_sandbox.replication.segments`).
- ``none``: just copies.

All but an offset-preserving one start where they last noted their positions, at least once: what was copied
behind these is copied again. They lie in a file, so no group of the source is made by this.

Source: docs/reference/cross-cluster-offsets.md §§4.1, 8; of the header: redpanda-data/connect (Apache-2.0),
internal/impl/redpanda/migrator/migrator.go, ``encodeOffsetHeader``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken, GroupshiftError, Rejected, Transient
from groupshift.links.link import Link, LinkKind, SyncLocation
from groupshift.links.mirrormaker import OffsetSync, encode_sync
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic, log_ends
from groupshift_sandbox.processes import Command, Running, await_start, on_end, start
from groupshift_sandbox.state import read_document, write_document
from groupshift_testing.replication import OffsetSyncWriter

OFFSET_HEADER = "redpanda-migrator-offset"
PROVENANCE_HEADER = "redpanda-migrator-provenance"
FOREIGN = b"foreign"
"""The value of a record that is no copy."""

_ANSWER_S = 60.0
_TURN_S = 0.1
_READY_S = 60.0
_OFFSET_BYTES = 8
_SYNCS_CONFIG = {"cleanup.policy": "compact"}

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What it does otherwise than copy each record once: by source offset, in every partition alike.

    ``dropped`` records are not copied, ``doubled`` ones twice, and before a record of ``foreign`` it writes
    one that is no copy. At an offset of ``replays`` it goes back to the offset named there, once, as a task
    does that crashed. The sync of a record in ``lost_syncs`` is not sent."""

    dropped: frozenset[int] = frozenset()
    doubled: frozenset[int] = frozenset()
    foreign: frozenset[int] = frozenset()
    replays: Mapping[int, int] = field(default_factory=dict)
    lost_syncs: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatorOptions:
    """What to copy: ``topics`` of the source, whose names on the target follow from the link. ``source`` and
    ``target`` are addresses of brokers.

    ``batch`` records are read at once; their syncs count as acknowledged when all are written, so a small
    batch sends more of them. ``commit_s`` is how often it notes its positions when it follows (delayed syncs
    leave then). ``transactional``: each batch is a transaction on the target, so that markers lie there."""

    link: Link
    source: str
    target: str
    topics: tuple[str, ...]
    choices: Choices = Choices()
    batch: int = 500
    commit_s: float = 1.0
    offset_lag_max: int = 100
    transactional: bool = False

    def to_json(self) -> dict[str, Any]:
        """As `from_json` reads it."""
        return asdict(self) | {
            "link": {**asdict(self.link), "altered_topics": sorted(self.link.altered_topics)},
            "choices": {
                name: list(value.items()) if isinstance(value, Mapping) else sorted(value)
                for name, value in asdict(self.choices).items()
            },
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ReplicatorOptions:
        """What `to_json` wrote."""
        choices = {name: frozenset(value) for name, value in document["choices"].items() if name != "replays"}
        link = Link(**{**document["link"], "altered_topics": frozenset(document["link"]["altered_topics"])})
        return cls(
            **{
                **document,
                "link": link,
                "topics": tuple(document["topics"]),
                "choices": Choices(
                    **choices, replays={int(a): int(b) for a, b in document["choices"]["replays"]}
                ),
            }
        )


def with_source_offset(
    headers: Headers, name: str, offset: int, cluster_id: str
) -> list[tuple[str, bytes | None]]:
    """The headers of a record's copy: the provenance where there is none, and this hop's source offset."""
    copied = list(headers)
    if all(key != PROVENANCE_HEADER for key, _ in copied):
        copied.append((PROVENANCE_HEADER, cluster_id.encode()))
    value = offset.to_bytes(_OFFSET_BYTES, "big")
    places = [place for place, (key, _) in enumerate(copied) if key == name]
    if places:
        copied[places[-1]] = (name, value)
    else:
        copied.append((name, value))
    return copied


class Replicator:
    """Copies from where its positions are; ``file`` keeps them (JSON). One of a file at a time.

    Raises:
        Rejected: a topic is not there, or the link has no name for it on the target.
        Broken: an offset-preserving link meets a hole, or somebody else writes to its target.
        Transient: a broker does not answer in time.
    """

    def __init__(self, options: ReplicatorOptions, file: Path) -> None:
        self._options, self._link, self._file = options, options.link, file
        self._preserves = self._link.kind is LinkKind.OFFSET_PRESERVING
        self._failure = ""
        self._acknowledged: list[tuple[TopicPartition, int, int]] = []
        self._replayed: set[tuple[TopicPartition, int]] = set()
        self._behind: set[TopicPartition] = set()
        at_source, self._cluster_id = _topics_at(options.source)
        self._copies = {topic: self._copy_of(topic, at_source) for topic in options.topics}
        self._sizes = {topic: at_source[topic] for topic in options.topics}
        self._make_topics()
        self._producer = self._new_producer()
        self._syncs = self._new_sync_producer()
        self._consumer = Consumer(
            {
                "bootstrap.servers": options.source,
                "group.id": f"replicator-{self._link.name}",
                "isolation.level": self._link.isolation.value,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,  # the end of a log is told by a fetch that finds nothing
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self.positions: dict[TopicPartition, int] = {}
        """The next source offset of each partition that is copied."""
        self.crash()

    # -- what it is told to do -------------------------------------------------------------------------

    def replicate(self, records: int | None = None) -> int:
        """Copy at most so many records (default: all that there are) and return how many were read."""
        self._assign()
        count, deadline = 0, time.monotonic() + _ANSWER_S
        while self._behind and (records is None or count < records):
            left = self._options.batch if records is None else min(self._options.batch, records - count)
            messages = self._consumer.consume(left, timeout=_TURN_S)
            count += self._take(messages)
            if messages:
                deadline = time.monotonic() + _ANSWER_S
            elif time.monotonic() > deadline:
                raise Transient(f"{self._options.source} gives no records within {_ANSWER_S:g} s")
        return count

    def follow(self, stopping: Callable[[], bool]) -> None:
        """Copy what comes until ``stopping()``."""
        self._assign()
        due = time.monotonic() + self._options.commit_s
        while not stopping():
            self._take(self._consumer.consume(self._options.batch, timeout=_TURN_S))
            if time.monotonic() >= due:
                self.commit()
                due = time.monotonic() + self._options.commit_s
        self.commit()

    def commit(self) -> None:
        """Note the positions, and let the delayed syncs leave."""
        self._writer.source_offsets_committed()
        self._flush_syncs()
        self._note()

    def settle(self) -> None:
        """Copy all there is and send the last syncs: replication is at rest then."""
        self.replicate()
        self.commit()

    def crash(self) -> None:
        """Start anew at the noted positions; syncs that had not left are gone."""
        self.positions = self._noted()
        self._writer = self._new_writer()
        self._note()

    def write_foreign(self, topic: str, partition: int = 0, value: bytes = FOREIGN) -> None:
        """Write a record that is no copy where the source ``topic`` is copied to."""
        self._begin()
        self._producer.produce(self._copies[topic], value, partition=partition, on_delivery=self._check)
        self._end()

    def close(self) -> None:
        """Close the consumer; the producers have nothing under way."""
        self._consumer.close()

    # -- how it does it --------------------------------------------------------------------------------

    def _copy_of(self, topic: str, sizes: Mapping[str, int]) -> str:
        if topic not in sizes:
            raise Rejected(f"topic {topic!r} is not on {self._options.source}; create it first")
        copy = self._link.target_topic(topic)
        if copy.topic is None:
            raise Rejected(f"topic {topic!r} has no name on the target: {copy.reason}")
        return copy.topic

    def _make_topics(self) -> None:
        at_target, _ = _topics_at(self._options.target)
        for topic, copy in self._copies.items():
            if copy not in at_target:
                create_topic(self._options.target, copy, self._sizes[topic])
        own = self._link.internal_topics
        if own is not None and own.offset_syncs not in _topics_at(self._sync_address)[0]:
            create_topic(self._sync_address, own.offset_syncs, 1, config=_SYNCS_CONFIG)

    @property
    def _sync_address(self) -> str:
        source = self._link.sync_location is SyncLocation.SOURCE
        return self._options.source if source else self._options.target

    def _new_producer(self) -> Producer:
        settings = {"bootstrap.servers": self._options.target, "enable.idempotence": True, "linger.ms": 5}
        if not self._options.transactional:
            return Producer({**settings, "log_level": 0})
        # a task that starts again ends what its predecessor left open, as Connect's does
        producer = Producer({**settings, "transactional.id": f"replicator-{self._link.name}", "log_level": 0})
        producer.init_transactions(_ANSWER_S)
        return producer

    def _new_writer(self) -> OffsetSyncWriter:
        return OffsetSyncWriter(self._send_sync, offset_lag_max=self._options.offset_lag_max)

    def _new_sync_producer(self) -> Producer | None:
        if self._link.internal_topics is None:
            return None
        return Producer({"bootstrap.servers": self._sync_address, "linger.ms": 0, "log_level": 0})

    def _noted(self) -> dict[TopicPartition, int]:
        """Where to start. The log end of an equal copy is its position, whatever was noted."""
        if self._preserves:
            ends: dict[TopicPartition, int] = {}
            for topic, number in self._sizes.items():
                copied = log_ends(self._options.target, self._copies[topic], number)
                ends |= {TopicPartition(topic, at.partition): end for at, end in copied.items()}
            return ends
        noted = read_document(self._file).get("positions", {})
        partitions = (
            TopicPartition(topic, number) for topic, size in self._sizes.items() for number in range(size)
        )
        return {at: int(noted.get(f"{at.topic}-{at.partition}", 0)) for at in partitions}

    def _note(self) -> None:
        positions = {f"{at.topic}-{at.partition}": offset for at, offset in self.positions.items()}
        write_document(self._file, {"pid": os.getpid(), "positions": positions})

    def _assign(self) -> None:
        self._consumer.assign([KafkaPartition(*at, offset) for at, offset in self.positions.items()])
        self._behind = set(self.positions)

    def _take(self, messages: Sequence[Message]) -> int:
        """Copy a batch; returns how many of its records were read."""
        records, count, back = [], 0, None
        for message in messages:
            error = message.error()
            at = TopicPartition(str(message.topic()), int(message.partition() or 0))
            if error is None:
                records.append((at, message))
                self._behind.add(at)
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._behind.discard(at)
            else:
                raise Transient(f"{self._options.source} does not give records of {at}: {error.str()}")
        if not records:
            return 0
        self._begin()
        for at, message in records:
            back = self._replay_at(at, _offset(message))
            if back is not None:
                break
            self._copy(at, message)
            count += 1
        self._end()
        if back is not None:
            self.positions[at] = back
            self._writer = self._new_writer()
            self._assign()
        return count

    def _replay_at(self, at: TopicPartition, offset: int) -> int | None:
        """Where to go back to before this record is copied; None: nowhere, or it was done already."""
        back = self._options.choices.replays.get(offset)
        if back is not None and (at, offset) not in self._replayed:
            self._replayed.add((at, offset))
            return back
        return None

    def _copy(self, at: TopicPartition, message: Message) -> None:
        offset, choices = _offset(message), self._options.choices
        if self._preserves and offset != self.positions[at]:
            self._end()
            raise Broken(
                f"{at.topic}-{at.partition} has no record at {self.positions[at]}, the next is at {offset}: "
                "offsets behind a hole cannot be kept by writing; copy the segment files instead"
            )
        if offset in choices.foreign:
            self._send(at, FOREIGN, on_delivery=self._check)
        times = 0 if offset in choices.dropped else 2 if offset in choices.doubled else 1
        for _ in range(times):
            self._send(
                at,
                message.value(),
                key=message.key(),
                timestamp=max(message.timestamp()[1], 0),
                headers=self._headers(message),
                on_delivery=self._reported(at, offset),
            )
        self.positions[at] = offset + 1

    def _headers(self, message: Message) -> list[tuple[str, bytes | None]]:
        headers = list(message.headers() or ())
        if self._link.kind is not LinkKind.HEADER:
            return headers
        return with_source_offset(headers, self._link.provenance_header, _offset(message), self._cluster_id)

    def _send(self, at: TopicPartition, value: bytes | None, **fields: Any) -> None:
        """Queue a record for the copy of a source partition; waits while the queue is full."""
        while True:
            try:
                self._producer.produce(self._copies[at.topic], value, partition=at.partition, **fields)
            except BufferError:
                self._producer.poll(_TURN_S)
            else:
                return

    def _check(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failure = f"a record was not written to {self._options.target}: {error.str()}"

    def _reported(self, at: TopicPartition, offset: int) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            self._check(error, message)
            if error is None:
                self._acknowledged.append((at, offset, _offset(message)))

        return report

    def _begin(self) -> None:
        if self._options.transactional:
            self._producer.begin_transaction()

    def _end(self) -> None:
        """Wait until all is written; then the syncs of it leave."""
        if self._options.transactional:
            self._producer.commit_transaction(_ANSWER_S)
        missing = self._producer.flush(_ANSWER_S)
        if missing or self._failure:
            raise Transient(self._failure or f"{missing} records were not written to {self._options.target}")
        for at, upstream, downstream in self._acknowledged:
            if self._preserves and upstream != downstream:
                raise Broken(
                    f"the copy of {at.topic}-{at.partition} at {upstream} got offset {downstream}: somebody "
                    "else writes to it, so it is no equal copy any more"
                )
            if self._syncs is not None:
                self._writer.record_acknowledged(at, upstream, downstream)
        self._acknowledged.clear()
        self._flush_syncs()

    def _send_sync(self, at: TopicPartition, upstream: int, downstream: int) -> None:
        own = self._link.internal_topics
        if self._syncs is None or own is None or upstream in self._options.choices.lost_syncs:
            return
        sync = OffsetSync(topic=at.topic, partition=at.partition, upstream=upstream, downstream=downstream)
        key, value = encode_sync(sync)
        self._syncs.produce(own.offset_syncs, value, key=key, partition=0)

    def _flush_syncs(self) -> None:
        if self._syncs is not None and self._syncs.flush(_ANSWER_S):
            raise Transient(f"offset syncs were not written to {self._sync_address} in time")
        self._writer.sends_acknowledged()


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None  # noqa: S101 - it was read or written
    return int(offset)


def _topics_at(address: str) -> tuple[Mapping[str, int], str]:
    """The topics with the number of their partitions, and the cluster's id."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        cluster = admin.list_topics(timeout=_ANSWER_S)
    except KafkaException as error:
        raise Transient(f"{address} does not tell its topics: {error}") from error
    return {name: len(each.partitions) for name, each in cluster.topics.items()}, str(cluster.cluster_id)


def positions_file(home: Home, name: str) -> Path:
    """Where a replicator of this name keeps its positions."""
    return home.root / f"{name}.positions.json"


def start_replicator(home: Home, options: ReplicatorOptions, *, name: str = "replicator") -> Running:
    """Start it as a process that follows the source; returns when it copies. SIGTERM ends it cleanly, and
    another start goes on where the positions are. Raises `Transient` when it ended or is late."""
    plan = home.configuration / f"{name}.json"
    write_document(plan, options.to_json())
    argv = [
        sys.executable,
        "-m",
        "groupshift_sandbox.replication.replicator",
        "--plan",
        str(plan),
        "--positions",
        str(positions_file(home, name)),
    ]
    process = start(home, Command(name=name, argv=argv))

    def copies() -> bool:
        return bool(read_document(positions_file(home, name)).get("pid") == process.pid)

    await_start(home, process, copies, _READY_S)
    return process


def main(argv: Iterable[str]) -> int:
    """Follow until told to stop; returns 0, or the family's exit code after one sentence on stderr."""
    parser = argparse.ArgumentParser(prog="groupshift-replicator", description=__doc__)
    parser.add_argument("--plan", required=True, type=Path)
    parser.add_argument("--positions", required=True, type=Path)
    wanted = parser.parse_args(list(argv))
    stopping = threading.Event()
    on_end(stopping.set)
    try:
        options = ReplicatorOptions.from_json(json.loads(wanted.plan.read_text()))
        Replicator(options, wanted.positions).follow(stopping.is_set)
    except GroupshiftError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
