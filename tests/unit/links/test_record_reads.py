"""Reads that many translations share."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.links.record_reads import SharedReads
from groupshift_testing.partition_reads import SimulatedReader
from groupshift_testing.replication import Record, SimulatedLog


def log(random: Random, records: int, *, start: int = 0) -> SimulatedLog:
    """A log with holes, whose values are the offsets."""
    made = SimulatedLog()
    made.skip(start)
    made.start = start
    for _ in range(records):
        made.skip(random.choice((0, 0, 1, 7)))
        made.append(Record(offset=-1, timestamp_ms=0, value=b"%d" % made.end))
    made.skip(random.choice((0, 2)))
    return made


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 30))
def test_shared_reads_give_what_the_log_holds_in_any_order_of_asking(seed: int, chunk: int) -> None:
    """Whatever was read before: from an offset, before one, and between two."""
    random = Random(seed)
    partition = log(random, random.randint(0, 60), start=random.choice((0, 5)))
    reads = SharedReads(SimulatedReader(partition), lambda record: record.value, chunk=chunk)
    for _ in range(20):
        low, high = sorted(random.randint(0, partition.end + 2) for _ in range(2))
        limit = random.randint(1, 12)
        at = partition.index(low)
        wanted = [each.offset for each in partition.records[at : at + limit]]
        assert reads.read(low, limit).offsets == wanted
        assert reads.before(low, limit).offsets == [
            each.offset for each in partition.records[max(0, at - limit) : at]
        ]
        inside = [each.offset for each in partition.records if low <= each.offset < high]
        found = reads.span(low, high, limit)
        assert (found is None) == (len(inside) > limit)
        if found is not None:
            assert found.offsets == inside
            assert found.keys == [b"%d" % offset for offset in inside]


def test_a_record_is_fetched_once_whatever_is_asked() -> None:
    """Thousands of groups on one partition cost one read of it."""
    partition = log(Random(3), 2_000)
    reader = SimulatedReader(partition)
    reads = SharedReads(reader, lambda record: record.value)
    for offset in range(0, partition.end, 3):
        reads.before(offset, 16)
        reads.read(offset, 16)
        reads.span(offset, offset + 40, 100)
    assert len(partition.records) <= reader.records_read <= len(partition.records) + 500
