"""What one broker tells of how it coordinates groups, and what follows from it.

Verified: DescribeConfigs of 3.9.2, 4.0.2 and 4.3.1 tells the migration policy, though Kafka's documentation
does not list it; no release lets it be changed while the broker runs (error 42).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.domain.foreign_json import decimal
from groupshift.errors import Rejected

POLICY = "group.consumer.migration.policy"
PROTOCOLS = "group.coordinator.rebalance.protocols"
ASSIGNORS = "group.consumer.assignors"
CONSUMER_SIZE = "group.consumer.max.size"
CLASSIC_SIZE = "group.max.size"
SESSION = "group.consumer.session.timeout.ms"
ASSIGNMENT_INTERVAL = "group.consumer.assignment.interval.ms"
GROUP_VERSION = "group.version"

ALIKE = (POLICY, PROTOCOLS, ASSIGNORS, CONSUMER_SIZE, CLASSIC_SIZE, SESSION)
"""What must be equal on all brokers: whichever coordinates the group reads its own."""

_NO_LIMIT = 2**31 - 1
_TYPES = 5
_GENERAL = 1
_CHECKED = 6


class Policy(StrEnum):
    """``group.consumer.migration.policy``: which conversions of groups with members are allowed."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Classic to consumer."""
        return self in {Policy.UPGRADE, Policy.BIDIRECTIONAL}

    @property
    def downgrades(self) -> bool:
        """Consumer to classic."""
        return self in {Policy.DOWNGRADE, Policy.BIDIRECTIONAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """What a broker answers to ApiVersions and DescribeConfigs.

    ``heartbeats``, ``listings`` and ``descriptions`` are its newest versions of ConsumerGroupHeartbeat,
    ListGroups and DescribeGroups (-1: it has none); ``features`` are the finalised levels; ``properties``
    those of its configuration that begin with ``group.``; ``untold`` says why there are none; ``metadata``
    is the newest metadata.version that it supports (0: not told), which stands for its line of releases."""

    heartbeats: int = -1
    listings: int = -1
    descriptions: int = -1
    features: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    untold: str = ""
    metadata: int = 0

    @property
    def policy(self) -> Policy | None:
        """The migration policy; None where it is not told, or a value that no known release accepts."""
        told = self.properties.get(POLICY, "").lower()
        return Policy(told) if told in set(Policy) else None

    @property
    def protocols(self) -> frozenset[str]:
        """The rebalance protocols that are switched on; classic where nothing is told."""
        told = self.properties.get(PROTOCOLS, "classic")
        return frozenset(name.strip().lower() for name in told.split(",") if name.strip())

    @property
    def assignors(self) -> tuple[str, ...]:
        """The server's assignors by their short names, the default first."""
        told = (name.strip() for name in self.properties.get(ASSIGNORS, "").split(","))
        return tuple(_short(name) for name in told if name)

    @property
    def consumer_size(self) -> int:
        """The most members of a group of type consumer."""
        return _number(self.properties.get(CONSUMER_SIZE))

    @property
    def classic_size(self) -> int:
        """The most members of a classic group."""
        return _number(self.properties.get(CLASSIC_SIZE))

    @property
    def general(self) -> bool:
        """Whether this is 4.0 or newer, where KIP-848 is generally available and group.version counts."""
        return self.heartbeats >= _GENERAL

    @property
    def early(self) -> bool:
        """Whether this is 3.7, whose early access converts no group, not even an empty one."""
        return self.heartbeats >= 0 and self.listings < _TYPES

    @property
    def checks_user_data(self) -> bool:
        """Whether an assignor's data in an assignment stops a conversion (KAFKA-18134, from 4.0)."""
        return self.descriptions >= _CHECKED

    @property
    def refuses_classic(self) -> bool:
        """Whether policy `disabled` keeps classic members out of groups of type consumer (KAFKA-20640).

        Told by a setting that came with 4.3: seen on 4.3.1 and 4.4.0; 3.9.2, 4.0.2, 4.1.2 and 4.2.1 admit.
        Releases of one line are not told apart, so 4.3.0 (which admits) and later ones of 4.0 and 4.1 (which
        may refuse) are answered wrongly: to a move both mean that the group never converts."""
        return ASSIGNMENT_INTERVAL in self.properties

    @property
    def serves(self) -> str:
        """Why this broker does not serve native members; empty when it does."""
        if self.heartbeats < 0:
            return "it is older than 3.7 or in ZooKeeper mode, and does not know the consumer protocol"
        if "consumer" not in self.protocols:
            return f"{PROTOCOLS} is {','.join(sorted(self.protocols))}"
        if self.general and self.features.get(GROUP_VERSION, 0) < 1:
            return f"feature {GROUP_VERSION} is finalised at {self.features.get(GROUP_VERSION, 0)}"
        return ""


def _short(name: str) -> str:
    """``uniform`` of ``org.apache.kafka.coordinator.group.assignor.UniformAssignor``, as 3.9 lists it."""
    if not name.startswith("org.apache.kafka.coordinator.group.assignor."):
        return name
    return name.rpartition(".")[2].removesuffix("Assignor").lower()


def _number(told: str | None) -> int:
    """A limit as a broker tells it; what is no number limits nothing."""
    try:
        return decimal(told or "", "it")
    except Rejected:
        return _NO_LIMIT
