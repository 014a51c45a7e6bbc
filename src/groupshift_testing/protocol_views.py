"""`groupshift.ports.protocol_views.ProtocolViews` that were seen before: given one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from groupshift.domain.protocol.view import ProtocolView


@dataclass(slots=True)
class MemoryProtocolViews:
    """``views`` in the order of the looks, the last one again and again; ``asked`` are the groups."""

    views: Sequence[ProtocolView]
    asked: list[str] = field(default_factory=list)
    closed: bool = False

    def look(self, group: str) -> ProtocolView:
        """See the port."""
        self.asked.append(group)
        return self.views[min(len(self.asked), len(self.views)) - 1]

    def close(self) -> None:
        """See the port."""
        self.closed = True
