"""A cluster as an expansion sees it: brokers, leaders, what each broker counts, transactions. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from groupshift.domain.coordinator_log.releases import Coordinator
from groupshift.domain.downgrade.view import BrokerView, ClusterView
from groupshift.domain.expansion.probing import Answers, counted
from groupshift.domain.foreign_json import decimal

COUNT = "offsets.topic.num.partitions"
RETENTION = "offsets.retention.minutes"
_DEFAULT_COUNT = 50
_DEFAULT_RETENTION = 7 * 24 * 60
_MINUTE_MS = 60_000


def configured(broker: BrokerView) -> int | None:
    """How many partitions a broker would make the offsets topic with; None where it does not tell."""
    if broker.untold:
        return None
    found = broker.properties.get(COUNT)
    return _DEFAULT_COUNT if found is None or found.value is None else _number(broker, COUNT, found.value)


def retention_ms(view: PlacementView) -> int:
    """The shortest time that a broker keeps offsets of groups without members, by its configuration."""
    told = ((broker, broker.properties.get(RETENTION)) for broker in view.cluster.brokers)
    minutes = [
        _number(broker, RETENTION, each.value) if each and each.value else _DEFAULT_RETENTION
        for broker, each in told
    ]
    return _MINUTE_MS * min(minutes, default=_DEFAULT_RETENTION)


def _number(broker: BrokerView, name: str, value: str) -> int:
    """A property that is a number. Raises `Rejected` for a broker that tells something else."""
    return decimal(value, f"{name} of broker {broker.node_id}", low=-1, high=2**31 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """``__consumer_offsets`` by its metadata: node id of the leader of each partition (-1: none), and how
    many replicas each has, with those that are not in sync."""

    leaders: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    behind: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PlacementView:
    """Everything at one moment. ``topic`` is what all brokers tell of the offsets topic, ``differing`` the
    brokers whose metadata tells another one; ``answers`` are what each broker names as coordinators;
    ``owned`` the brokers that answered for groups which two may own, by group, asked directly;
    ``open_transactions`` are transactional ids by the partition that they write, ``unstable`` the partitions
    whose last stable offset is below their log end: a transaction is open there, whoever tells of it."""

    cluster: ClusterView
    topic: TopicView
    differing: tuple[int, ...] = ()
    answers: tuple[Answers, ...] = ()
    owned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    open_transactions: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    unstable: tuple[int, ...] = ()

    @property
    def unlisted_transactions(self) -> tuple[int, ...]:
        """Partitions with an open transaction that no coordinator told of: brokers before 3.0 cannot, this
        login may not see it, or it hangs."""
        return tuple(each for each in self.unstable if each not in self.open_transactions)

    @property
    def count(self) -> int:
        """How many partitions the metadata tells."""
        return len(self.topic.leaders)

    @cached_property
    def counted(self) -> Mapping[int, tuple[int, ...]]:
        """The counts that fit what each broker answers, by node id."""
        others = {each for broker in self.cluster.brokers if (each := configured(broker))}
        return counted(self.answers, self.topic.leaders, others)

    @property
    def old(self) -> bool:
        """Whether a broker runs the OLD coordinator, whose cache knows groups by name only."""
        return any(broker.coordinator is Coordinator.OLD for broker in self.cluster.brokers)
