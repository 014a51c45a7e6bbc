"""What a downgrade is asked for, what its steps work with, and what its rules look at: the cluster, its
groups by type, and its log.

A group is told twice: by every broker that lists it, and by the log of the offsets topic. Neither alone is
enough. A broker that loads a partition does not list its groups yet, and the log has groups of which no
broker told. An `InventoryGroup` has both beside each other, and `inventory` all of them by name. Of the log
`log_facts` keeps what decides: who is in it, what the older coordinator would make of each group, which types
of records there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from groupshift.domain.addresses import one_server
from groupshift.domain.cluster import BrokerView, ClusterView
from groupshift.domain.cluster_rules import unlisted
from groupshift.domain.group_gauges import CountView
from groupshift.domain.group_protocol import EMPTY, KafkaGroup, Kind
from groupshift.domain.partitions import grouped
from groupshift.domain.requests import option
from groupshift.domain.rows import GONE
from groupshift.domain.versions import METADATA, Span, Version
from groupshift.engine.move import Run
from groupshift.engine.snapshots import ClusterPorts
from groupshift.errors import Rejected
from groupshift.log import Decoded, decode
from groupshift.log.group_states import GroupFamily, GroupState, materialise
from groupshift.log.releases import Coordinator
from groupshift.log.replay import GroupVerdict, lint
from groupshift.moves.downgrade.releases import (
    GROUP,
    Current,
    Path,
    Target,
    path,
    target_of,
)
from groupshift.ports.changes import ClusterActs
from groupshift.ports.cluster import (
    CoordinatorGauges,
    DowngradeViews,
)
from groupshift.ports.driver import BrokerReplacement
from groupshift.ports.log import CopiedLogs, OffsetsLog

_RELEASE = r"\d+\.\d+\.\d+"


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeRequest:
    """Raises `Rejected` for a release that is not known, or no version."""

    to: str = option("The older release, such as 3.9.2.", pattern=_RELEASE)
    from_: str = option(
        "What the brokers run, where they tell only its line.", default="", pattern=f"({_RELEASE})?"
    )
    coordinator: Coordinator | None = option(
        "The group coordinator that the older release will run; without it its default.", default=None
    )
    segments: str = option(
        "A copy of __consumer_offsets' files; without it the log is read at the brokers.",
        default="",
        assesses=True,
    )
    jmx: tuple[str, ...] = option(
        "Where a broker has JMX open (host:port): its counts of groups have to be those of its list. Needs "
        "$KAFKA_HOME/libs.",
        default=(),
        assesses=True,
    )
    live: bool = option("Consumers commit while the brokers are replaced.", default=False)
    brokers_only: bool = option("Controllers of their own keep their release.", default=False)
    soak_s: int = option(
        "Seconds to look on whether every group answers what it had.", default=0, minimum=0, maximum=604_800
    )

    def __post_init__(self) -> None:
        _ = (self.target, self.said)
        for each in self.jmx:
            one_server(each, "--jmx")

    @property
    def target(self) -> Target:
        """The release to go to."""
        return target_of(self.to, self.coordinator)

    @property
    def said(self) -> Version | None:
        """What the brokers run, None where nobody said it."""
        return Version.parse(self.from_, "--from") if self.from_ else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradePorts(ClusterPorts):
    """Every port that a downgrade needs."""

    views: DowngradeViews
    cluster: ClusterActs
    copies: CopiedLogs
    nodes: BrokerReplacement
    gauges: CoordinatorGauges


Downgrading = Run[DowngradePorts]


def brokers_of(run: Downgrading) -> Collection[int]:
    """Return the ids of the nodes that serve clients, by the plan."""
    return tuple(int(each) for each in run.there.about["brokers"])


def hidden(run: Downgrading, view: ClusterView) -> str:
    """Return why brokers may not list all groups now, so that an empty list proves nothing; empty when they
    do."""
    return unlisted(view, brokers_of(run), view.leaderless)


_UNTYPED = frozenset({GroupFamily.ANOMALY, GroupFamily.GONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryGroup:
    """One group: what each broker that lists it says, and what the log says (None: it was not read, or has
    nothing of it)."""

    group: str
    listed: Mapping[int, KafkaGroup]
    logged: GroupState | None

    @property
    def kinds(self) -> frozenset[Kind]:
        """Every type that it is said to be of; more than one where sources differ."""
        kinds_of_it: set[Kind] = {each.kind for each in self.listed.values() if each.kind is not Kind.UNKNOWN}
        if self.logged is not None and self.logged.family not in _UNTYPED:
            simple = self.logged.family is GroupFamily.SIMPLE
            kinds_of_it.add(Kind.CLASSIC if simple else Kind(self.logged.family.value))
        return frozenset(kinds_of_it)

    @property
    def empty(self) -> bool:
        """Whether no broker knows a member of it."""
        return all(each.state in {EMPTY, GONE} for each in self.listed.values())

    @property
    def state(self) -> str:
        """As listed; empty where only the log has it."""
        return next((each.state for each in self.listed.values()), "")

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``, …; empty for offsets only."""
        listed_type = next((each.protocol_type for each in self.listed.values()), "")
        return listed_type or (self.logged.protocol_type if self.logged else "")


Inventory = tuple[InventoryGroup, ...]
"""By name."""


def inventory(view: ClusterView, logged: Mapping[str, GroupState] | None) -> Inventory:
    """Every group that a broker lists or the log has (``logged`` None: it was not read)."""
    listed = grouped((each.group, (one.node_id, each)) for one in view.brokers for each in one.groups)
    names = {*listed, *(logged or {})}
    return tuple(
        InventoryGroup(group=name, listed=dict(listed.get(name, ())), logged=(logged or {}).get(name))
        for name in sorted(names)
    )


def of_kind(groups: Inventory, kind: Kind) -> tuple[InventoryGroup, ...]:
    """Those that some source says to be of this type."""
    return tuple(each for each in groups if kind in each.kinds)


_COMMITS = frozenset({0, 1})
_FIRST_NEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """``records`` were read; ``groups`` are those with anything live, ``verdicts`` what the target's
    coordinator makes of each. ``new_types`` counts records with keys of type 3 or above, tombstones
    included, by type; ``commits`` is the newest version of a commit (None: there is none)."""

    records: int = 0
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    verdicts: Mapping[str, GroupVerdict] = field(default_factory=dict)
    new_types: Mapping[int, int] = field(default_factory=dict)
    commits: int | None = None


def log_facts(records: Iterable[Decoded], target: Target) -> LogFacts:
    """The facts of a whole log, decoded with the partition count in force, in any order.

    Raises `Rejected` as `lint` does."""
    read = list(records)
    known, numbers = materialise(read).groups, Counter(each.record_type for each in read)
    new_types = ((number, many) for number, many in numbers.items() if number is not None)
    versions = (each.value_version for each in read if each.record_type in _COMMITS)
    return LogFacts(
        records=len(read),
        groups={name: each for name, each in known.items() if each.family is not GroupFamily.GONE},
        verdicts=lint(read, target.release, target.coordinator),
        new_types={number: many for number, many in sorted(new_types) if number >= _FIRST_NEW},
        commits=max((each for each in versions if each is not None), default=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeFacts:
    """A cluster, where its brokers are to go, and its log (None: not read). ``said`` is the release that
    people say the brokers run: within a line brokers tell none. ``brokers_only``: controllers of their own
    keep their release, so what only controllers read is not judged."""

    view: ClusterView
    target: Target
    log: LogFacts | None = None
    said: Version | None = None
    brokers_only: bool = False
    counts: CountView | None = None
    """What brokers count of their groups and what they list; None: nobody asked."""

    @property
    def groups(self) -> Inventory:
        """All groups, by every broker and by the log."""
        return inventory(self.view, None if self.log is None else self.log.groups)

    def version(self, broker: BrokerView) -> Version | Span | None:
        """What is known of a broker's release: what was said, where it fits what the broker tells."""
        if self.said is None:
            return broker.line
        return self.said if broker.line is None or broker.line.holds(self.said) else broker.line

    @property
    def path(self) -> Path:
        """The way of the newest broker, with the features and the log of all."""

        def rank(broker: BrokerView) -> tuple[int, bool]:
            level = broker.supported.get(METADATA, (0, 0))[1]
            return level, broker.coordinator is Coordinator.NEW

        newest = max(self.view.brokers, key=rank, default=BrokerView(node_id=-1))
        current = Current(
            version=self.version(newest),
            coordinator=newest.coordinator,
            features=self.view.finalised,
            new_types=None if self.log is None else bool(self.log.new_types),
            commits=None if self.log is None else self.log.commits,
        )
        return path(current, self.target)

    @property
    def controllers(self) -> tuple[int, ...]:
        """Voters of the metadata quorum that serve no clients."""
        voters = self.view.quorum.voters if self.view.quorum else ()
        brokers = {broker.node_id for broker in self.view.brokers}
        return tuple(node for node in voters if node not in brokers)

    @property
    def serves_consumers(self) -> bool:
        """Whether the target serves groups of type consumer as the current release does: from 4.0 on."""
        return self.target.line.supports(GROUP) > 0 and self.target.coordinator is Coordinator.NEW


def look_at(views: DowngradeViews, log: OffsetsLog | None, request: DowngradeRequest) -> DowngradeFacts:
    """Return what the rules look at: the cluster, then its whole log (None: not read).

    Raises:
        Rejected: the log has other partitions than the topic, or a record's release is not known.
        GroupshiftError: as the ports.
    """
    view, facts = views.look(), None
    if log is not None and (view.partitions or request.segments):
        end = log.position()
        odd = sorted(set(end) ^ set(range(view.partitions)))
        if odd:
            raise Rejected(
                f"the log has other partitions of __consumer_offsets than the {view.partitions} of the "
                f"cluster (first: {odd[0]}); give a copy of all of them"
            )
        records = log.read(end)
        facts = log_facts((decode(each, partitions=view.partitions) for each in records), request.target)
    elif log is not None:
        facts = LogFacts()
    return DowngradeFacts(
        view=view,
        target=request.target,
        log=facts,
        said=request.said,
        brokers_only=request.brokers_only,
    )
