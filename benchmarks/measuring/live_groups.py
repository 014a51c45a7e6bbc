"""Groups of one running member each, and what they read and commit."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import Message, Producer, TopicPartition

from groupshift_sandbox.layout import Cluster
from measuring.live_member import LiveMember

LIVE, LIVE_PARTITIONS = "live", 3


class LiveGroup:
    """A group that begins at once. ``last``: its last acknowledged offset by partition; ``read_again``:
    records that it was given after later ones; ``set_back``: it was given the first one twice; ``dead``: its
    member ended with a fatal error; ``failures``: commits that failed, by name of the error."""

    def __init__(self, cluster: Cluster, group: str, *, native: bool) -> None:
        self.group = group
        self.last: dict[int, int] = {}
        self.failures: Counter[str] = Counter()
        self.read_again, self.set_back, self.dead = 0, False, False
        self._next: dict[int, int] = {}
        self._open: dict[int, set[int]] = {}
        self._member = LiveMember(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                **({"group.protocol": "consumer"} if native else {"session.timeout.ms": 10_000}),
            },
            LIVE,
            self,
        )

    def delivered(self, message: Message) -> None:
        """A record."""
        partition, offset = int(message.partition() or 0), int(message.offset() or 0)
        if offset < self._next.get(partition, 0):
            self.read_again += 1
            self.set_back |= offset == 0
        self._next[partition] = max(self._next.get(partition, 0), offset + 1)

    def tried(self, offsets: Sequence[TopicPartition]) -> None:
        """Not answered yet: carried out, perhaps."""
        for each in offsets:
            self._open.setdefault(each.partition, set()).add(each.offset)

    def committed(self, offsets: Sequence[TopicPartition]) -> None:
        """Acknowledged: nothing that was tried before comes later."""
        self.last |= {each.partition: each.offset for each in offsets}
        for each in offsets:
            self._open[each.partition] = set()

    def failed(self, name: str) -> None:
        """Refused."""
        self.failures[name] += 1

    def died(self, name: str) -> None:
        """The member's end."""
        self.failures[f"fatal {name}"] += 1
        self.dead = True

    def may_be(self, partition: int, found: int | None) -> bool:
        """Whether this can be its committed offset: the last acknowledged one, or one that was tried since
        and not answered."""
        return found == self.last[partition] or found in self._open[partition]

    def end(self) -> None:
        """Ask the member to leave."""
        self._member.end()

    def join(self) -> None:
        """Wait until it left."""
        self._member.join()


@contextmanager
def producing(cluster: Cluster, topic: str, partitions: int) -> Iterator[None]:
    """A hundred records a second until the end."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    stop = threading.Event()

    def run() -> None:
        number = 0
        while not stop.wait(0.01):
            with suppress(BufferError):  # brokers are away
                producer.produce(topic, b"x", partition=number % partitions)
                number += 1
            producer.poll(0)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        producer.flush(10.0)
