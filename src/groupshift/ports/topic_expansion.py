"""What an expansion changes through the brokers, and when a cluster is whole."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol


class TopicExpansion(Protocol):
    """Gives the offsets topic of one cluster more partitions.

    Raises `Transient` when brokers do not answer within the bounded retries, `Rejected` with the controller's
    words when it refuses."""

    def check(self, count: int) -> None:
        """Let the controller check that the topic may have ``count`` partitions in all; nothing is made."""
        ...

    def expand(self, count: int) -> None:
        """Create partitions until there are ``count``. Not safe to repeat: a controller refuses a count that
        is there already, so look first."""
        ...

    def lacks(self, brokers: Collection[int]) -> str:
        """Why the offsets topic is not whole, as every one of these brokers tells it: one is not registered,
        a replica on them is not in sync, a partition has no leader. Empty when it is."""
        ...

    def cluster_lacks(self, brokers: Collection[int]) -> str:
        """As `lacks`, of every topic: a broker that is stopped takes those partitions away, too."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
