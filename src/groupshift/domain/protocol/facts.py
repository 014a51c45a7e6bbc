"""What the rules of the preflight look at."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.cluster_rows import ClusterState
from groupshift.domain.protocol.clients import ClientVersion
from groupshift.domain.protocol.model import Protocol, ProtocolGroup, Way
from groupshift.domain.protocol.view import ProtocolView


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolFacts:
    """A group, where it is to go and how. ``clients`` are the versions that people named; ``state`` a live
    snapshot of the group with offsets and log ends (None: not read)."""

    view: ProtocolView
    to: Protocol
    way: Way
    clients: tuple[ClientVersion, ...] = ()
    state: ClusterState | None = None

    @property
    def group(self) -> ProtocolGroup:
        """The group."""
        return self.view.group

    @property
    def empties(self) -> bool:
        """Whether nobody is in the group for a moment: offline, and online with a single member."""
        return self.way is Way.OFFLINE or len(self.group.members) == 1
