"""Reading all groups of a cluster at once, and keeping what was read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from groupshift.domain.evidence import ClusterManifest, PlanOf
from groupshift.domain.rows import ClusterState, Committed, OffsetRow

Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many are done, and of how many."""


class GroupSnapshots(Protocol):
    """Observes the groups of one Kafka cluster and changes nothing.

    Raises `Transient` when brokers do not answer within the bounded retries, `Rejected` when credentials
    are refused or a broker is too old."""

    def take(
        self, groups: Collection[str] | None = None, *, progress: Progress | None = None
    ) -> ClusterState:
        """These groups, or all that any broker lists, with their log ends, the topic ids of their offsets
        where coordinators tell them (since 4.1), and what brokers tell of those topics.

        Committed offsets are stable ones: while a transaction that commits offsets is open, its group is
        asked again, and one that stays open is a problem of that group. What cannot be read of one group is
        a row of ``problems``; it hides no other group."""
        ...

    def cluster_id(self) -> str:
        """The cluster's id. Raises as `take`, and `Rejected` where the addresses are of several clusters."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class CommittedOffsets(Protocol):
    """Asks coordinators what groups have committed, and for nothing else: neither which groups there are, nor
    members, nor log ends. For reading back what was just committed, batch by batch."""

    def committed(self, groups: Collection[str]) -> Committed:
        """The stable offsets of these groups. While a transaction may commit one, its group is asked again;
        where one stays open that is a problem of the group. Raises as `GroupSnapshots`."""
        ...


class ClusterGroups(GroupSnapshots, CommittedOffsets, Protocol):
    """Both, of one cluster."""


class ClusterSnapshotStore(Protocol):
    """Keeps cluster snapshots in folders (see `groupshift.domain.evidence`)."""

    def refuse(self, folder: Path) -> None:
        """Raise `Rejected` when ``folder`` cannot become a snapshot: it is there and not empty."""
        ...

    def write(self, folder: Path, state: ClusterState, plan: PlanOf | None = None) -> ClusterManifest:
        """Write every table and the manifest, which names the plan that this was taken for; the
        folder appears whole or not at all.

        Raises `Rejected` as `refuse`, `Transient` when it cannot be written (disk full)."""
        ...

    def offsets(self, folder: Path, digest: str) -> tuple[OffsetRow, ...]:
        """The offsets of a snapshot, as they were written. Raises `Broken` when the manifest is not the one
        with this SHA-256 (hex), or a file is not as that says."""
        ...
