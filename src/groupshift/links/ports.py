"""The ports of a link: both clusters, its offset syncs, proven positions, and the commits of the source.

A failed answer about one group, topic or partition is a `Failure` or a problem of that group; it hides no
other one. `Transient` is raised where nothing at all can be told.

Source: docs/reference/cross-cluster-offsets.md §§8, 8.1, 9.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import OffsetRow
from groupshift.links.sync_history import EpochEnd, PartitionPair, Sync, SyncHistory
from groupshift.links.write_rules import Failure, LogRange
from groupshift.ports.cluster import Closing, CommittedOffsets
from groupshift.ports.records import PartitionReader


class GroupPartition(NamedTuple):
    """A group and a partition of the source: what one offset belongs to."""

    group: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLogs:
    """A topic of one cluster now: its id (None where brokers tell none, before 2.8), and the log of each of
    its partitions."""

    topic_id: str | None
    logs: Mapping[int, LogRange | Failure]


class LinkSide(CommittedOffsets, Closing, Protocol):
    """One cluster of a link. Raises `Transient` when brokers do not answer within the bounded retries,
    `Rejected` when credentials are refused."""

    def cluster_id(self) -> str:
        """The cluster's id."""

    def topic_names(self) -> frozenset[str]:
        """The names of all topics."""

    def logs(self, topics: Collection[str]) -> Mapping[str, TopicLogs | Failure]:
        """These topics now; one that does not exist is missing. Log ends are high watermarks."""

    def open(
        self, partitions: Collection[TopicPartition], isolation: Isolation
    ) -> Mapping[TopicPartition, PartitionReader]:
        """As `groupshift.ports.records.PartitionLogs.open`."""


class SourceSide(LinkSide, Protocol):
    """The cluster that groups move from; nothing is changed there."""

    def groups(self) -> frozenset[str]:
        """Every group that a broker lists. A broker that does not answer hides groups, so then it raises."""


class TargetSide(LinkSide, Protocol):
    """The cluster that offsets are written to."""

    def states(self, groups: Collection[str]) -> Mapping[str, str | Failure]:
        """The state of each of these groups as its coordinator describes it; ``Dead`` or empty: it does not
        exist."""

    def commit(self, rows: Sequence[OffsetRow], *, fenced: bool = False) -> Mapping[str, str]:
        """Commit these offsets; why a group's were refused, by group, as `OffsetRestoring.commit` has it.

        A row without a leader epoch is committed with -1, metadata byte for byte, one with a topic id only to
        the topic of that id. ``fenced``: join each group as a member that reads nothing, compare its offsets
        with those before, commit with the generation and leave; who joins meanwhile has the commit refused
        (only groups of the protocol type consumer; §9 step 6)."""


class LinkSyncs(Closing, Protocol):
    """All offset syncs that were ever read, and which of them translate."""

    def read(self) -> None:
        """Take in what the offset-syncs topic has that is not archived, up to its end now."""

    def log_end(self) -> int:
        """The log end offset of the offset-syncs topic now."""

    def history(self, partition: TopicPartition) -> SyncHistory | None:
        """The syncs of the current epoch of a source partition; None if it never had one."""

    def observe(self, partition: TopicPartition, pair: PartitionPair) -> EpochEnd | None:
        """Tell the history what both sides are now, and keep it if the epoch ends."""

    def all_of(self, partition: TopicPartition) -> Sequence[Sync]:
        """Every sync of a source partition that was read, of all epochs, in the order of the topic."""


class NoSyncs:
    """Those of a link that has none."""

    def read(self) -> None:
        """There is nothing to read."""

    def log_end(self) -> int:
        """Nothing was ever written."""
        return 0

    def history(self, _partition: TopicPartition) -> SyncHistory | None:
        """There is none."""
        return None

    def observe(self, _partition: TopicPartition, _pair: PartitionPair) -> EpochEnd | None:
        """No epoch ends."""
        return None

    def all_of(self, _partition: TopicPartition) -> Sequence[Sync]:
        """There are none."""
        return ()

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TailBatch:
    """What the tail of the source's offsets topic gave: the commits in their order, each with the time of
    its record (epoch ms), and by how many ms the tail is behind the end of the topic."""

    commits: Sequence[tuple[GroupPartition, int]] = field(default_factory=tuple)
    behind_ms: int = 0


class CommitTail(Closing, Protocol):
    """Reads the source's ``__consumer_offsets`` from its end on, at read_committed."""

    def poll(self, timeout_s: float) -> TailBatch:
        """What was committed since the last call; waits so long for the first commit."""
