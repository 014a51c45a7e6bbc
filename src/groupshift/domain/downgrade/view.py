"""A cluster as a downgrade sees it: its brokers, its controllers, and its groups by every broker. Plain
data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.domain.coordinator_log.releases import Coordinator
from groupshift.domain.downgrade.levels import METADATA
from groupshift.domain.hazards.lines import line_of
from groupshift.domain.hazards.versions import Span
from groupshift.domain.protocol.broker import PROTOCOLS
from groupshift.domain.protocol.model import Kind

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
class ListedGroup:
    """One group in one broker's list. ``kind`` is unknown to brokers before 3.8."""

    group: str
    kind: Kind
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """One broker. ``supported`` are lowest and highest level of each feature, ``finalised`` the levels in
    force, ``properties`` what was configured (no defaults), ``loading`` whether it reads coordinator
    partitions now and cannot tell all its groups, ``untold`` why the configuration is not told."""

    node_id: int
    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    finalised: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, Property] = field(default_factory=dict)
    groups: tuple[ListedGroup, ...] = ()
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
        if newest >= _GENERAL or self._told(_NEW_ENABLED) == "true":
            return Coordinator.NEW
        asked = {name.strip() for name in self._told(PROTOCOLS).split(",")}
        return Coordinator.NEW if "consumer" in asked else Coordinator.OLD

    def _told(self, name: str) -> str:
        found = self.properties.get(name)
        return (found.value or "").lower() if found else ""


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
