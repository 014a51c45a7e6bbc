"""Brokers as an expansion of ``__consumer_offsets`` meets them, and views that were made before.

`OffsetBrokers` have counts that are read at the start only, partitions that move, and OLD and NEW loaders.
They have no members, no transactions, no compaction. What OLD and NEW do follows
docs/reference/group-coordinator.md §3.1 and docs/reference/coordinator-on-real-brokers.md §F:

* Each broker puts a group by the count it read when it started, and serves what that puts on a partition it
  leads now.
* NEW keeps what it loaded by partition of the log.
* OLD keeps one cache by group: of two copies the one that was loaded first stays; a commit replaces an offset
  only from a higher place in the log, whatever partition that is in; and a partition that goes away takes the
  groups with it that the broker's *count* puts there.

`MemoryPlacementViews` gives one view (`groupshift.ports.cluster.PlacementViews`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from groupshift.domain.cluster import PlacementView
from groupshift.domain.commit_places import Topics
from groupshift.domain.group_partition_and_count import NOBODY, owners, partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Conflict, Rejected
from groupshift.log import LogRecord, decode
from groupshift.log.releases import Coordinator
from groupshift_testing.log_encoder import encode_key, encode_value

_COMMIT, _VERSION = 1, 3
_Place = tuple[str, int]
_Kept = dict[_Place, tuple[int, OffsetRow]]
"""Topic and partition → place of the commit's batch in its partition of the log, and what was committed."""


class NotCoordinator(Conflict):
    """The broker does not serve the group: error code 16."""


@dataclass(slots=True)
class OffsetBroker:
    """One broker: ``count`` is what it read when it started, ``cache`` its groups (OLD), ``shards`` its
    groups by partition of the log (NEW)."""

    node_id: int
    configured: int
    running: bool = False
    count: int = 0
    cache: dict[str, _Kept] = field(default_factory=dict)
    shards: dict[int, dict[str, _Kept]] = field(default_factory=dict)


@dataclass(slots=True)
class OffsetBrokers:
    """A cluster: ``nodes`` brokers of one ``kind``, all configured with ``count`` partitions and started, and
    the topic made. ``logs`` are the records of each partition, ``leaders`` who leads it (-1: nobody)."""

    kind: Coordinator
    count: int
    nodes: int = 3
    brokers: dict[int, OffsetBroker] = field(init=False)
    logs: list[list[LogRecord]] = field(init=False, default_factory=list)
    leaders: list[int] = field(init=False, default_factory=list)
    now_ms: int = 1_000

    def __post_init__(self) -> None:
        """Start all brokers over an empty topic."""
        self.brokers = {
            node: OffsetBroker(node_id=node, configured=self.count) for node in range(1, self.nodes + 1)
        }
        self._grow(self.count)
        for node in self.brokers:
            self.start(node)

    # what an operator does

    def start(self, node: int) -> None:
        """The broker reads the count, and takes the partitions back that it is preferred for."""
        broker = self.brokers[node]
        broker.running, broker.count = True, len(self.logs)
        self._elect()

    def stop(self, node: int) -> None:
        """Its partitions go to the next broker that runs."""
        broker = self.brokers[node]
        broker.running, broker.cache, broker.shards = False, {}, {}
        self._elect()

    def restart(self, node: int) -> None:
        """Stop, then start."""
        self.stop(node)
        self.start(node)

    def expand(self, count: int) -> None:
        """Create partitions; no broker counts them before it is restarted. Raises `Rejected` for fewer."""
        if count < len(self.logs):
            raise Rejected(f"{count} partitions are fewer than there are ({len(self.logs)})")
        self._grow(count)
        self._elect()

    def bounce(self, partition: int) -> None:
        """Give a partition to another broker that runs, and back."""
        leader = self.leaders[partition]
        others = [node for node in self._replicas(partition) if self.brokers[node].running and node != leader]
        for node in (*others[:1], *([leader] if others else [])):
            self._lead(partition, node)

    # what clients and tools ask one broker

    def find_coordinator(self, node_id: int, group: str) -> int:
        """The node that this broker names; `NOBODY` for a partition that is not there or not led."""
        place = partition_of(group, self.brokers[node_id].count)
        return self.leaders[place] if place < len(self.logs) else NOBODY

    def serves(self, node: int, group: str) -> bool:
        """Whether this broker takes requests for the group."""
        broker = self.brokers[node]
        place = partition_of(group, broker.count)
        return broker.running and place < len(self.logs) and self.leaders[place] == node

    def commit_at(self, node: int, rows: Sequence[OffsetRow]) -> None:
        """One commit of one group: acknowledged, be it visible then or not. Raises `NotCoordinator`."""
        group, place = rows[0].group, self._place(node, rows[0].group)
        base = len(self.logs[place])
        self.now_ms += 1
        self.logs[place] += [self._record(place, base + number, row) for number, row in enumerate(rows)]
        kept = self._kept(node, place).setdefault(group, {})
        for row in rows:
            at = row.topic, row.partition
            if at not in kept or kept[at][0] < base:
                kept[at] = base, row

    def fetch_at(self, node: int, group: str) -> tuple[OffsetRow, ...]:
        """The committed offsets of a group; none, without an error, where the broker knows none. Raises
        `NotCoordinator`."""
        kept = self._kept(node, self._place(node, group)).get(group, {})
        return tuple(kept[at][1] for at in sorted(kept))

    def delete_at(self, node: int, group: str) -> None:
        """Delete a group: a tombstone for each offset that the broker knows. Raises `NotCoordinator`."""
        place = self._place(node, group)
        known = self._kept(node, place).pop(group, {})
        self.now_ms += 1
        self.logs[place] += [
            self._record(place, len(self.logs[place]) + number, known[at][1], dead=True)
            for number, at in enumerate(sorted(known))
        ]

    def listed_at(self, node: int) -> frozenset[str]:
        """The groups that a broker lists."""
        broker = self.brokers[node]
        shards = (group for shard in broker.shards.values() for group in shard)
        return frozenset(broker.cache if self.kind is Coordinator.OLD else shards)

    # inside

    def _place(self, node: int, group: str) -> int:
        if not self.serves(node, group):
            raise NotCoordinator(f"broker {node} is not the coordinator of {group!r} (16)")
        return partition_of(group, self.brokers[node].count)

    def _kept(self, node: int, place: int) -> dict[str, _Kept]:
        broker = self.brokers[node]
        return broker.cache if self.kind is Coordinator.OLD else broker.shards.setdefault(place, {})

    def _record(self, place: int, offset: int, row: OffsetRow, *, dead: bool = False) -> LogRecord:
        key = {"group": row.group, "topic": row.topic, "partition": row.partition}
        said = {
            "offset": row.offset,
            "leaderEpoch": -1 if row.leader_epoch is None else row.leader_epoch,
            "metadata": row.metadata or "",
            "commitTimestamp": self.now_ms,
        }
        return LogRecord(
            partition=place,
            offset=offset,
            timestamp_ms=self.now_ms,
            key=encode_key(_COMMIT, key),
            value=None if dead else encode_value(_COMMIT, _VERSION, said),
        )

    def _grow(self, count: int) -> None:
        more = count - len(self.logs)
        self.logs += [[] for _ in range(more)]
        self.leaders += [NOBODY] * more

    def _replicas(self, partition: int) -> list[int]:
        """Every broker has every partition; whose turn it is comes first."""
        nodes = sorted(self.brokers)
        first = partition % len(nodes)
        return nodes[first:] + nodes[:first]

    def _elect(self) -> None:
        for partition in range(len(self.logs)):
            running = (node for node in self._replicas(partition) if self.brokers[node].running)
            self._lead(partition, next(running, NOBODY))

    def _lead(self, partition: int, node: int) -> None:
        former = self.leaders[partition]
        if former == node:
            return
        self.leaders[partition] = node
        if former != NOBODY and self.brokers[former].running:
            self._unload(self.brokers[former], partition)
        if node != NOBODY:
            self._load(self.brokers[node], partition)

    def _unload(self, broker: OffsetBroker, partition: int) -> None:
        broker.shards.pop(partition, None)
        for group in [each for each in broker.cache if partition_of(each, broker.count) == partition]:
            del broker.cache[group]

    def _load(self, broker: OffsetBroker, partition: int) -> None:
        by_group = materialised(self.logs[partition])
        if self.kind is Coordinator.NEW:
            broker.shards[partition] = by_group
            return
        for group, kept in by_group.items():
            broker.cache.setdefault(group, kept)


def materialised(records: Iterable[LogRecord]) -> dict[str, _Kept]:
    """What the records of one partition add up to, by group: the newest of each key, unless a tombstone."""
    by_group: dict[str, _Kept] = defaultdict(dict)
    for row, base, dead in _read(records):
        at = row.topic, row.partition
        if dead:
            by_group[row.group].pop(at, None)
        else:
            by_group[row.group][at] = base, row
    return {group: kept for group, kept in by_group.items() if kept}


def _read(records: Iterable[LogRecord]) -> Iterator[tuple[OffsetRow, int, bool]]:
    base, before = 0, ("", -1)
    for each in records:
        read = decode(each, partitions=None)
        if read.record_type != _COMMIT:  # there are no members here: what else lies there is left over
            continue
        said: Mapping[str, int | str] = read.decoded or {}
        batch = (read.group_id or "", each.timestamp_ms)
        base, before = (base if batch == before else each.offset), batch
        row = OffsetRow(
            group=read.group_id or "",
            topic=read.topic or "",
            partition=read.partition or 0,
            offset=int(said.get("offset", -1)),
            leader_epoch=None if said.get("leaderEpoch", -1) == -1 else int(said["leaderEpoch"]),
            metadata=str(said.get("metadata", "")),
        )
        yield row, base, each.value is None


@dataclass(slots=True)
class MemoryPlacementViews:
    """``view`` at every look; each broker serves what the first count that fits its answers gives it;
    ``looked_up`` are the groups that brokers were asked about, ``answered`` those with offsets; ``known``
    is what there is to know of topics."""

    view: PlacementView
    answered: frozenset[str] = frozenset()
    looked_up: list[str] = field(default_factory=list)
    known: Topics = field(default_factory=Topics)

    def look(self) -> PlacementView:
        """See the port."""
        return self.view

    def owners(self, groups: Collection[str]) -> Mapping[str, tuple[int, ...]]:
        """See the port."""
        self.looked_up += groups
        using = {node: counts[0] for node, counts in self.view.counted.items() if counts}
        return {group: owners(group, using, self.view.topic.leaders) for group in groups}

    def answering(self, groups: Collection[str]) -> frozenset[str]:
        """See the port."""
        return self.answered & set(groups)

    def topics(self, names: Collection[str]) -> Topics:
        """See the port."""
        return Topics(now={name: each for name, each in self.known.now.items() if name in names})

    def close(self) -> None:
        """See the port."""
