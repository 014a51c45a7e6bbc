"""A group and the brokers of its cluster at one moment: all that rules about a move of the protocol read.

The group has its type, its epochs, and the protocol of each member; a broker has the settings by which it
coordinates groups, and what follows from them.

Verified: DescribeConfigs of 3.9.2, 4.0.2 and 4.3.1 returns the migration policy, though Kafka's documentation
does not list it; no release lets it be changed while the broker runs (error 42).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.domain.foreign_json import decimal
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.rows import GONE
from groupshift.errors import Rejected

AWAY = -2
"""The member epoch of a static member that closed and may come back (KIP-848)."""
CONSUMERS = "consumer"
"""The protocol type of consumers; Connect, schema registries and others have their own."""


EMPTY = "Empty"
"""The state of a group without members, whatever its type."""


class Protocol(StrEnum):
    """The rebalance protocols; both are names of a group's type too (ListGroups v5)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"

    @property
    def other(self) -> Protocol:
        """The one that a move to this one leaves."""
        return Protocol.CONSUMER if self is Protocol.CLASSIC else Protocol.CLASSIC


class Way(StrEnum):
    """How members change: one after the other, or all of them while the group is empty."""

    ONLINE = "online"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a move of the protocol leads to, and how members change on the way."""

    to: Protocol
    way: Way = Way.ONLINE


class Kind(StrEnum):
    """What a group is to its coordinator. ``absent`` has neither members nor a record (or offsets only, which
    a coordinator treats alike); ``unknown`` a type that this version of groupshift does not know."""

    ABSENT = "absent"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaMember:
    """One member of the group at its coordinator. ``speaks`` is None where that does not say it (brokers
    before 4.0, for members of groups of type consumer), ``epoch`` where there is none (type classic).

    ``user_data`` is how many bytes a classic member's *assignment* carries for its assignor, ``unreadable``
    why its subscription or assignment cannot be read (empty: it can)."""

    member_id: str
    client_id: str
    host: str = ""
    instance_id: str | None = None
    speaks: Protocol | None = None
    epoch: int | None = None
    topics: tuple[str, ...] = ()
    assigned: frozenset[TopicPartition] = frozenset()
    user_data: int = 0
    unreadable: str = ""

    @property
    def name(self) -> str:
        """What people recognise: the instance id, else the client id; with the member id where it helps."""
        return self.instance_id or self.client_id or self.member_id


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaGroup:
    """One group as its coordinator describes it: ``state`` as the broker names it (``Stable``, ``Empty``,
    ``Dead``, …), ``protocol`` the assignor: the members' choice in a classic group, the server's in one of
    type consumer. Epochs are None in a classic group."""

    group: str = ""
    kind: Kind = Kind.CLASSIC
    state: str = GONE
    protocol_type: str = ""
    protocol: str = ""
    epoch: int | None = None
    assignment_epoch: int | None = None
    coordinator: int | None = None
    members: tuple[KafkaMember, ...] = ()

    @property
    def clients(self) -> frozenset[str]:
        """The client ids of its members."""
        return frozenset(member.client_id for member in self.members)

    @property
    def empty(self) -> bool:
        """Whether nobody is in it; where members are not read (share, streams) the state tells."""
        return not self.members and self.state in {"", GONE, EMPTY}

    @property
    def untold(self) -> bool:
        """Whether it has members that its coordinator does not describe, as where the feature of its type is
        off: such a group is listed as it was."""
        return self.kind is Kind.CONSUMER and not self.members and not self.empty

    def speaking(self, protocol: Protocol) -> tuple[KafkaMember, ...]:
        """The members that are known to speak this protocol."""
        return tuple(member for member in self.members if member.speaks is protocol)

    @property
    def undeclared(self) -> tuple[KafkaMember, ...]:
        """The members whose protocol the coordinator does not tell."""
        return tuple(member for member in self.members if member.speaks is None)


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

_PACKAGE = "org.apache.kafka.coordinator.group.assignor."
"""3.9 lists ``uniform`` as ``…UniformAssignor``."""
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


UPGRADING = frozenset({Policy.UPGRADE, Policy.BIDIRECTIONAL})
"""The policies that let a classic group become one of type consumer."""
DOWNGRADING = frozenset({Policy.DOWNGRADE, Policy.BIDIRECTIONAL})
"""Those that let one of type consumer become classic."""


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
        value = self.properties.get(POLICY, "").lower()
        return Policy(value) if value in set(Policy) else None

    @property
    def protocols(self) -> frozenset[str]:
        """The rebalance protocols that are switched on; classic where nothing is told."""
        value = self.properties.get(PROTOCOLS, "classic")
        return frozenset(name.strip().lower() for name in value.split(",") if name.strip())

    @property
    def assignors(self) -> tuple[str, ...]:
        """The server's assignors by their short names, the default first."""
        entries = (name.strip() for name in self.properties.get(ASSIGNORS, "").split(","))
        return tuple(
            name.removeprefix(_PACKAGE).removesuffix("Assignor").lower() if _PACKAGE in name else name
            for name in entries
            if name
        )

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


def _number(text: str | None) -> int:
    """A limit as a broker tells it; what is no number limits nothing."""
    try:
        return decimal(text or "", "it")
    except Rejected:
        return _NO_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLook:
    """What one broker says: ``lists`` the group's type in its list (None: it does not list it; `Kind.UNKNOWN`
    where brokers before 3.8 tell no type), ``coordinator`` whom it names (node id), ``loading`` whether it is
    reading coordinator partitions now and cannot tell all its groups."""

    node_id: int
    settings: BrokerSettings
    lists: Kind | None = None
    state: str = ""
    coordinator: int | None = None
    loading: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolView:
    """``group`` as its coordinator describes it at ``taken_at_ms`` (epoch); ``brokers`` all of them, by node
    id."""

    cluster_id: str
    taken_at_ms: int
    group: KafkaGroup
    brokers: tuple[BrokerLook, ...]

    @property
    def settings(self) -> BrokerSettings:
        """Those of the coordinator; without one, of the first broker (brokers are to be alike)."""
        coordinator_first = sorted(self.brokers, key=lambda each: each.node_id != self.group.coordinator)
        return coordinator_first[0].settings if self.brokers else BrokerSettings()

    @property
    def coordinators(self) -> dict[int, list[int]]:
        """Node ids of brokers by the coordinator that they name; those that name none are absent."""
        named = ((each.coordinator, each.node_id) for each in self.brokers)
        return grouped((node, by) for node, by in named if node is not None)
