"""What the rules of a downgrade look at: the cluster, its groups by type, and its log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from groupshift.domain.cluster import BrokerView, ClusterView, ListedGroup
from groupshift.domain.group_counts import CountView
from groupshift.domain.group_protocol import CONSUMERS, EMPTY, Kind
from groupshift.domain.versions import Span, Version
from groupshift.log.decode import Decoded
from groupshift.log.releases import Coordinator
from groupshift.log.replay import GroupVerdict, lint
from groupshift.log.state import GroupFamily, materialise
from groupshift.moves.downgrade.releases import Current, Path, Standing, Target, path, standing

_KINDS = {
    GroupFamily.CLASSIC: Kind.CLASSIC,
    GroupFamily.SIMPLE: Kind.CLASSIC,
    GroupFamily.CONSUMER: Kind.CONSUMER,
    GroupFamily.SHARE: Kind.SHARE,
    GroupFamily.STREAMS: Kind.STREAMS,
}
_GONE = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedGroup:
    """A group as the log has it: its family, and the protocol type of a classic one."""

    group: str
    family: GroupFamily
    protocol_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryGroup:
    """One group: what each broker that lists it says, and what the log says (None: it was not read, or has
    nothing of it)."""

    group: str
    listed: Mapping[int, ListedGroup]
    logged: LoggedGroup | None

    @property
    def kinds(self) -> frozenset[Kind]:
        """Every type that it is said to be of; more than one where sources differ."""
        told: set[Kind] = {each.kind for each in self.listed.values() if each.kind is not Kind.UNKNOWN}
        if self.logged is not None and self.logged.family in _KINDS:
            told.add(_KINDS[self.logged.family])
        return frozenset(told)

    @property
    def dual(self) -> bool:
        """Whether it is of two types, or in two places at once."""
        twice = self.logged is not None and self.logged.family is GroupFamily.ANOMALY
        return twice or len(self.kinds) > 1 or len(self.listed) > 1

    @property
    def empty(self) -> bool:
        """Whether no broker knows a member of it."""
        return all(each.state in {EMPTY, _GONE} for each in self.listed.values())

    @property
    def state(self) -> str:
        """As listed; empty where only the log has it."""
        return next((each.state for each in self.listed.values()), "")

    @property
    def protocol_type(self) -> str:
        """``consumer``, ``connect``, …; empty for offsets only."""
        told = next((each.protocol_type for each in self.listed.values()), "")
        return told or (self.logged.protocol_type if self.logged else "")

    @property
    def foreign(self) -> bool:
        """Whether it is a classic group of something else than consumers, such as Connect's workers."""
        return self.kinds <= {Kind.CLASSIC} and self.protocol_type not in {"", CONSUMERS}


Inventory = tuple[InventoryGroup, ...]
"""By name."""


def inventory(view: ClusterView, logged: Mapping[str, LoggedGroup] | None) -> Inventory:
    """Every group that a broker lists or the log has (``logged`` None: it was not read)."""
    listed: dict[str, dict[int, ListedGroup]] = defaultdict(dict)
    for broker in view.brokers:
        for each in broker.groups:
            listed[each.group][broker.node_id] = each
    names = {*listed, *(logged or {})}
    return tuple(
        InventoryGroup(group=name, listed=dict(listed.get(name, {})), logged=(logged or {}).get(name))
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
    groups: Mapping[str, LoggedGroup] = field(default_factory=dict)
    verdicts: Mapping[str, GroupVerdict] = field(default_factory=dict)
    new_types: Mapping[int, int] = field(default_factory=dict)
    commits: int | None = None


def log_facts(records: Iterable[Decoded], target: Target) -> LogFacts:
    """The facts of a whole log, decoded with the partition count in force, in any order.

    Raises `Rejected` as `lint` does."""
    read = list(records)
    new_types: dict[int, int] = {}
    commits: int | None = None
    for each in read:
        number = each.record_type
        if number is not None and number >= _FIRST_NEW:
            new_types[number] = new_types.get(number, 0) + 1
        if number in _COMMITS and each.value_version is not None:
            commits = each.value_version if commits is None else max(commits, each.value_version)
    state = materialise(read)
    groups = {
        name: LoggedGroup(group=name, family=each.family, protocol_type=each.protocol_type)
        for name, each in state.groups.items()
        if each.family is not GroupFamily.GONE
    }
    return LogFacts(
        records=len(read),
        groups=groups,
        verdicts=lint(read, target.release, target.coordinator),
        new_types=dict(sorted(new_types.items())),
        commits=commits,
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
    def standings(self) -> dict[int, Standing]:
        """Where the target stands to each broker, by node id."""
        return {
            broker.node_id: standing(self.version(broker), broker.coordinator, self.target)
            for broker in self.view.brokers
        }

    @property
    def path(self) -> Path:
        """The way of the newest broker, with the features and the log of all."""
        newest = max(self.view.brokers, key=_rank, default=BrokerView(node_id=-1))
        return path(
            Current(
                version=self.version(newest),
                coordinator=newest.coordinator,
                features=self.view.finalised,
                new_types=None if self.log is None else bool(self.log.new_types),
                commits=None if self.log is None else self.log.commits,
            ),
            self.target,
        )

    @property
    def controllers(self) -> tuple[int, ...]:
        """Voters of the metadata quorum that serve no clients."""
        brokers = {broker.node_id for broker in self.view.brokers}
        return tuple(
            node for node in (self.view.quorum.voters if self.view.quorum else ()) if node not in brokers
        )

    @property
    def serves_consumers(self) -> bool:
        """Whether the target serves groups of type consumer as the current release does: from 4.0 on."""
        return self.target.line.supports("group.version") > 0 and self.target.coordinator is Coordinator.NEW


def _rank(broker: BrokerView) -> tuple[int, int]:
    return broker.supported.get("metadata.version", (0, 0))[1], broker.coordinator is Coordinator.NEW
