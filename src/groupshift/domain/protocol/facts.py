"""What the rules of the preflight look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupshift.domain.group_protocol import KafkaGroup, Protocol, ProtocolView, Way
from groupshift.domain.hazards import Met, Role
from groupshift.domain.rows import ClusterState


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolFacts:
    """A group, where it is to go and how. ``versions`` are those that people named, by role; ``state`` is a
    live snapshot of the group with offsets and log ends (None: not read)."""

    view: ProtocolView
    to: Protocol
    way: Way
    versions: Mapping[Role, tuple[Met, ...]] = field(default_factory=dict)
    state: ClusterState | None = None

    @property
    def group(self) -> KafkaGroup:
        """The group."""
        return self.view.group

    @property
    def empties(self) -> bool:
        """Whether nobody is in the group for a moment: offline, and online with a single member."""
        return self.way is Way.OFFLINE or len(self.group.members) == 1
