"""Looking at one group and at how each broker coordinates groups, for a move of the protocol."""

from __future__ import annotations

from typing import Protocol

from groupshift.domain.group_protocol import ProtocolView


class ProtocolViews(Protocol):
    """Observes one Kafka cluster and changes nothing; every broker is asked.

    Raises `Transient` when a broker does not answer within the bounded retries (it might list the group, or
    coordinate it), `Rejected` when credentials are refused or a broker is too old."""

    def look(self, group: str) -> ProtocolView:
        """The group now; one that no broker knows is of kind absent, not an error. Absent is also one that
        its coordinator does not know while a broker lists it: its partition has moved (KIP-895)."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
