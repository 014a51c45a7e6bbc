"""Reads of groups and clusters: views, snapshots, rights, and counts of each broker.

* `GroupReader`: one immutable view of a group from ZooKeeper and Kafka together.
* `GroupSnapshots` and the classes after it: all groups of a cluster at once, and a store for them.
* `ProtocolViews`: one group and how each broker coordinates groups, for a move of its protocol.
* `DowngradeViews`: the whole cluster before its brokers go to an older release.
* `PlacementViews`: where the groups of a cluster are coordinated, and by which partition count.
* `Access`: whether the tool's own identities may do what a plan needs. `findings` says before a plan is made
  what an identity lacks at a server.
* `CoordinatorGauges`: how many groups each broker counts, by its metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from groupshift.domain.commit_places import Topics
from groupshift.domain.evidence import Manifest, PlanOf
from groupshift.domain.facts import sentence_list
from groupshift.domain.group import GroupView
from groupshift.domain.group_gauges import GaugedBroker
from groupshift.domain.group_protocol import ProtocolView
from groupshift.domain.rows import ClusterState, Committed, OffsetRow
from groupshift.domain.verdict import Finding, Verdict

if TYPE_CHECKING:  # what views of clusters are made of reads tables, and members of groups import this
    from groupshift.domain.cluster import ClusterView, PlacementView


class Closing(Protocol):
    """Has connections."""

    def close(self) -> None:
        """Close the connections."""


class GroupReader(Protocol):
    """Observes groups and never changes anything.

    Raises `Transient` when ZooKeeper or Kafka does not answer within the bounded retries (the
    sentence names which and at what address), `Rejected` when credentials are refused. A node that
    cannot be parsed is an entry of `GroupView.problems`, not an error.
    """

    def read(self, group: str) -> GroupView:
        """The group now. ``ids`` and ``migration/ids`` come from one consistent view (D5): sync,
        list both, re-check the first's pzxid, repeat until unchanged."""


Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many are done, and of how many."""


class GroupSnapshots(Closing, Protocol):
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

    def cluster_id(self) -> str:
        """The cluster's id. Raises as `take`, and `Rejected` where the addresses are of several clusters."""


class CommittedOffsets(Protocol):
    """Asks coordinators what groups have committed, and for nothing else: neither which groups there are, nor
    members, nor log ends. For reading back what was just committed, batch by batch."""

    def committed(self, groups: Collection[str]) -> Committed:
        """The stable offsets of these groups. While a transaction may commit one, its group is asked again;
        where one stays open that is a problem of the group. Raises as `GroupSnapshots`."""


class ClusterGroups(GroupSnapshots, CommittedOffsets, Protocol):
    """Both, of one cluster."""


class ClusterSnapshotStore(Protocol):
    """Keeps cluster snapshots in folders (see `groupshift.domain.evidence`)."""

    def refuse(self, folder: Path) -> None:
        """Raise `Rejected` when ``folder`` cannot become a snapshot: it is there and not empty."""

    def write(self, folder: Path, state: ClusterState, plan: PlanOf | None = None) -> Manifest:
        """Write every table and the manifest, which names the plan that this was taken for; the
        folder appears whole or not at all.

        Raises `Rejected` as `refuse`, `Transient` when it cannot be written (disk full)."""

    def digest(self, folder: Path) -> str:
        """Return the SHA-256 (hex) of a snapshot's manifest as it is now. Raises `Broken` where none can be
        read."""

    def offsets(self, folder: Path, digest: str) -> tuple[OffsetRow, ...]:
        """The offsets of a snapshot, as they were written. Raises `Broken` when the manifest is not the one
        with this SHA-256 (hex), or a file is not as that says."""


class ProtocolViews(Closing, Protocol):
    """Observes one Kafka cluster and changes nothing; every broker is asked.

    Raises `Transient` when a broker does not answer within the bounded retries (it might list the group, or
    coordinate it), `Rejected` when credentials are refused or a broker is too old."""

    def look(self, group: str) -> ProtocolView:
        """The group now; one that no broker knows is of kind absent, not an error. Absent is also one that
        its coordinator does not know while a broker lists it: its partition has moved (KIP-895)."""


class DowngradeViews(Closing, Protocol):
    """Observes brokers, controllers, features, configurations and groups of one cluster; changes nothing.

    Raises `Transient` when a broker does not answer within the bounded retries (its groups would be
    missing), `Rejected` when credentials are refused or a broker is too old. A controller that does not
    answer is a part of the view."""

    def look(self) -> ClusterView:
        """The cluster now."""


class PlacementViews(Closing, Protocol):
    """Looks at one cluster, each broker by itself, and changes nothing; asking makes no topic and no group.

    Raises `Transient` when brokers do not answer within the bounded retries, or leaders move all the time,
    `Rejected` when credentials are refused or a broker is too old."""

    def look(self) -> PlacementView:
        """The cluster now; ``owned`` is empty."""

    def owners(self, groups: Collection[str]) -> Mapping[str, tuple[int, ...]]:
        """The brokers that serve each group, as each broker itself answers for it; a group that none serves
        is there with none."""

    def answering(self, groups: Collection[str]) -> frozenset[str]:
        """Those of ``groups`` for which their coordinator has a committed offset now."""

    def topics(self, names: Collection[str]) -> Topics:
        """What the brokers tell of these topics now; one that they do not tell (no rights) is not known."""


class Server(StrEnum):
    """Where somebody logs in."""

    ZOOKEEPER = "ZooKeeper"
    KAFKA = "Kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One identity as its server takes it. ``who`` names it for people (``user 'operator'``), ``missing`` are
    operations with their resource that the server refuses (``write /consumers/g/migration/mode``)."""

    server: Server
    who: str
    missing: tuple[str, ...] = ()

    @property
    def finding(self) -> Finding:
        """I01 for ZooKeeper, I02 for Kafka: passed when nothing is missing."""
        number = "I01" if self.server is Server.ZOOKEEPER else "I02"
        if not self.missing:
            said = f"{self.who} may do at {self.server} what the move needs"
            return Finding(rule=number, verdict=Verdict.PASS, reason=said)
        return Finding(
            rule=number,
            verdict=Verdict.FAIL,
            reason=f"{self.who} may not {sentence_list(list(self.missing))} at {self.server}",
            hint="grant it to this user or log in as another one (docs/safety/rights.md lists the rights)",
        )


def findings(identities: Sequence[Identity]) -> tuple[Finding, ...]:
    """One of each, in order."""
    return tuple(each.finding for each in identities)


class Access(Protocol):
    """Asks both servers and changes nothing."""

    def prove(self, view: GroupView) -> tuple[Identity, ...]:
        """Each identity with what it lacks for this group: to write the mode and the claim in ZooKeeper, to
        see the group and all its topics in Kafka. Raises `Transient` when a server does not answer,
        `Rejected` when it refuses the login itself."""


class NobodyAsks:
    """`Access` where nobody logs in: a simulated group."""

    def prove(self, view: GroupView) -> tuple[Identity, ...]:  # noqa: ARG002 - the port's signature
        """No identity."""
        return ()


class CoordinatorGauges(Protocol):
    """Reads the metrics of a broker's group coordinator where it publishes them."""

    def read(self, address: str) -> GaugedBroker:
        """Of the broker whose metrics are at ``address`` (host:port).

        Raises `Rejected` for an address that is none, or of no broker, and without what it needs to read
        them; `Transient` when nobody answers there in time."""
