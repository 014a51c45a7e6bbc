"""What a downgrade changes in a cluster through its brokers, and when a cluster is whole again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol


class ClusterActs(Protocol):
    """Changes one cluster. Every method is safe to repeat.

    Raises `Transient` when brokers do not answer within the bounded retries, `Rejected` with the broker's
    words when it refuses."""

    def convert_empty(self, group: str) -> None:
        """Let a classic member join and leave an empty group, without committing: it becomes classic."""
        ...

    def topic_configs(self) -> Mapping[str, str]:
        """What is set for the offsets topic itself."""
        ...

    def configure_topic(self, values: Mapping[str, str | None]) -> None:
        """Set configurations of the offsets topic; None takes one back to the broker's default."""
        ...

    def churn(self) -> None:
        """Commit once to every partition of the offsets topic, by groups of groupshift's own: a segment is
        only rolled when something is appended."""
        ...

    def remove_churn(self) -> None:
        """Delete the groups that `churn` made."""
        ...

    def churning(self) -> Collection[str]:
        """Those of `churn`'s groups that a broker lists."""
        ...

    def configure_group(self, group: str, values: Mapping[str, str | None]) -> None:
        """Set configurations of a group; None deletes one."""
        ...

    def lower_feature(self, feature: str, level: int) -> None:
        """A safe downgrade of a finalised feature (0: not finalised any more)."""
        ...

    def raise_feature(self, feature: str, level: int) -> None:
        """An upgrade of a feature."""
        ...

    def lacks(self, brokers: Collection[int]) -> str:
        """Why the cluster is not whole: one of these brokers is not registered, a replica on them is not
        in sync, a partition has no leader. Empty when it is."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
