"""A group and the brokers of its cluster at one moment: everything that rules about a protocol move read."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.protocol.broker import BrokerSettings
from groupshift.domain.protocol.model import Kind, ProtocolGroup


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
    group: ProtocolGroup
    brokers: tuple[BrokerLook, ...]

    @property
    def settings(self) -> BrokerSettings:
        """Those of the coordinator; without one, of the first broker (brokers are to be alike)."""
        for broker in self.brokers:
            if broker.node_id == self.group.coordinator:
                return broker.settings
        return self.brokers[0].settings if self.brokers else BrokerSettings()

    @property
    def coordinators(self) -> dict[int, list[int]]:
        """Node ids of brokers by the coordinator that they name; those that name none are absent."""
        named: dict[int, list[int]] = {}
        for broker in self.brokers:
            if broker.coordinator is not None:
                named.setdefault(broker.coordinator, []).append(broker.node_id)
        return named
