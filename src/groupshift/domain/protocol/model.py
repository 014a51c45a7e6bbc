"""A group as a move of the protocol sees it: its type, its epochs, and which protocol each member speaks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.cluster_rows import GONE
from groupshift.domain.partitions import TopicPartition

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
class ProtocolMember:
    """One member. ``speaks`` is None where the coordinator does not say it (brokers before 4.0, for members
    of groups of type consumer), ``epoch`` where there is none (groups of type classic).

    ``user_data`` is how many bytes a classic member's *assignment* carries for its assignor, ``unreadable``
    why its subscription or assignment cannot be read (empty: it can)."""

    member_id: str
    client_id: str
    host: str = ""
    instance_id: str | None = None
    speaks: Protocol | None
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
class ProtocolGroup:
    """One group as its coordinator describes it. ``protocol`` is the assignor: the members' choice in a
    classic group, the server's in one of type consumer. Epochs are None in a classic group."""

    group: str
    kind: Kind
    state: str = GONE
    protocol_type: str = ""
    protocol: str = ""
    epoch: int | None = None
    assignment_epoch: int | None = None
    coordinator: int | None = None
    members: tuple[ProtocolMember, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nobody is in it; where members are not read (share, streams) the state tells."""
        return not self.members and self.state in {"", GONE, EMPTY}

    def speaking(self, protocol: Protocol) -> tuple[ProtocolMember, ...]:
        """The members that are known to speak this protocol."""
        return tuple(member for member in self.members if member.speaks is protocol)

    @property
    def undeclared(self) -> tuple[ProtocolMember, ...]:
        """The members whose protocol the coordinator does not tell."""
        return tuple(member for member in self.members if member.speaks is None)
