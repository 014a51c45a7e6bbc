"""When MirrorMaker's source task sends a sync, and the simulator's count of what is lost and read again."""

from __future__ import annotations

from random import Random

import pytest

from groupshift.domain.partitions import TopicPartition
from groupshift_testing.replication import Chances, OffsetSyncWriter, Replication, play

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Sends:
    """A writer and what it sent."""

    def __init__(self, **settings: int) -> None:
        self.pairs: list[tuple[int, int]] = []
        self.partitions: list[TopicPartition] = []
        self.writer = OffsetSyncWriter(self._send, **settings)

    def _send(self, partition: TopicPartition, upstream: int, downstream: int) -> None:
        self.partitions.append(partition)
        self.pairs.append((upstream, downstream))


@pytest.mark.parametrize(
    ("records", "sent"),
    [
        ([(7, 3)], [(7, 3)]),
        ([(u, u) for u in range(101)], [(0, 0)]),
        ([(u, u) for u in range(102)], [(0, 0), (101, 101)]),
        ([(0, 0), (1, 1), (3, 2)], [(0, 0), (3, 2)]),
        ([(0, 0), (1, 1), (1, 2)], [(0, 0), (1, 2)]),
        ([(0, 5), (1, 6), (2, 4)], [(0, 5), (2, 4)]),
        ([(0, 5), (1, 6), (2, 6)], [(0, 5)]),
    ],
    ids=["first", "lag below", "lag reached", "hole", "replay", "target went back", "target stood still"],
)
def test_cluster_04_emission_conditions(records: list[tuple[int, int]], sent: list[tuple[int, int]]) -> None:
    """Due are the first of a lifetime, d - last - 1 >= lag, a hole in u, and a d that went back."""
    sends = Sends()
    for upstream, downstream in records:
        sends.writer.record_acknowledged(P0, upstream, downstream)
    assert sends.pairs == sent


def test_cluster_04_emission_counts_the_lag_from_the_last_sync() -> None:
    """A hole starts the count anew: the next one is due `lag` records behind it."""
    sends = Sends(offset_lag_max=3)
    for upstream in [0, 1, 5, 6, 7, 8, 9]:
        sends.writer.record_acknowledged(P0, upstream, upstream)
    assert sends.pairs == [(0, 0), (5, 5), (9, 9)]


def test_cluster_04_emission_keeps_one_pending_sync_of_a_partition() -> None:
    """While sends are unacknowledged, a newer due sync overwrites an older one, which is never sent."""
    sends = Sends(offset_lag_max=0, in_flight_max=2)
    for upstream in range(6):
        sends.writer.record_acknowledged(P0, upstream, upstream + 100)
    assert sends.pairs == [(0, 100), (1, 101)]
    assert sends.writer.pending == {P0: (5, 105)}
    sends.writer.sends_acknowledged()
    assert len(sends.pairs) == 2, "an acknowledgement sends nothing itself"
    sends.writer.record_acknowledged(P0, 6, 106)
    assert sends.pairs[2:] == [(6, 106)]


def test_cluster_04_emission_limits_sends_per_task_not_per_partition() -> None:
    """Ten sends are in flight by default, over all partitions of the task."""
    sends = Sends()
    for number in range(12):
        sends.writer.record_acknowledged(TopicPartition("orders", number), 0, 0)
    assert [partition.partition for partition in sends.partitions] == list(range(10))
    sends.writer.sends_acknowledged()
    sends.writer.source_offsets_committed()
    assert [partition.partition for partition in sends.partitions[10:]] == [10, 11]


def test_cluster_04_emission_promotes_the_delayed_sync_at_a_commit() -> None:
    """The newest record's sync waits for the commit of source offsets; a second commit sends nothing."""
    sends = Sends()
    for upstream in range(5):
        sends.writer.record_acknowledged(P0, upstream, upstream)
        sends.writer.record_acknowledged(P1, upstream, upstream)
    assert sends.pairs == [(0, 0), (0, 0)]
    sends.writer.source_offsets_committed()
    assert sends.pairs[2:] == [(4, 4), (4, 4)]
    sends.writer.source_offsets_committed()
    assert len(sends.pairs) == 4


def test_cluster_04_emission_forgets_the_delayed_sync_when_a_newer_one_is_due() -> None:
    """Else the commit would send an older sync behind a newer one, which reads as a rewind."""
    sends = Sends()
    for upstream in [0, 1, 2, 9]:
        sends.writer.record_acknowledged(P0, upstream, upstream)
    sends.writer.source_offsets_committed()
    assert sends.pairs == [(0, 0), (9, 9)]


def test_a_new_task_sends_the_first_record_of_its_replay() -> None:
    """A crash starts a lifetime: what was copied behind the commit is copied again, and its first is due."""
    replication = Replication()
    for _ in range(6):
        replication.produce(b"v")
    replication.replicate(3)
    replication.commit()
    replication.replicate(2)
    replication.crash()
    assert replication.replaying
    replication.settle()
    assert not replication.replaying
    pairs = [(sync.upstream, sync.downstream) for sync in replication.syncs]
    assert pairs == [(0, 0), (2, 2), (3, 5), (5, 7)]
    assert [sync.log_offset for sync in replication.syncs] == [0, 1, 2, 3]
    assert [replication.copies(s) for s in range(6)] == [(0,), (1,), (2,), (3, 5), (4, 6), (7,)]
    assert [replication.exact(c) for c in range(8)] == [0, 1, 2, 5, 6, 7, 8, 8]
    assert (replication.lost(8, 5), replication.lost(7, 5), replication.again(3, 5)) == (1, 0, 4)


def test_the_truth_is_judged_on_the_target_as_it_is() -> None:
    """What was truncated, expired, compacted or recreated away is no copy; foreign records count nowhere."""
    replication = Replication()
    for number in range(6):
        replication.produce(b"v", filtered=number == 2)
    replication.replicate(4)
    replication.write_foreign(b"f")
    replication.settle()
    assert [replication.source_of(d) for d in range(6)] == [0, 1, 3, None, 4, 5]
    assert (replication.exact(2), replication.exact(4), replication.exact(6)) == (2, 4, 6)
    replication.compact_target(2)
    assert (replication.exact(2), replication.target.end) == (4, 6)
    replication.delete_target_before(1)
    assert (replication.copies(0), replication.target.start, replication.lost(6, 0)) == ((), 1, 3)
    replication.truncate_target(4)
    assert (replication.exact(4), replication.target.end, replication.lost(4, 0)) == (4, 4, 1)
    before = replication.target.topic_id
    replication.recreate_target()
    assert (replication.exact(0), replication.target.end) == (0, 0)
    assert replication.target.topic_id != before


def test_play_does_the_same_for_the_same_seed_and_each_event_it_can() -> None:
    """Two runs of one seed agree; holes, filters, foreign records, replays and lost syncs all happen."""
    chances = Chances(hole=0.1, filtered=0.1, foreign=0.1, target_marker=0.05, crash=0.05, sync_lost=0.2)
    runs = []
    for _ in range(2):
        replication = Replication(offset_lag_max=10)
        play(replication, Random(3), records=300, chances=chances)
        replication.settle()
        runs.append(replication)
    one, two = runs
    assert one.syncs == two.syncs
    assert one.target.records == two.target.records
    copies = [len(one.copies(record.offset)) for record in one.source.records]
    assert len(one.source.records) == 300 < one.source.end
    assert min(copies) == 0
    assert max(copies) > 1
    assert any(record.value == b"foreign" for record in one.target.records)
