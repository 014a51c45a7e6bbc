"""Whether the tool's own identities may do what a move needs."""

from __future__ import annotations

from typing import Protocol

from groupshift.domain.access import Identity
from groupshift.domain.group import GroupView


class Access(Protocol):
    """Asks both servers and changes nothing."""

    def prove(self, view: GroupView) -> tuple[Identity, ...]:
        """Each identity with what it lacks for this group: to write the mode and the claim in ZooKeeper, to
        see the group and all its topics in Kafka. Raises `Transient` when a server does not answer,
        `Rejected` when it refuses the login itself."""
        ...


class NobodyAsks:
    """`Access` where nobody logs in: a simulated group."""

    def prove(self, view: GroupView) -> tuple[Identity, ...]:
        """No identity."""
        del view
        return ()
