"""A cluster as runs see it, plain data: `ClusterView` for a downgrade, `PlacementView` for an expansion.

A `ClusterView` has brokers, controllers, and the groups by every broker; a `PlacementView` has brokers,
leaders, the partition count that each broker uses, and transactions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from groupshift.domain.foreign_json import decimal
from groupshift.domain.group_partition_and_count import Answers, counts_of
from groupshift.domain.group_protocol import PROTOCOLS, KafkaGroup
from groupshift.domain.versions import METADATA, Span, line_of
from groupshift.log.releases import Coordinator

_GENERAL = 22
"""The first metadata.version of 4.0, where the new coordinator is the default."""
_NEW_ENABLED = "group.coordinator.new.enable"


class Asked(StrEnum):
    """Of which groups the configurations could be asked for."""

    EVERY = "every"
    """The brokers list them (since 4.1)."""
    LISTED = "listed"
    """Those of groups that a broker lists: one of a group that does not exist stays hidden (4.0)."""
    NONE = "none"
    """Brokers before 4.0 have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One configured property of a broker; ``value`` None where it is not told (passwords)."""

    value: str | None
    static: bool
    """Whether it stands in the broker's file, not in the metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """One broker. ``supported`` are lowest and highest level of each feature, ``finalised`` the levels in
    force, ``properties`` what was configured (no defaults), ``groups`` what it lists (kind, protocol type and
    state; of unknown kind before 3.8), ``loading`` whether it reads coordinator partitions now and cannot
    tell all its groups, ``untold`` why the configuration is not told."""

    node_id: int
    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    finalised: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, Property] = field(default_factory=dict)
    groups: tuple[KafkaGroup, ...] = ()
    loading: bool = False
    untold: str = ""

    @property
    def line(self) -> Span | None:
        """Its line of releases, by the newest metadata.version that it supports; None where that says
        nothing."""
        return line_of(self.supported[METADATA][1]) if METADATA in self.supported else None

    @property
    def coordinator(self) -> Coordinator:
        """The group coordinator that it runs: NEW since 4.0, before where its properties ask for it."""
        newest = self.supported.get(METADATA, (0, 0))[1]
        protocols = {name.strip() for name in self.text_of(PROTOCOLS).lower().split(",")}
        asked_for = self.text_of(_NEW_ENABLED).lower() == "true" or "consumer" in protocols
        return Coordinator.NEW if newest >= _GENERAL or asked_for else Coordinator.OLD

    def text_of(self, name: str) -> str:
        """What is configured under this name; empty where nothing is, or it is not told."""
        return (self.properties[name].value or "") if name in self.properties else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumView:
    """The metadata quorum: its leader (-1: none), its voters, up to which offset its log is committed, and
    the voters whose copy ends before that."""

    leader: int
    voters: tuple[int, ...]
    high_watermark: int
    behind: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Everything at one moment. ``kraft`` says whether there is a metadata quorum; ``quorum`` None then
    means that it did not answer (``quorum_problem``). ``controller`` is the one that metadata names, -1
    for none, of use in ZooKeeper mode only. ``finalised`` are features above level 0; ``group_configs``
    those of each group; ``partitions`` how many the offsets topic has (0: it does not exist),
    ``leaderless`` those without a leader."""

    cluster_id: str
    taken_at_ms: int
    brokers: tuple[BrokerView, ...]
    kraft: bool = True
    quorum: QuorumView | None = None
    quorum_problem: str = ""
    controller: int = -1
    finalised: Mapping[str, int] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    configs_asked: Asked = Asked.NONE
    configs_problem: str = ""
    partitions: int = 0
    leaderless: tuple[int, ...] = ()


COUNT = "offsets.topic.num.partitions"
RETENTION = "offsets.retention.minutes"
_DEFAULT_COUNT = 50
_DEFAULT_RETENTION = 7 * 24 * 60


def configured(broker: BrokerView) -> int | None:
    """How many partitions a broker would make the offsets topic with; None where it does not tell."""
    return None if broker.untold else _number(broker, COUNT, _DEFAULT_COUNT)


def retention_ms(view: PlacementView) -> int:
    """The shortest time that a broker keeps offsets of groups without members, by its configuration."""
    minutes = [_number(broker, RETENTION, _DEFAULT_RETENTION) for broker in view.cluster.brokers]
    return 60_000 * min(minutes, default=_DEFAULT_RETENTION)


def _number(broker: BrokerView, name: str, default: int) -> int:
    """A property that is a number. Raises `Rejected` for a broker that tells something else."""
    setting = broker.properties.get(name)
    if setting is None or setting.value is None:
        return default
    return decimal(setting.value, f"{name} of broker {broker.node_id}", low=-1, high=2**31 - 1)


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
        return {each.node_id: counts_of(each, self.topic.leaders, others) for each in self.answers}

    @property
    def old(self) -> bool:
        """Whether a broker runs the OLD coordinator, whose cache knows groups by name only."""
        return any(broker.coordinator is Coordinator.OLD for broker in self.cluster.brokers)
