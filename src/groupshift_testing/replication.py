"""A replicator between two logs of one partition, which knows the truth about every copy.

`Replication` holds a source log, a target log and the offset syncs that MirrorMaker's source task would have
written. Nothing in it is random: `play` drives it by a generator of random numbers that the caller seeds, and
may be called again and again, with looks at the state in between (in mid-replay, too).

    replication = Replication()
    play(replication, Random(7), records=500, chances=Chances(hole=0.1, crash=0.02, sync_lost=0.2))
    replication.settle()
    assert replication.lost(replication.exact(c), c) == 0

`lost`, `again` and `exact` count what docs/reference/cross-cluster-offsets.md §1 defines.

Source: docs/reference/cross-cluster-offsets.md §§1, 4.1, 6 (H2, H10).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random

from groupshift.domain.partitions import TopicPartition
from groupshift.links.sync_history import Sync

Headers = tuple[tuple[str, bytes | None], ...]
_IDS = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as a consumer reads it. Markers are no records: they only take an offset."""

    offset: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()


@dataclass(slots=True)
class SimulatedLog:
    """One partition: ``records`` in rising offsets, log ``start`` and log ``end`` offset, and the topic's id,
    which no other log has."""

    records: list[Record] = field(default_factory=list)
    start: int = 0
    end: int = 0
    topic_id: str = field(default_factory=lambda: f"topic-{next(_IDS)}")

    def append(self, record: Record) -> int:
        """Write a record at the log end, whatever its offset says; returns its offset."""
        at = self.end
        self.records.append(
            Record(
                offset=at,
                timestamp_ms=record.timestamp_ms,
                value=record.value,
                key=record.key,
                headers=record.headers,
            )
        )
        self.end += 1
        return at

    def skip(self, offsets: int = 1) -> None:
        """Leave so many offsets without a record: markers, or what compaction took."""
        self.end += offsets

    def index(self, offset: int) -> int:
        """The place in ``records`` of the first record at or behind ``offset``."""
        return bisect_left(self.records, offset, key=lambda record: record.offset)

    def read(self, offset: int, records: int) -> list[Record]:
        """At most so many records from the first at or behind ``offset``, as a consumer gets them."""
        at = self.index(offset)
        return self.records[at : at + records]

    def compact(self, *offsets: int) -> None:
        """Remove the records at these offsets; log start and log end stay."""
        gone = frozenset(offsets)
        self.records = [record for record in self.records if record.offset not in gone]

    def delete_before(self, start: int) -> None:
        """Move the log start up to ``start``, as retention does."""
        self.start = max(self.start, start)
        self.records = self.records[self.index(self.start) :]

    def truncate(self, end: int) -> None:
        """Cut the log back to ``end``, as an unclean election does."""
        self.records = self.records[: self.index(end)]
        self.end = min(self.end, end)
        self.start = min(self.start, self.end)


@dataclass(slots=True)
class _PartitionState:
    """What a source task remembers of one partition in its lifetime; -1: nothing yet."""

    previous_upstream: int = -1
    previous_downstream: int = -1
    last_sync_downstream: int = -1

    def is_due(self, upstream: int, downstream: int, offset_lag_max: int) -> bool:
        """Note an acknowledged record; True if its sync is due now (§4.1)."""
        due = (
            self.last_sync_downstream == -1
            or downstream - self.last_sync_downstream - 1 >= offset_lag_max
            or upstream != self.previous_upstream + 1
            or downstream < self.previous_downstream
        )
        self.previous_upstream, self.previous_downstream = upstream, downstream
        if due:
            self.last_sync_downstream = downstream
        return due


class OffsetSyncWriter:
    """When MirrorMaker's source task sends which sync, for the lifetime of one task.

    ``send`` gets partition, upstream and downstream offset of each sync that leaves, in order. A send counts
    as unacknowledged until `sends_acknowledged`; at most ``in_flight_max`` are.
    """

    def __init__(
        self,
        send: Callable[[TopicPartition, int, int], None],
        *,
        offset_lag_max: int = 100,
        in_flight_max: int = 10,
    ) -> None:
        self._send = send
        self._offset_lag_max = offset_lag_max
        self._in_flight_max = in_flight_max
        self._states: dict[TopicPartition, _PartitionState] = {}
        self.pending: dict[TopicPartition, tuple[int, int]] = {}
        """Due and not sent: one slot per partition, a newer sync overwrites an older one."""
        self.delayed: dict[TopicPartition, tuple[int, int]] = {}
        """The newest record's sync of a partition, where it is not due."""
        self.in_flight = 0

    def record_acknowledged(self, partition: TopicPartition, upstream: int, downstream: int) -> None:
        """Note the copy of one record and send what may leave."""
        state = self._states.setdefault(partition, _PartitionState())
        if state.is_due(upstream, downstream, self._offset_lag_max):
            # a delayed sync is older: if it left after this one, it would look like a rewind
            self.delayed.pop(partition, None)
            self.pending[partition] = (upstream, downstream)
        else:
            self.delayed[partition] = (upstream, downstream)
        self._fire()

    def source_offsets_committed(self) -> None:
        """Promote the delayed syncs, as each commit of Connect's source offsets does; send what may leave."""
        self.pending.update(self.delayed)
        self.delayed.clear()
        self._fire()

    def sends_acknowledged(self) -> None:
        """Every send is acknowledged. What is pending leaves with the next record or commit, not now."""
        self.in_flight = 0

    def _fire(self) -> None:
        while self.pending and self.in_flight < self._in_flight_max:
            partition = next(iter(self.pending))
            upstream, downstream = self.pending.pop(partition)
            self.in_flight += 1
            self._send(partition, upstream, downstream)


@dataclass(frozen=True, slots=True)
class Copies:
    """The truth about a target log: ``source_of`` has the source offset of each target offset that holds a
    copy, ``end`` is the target's log end (§1)."""

    source_of: Mapping[int, int]
    end: int

    def last(self) -> dict[int, int]:
        """Source offset → the target offset of its last copy."""
        last: dict[int, int] = {}
        for downstream, upstream in self.source_of.items():
            last[upstream] = max(last.get(upstream, -1), downstream)
        return last

    def lost(self, x: int, c: int) -> int:
        """How many source offsets at or behind ``c`` have copies, and all of them before ``x``."""
        return sum(s >= c and d < x for s, d in self.last().items())

    def again(self, x: int, c: int) -> int:
        """How many target records at or behind ``x`` are copies of source offsets before ``c``."""
        return sum(d >= x and s < c for d, s in self.source_of.items())

    def exact(self, c: int) -> int:
        """The largest x with `lost` 0: the first last copy of what is at or behind ``c``, else the end."""
        return min((d for s, d in self.last().items() if s >= c), default=self.end)


def no_headers(upstream: int) -> Headers:  # noqa: ARG001
    """No header on any copy."""
    return ()


class Replication:
    """A source log, a target log, the replicator between them, and the truth.

    ``offset_headers``: the headers that the copy of a source offset gets in front of its own.
    ``acknowledge_every``: after so many copies the sends of syncs are acknowledged; a large number is a bulk
    load, where most syncs never leave.
    """

    PARTITION = TopicPartition("orders", 0)

    def __init__(
        self,
        *,
        offset_lag_max: int = 100,
        in_flight_max: int = 10,
        acknowledge_every: int = 1,
        offset_headers: Callable[[int], Headers] = no_headers,
    ) -> None:
        self.source = SimulatedLog()
        self.target = SimulatedLog()
        self.syncs: list[Sync] = []
        """The offset syncs, in the order of their log."""
        self.clock_ms = 1_700_000_000_000
        self.position = 0
        """The next source offset that the replicator copies."""
        self.committed = 0
        """Where it starts again after a crash."""
        self._offset_lag_max, self._in_flight_max = offset_lag_max, in_flight_max
        self._acknowledge_every, self._copied = acknowledge_every, 0
        self._offset_headers = offset_headers
        self._filtered: set[int] = set()
        self._source_of: dict[int, int] = {}
        self._syncs_to_lose = 0
        self._sync_log_end = 0
        self.writer = self._new_writer()

    # -- the source ------------------------------------------------------------------------------------

    def produce(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
        filtered: bool = False,
    ) -> int:
        """Append one source record, which the replicator leaves out if ``filtered``; returns its offset."""
        self.clock_ms += 1
        at = self.clock_ms if timestamp_ms is None else timestamp_ms
        record = Record(offset=-1, timestamp_ms=at, value=value, key=key, headers=headers)
        offset = self.source.append(record)
        if filtered:
            self._filtered.add(offset)
        return offset

    def recreate_source(self) -> None:
        """Delete the source topic and make it anew; the replicator starts at its beginning. What was copied
        of the old topic counts as foreign from now on."""
        self.source = SimulatedLog()
        self.position = self.committed = 0
        self._filtered.clear()
        self._source_of.clear()

    # -- the replicator --------------------------------------------------------------------------------

    def replicate(self, records: int | None = None) -> int:
        """Copy at most so many records (default: all) from the position on; returns how many were read."""
        batch = self.source.read(self.position, len(self.source.records) if records is None else records)
        for record in batch:
            self.position = record.offset + 1
            if record.offset not in self._filtered:
                self._copy(record)
        return len(batch)

    def _copy(self, record: Record) -> None:
        self.clock_ms += 1
        copy = Record(
            offset=-1,
            timestamp_ms=record.timestamp_ms,
            value=record.value,
            key=record.key,
            headers=(*self._offset_headers(record.offset), *record.headers),
        )
        downstream = self.target.append(copy)
        self._source_of[downstream] = record.offset
        self._copied += 1
        if self._copied % self._acknowledge_every == 0:
            self.writer.sends_acknowledged()
        self.writer.record_acknowledged(self.PARTITION, record.offset, downstream)

    def commit(self) -> None:
        """Store the position, and promote the delayed sync."""
        self.committed = self.position
        self.writer.source_offsets_committed()

    def crash(self) -> None:
        """Start a new task at the committed position: what was copied behind it is copied again, and syncs
        that had not left are gone."""
        self.position = self.committed
        self.writer = self._new_writer()

    def settle(self) -> None:
        """Copy all there is and send the last sync: replication is at rest then."""
        self.replicate()
        self.writer.sends_acknowledged()
        self.commit()

    @property
    def replaying(self) -> bool:
        """True while the replicator copies what it has copied before."""
        return self.position <= max(self._source_of.values(), default=-1)

    # -- the syncs -------------------------------------------------------------------------------------

    def lose_syncs(self, sends: int) -> None:
        """Let the next so many sends of syncs fail; MirrorMaker forgets a failed send."""
        self._syncs_to_lose += sends

    def _new_writer(self) -> OffsetSyncWriter:
        return OffsetSyncWriter(
            self._write_sync, offset_lag_max=self._offset_lag_max, in_flight_max=self._in_flight_max
        )

    def _write_sync(self, _: TopicPartition, upstream: int, downstream: int) -> None:
        if self._syncs_to_lose:
            self._syncs_to_lose -= 1
            return
        sync = Sync(
            upstream=upstream,
            downstream=downstream,
            log_offset=self._sync_log_end,
            log_time_ms=self.clock_ms,
        )
        self.syncs.append(sync)
        self._sync_log_end += 1

    # -- the target ------------------------------------------------------------------------------------

    def write_foreign(self, value: bytes | None, *, key: bytes | None = None) -> int:
        """Append a target record that is no copy; returns its offset."""
        self.clock_ms += 1
        return self.target.append(Record(offset=-1, timestamp_ms=self.clock_ms, value=value, key=key))

    def compact_target(self, *offsets: int) -> None:
        """Remove target records, and every older copy of the same source record: it has the same key."""
        older = (d for offset in offsets for d in self.copies(self._source_of.get(offset, -1)) if d < offset)
        self.target.compact(*offsets, *older)
        self._forget_removed()

    def delete_target_before(self, start: int) -> None:
        """Let retention move the target's log start."""
        self.target.delete_before(start)
        self._forget_removed()

    def truncate_target(self, end: int) -> None:
        """Cut the target back; the replicator goes on where it was."""
        self.target.truncate(end)
        self._forget_removed()

    def recreate_target(self) -> None:
        """Delete the target topic and make it anew; the replicator goes on where it was (H2)."""
        self.target = SimulatedLog()
        self._source_of.clear()

    def _forget_removed(self) -> None:
        kept = frozenset(record.offset for record in self.target.records)
        self._source_of = {d: s for d, s in self._source_of.items() if d in kept}

    # -- the truth -------------------------------------------------------------------------------------

    def source_of(self, downstream: int) -> int | None:
        """The source offset whose copy the target holds there; none: foreign, a marker, or removed."""
        return self._source_of.get(downstream)

    def copies(self, upstream: int) -> tuple[int, ...]:
        """Where the target holds copies of this source offset now, in rising order."""
        return tuple(sorted(d for d, s in self._source_of.items() if s == upstream))

    @property
    def truth(self) -> Copies:
        """What the target holds copies of now."""
        return Copies(self._source_of, self.target.end)

    def lost(self, x: int, c: int) -> int:
        """See `Copies.lost`."""
        return self.truth.lost(x, c)

    def again(self, x: int, c: int) -> int:
        """See `Copies.again`."""
        return self.truth.again(x, c)

    def exact(self, c: int) -> int:
        """See `Copies.exact`."""
        return self.truth.exact(c)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """How likely each event is at each step of `play`, from 0 to 1."""

    hole: float = 0.0
    """One to three source offsets without a record."""
    filtered: float = 0.0
    """A source record that is not copied."""
    foreign: float = 0.0
    """A target record that is no copy."""
    target_marker: float = 0.0
    """A target offset without a record, as an exactly-once replicator leaves one."""
    crash: float = 0.0
    commit: float = 0.1
    sync_lost: float = 0.0
    compacted: float = 0.0
    """One source record that was there before, and one copy, are compacted away. No source record that a
    replay would copy again: only its old copy would be left, which `Replication.lost` counts, although the
    record that replaced it is copied again."""


def play(
    replication: Replication,
    random: Random,
    *,
    records: int,
    chances: Chances,
    period: int = 0,
) -> None:
    """Produce so many source records, copy on average as many, and let the ``chances`` happen.

    Values are the numbers of the source offsets, or repeat every ``period`` records. Afterwards replication
    may be behind or in mid-replay: `Replication.settle` ends that.
    """

    def happens(chance: float) -> bool:
        return random.random() < chance

    for _ in range(records):
        if happens(chances.hole):
            replication.source.skip(random.randint(1, 3))
        number = replication.source.end % period if period else replication.source.end
        replication.produce(b"%d" % number, filtered=happens(chances.filtered))
        if happens(chances.foreign):
            replication.write_foreign(b"foreign")
        if happens(chances.target_marker):
            replication.target.skip()
        if happens(chances.sync_lost):
            replication.lose_syncs(1)
        replication.replicate(random.randint(0, 2))
        if happens(chances.commit):
            replication.commit()
        if happens(chances.crash):
            replication.crash()
        if happens(chances.compacted):
            _compact_one(replication, random)


def _compact_one(replication: Replication, random: Random) -> None:
    at = random.randrange(replication.source.end)
    if at < replication.committed or not replication.copies(at):
        replication.source.compact(at)
    replication.compact_target(random.randrange(replication.target.end + 1))
