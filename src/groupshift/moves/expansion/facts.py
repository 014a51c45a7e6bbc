"""What the rules of an expansion look at: the cluster, its log held against the count in force, the aim; and
whether coordinators and the log hold the same offsets.

A snapshot is the only copy while groups are deleted, so two sources must agree on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from groupshift.domain.cluster import ListedGroup, PlacementView
from groupshift.domain.commit_places import Topics
from groupshift.domain.placement import expected, partition_of, several_owners
from groupshift.domain.rows import OffsetRow
from groupshift.log import LogRecord, commit_place, decode
from groupshift.moves.expansion.load import Hashed, LoggedPlaces, Mover, counts_by_newest


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


_NONE = -1
_Key = tuple[str, str, int]
_Said = tuple[int, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What answers and the log do not tell alike (``differing``: group and sentence, sorted), and the groups
    of commits with an expiry of their own (``expiring``, each as often as it has one): what is committed
    again has none (clients before Kafka 2.1 could ask for one; group-coordinator.md §3.4 step 10)."""

    differing: tuple[tuple[str, str], ...]
    expiring: tuple[str, ...]


def disagreements(
    rows: Iterable[OffsetRow], records: Iterable[LogRecord], count: int
) -> tuple[tuple[str, str], ...]:
    """`Agreement.differing`. Raises likewise."""
    return agreement(rows, records, count).differing


def agreement(rows: Iterable[OffsetRow], records: Iterable[LogRecord], count: int) -> Agreement:
    """Hold answers (``rows``) against the log (``records``, read to its end, where ``count`` partitions put
    each group). Records elsewhere do not count.

    Raises `Rejected` for a count below 1."""
    answered = {(row.group, row.topic, row.partition): _of_row(row) for row in rows if row.offset > _NONE}
    live = list(_live(records, count))
    logged = {key: said for key, said, _ in live if said[0] > _NONE}
    found = []
    for key in sorted({*answered, *logged}):
        here, there = answered.get(key), logged.get(key)
        if here != there:
            group, topic, partition = key
            said = f"answered {_told(here)}, in the log {_told(there)}"
            found.append((group, f"{group!r} {topic}-{partition}: {said}"))
    expiring = tuple(sorted(key[0] for key, _, expires_ms in live if expires_ms > _NONE))
    return Agreement(differing=tuple(found), expiring=expiring)


def logged_offsets(records: Iterable[LogRecord], count: int) -> dict[_Key, _Said]:
    """Offset, leader epoch (-1: none) and metadata of every live commit that lies where ``count`` partitions
    put its group, by group, topic and partition."""
    return {key: said for key, said, _ in _live(records, count)}


def _live(records: Iterable[LogRecord], count: int) -> Iterator[tuple[_Key, _Said, int]]:
    home = cache(lambda group: partition_of(group, count))
    latest: dict[_Key, LogRecord] = {}
    for record in records:
        key = commit_place(record.key)
        if key is None or record.partition != home(key[0]):
            continue
        if key not in latest or latest[key].offset < record.offset:
            latest[key] = record
    for key, record in latest.items():
        if record.value is not None:
            said = decode(record, partitions=None).decoded or {}
            told = said.get("offset", _NONE), said.get("leaderEpoch", _NONE), said.get("metadata") or ""
            yield key, told, said.get("expireTimestamp", _NONE)


def _of_row(row: OffsetRow) -> _Said:
    return row.offset, _NONE if row.leader_epoch is None else row.leader_epoch, row.metadata or ""


def _told(said: _Said | None) -> str:
    return "nothing" if said is None else f"offset {said[0]}, epoch {said[1]}, {len(said[2])} of metadata"
