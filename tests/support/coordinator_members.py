"""Real consumers of one group that are polled in turn, and what the coordinator wrote of their group."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.log import Decoded, decode
from groupshift.spark.broker_source import Brokers
from groupshift.spark.copied_log import DirectLog
from groupshift_sandbox.processes import wait_until
from support.protocol_story import PATIENCE_S

NATIVE = {"group.protocol": "consumer"}
CLASSIC = {"partition.assignment.strategy": "range"}


class Members:
    """Consumers by name; none of them commits by itself."""

    def __init__(self, bootstrap: str, group: str, topic: str, partitions: int) -> None:
        self.bootstrap, self.group, self._topic, self._partitions = bootstrap, group, topic, partitions
        self._members: dict[str, Consumer] = {}

    def join(self, name: str, how: dict[str, Any]) -> None:
        """A member comes; wait until every partition has exactly one owner."""
        usual = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "enable.auto.commit": False}
        self._members[name] = Consumer(usual | how)
        self._members[name].subscribe([self._topic])
        self.await_shared()

    def leave(self, name: str) -> None:
        """A member is closed; wait until the others, if any, have its partitions."""
        self._members.pop(name).close()
        if self._members:
            self.await_shared()

    def await_shared(self) -> None:
        """Every member has some, and together they have each partition once."""

        def shared() -> bool:
            held = [self._held(member) for member in self._members.values()]
            flat = sorted(partition for partitions in held for partition in partitions)
            return all(held) and flat == list(range(self._partitions))

        wait_until(shared, PATIENCE_S, f"each partition has one of {len(self._members)} owners")

    def commit(self, offset: int) -> None:
        """Each member commits this offset, and its partition's number, for what it has."""
        for member in self._members.values():
            wanted = [
                KafkaPartition(each.topic, each.partition, offset + each.partition)
                for each in member.assignment()
            ]
            member.commit(offsets=wanted, asynchronous=False)

    def committed(self) -> list[int]:
        """Offsets by partition, asked without joining."""
        usual = {"bootstrap.servers": self.bootstrap, "group.id": self.group}
        with closing(Consumer(usual)) as asking:
            places = [KafkaPartition(self._topic, number) for number in range(self._partitions)]
            return [int(each.offset) for each in asking.committed(places, timeout=PATIENCE_S)]

    def close(self) -> None:
        """Whoever is left leaves."""
        while self._members:
            self._members.popitem()[1].close()

    def _held(self, member: Consumer) -> Sequence[int]:
        member.poll(0.05)
        return [each.partition for each in member.assignment()]


def records_of(bootstrap: str, group: str) -> list[Decoded]:
    """Everything that the log holds of a group, in its order."""
    log = DirectLog(Brokers(bootstrap_servers=bootstrap, timeout_s=PATIENCE_S))
    end = log.position()
    home = partition_of(group, len(end))
    found = (decode(record, partitions=len(end)) for record in log.read(end, [home]))
    return [each for each in found if each.group_id == group]


def generations(records: Sequence[Decoded]) -> list[int]:
    """Of the classic group's records, in their order."""
    return [each.decoded["generation"] for each in records if each.record_type == 2 and each.decoded]


def epochs(records: Sequence[Decoded]) -> list[int]:
    """Of the consumer group's records, in their order."""
    return [each.decoded["epoch"] for each in records if each.record_type == 3 and each.decoded]
