"""How a run of one group meets its group, and the numbers that decide in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NewType

from groupshift.domain.canary import CanaryLimits
from groupshift.domain.modes import Isolation
from groupshift.ports.changes import ModeSwitch
from groupshift.ports.cluster import Access, GroupReader, NobodyAsks
from groupshift.ports.driver import FleetDriver


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSide:
    """Who reads the group, who replaces its members (``fleets`` opens the driver of a name, and raises
    `Rejected` for one that is not configured), and who is allowed to."""

    groups: GroupReader
    fleets: Callable[[str], FleetDriver]
    access: Access = field(default_factory=NobodyAsks)


BrokerSide = NewType("BrokerSide", GroupSide)
"""A group as Kafka's brokers alone know it."""

CanaryTerms = NewType("CanaryTerms", CanaryLimits)
"""The numbers that decide about a canary beside old members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperSide(GroupSide):
    """A group as ZooKeeper and Kafka together know it, and who writes its mode node. ``cluster_id`` tells
    the id of the Kafka cluster (empty where ZooKeeper does not tell it); it raises as the ports."""

    mode: ModeSwitch
    cluster_id: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTerms:
    """Numbers of the settings that decide, and how the group's Kafka members read. ``driver`` is the one
    that the settings name, ``patience_s`` how long a failed live rule may heal, ``settle_s`` how long an act
    may take to settle."""

    driver: str = "process"
    isolation: Isolation = Isolation.READ_COMMITTED
    patience_s: int = 20
    settle_s: int = 120
    commit_interval_ms: int = 5000
    commit_slack_records: int = 100
