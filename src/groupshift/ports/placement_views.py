"""Looking at where the groups of a cluster are coordinated, and by which partition count."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from groupshift.domain.cluster import PlacementView
from groupshift.domain.commit_places import Topics


class PlacementViews(Protocol):
    """Looks at one cluster, each broker by itself, and changes nothing; asking makes no topic and no group.

    Raises `Transient` when brokers do not answer within the bounded retries, or leaders move all the time,
    `Rejected` when credentials are refused or a broker is too old."""

    def look(self) -> PlacementView:
        """The cluster now; ``owned`` is empty."""
        ...

    def owners(self, groups: Collection[str]) -> Mapping[str, tuple[int, ...]]:
        """The brokers that serve each group, as each broker itself answers for it; a group that none serves
        is there with none."""
        ...

    def answering(self, groups: Collection[str]) -> frozenset[str]:
        """Those of ``groups`` for which their coordinator has a committed offset now."""
        ...

    def topics(self, names: Collection[str]) -> Topics:
        """What the brokers tell of these topics now; one that they do not tell (no rights) is not known."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
