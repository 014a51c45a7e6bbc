"""A cluster in memory on its way to an older release: every port of a run, and faults between two acts."""

# ruff: noqa: ARG002 - the ports ask for more than this needs

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from groupshift.domain.cluster import Asked, ClusterView
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.evidence import Manifest
from groupshift.domain.group_gauges import GaugedBroker
from groupshift.domain.group_protocol import PROTOCOLS, Kind
from groupshift.domain.rows import ClusterState, GroupRow, OffsetRow
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected, Transient
from groupshift.log import LogRecord
from groupshift.log.commit_hashes import LiveCommit
from groupshift.log.decode import Position
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.facts import DowngradePorts
from groupshift.moves.downgrade.move import DowngradeMove
from groupshift.ports.clock import CrashPoint
from groupshift.ports.driver import ForPerson, NodeState, NodeStatus, Replacement, Started
from groupshift.ports.evidence import EvidenceFolder
from groupshift.ports.spark_jobs import Compared
from support.coordinator_story import PARTITIONS, Line, classic, commit, consumer_group, record, to_classic
from support.downgrade_clusters import broker, cluster, listed
from support.driven_moves import Comparisons, Driver

OWN = "groupshift-compaction-0"
NEWER = frozenset(range(3, 9))
"""Types of records of consumer groups."""


class Killed(BaseException):
    """The process is gone: nothing catches this."""


@dataclass
class Group:
    """A group: ``kind``, whether it has members, and its committed offset."""

    kind: Kind
    members: int = 0
    offset: int = 5


@dataclass
class World:
    """``releases`` and ``coordinators`` are by node; ``lose`` are groups that are gone when a node gets
    another release; ``dies`` are nodes that do not come up with it; ``answers_lost`` is asked after each act
    whether its answer is lost; during the next ``loading`` looks no broker lists a group; a driver that does
    not know (``knows`` False) only instructs; ``later`` lies at the end of the log."""

    groups: dict[str, Group]
    releases: dict[int, str]
    features: dict[str, int]
    coordinators: dict[int, Coordinator] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    topic: dict[str, str] = field(default_factory=lambda: {"cleanup.policy": "compact"})
    extra: list[Line] = field(default_factory=list)
    checkpoint: int | None = 100
    lose: set[str] = field(default_factory=set)
    dies: set[int] = field(default_factory=set)
    answers_lost: Callable[[], bool] = lambda: False
    churns: int = 0
    replaced: dict[int, tuple[str, str]] = field(default_factory=dict)
    snapshots: dict[str, ClusterState] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    compares: int = 0
    loading: int = 0
    knows: bool = True
    later: list[Line] = field(default_factory=list)
    hashes: dict[str, tuple[LiveCommit, ...]] = field(default_factory=dict)

    def end(self) -> tuple[object, ...]:
        """What a run leaves behind."""
        groups = {name: (each.kind, each.offset) for name, each in self.groups.items()}
        return groups, self.releases, self.features, self.group_configs, self.topic, self.coordinators

    def changed(self, what: str) -> None:
        """An act was done; its answer may be lost."""
        self.asked.append(what)
        if self.answers_lost():
            raise Transient(f"no answer to {what}")

    # DowngradeViews
    def look(self) -> ClusterView:
        """See the port."""
        rows = [
            listed(name, each.kind, state="Stable" if each.members else "Empty")
            for name, each in self.groups.items()
        ]
        nodes = []
        up = [(node, release) for node, release in sorted(self.releases.items()) if node not in self.down]
        if not up:
            raise Transient("no broker answers")
        loading, self.loading = bool(self.loading), max(0, self.loading - 1)
        rows = [] if loading else rows
        for number, (node, release) in enumerate(up):
            new = self.coordinators.get(node) is Coordinator.NEW and release.startswith("3.9")
            properties = {PROTOCOLS: "classic,consumer"} if new else {}
            found = broker(node, release, groups=rows if not number else (), properties=properties)
            nodes.append(replace(found, loading=loading))
        configs = {name: dict(each) for name, each in self.group_configs.items() if each}
        four = any(release.startswith("4") for release in self.releases.values())
        asked = Asked.EVERY if four else Asked.NONE
        features = {name: level for name, level in self.features.items() if level}
        return cluster(*nodes, features=features, group_configs=configs, configs_asked=asked)

    def close(self) -> None:
        """Nothing is open."""

    # OffsetsLog
    def position(self) -> Position:
        """See the port."""
        return dict.fromkeys(range(PARTITIONS), 1_000)

    def read(
        self, up_to: Position, partitions: Collection[int] | None = None, told: object = None
    ) -> Iterator[LogRecord]:
        """See the port."""
        lines = list(self.extra)
        for name, each in self.groups.items():
            lines.append(commit(name, offset=each.offset))
            lines += consumer_group(name) if each.kind is Kind.CONSUMER else []
        return (record(line, number) for number, line in enumerate([*lines, *self.later]))

    # ClusterActs
    def convert_empty(self, group: str) -> None:
        """See the port."""
        found = self.groups[group]
        if found.kind is Kind.CONSUMER:
            assert not found.members
            found.kind = Kind.CLASSIC
            self.extra += [*to_classic(group)[:-1], classic(group)]
        self.changed(f"convert {group}")

    def topic_configs(self) -> Mapping[str, str]:
        """See the port."""
        return dict(self.topic)

    def configure_topic(self, values: Mapping[str, str | None]) -> None:
        """See the port."""
        for name, value in values.items():
            if value is None:
                self.topic.pop(name, None)
            else:
                self.topic[name] = value
        self.changed("configure topic")

    def force_compaction(self) -> None:
        """See the port: the second time, the cleaner is through."""
        self.churns += 1
        self.groups.setdefault(OWN, Group(kind=Kind.CLASSIC))
        if self.churns > 1 and self.topic.get("segment.ms") == "1000":
            self.extra = [line for line in self.extra if line[0] not in NEWER]

    def remove_churn(self) -> None:
        """See the port."""
        self.groups.pop(OWN, None)
        self.changed("remove churn")

    def churning(self) -> Collection[str]:
        """See the port."""
        return {OWN} & self.groups.keys()

    def configure_group(self, group: str, values: Mapping[str, str | None]) -> None:
        """See the port."""
        told = self.group_configs.setdefault(group, {})
        for name, value in values.items():
            if value is None:
                told.pop(name, None)
            else:
                told[name] = value
        self.changed(f"configure {group}")

    def lower_feature(self, feature: str, level: int) -> None:
        """See the port."""
        assert self.features[feature] > level
        self.features[feature] = level
        self.changed(f"lower {feature}")

    def raise_feature(self, feature: str, level: int) -> None:
        """See the port."""
        self.features[feature] = level
        self.changed(f"raise {feature}")

    def lacks(self, brokers: Collection[int]) -> str:
        """See the port."""
        if self.down >= set(self.releases):
            raise Transient("no broker answers")
        gone = sorted(self.down & set(brokers))
        return f"broker {gone[0]} is not registered" if gone else ""

    @property
    def down(self) -> set[int]:
        """Nodes that were given a release and did not come up with it."""
        return {node for node, (_, release) in self.replaced.items() if self.releases[node] != release}

    # BrokerReplacement
    def start(self, replacement: Replacement) -> Started | ForPerson:
        """See the port."""
        node, wanted = replacement.node_id, (replacement.change_id, replacement.release)
        if not self.knows:
            self.asked.append(f"instruct {node} {replacement.release}")
            return ForPerson(change_id=replacement.change_id, instruction=f"start {replacement.release}")
        if self.replaced.get(node) != wanted:
            self.replaced[node] = wanted
            if node not in self.dies or replacement.release in self.releases.values():
                self.releases[node] = replacement.release
                self.coordinators[node] = replacement.coordinator
                self.groups = {name: each for name, each in self.groups.items() if name not in self.lose}
        self.changed(f"replace {node}")
        return Started(change_id=replacement.change_id)

    def observe(self, node_id: int) -> NodeStatus:
        """See the port."""
        if not self.knows:
            return NodeStatus(node_id=node_id, state=NodeState.UNKNOWN, snapshot=self.checkpoint)
        change, release = self.replaced.get(node_id, ("", ""))
        up = not release or self.releases[node_id] == release
        return NodeStatus(
            node_id=node_id,
            state=NodeState.RUNNING if up else NodeState.DOWN,
            release=release,
            change_id=change,
            snapshot=self.checkpoint,
            trouble="" if up else "Tried to apply FeatureLevelRecord",
        )


class Shelf:
    """Snapshots of a world, and their comparison."""

    def __init__(self, world: World) -> None:
        self._world = world

    def take(self, groups: object = None, *, progress: object = None) -> ClusterState:
        """See `GroupSnapshots`."""
        found = self._world.groups.items()
        return ClusterState(
            cluster_id="cluster",
            taken_at_ms=1,
            groups=[GroupRow(group=name, type=each.kind.value, state="Empty") for name, each in found],
            offsets=[
                OffsetRow(group=name, topic="t", partition=0, offset=each.offset) for name, each in found
            ],
        )

    def cluster_id(self) -> str:
        """See `GroupSnapshots`."""
        return "cluster"

    def close(self) -> None:
        """Nothing is open."""

    def refuse(self, folder: Path) -> None:
        """See `ClusterSnapshotStore`."""
        if str(folder) in self._world.snapshots:
            raise Rejected(f"{folder} is there")

    def write(self, folder: Path, state: ClusterState, plan: object = None) -> Manifest:
        """See `ClusterSnapshotStore`."""
        self.refuse(folder)
        self._world.snapshots[str(folder)] = state
        return Manifest(cluster_id="cluster", taken_at_ms=1, digest="d", files=())

    def offsets(self, folder: Path, digest: str) -> tuple[OffsetRow, ...]:
        """See `ClusterSnapshotStore`."""
        return tuple(self._world.snapshots[str(folder)].offsets)

    def digest(self, folder: Path) -> str:
        """See `ClusterSnapshotStore`."""
        return "d"

    def __call__(self, before: Path, after: Path, comparison: Comparison, *, live: bool) -> Compared:
        """Compare two snapshots without Spark."""
        self._world.compares += 1
        one, two = (
            {row.group: row.offset for row in self._world.snapshots[str(each)].offsets}
            for each in (before, after)
        )
        lost = [f"group {name}: lost" for name in sorted(one.keys() ^ two.keys())]
        return Compared(verdict=Verdict.FAIL if lost else Verdict.PASS, reasons=tuple(lost))


class Hashes:
    """What was written of a world's log."""

    def __init__(self, world: World) -> None:
        self._world = world

    def write(self, path: Path, commits: Sequence[LiveCommit]) -> str:
        """See `CommitHashes`."""
        if str(path) in self._world.hashes:
            raise Rejected(f"{path} is there")
        self._world.hashes[str(path)] = tuple(commits)
        return "d"

    def read(self, path: Path, sha256: str) -> tuple[LiveCommit, ...]:
        """See `CommitHashes`."""
        return self._world.hashes[str(path)]


class KillAt:
    """Ends the process when a crash point is reached for the n-th time."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.met: list[tuple[str, CrashPoint]] = []

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        self.met.append((step, point))
        self._left -= 1
        if self._left == 0:
            raise Killed


def two_of_43() -> World:
    """Two nodes of 4.3.1 with everything that a way to 3.9.2 has to prepare but compaction."""
    return World(
        groups={
            "left": Group(kind=Kind.CONSUMER),
            "simple": Group(kind=Kind.CLASSIC, offset=7),
        },
        releases={1: "4.3.1", 2: "4.3.1"},
        coordinators={1: Coordinator.NEW, 2: Coordinator.NEW},
        features={"metadata.version": 21, "group.version": 1},
        group_configs={"left": {"consumer.session.timeout.ms": "50000"}},
    )


def one_of_39() -> World:
    """One node of 3.9.2 with the NEW coordinator, to go to 3.4.0: the log has to be compacted."""
    return World(
        groups={
            "left": Group(kind=Kind.CONSUMER),
            "simple": Group(kind=Kind.CLASSIC, offset=7),
        },
        releases={1: "3.9.2"},
        coordinators={1: Coordinator.NEW},
        features={"metadata.version": 8},
        topic={"cleanup.policy": "compact", "segment.ms": "604800000"},
    )


class NobodyCounts:
    """Nobody asks for the counts of groups."""

    def read(self, address: str) -> GaugedBroker:
        """Nobody answers."""
        raise Transient(f"nobody answers at {address}")


def driver_of(world: World) -> Driver:
    """Processes of the engine in this world."""
    shelf = Shelf(world)
    comparisons = Comparisons(compare=shelf)
    ports = DowngradePorts(
        views=world,
        cluster=world,
        log=world,
        copies=lambda _folder: world,
        reader=shelf,
        store=shelf,
        commits=Hashes(world),
        outcomes=comparisons,
        nodes=world,
        evidence=EvidenceFolder(Path("evidence")),
        gauges=NobodyCounts(),
    )
    return Driver(move=DowngradeMove(), ports=ports, comparisons=comparisons)
