"""Changes that runs make at the brokers and to the mode node, and when a cluster is whole again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from groupshift.domain.modes import Holder, Mode, ModeNode
from groupshift.domain.rows import OffsetRow
from groupshift.ports.cluster import Closing


class ClusterActs(Closing, Protocol):
    """Changes one cluster. Every method is safe to repeat.

    Raises `Transient` when brokers do not answer within the bounded retries, `Rejected` with the broker's
    words when it refuses."""

    def convert_empty(self, group: str) -> None:
        """Let a classic member join and leave an empty group, without committing: it becomes classic."""

    def topic_configs(self) -> Mapping[str, str]:
        """What is set for the offsets topic itself."""

    def configure_topic(self, values: Mapping[str, str | None]) -> None:
        """Set configurations of the offsets topic; None takes one back to the broker's default."""

    def force_compaction(self) -> None:
        """Commit once to every partition of the offsets topic, by groups of groupshift's own: a segment is
        only rolled when something is appended."""

    def remove_churn(self) -> None:
        """Delete the groups that `force_compaction` made."""

    def churning(self) -> Collection[str]:
        """Those of `force_compaction`'s groups that a broker lists."""

    def configure_group(self, group: str, values: Mapping[str, str | None]) -> None:
        """Set configurations of a group; None deletes one."""

    def lower_feature(self, feature: str, level: int) -> None:
        """A safe downgrade of a finalised feature (0: not finalised any more)."""

    def raise_feature(self, feature: str, level: int) -> None:
        """An upgrade of a feature."""

    def lacks(self, brokers: Collection[int]) -> str:
        """Why the cluster is not whole: one of these brokers is not registered, a replica on them is not
        in sync, a partition has no leader. Empty when it is."""


class TopicExpansion(Closing, Protocol):
    """Gives the offsets topic of one cluster more partitions.

    Raises `Transient` when brokers do not answer within the bounded retries, `Rejected` with the controller's
    words when it refuses."""

    def check(self, count: int) -> None:
        """Let the controller check that the topic may have ``count`` partitions in all; nothing is made."""

    def expand(self, count: int) -> None:
        """Create partitions until there are ``count``. Not safe to repeat: a controller refuses a count that
        is there already, so look first."""

    def lacks(self, brokers: Collection[int]) -> str:
        """Why the offsets topic is not whole, as every one of these brokers tells it: one is not registered,
        a replica on them is not in sync, a partition has no leader. Empty when it is."""

    def cluster_lacks(self, brokers: Collection[int]) -> str:
        """As `lacks`, of every topic: a broker that is stopped takes those partitions away, too."""


class Refusals(dict[str, str]):
    """Why offsets were refused, by group; ``rows`` has only those that were."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[tuple[str, str, int], str] = {}

    def add(self, row: OffsetRow, why: str) -> None:
        """One offset was refused."""
        self.rows[row.group, row.topic, row.partition] = why
        self.setdefault(row.group, why)


def refusal_of(refused: Mapping[str, str], row: OffsetRow) -> str:
    """Why this offset was refused; empty where it was not, and the group's word where no more is told."""
    if isinstance(refused, Refusals):
        return refused.rows.get((row.group, row.topic, row.partition), "")
    return refused.get(row.group, "")


def unheld() -> None:
    """Nobody can take the place of who deletes."""


class OffsetRestoring(Closing, Protocol):
    """Changes offsets of groups that have no members, by their coordinators; safe to repeat.

    Raises `Transient` when brokers do not answer within the bounded retries, `Rejected` when credentials are
    refused or a broker is too old. What a coordinator refuses of one group hides no other group."""

    def commit(self, rows: Iterable[OffsetRow]) -> Mapping[str, str]:
        """Commit these offsets exactly: leader epoch and metadata as they are; one with a topic id only to
        the topic of that id, where the broker can tell (since 4.1), one of a former topic never. Why a
        group's were refused, by group; of such a group some partitions may be committed (`refusal_of`). The
        time of a commit is now, and an expiry
        of its own is lost (docs/reference/group-coordinator.md §3.4 step 10)."""

    def delete(self, groups: Collection[str], hold: Callable[[], None] = unheld) -> Mapping[str, str]:
        """Delete these groups with their offsets; one that is not there is no error. Why a group was not
        deleted, by group (it has members). ``hold`` is called before each request that deletes, and may
        raise: then nothing more is deleted."""


class ModeSwitch(Protocol):
    """Compare-and-set of ``/consumers/<g>/migration/mode`` (F7); every write is read back.

    All writing methods raise `Conflict` when the node is no longer ``expected`` and `Transient` when
    ZooKeeper does not answer. An unchanged value is never written (N7): asking for the mode that
    ``expected`` already holds returns ``expected``. With a ``holder`` they also raise `Conflict` unless
    that is the one of the last `take`, checked in the same transaction as the write: a run that was
    fenced and is woken late changes nothing.
    """

    def read(self, group: str) -> ModeNode:
        """The node now, after a ``sync``."""

    def take(self, group: str, holder: Holder) -> None:
        """Remember ``holder`` as the one that may write. Raises `Conflict` when a later claim of the
        same run is remembered."""

    def compare_and_set(
        self, group: str, expected: ModeNode, to: Mode, *, holder: Holder | None = None
    ) -> ModeNode:
        """Write ``to`` if the node is still ``expected``; returns the node as read back."""

    def delete(self, group: str, expected: ModeNode, *, holder: Holder | None = None) -> None:
        """Delete the node if it is still ``expected``; an absent node is what was asked for, so it is
        fine (a call that is repeated after a crash finds its work done)."""
