"""All groups of a cluster by type, as every broker lists them and as the log has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from groupshift.domain.cluster import ClusterView, ListedGroup
from groupshift.domain.group_protocol import CONSUMERS, EMPTY, Kind
from groupshift.log.state import GroupFamily

_KINDS = {
    GroupFamily.CLASSIC: Kind.CLASSIC,
    GroupFamily.SIMPLE: Kind.CLASSIC,
    GroupFamily.CONSUMER: Kind.CONSUMER,
    GroupFamily.SHARE: Kind.SHARE,
    GroupFamily.STREAMS: Kind.STREAMS,
}
_GONE = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedGroup:
    """A group as the log has it: its family, and the protocol type of a classic one."""

    group: str
    family: GroupFamily
    protocol_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryGroup:
    """One group: what each broker that lists it says, and what the log says (None: it was not read, or has
    nothing of it)."""

    group: str
    listed: Mapping[int, ListedGroup]
    logged: LoggedGroup | None

    @property
    def kinds(self) -> frozenset[Kind]:
        """Every type that it is said to be of; more than one where sources differ."""
        told: set[Kind] = {each.kind for each in self.listed.values() if each.kind is not Kind.UNKNOWN}
        if self.logged is not None and self.logged.family in _KINDS:
            told.add(_KINDS[self.logged.family])
        return frozenset(told)

    @property
    def dual(self) -> bool:
        """Whether it is of two types, or in two places at once."""
        twice = self.logged is not None and self.logged.family is GroupFamily.ANOMALY
        return twice or len(self.kinds) > 1 or len(self.listed) > 1

    @property
    def empty(self) -> bool:
        """Whether no broker knows a member of it."""
        return all(each.state in {EMPTY, _GONE} for each in self.listed.values())

    @property
    def state(self) -> str:
        """As listed; empty where only the log has it."""
        return next((each.state for each in self.listed.values()), "")

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``, …; empty for offsets only."""
        told = next((each.protocol_type for each in self.listed.values()), "")
        return told or (self.logged.protocol_type if self.logged else "")

    @property
    def foreign(self) -> bool:
        """Whether it is a classic group of something else than consumers, such as Connect's workers."""
        return self.kinds <= {Kind.CLASSIC} and self.protocol_type not in {"", CONSUMERS}


Inventory = tuple[InventoryGroup, ...]
"""By name."""


def inventory(view: ClusterView, logged: Mapping[str, LoggedGroup] | None) -> Inventory:
    """Every group that a broker lists or the log has (``logged`` None: it was not read)."""
    listed: dict[str, dict[int, ListedGroup]] = defaultdict(dict)
    for broker in view.brokers:
        for each in broker.groups:
            listed[each.group][broker.node_id] = each
    names = {*listed, *(logged or {})}
    return tuple(
        InventoryGroup(group=name, listed=dict(listed.get(name, {})), logged=(logged or {}).get(name))
        for name in sorted(names)
    )


def of_kind(groups: Inventory, kind: Kind) -> tuple[InventoryGroup, ...]:
    """Those that some source says to be of this type."""
    return tuple(each for each in groups if kind in each.kinds)
