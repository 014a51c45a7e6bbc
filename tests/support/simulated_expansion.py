"""Every port of an expansion's run over simulated brokers that lose what real ones lost, and faults between
two acts."""

# ruff: noqa: ARG002 - the ports ask for more than this needs

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from groupshift.domain.cluster import COUNT, PlacementView, Property
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.evidence import Manifest
from groupshift.domain.group_protocol import KafkaGroup, Kind
from groupshift.domain.rows import (
    INCOMPLETE,
    LISTED_TOO,
    ClusterState,
    Committed,
    GroupRow,
    OffsetRow,
    ProblemRow,
)
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected, Transient
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.logged_offsets import held
from groupshift.moves.expansion.move import ExpansionMove
from groupshift.moves.expansion.ports import ExpansionPorts
from groupshift.moves.expansion.restore import agreement
from groupshift.ports.changes import unheld
from groupshift.ports.driver import ForPerson, NodeState, NodeStatus, Replacement, Started
from groupshift.ports.evidence import EvidenceFolder
from groupshift.ports.spark_jobs import Compared
from groupshift_testing.offset_brokers import OffsetBrokers
from support.driven_moves import Comparisons, Driver
from support.simulated_downgrade import Hashes
from support.simulated_downgrade import World as DowngradeWorld
from support.simulated_placement import Placed

_FORMER = {COUNT: Property(value="5", static=True)}
GROUPS = tuple(f"g{number}" for number in range(24))


@dataclass(slots=True, kw_only=True)
class Expansible(Placed):
    """``members`` are groups that have some; ``answers_lost`` is asked after each act whether its answer is
    lost; ``dies`` are nodes that do not come up the next time; ``lies`` those that say they were restarted
    and were not, ``unset`` those whose files nobody changes (5); a driver that does not know (``knows``
    False) only instructs; ``refuses`` are the words of a controller that makes no partitions; ``sick`` says
    what another topic lacks; ``uncommitted`` are groups whose commits are refused, and why; ``silent`` are
    groups whose coordinators do not answer."""

    members: set[str] = field(default_factory=set)
    answers_lost: Callable[[], bool] = lambda: False
    dies: set[int] = field(default_factory=set)
    lies: set[int] = field(default_factory=set)
    unset: set[int] = field(default_factory=set)
    knows: bool = True
    refuses: str = ""
    sick: str = ""
    uncommitted: dict[str, str] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    changes: dict[int, str] = field(default_factory=dict)
    properties: dict[int, Mapping[str, str]] = field(default_factory=dict)
    snapshots: dict[str, ClusterState] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    skips: set[str] = field(default_factory=set)

    def changed(self, what: str) -> None:
        """An act was done; its answer may be lost."""
        self.asked.append(what)
        if self.answers_lost():
            raise Transient(f"no answer to {what}")

    def look(self) -> PlacementView:
        """See the port."""
        if not self.running():
            raise Transient("no broker answers")
        found = Placed.look(self)
        brokers = tuple(
            replace(
                each,
                groups=tuple(_stable(one) if one.group in self.members else one for one in each.groups),
                properties=_FORMER if each.node_id in self.unset else each.properties,
            )
            for each in found.cluster.brokers
        )
        return replace(found, cluster=replace(found.cluster, brokers=brokers))

    # TopicExpansion
    def check(self, count: int) -> None:
        """See the port."""
        if self.refuses:
            raise Rejected(self.refuses)

    def expand(self, count: int) -> None:
        """See the port."""
        self.check(count)
        if "create" not in self.skips:
            self.world.expand(count)
        self.changed("create")

    def lacks(self, brokers: Collection[int]) -> str:
        """See the port."""
        gone = sorted(set(brokers) - set(self.running()))
        return f"broker {gone[0]} is not registered" if gone else ""

    def cluster_lacks(self, brokers: Collection[int]) -> str:
        """See the port."""
        return self.lacks(brokers) or self.sick

    # OffsetRestoring
    def commit(self, rows: Iterable[OffsetRow]) -> Mapping[str, str]:
        """See the port: members refuse it."""
        rows = list(rows)
        why = dict.fromkeys(self.members, "UNKNOWN_MEMBER_ID (25)") | self.uncommitted
        free = [row for row in rows if row.group not in why]
        refused = {
            row.group: f"offsets of group {row.group!r} are not committed: {why[row.group]}"
            for row in rows
            if row.group in why
        }
        if "restore" not in self.skips:
            refused |= Placed.commit(self, free)
        self.changed("commit")
        return refused

    def delete(self, groups: Collection[str], hold: Callable[[], None] = unheld) -> Mapping[str, str]:
        """See the port."""
        if "delete" not in self.skips:
            Placed.delete(self, groups, hold)
        self.changed("delete")
        return {}

    # BrokerReplacement
    def start(self, replacement: Replacement) -> Started | ForPerson:
        """See the port."""
        node = replacement.node_id
        if not self.knows:
            self.asked.append(f"instruct {node}")
            return ForPerson(change_id=replacement.change_id, instruction=f"restart broker {node}")
        down = not self.world.brokers[node].running
        if down or self.changes.get(node) != replacement.change_id:
            self.changes[node], self.properties[node] = replacement.change_id, replacement.properties
            if node in self.lies:
                self.lies.discard(node)
            else:
                self.world.stop(node)
                if node not in self.dies:
                    self.world.start(node)
                self.dies.discard(node)
        self.changed(f"restart {node}")
        return Started(change_id=replacement.change_id)

    def observe(self, node_id: int) -> NodeStatus:
        """See the port."""
        if not self.knows:
            return NodeStatus(node_id=node_id, state=NodeState.UNKNOWN)
        up = self.world.brokers[node_id].running
        return NodeStatus(
            node_id=node_id,
            state=NodeState.RUNNING if up else NodeState.DOWN,
            change_id=self.changes.get(node_id, ""),
            trouble="" if up else "killed",
        )

    # GroupSnapshots and ClusterSnapshotStore
    def take(self, groups: Collection[str] | None = None, *, progress: object = None) -> ClusterState:
        """See the port: all groups that a broker lists, where none are named."""
        listed = {group for node in self.running() for group in self.world.listed_at(node)}
        wanted = listed if groups is None else set(groups)
        found = Placed.take(self, wanted - self.silent)
        silent = [ProblemRow(group=group, problem="loading") for group in sorted(wanted & self.silent)]
        rows = [GroupRow(group=name, type="classic", state="Empty") for name in sorted(listed)]
        twice = [ProblemRow(group=name, problem=f"1{LISTED_TOO}2") for name in self._twice(wanted)]
        return replace(found, groups=rows, problems=[*found.problems, *silent, *twice])

    def committed(self, groups: Collection[str]) -> Committed:
        """See the port."""
        found = Placed.committed(self, set(groups) - self.silent)
        silent = [ProblemRow(group=group, problem="loading") for group in sorted(set(groups) & self.silent)]
        return replace(found, problems=[*found.problems, *silent])

    def _twice(self, wanted: Collection[str]) -> list[str]:
        """Groups that a broker lists which does not serve them, where another one does: as real ones told."""
        listing = {node: self.world.listed_at(node) & set(wanted) for node in self.running()}
        found = {
            name
            for node, names in listing.items()
            for name in names
            if not self.world.serves(node, name) and any(self.world.serves(each, name) for each in listing)
        }
        return sorted(found)

    def refuse(self, folder: Path) -> None:
        """See the port."""
        if str(folder) in self.snapshots:
            raise Rejected(f"{folder} is there")

    def write(self, folder: Path, state: ClusterState, plan: object = None) -> Manifest:
        """See the port."""
        self.refuse(folder)
        self.snapshots[str(folder)] = state
        return Manifest(cluster_id="simulated", taken_at_ms=1, digest="d", files=())

    def offsets(self, folder: Path, digest: str) -> tuple[OffsetRow, ...]:
        """See the port."""
        return tuple(self.snapshots[str(folder)].offsets)

    def digest(self, folder: Path) -> str:
        """See the port."""
        return "d"

    def verify(self, snapshot: Path, digest: str, count: int, output: Path) -> Compared:
        """See the port `LogVerification`, without Spark."""
        found = agreement(self.snapshots[str(snapshot)].offsets, held(self, count))
        said = tuple(each for _, each in found)
        return Compared(verdict=Verdict.FAIL if said else Verdict.PASS, reasons=said)

    def __call__(self, before: Path, after: Path, comparison: Comparison, *, live: bool) -> Compared:
        """See the port."""
        one, two = (
            {(row.group, row.partition): row.offset for row in self.snapshots[str(each)].offsets}
            for each in (before, after)
        )
        unlike = sorted(key for key in {*one, *two} if one.get(key) != two.get(key))
        said = tuple(
            f"{'EX02' if two.get((group, at)) is None else 'EX03'}: {group}: {one.get((group, at))} is "
            f"{two.get((group, at))}"
            for group, at in unlike
        )
        lacking = [each.problem for each in self.snapshots[str(after)].problems if not each.of_leftover]
        reasons = (*(f"E00: {INCOMPLETE[1]}: {each}" for each in lacking[:1]), *said)
        verdict = Verdict.ERROR if lacking else Verdict.FAIL if said else Verdict.PASS
        return Compared(verdict=verdict, reasons=reasons)


def _stable(found: KafkaGroup) -> KafkaGroup:
    return replace(found, kind=Kind.CLASSIC, state="Stable")


def committed(kind: Coordinator, *, count: int = 5, nodes: int = 3) -> Expansible:
    """Every group of `GROUPS` with an offset of its own."""
    found = Expansible(world=OffsetBrokers(kind=kind, count=count, nodes=nodes))
    for number, group in enumerate(GROUPS):
        assert found.commit_as_client(group, 100 + number, 1 + number % nodes)
    return found


def equal(world: Expansible) -> bool:
    """Whether every group answers what was acknowledged last."""
    return all(world.answered(group) == offset for group, offset in world.told.items())


def driver_of(world: Expansible) -> Driver:
    """Processes of the engine in this world."""
    comparisons = Comparisons(compare=world)
    ports = ExpansionPorts(
        views=world,
        topic=world,
        restoring=world,
        verify=world.verify,
        log=world,
        reader=world,
        store=world,
        commits=Hashes(DowngradeWorld(groups={}, releases={}, features={})),
        outcomes=comparisons,
        nodes=world,
        evidence=EvidenceFolder(Path("evidence")),
    )
    return Driver(move=ExpansionMove(), ports=ports, comparisons=comparisons)
