"""Writes numbered records at a steady rate on every partition of a topic.

``python -m groupshift_sandbox.producer --bootstrap SERVERS --topic T --partitions N --rate R``: the value is
``{"topic":T,"partition":P,"sequence":S}``; one idempotent producer on a topic nobody else writes to makes
the sequence the offset, which every delivery report is checked for. A restarted producer goes on at the
log end. Ends cleanly at SIGTERM, or after ``--count`` records a partition.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer

from groupshift.errors import Broken, Transient
from groupshift_sandbox.kafka import log_ends
from groupshift_sandbox.processes import on_end

_IN_FLIGHT = 20_000  # records waiting for their report, over all partitions
_TURN_S = 0.05
_FLUSH_S = 180.0  # a broker that is started again may need so long


def value_of(topic: str, partition: int, sequence: int) -> bytes:
    """The value of one record."""
    named = {"topic": topic, "partition": partition, "sequence": sequence}
    return json.dumps(named, separators=(",", ":")).encode()


def due(elapsed_s: float, rate: float, limit: int | None) -> int:
    """How many records a partition should have got ``elapsed_s`` after the start."""
    count = int(elapsed_s * rate)
    return count if limit is None else min(count, limit)


class NumberedProducer:
    """Produces records whose sequence equals their offset.

    ``failure`` becomes a sentence when a delivery report says otherwise."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic = topic
        self.failure = ""
        ends = log_ends(bootstrap, topic, partitions)
        self._next = {at.partition: end for at, end in ends.items()}
        self._first = dict(self._next)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "queue.buffering.max.messages": _IN_FLIGHT,
                "message.timeout.ms": 0,
            }
        )

    def written(self, partition: int) -> int:
        """Records handed over for this partition since the start."""
        return self._next[partition] - self._first[partition]

    def send(self, partition: int) -> None:
        """Queue the next record of a partition; waits while the queue is full."""
        sequence = self._next[partition]
        while not self.failure:
            try:
                self._producer.produce(
                    self._topic,
                    value_of(self._topic, partition, sequence),
                    partition=partition,
                    on_delivery=self._reported(sequence),
                )
            except BufferError:
                self._producer.poll(_TURN_S)
                continue
            self._next[partition] = sequence + 1
            return

    def _reported(self, sequence: int) -> Callable[[KafkaError | None, Message], None]:
        def check(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failure = f"partition {message.partition()} sequence {sequence} was not written: {error}"
            elif message.offset() != sequence:
                self.failure = (
                    f"partition {message.partition()} sequence {sequence} got offset {message.offset()}: "
                    "somebody else writes to this topic"
                )

        return check

    def turn(self) -> None:
        """Handle delivery reports for one turn. Raises `Broken` when one was wrong."""
        self._producer.poll(_TURN_S)
        if self.failure:
            raise Broken(self.failure)

    def flush(self) -> None:
        """Wait for all reports. Raises `Transient` when some do not come in time, `Broken` as `turn`."""
        missing = self._producer.flush(_FLUSH_S)
        if self.failure:
            raise Broken(self.failure)
        if missing:
            late = f"were not acknowledged within {_FLUSH_S:g} s"
            raise Transient(f"{missing} records of topic {self._topic!r} {late}")


def run(producer: NumberedProducer, wanted: argparse.Namespace, stopping: Callable[[], bool]) -> None:
    """Produce until ``stopping()`` or until every partition has ``wanted.count`` records."""
    begun = time.monotonic()
    limits = dict.fromkeys(range(wanted.partitions), wanted.count)
    limits |= dict.fromkeys(wanted.idle, wanted.idle_after)
    while not stopping():
        elapsed = time.monotonic() - begun
        for partition, limit in limits.items():
            while producer.written(partition) < due(elapsed, wanted.rate, limit) and not producer.failure:
                producer.send(partition)
        producer.turn()
        if all(limit is not None and producer.written(p) >= limit for p, limit in limits.items()):
            break
    producer.flush()


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="groupshift-producer", description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", required=True, type=int)
    parser.add_argument("--rate", required=True, type=float, help="records per second on each partition")
    parser.add_argument("--count", type=int, help="end after this many records on each partition")
    parser.add_argument("--idle", type=int, action="append", default=[], help="a partition that falls idle")
    parser.add_argument("--idle-after", type=int, default=100, help="records on each idle partition")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run until told to stop; returns 0, or the family's exit code after one sentence on stderr."""
    wanted = _arguments(argv)
    stopping = threading.Event()
    on_end(stopping.set)
    try:
        run(NumberedProducer(wanted.bootstrap, wanted.topic, wanted.partitions), wanted, stopping.is_set)
    except (Broken, Transient) as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
