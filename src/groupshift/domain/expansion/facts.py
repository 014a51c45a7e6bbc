"""What the rules of an expansion look at: the cluster, its log held against the count in force, the aim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from groupshift.domain.cluster import ListedGroup, PlacementView
from groupshift.domain.commit_places import Topics
from groupshift.domain.expansion.counts import Hashed, Mover
from groupshift.domain.expansion.log import counts_by_newest
from groupshift.domain.expansion.places import LoggedPlaces
from groupshift.domain.placement import expected, several_owners


def told_counts(
    view: PlacementView, newest: Mapping[str, tuple[int, int]] | None
) -> dict[int, frozenset[int]]:
    """The counts that each broker may use, by what it answers; where that fits several (one broker leads
    everything, or leaders lie so regularly that two counts lead to the same ones), by where the newest
    commits of the groups that it serves lie (``newest``, as `LoggedPlaces.newest`; None: not read)."""
    leaders, found = view.topic.leaders, dict[int, frozenset[int]]()
    for node, counts in view.counted.items():
        served = {
            group: where
            for group, where in (newest.items() if newest and len(counts) > 1 else ())
            if any(expected(group, count, leaders) == node for count in counts)
        }
        found[node] = counts_by_newest(served, counts)
    return found


def fitting(told: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """Every count that all brokers may use; none where they disagree."""
    return frozenset.intersection(*told.values()) if told else frozenset()


def in_force(view: PlacementView, found: frozenset[int]) -> int | None:
    """The count of `fitting` that is in force, where it can be told: the topic's if that fits."""
    return view.count if view.count in found else next(iter(found)) if len(found) == 1 else None


@dataclass(frozen=True, kw_only=True)
class PlacementFacts:
    """``log`` None: it was not read. ``to`` is the count that is wanted (None: a look only). ``log_tells``:
    where brokers' answers do not tell the count in use, the newest commits do; not after a restart that
    nobody committed since. ``topics`` is what brokers tell of the topics of all commits, as far as it
    was asked."""

    view: PlacementView
    log: LoggedPlaces | None = None
    to: int | None = None
    log_tells: bool = True
    topics: Topics = field(default_factory=Topics)

    @cached_property
    def listing(self) -> Mapping[str, tuple[int, ...]]:
        """Every group that a broker lists, and the brokers that do."""
        found: dict[str, tuple[int, ...]] = {}
        for broker in self.view.cluster.brokers:
            for each in broker.groups:
                found[each.group] = (*found.get(each.group, ()), broker.node_id)
        return found

    @cached_property
    def hashed(self) -> Hashed:
        """Every group that a broker lists or the log has."""
        return Hashed(self.listing.keys() | (self.log.groups.keys() if self.log else set()))

    def listed(self) -> Iterator[ListedGroup]:
        """Every group as every broker that lists it tells it."""
        for broker in self.view.cluster.brokers:
            yield from broker.groups

    @cached_property
    def told(self) -> Mapping[int, frozenset[int]]:
        """See `told_counts`."""
        newest = self.log.newest if self.log is not None and self.log_tells else None
        return told_counts(self.view, newest)

    @property
    def fitting(self) -> frozenset[int]:
        """See `fitting`."""
        return fitting(self.told)

    @property
    def unclear(self) -> tuple[int, ...]:
        """Brokers that may use several counts, where there are several brokers; after a restart that nobody
        committed since, what they forgot tells of those that lead anything."""
        if len(self.view.cluster.brokers) == 1:
            return ()
        leading = () if self.log_tells else self.view.topic.leaders
        several = (node for node, counts in self.told.items() if len(counts) > 1)
        return tuple(sorted(node for node in several if node not in leading))

    @cached_property
    def in_force(self) -> int | None:
        """The count that all brokers use: the topic's where that fits; None where they disagree, or it cannot
        be told."""
        return in_force(self.view, self.fitting)

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
    def unrestorable(self) -> Mapping[str, str]:
        """Offsets of groups that move which cannot be committed again, by name, each with why."""
        found = (each for each in (self.log.commits if self.log else ()) if each.group in self.moving)
        said = (
            (
                f"{each.group!r} {each.topic}-{each.partition}",
                self.topics.unrestorable(each.topic, each.partition, each.topic_id),
            )
            for each in found
        )
        return {name: why for name, why in said if why}

    @cached_property
    def several_owners(self) -> Mapping[str, tuple[int, ...]]:
        """Groups that two brokers serve, or none, by what each broker counts; empty where it cannot be
        told."""
        using = {node: min(counts) for node, counts in self.told.items() if len(counts) == 1}
        if len(using) != len(self.view.cluster.brokers) or len(set(using.values())) < 2:  # noqa: PLR2004
            return {}
        return dict(several_owners(self.hashed.groups, using, self.view.topic.leaders))
