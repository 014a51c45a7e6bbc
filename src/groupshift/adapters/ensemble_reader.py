"""Every group of a ZooKeeper ensemble and its Kafka cluster: `groupshift.ports.ensemble.EnsembleReader`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from groupshift.domain.group import LogEnd
from groupshift.domain.observation import (
    KafkaSide,
    Positions,
    ZookeeperSide,
    merge,
    partitions_of,
    topics_of_group,
)
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.scan import Observed
from groupshift.domain.scan_stability import NodeTimes
from groupshift.ports.clock import Clock


class ZookeeperReads(Protocol):
    """The ZooKeeper half."""

    @property
    def name(self) -> str:
        """Hosts and chroot."""
        ...

    def groups(self) -> tuple[str, ...]:
        """The groups ZooKeeper knows."""
        ...

    def observe(self, groups: Sequence[str]) -> tuple[tuple[ZookeeperSide, NodeTimes], ...]:
        """Each group's nodes and their times."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class KafkaReads(Protocol):
    """The Kafka half."""

    def groups(self) -> tuple[str, ...]:
        """The groups Kafka knows."""
        ...

    def observe(self, groups: Mapping[str, Sequence[str]]) -> dict[str, KafkaSide]:
        """Membership and committed offsets by group; the values are client ids known otherwise."""
        ...

    def log_ends(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, LogEnd], list[str]]:
        """Log ends, and sentences about partitions that have none now."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class LiveEnsembleReader:
    """Reads ZooKeeper first, then Kafka's offsets, then log ends, as the reader of one group does: no offset
    of a view is ahead of its log end."""

    def __init__(self, zookeeper: ZookeeperReads, kafka: KafkaReads, clock: Clock) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._clock = clock

    @property
    def name(self) -> str:
        """See the port."""
        return self._zookeeper.name

    def groups(self) -> tuple[str, ...]:
        """See the port."""
        return tuple(sorted({*self._zookeeper.groups(), *self._kafka.groups()}))

    def read(self, groups: Sequence[str]) -> tuple[Observed, ...]:
        """See the port."""
        taken_at_ms = self._clock.now_ms()
        nodes = dict(zip(groups, self._zookeeper.observe(groups), strict=True))
        kafka = self._kafka.observe({group: side.migration_ids for group, (side, _) in nodes.items()})
        wanted = {
            group: partitions_of(topics_of_group(side, kafka[group]), kafka[group].topics)
            for group, (side, _) in nodes.items()
        }
        read_by_ms = self._clock.now_ms()
        ends, missing = self._kafka.log_ends(at for partitions in wanted.values() for at in partitions)
        return tuple(
            Observed(
                view=merge(group, taken_at_ms, side, kafka[group], _positions(wanted[group], ends, missing)),
                times=times,
                read_by_ms=read_by_ms,
            )
            for group, (side, times) in nodes.items()
        )

    def close(self) -> None:
        """Close both connections."""
        self._zookeeper.close()
        self._kafka.close()


def _positions(
    partitions: Sequence[TopicPartition], ends: Mapping[TopicPartition, LogEnd], missing: Sequence[str]
) -> Positions:
    """A group's log ends; partitions without one are named."""
    unread = [at for at in partitions if at not in ends]
    said = [text for text in missing if any(f" {at} " in text for at in unread)] if unread else []
    return Positions(log_ends=tuple(ends[at] for at in partitions if at in ends), problems=tuple(said))
