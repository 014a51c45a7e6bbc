"""What is asked of an expansion, and what its rules look at: the cluster, its log held against the count in
force, the aim. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from groupshift.domain.cluster import ClusterView, PlacementView
from groupshift.domain.commit_places import Topics
from groupshift.domain.group_partition_and_count import expected, not_one_owner
from groupshift.domain.group_protocol import KafkaGroup
from groupshift.domain.requests import option
from groupshift.errors import Rejected
from groupshift.moves.expansion.logged_offsets import (
    Cost,
    Hashed,
    LoggedPlaces,
    LogReading,
    Mover,
    PartitionLoad,
    counts_by_newest,
    worth_comparing,
)
from groupshift.ports.cluster import PlacementViews
from groupshift.ports.log import LogProgress, OffsetsLog

MOST = 100_000
"""More partitions than a cluster takes of one topic."""
ASKED_DIRECTLY = 200
"""How many groups are asked about at each broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionRequest:
    """One count, and how long groups may take to become empty."""

    to: int = option("Partitions that __consumer_offsets is to have.", minimum=1, maximum=MOST)
    drain: int = option(
        "Seconds in which the last member has to stop; else the run ends, and nothing is changed.",
        default=1_800,
        minimum=1,
        maximum=604_800,
    )


def listed(cluster: ClusterView) -> Iterator[KafkaGroup]:
    """Every group as every broker that lists it tells it."""
    for broker in cluster.brokers:
        yield from broker.groups


@dataclass(frozen=True, kw_only=True)
class PlacementFacts:
    """``log`` None: it was not read. ``to`` is the count that is wanted (None: a look only). ``log_tells``:
    where brokers' answers do not tell the count in use, the newest commits do; not after a restart that
    nobody committed since. ``topics`` is what brokers tell of the topics of all commits, as far as it
    was asked. ``after`` is the live load by partition at the count that is wanted; empty where the log was
    not read."""

    view: PlacementView
    log: LoggedPlaces | None = None
    to: int | None = None
    log_tells: bool = True
    topics: Topics = field(default_factory=Topics)
    after: tuple[PartitionLoad, ...] = ()

    @cached_property
    def listing(self) -> Mapping[str, tuple[int, ...]]:
        """Every group that a broker lists, and the brokers that do."""
        listing: dict[str, tuple[int, ...]] = {}  # no list for each of half a million groups
        for broker in self.view.cluster.brokers:
            for each in broker.groups:
                listing[each.group] = (*listing.get(each.group, ()), broker.node_id)
        return listing

    @cached_property
    def hashed(self) -> Hashed:
        """Every group that a broker lists or the log has."""
        return Hashed(self.listing.keys() | (self.log.groups.keys() if self.log else set()))

    @cached_property
    def counts(self) -> Mapping[int, frozenset[int]]:
        """The counts that each broker may use, by what it answers; where that fits several (one broker leads
        everything, or leaders lie so regularly that two counts lead to the same ones), by where the newest
        commits of the groups that it serves lie, as far as the log tells."""
        telling = any(len(counts) > 1 for counts in self.view.counted.values()) and self.log_tells
        newest = self.log.newest if telling and self.log is not None else {}
        leaders, counts_of = self.view.topic.leaders, dict[int, frozenset[int]]()
        for node, counts in self.view.counted.items():
            served = {
                group: where
                for group, where in (newest.items() if len(counts) > 1 else ())
                if any(expected(group, count, leaders) == node for count in counts)
            }
            counts_of[node] = counts_by_newest(served, counts)
        return counts_of

    @property
    def fitting(self) -> frozenset[int]:
        """Every count that all brokers may use; none where they disagree."""
        return frozenset.intersection(*self.counts.values()) if self.counts else frozenset()

    @property
    def unclear(self) -> tuple[int, ...]:
        """Brokers that may use several counts, where there are several brokers; after a restart that nobody
        committed since, what they forgot tells of those that lead anything."""
        if len(self.view.cluster.brokers) == 1:
            return ()
        leading = () if self.log_tells else self.view.topic.leaders
        several = (node for node, counts in self.counts.items() if len(counts) > 1)
        return tuple(sorted(node for node in several if node not in leading))

    @cached_property
    def in_force(self) -> int | None:
        """The count that all brokers use: the topic's where that fits; None where they disagree, or it cannot
        be told."""
        if self.view.count in self.fitting:
            return self.view.count
        return next(iter(self.fitting)) if len(self.fitting) == 1 else None

    @property
    def before(self) -> int:
        """The count that groups move from."""
        return self.in_force or self.view.count

    @cached_property
    def moving_at_restart(self) -> tuple[Mover, ...]:
        """The groups that move when brokers start again, where they use another count than the topic has."""
        return self.hashed.movers(self.in_force, self.view.count) if self.in_force and self.view.count else ()

    @cached_property
    def movers(self) -> tuple[Mover, ...]:
        """The groups that the wanted count moves, by name."""
        return self.hashed.movers(self.before, self.to) if self.to is not None and self.before else ()

    @cached_property
    def moving(self) -> frozenset[str]:
        """Their names."""
        return frozenset(each.group for each in self.movers)

    @cached_property
    def costs(self) -> tuple[Cost, ...]:
        """What the wanted count and others that the topic can be given cost; none where none is wanted."""
        if self.to is None:
            return ()
        counts = worth_comparing(self.before, self.to)
        wanted = (each for each in counts if each == self.to or each >= self.view.count)
        return tuple(self.hashed.cost(self.before, each) for each in wanted)

    @cached_property
    def unrestorable(self) -> Mapping[str, str]:
        """Offsets of groups that move which cannot be committed again, by name, each with why."""
        reasons = {
            f"{each.group!r} {each.topic}-{each.partition}": self.topics.unrestorable(
                each.topic, each.partition, each.topic_id
            )
            for each in (self.log.commits if self.log else ())
            if each.group in self.moving
        }
        return {name: why for name, why in reasons.items() if why}

    @cached_property
    def not_one_owner(self) -> Mapping[str, tuple[int, ...]]:
        """Groups that two brokers serve, or none, by what each broker counts; empty where it cannot be
        told."""
        using = {node: min(counts) for node, counts in self.counts.items() if len(counts) == 1}
        if len(using) != len(self.view.cluster.brokers) or len(set(using.values())) < 2:  # noqa: PLR2004
            return {}
        return dict(not_one_owner(self.hashed.groups, using, self.view.topic.leaders))


def look_at(
    views: PlacementViews, log: OffsetsLog | None, to: int | None = None, progress: LogProgress | None = None
) -> PlacementFacts:
    """Look at every broker, then read the whole log of the offsets topic (None: leave that out). It is held
    against the count in force, and brokers are asked about every topic with a commit.

    Raises:
        Rejected: ``to`` is a count that the topic cannot be given.
        GroupshiftError: as `PlacementViews.look` and `OffsetsLog.read`.
    """
    view = views.look()
    facts = PlacementFacts(view=view, to=to)
    if log is None:
        _require_more(facts)
        return facts
    reading = LogReading(log.read(log.position(), None, progress) if view.count else ())
    places = LoggedPlaces(reading, view.count or 1, view.count, old=view.old)
    facts = replace(facts, log=places)
    if view.count:
        committed = {each.topic for each in (*places.commits, *places.elsewhere)}
        facts = replace(facts, topics=views.topics(committed) if committed else Topics())
        telling = any(len(counts) > 1 for counts in view.counted.values())
        if view.count not in facts.fitting and telling and _forgotten(views, view, places):
            facts = replace(facts, log_tells=False)
        elif facts.in_force not in {None, view.count}:
            in_force = LoggedPlaces(reading, facts.before, view.count, old=view.old)
            facts = replace(facts, log=in_force)
    _require_more(facts)
    return facts if to is None else replace(facts, after=reading.partition_loads(to, at_home=True))


def _require_more(facts: PlacementFacts) -> None:
    """Raises `Rejected` for a count that is not more than there are, unless brokers have not taken up the
    count of the topic yet."""
    count, to = facts.view.count, facts.to
    if to is None:
        return
    if to > MOST:
        raise Rejected(f"--to {to}: no cluster takes more than {MOST:,} partitions of one topic; name fewer")
    if not count:
        raise Rejected(
            f"--to {to}: there is no offsets topic to expand; set offsets.topic.num.partitions={to} at all "
            "brokers before the first group commits"
        )
    if to < count or (to == count and facts.before == count and count in facts.fitting):
        raise Rejected(
            f"--to {to}: __consumer_offsets has {count} partitions already and a count can only grow; "
            f"name more, such as {2 * facts.before}"
        )


def _forgotten(views: PlacementViews, view: PlacementView, places: LoggedPlaces) -> bool:
    """Whether a coordinator that the log believes to use a former count answers for no group that lies only
    there: it was restarted, and counts what the topic has. An OLD one's cache answers either way."""
    only_there = sorted({each.group for each in places.elsewhere if each.lost})[:ASKED_DIRECTLY]
    return not view.old and bool(only_there) and not views.answering(only_there)
