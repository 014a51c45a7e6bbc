"""Reads of partitions at brokers and in copied files: what a consumer of the level is given, and no more."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.adapters.kafka.wire import Api
from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken, Transient
from groupshift.ports.records import LogRecordView, PartitionReader, TimestampType
from groupshift.spark.record_reads import LiveLogs, copied_partitions, headers_in
from support.batch_encoder import APPEND_TIME, CODECS, TRANSACTIONAL, Record, batch, marker, message_set
from support.fake_brokers import FakeLog, FakeWorld

AT = TopicPartition("orders", 0)
LEVELS = list(Isolation)


@dataclass(slots=True)
class Written:
    """A log that grows, and what consumers of both levels are given of it."""

    log: FakeLog = field(default_factory=FakeLog)
    given: dict[Isolation, list[LogRecordView]] = field(
        default_factory=lambda: {level: [] for level in LEVELS}
    )

    def add(self, first: int, last: int, data: bytes) -> None:
        """Append bytes that reach from one offset to another."""
        self.log.batches.append((first, last, data))
        self.log.end = self.log.stable = last + 1

    def show(self, records: list[Record], *levels: Isolation, kind: TimestampType) -> None:
        """Consumers of these levels are given these records."""
        for level in levels:
            self.given[level] += [
                LogRecordView(
                    offset=record.offset,
                    timestamp_ms=-1 if kind is TimestampType.NONE else record.timestamp_ms,
                    value=record.value,
                    key=record.key,
                    headers=tuple((name.decode(), value) for name, value in record.headers),
                    timestamp_type=kind,
                )
                for record in records
            ]


def some(random: Random, first: int, *, plain: bool = False) -> list[Record]:
    """A few records with holes between them."""
    records, offset = [], first
    for _ in range(random.randint(1, 6)):
        headers = () if plain else ((b"n\xc3\xa4me", b"%d" % offset), (b"", None))[: random.randint(0, 2)]
        records.append(
            Record(
                offset=offset,
                timestamp_ms=1_700_000_000_000,
                key=random.choice((None, b"", b"k%d" % offset)),
                value=random.choice((None, b"v%d" % offset * random.randint(0, 30))),
                headers=headers,
            )
        )
        offset += random.choice((1, 1, 1, 5))
    return records


def history(random: Random, batches: int) -> Written:
    """A log of batches of all kinds: compressed, old, with the broker's time, committed, aborted, emptied."""
    written, offset = Written(), random.choice((0, 7))
    written.log.start = written.log.end = written.log.stable = offset
    for number in range(batches):
        records = some(random, offset, plain=(old := random.random() < 0.2))
        last, codec = records[-1].offset, random.choice(tuple(CODECS))
        kind = random.choice(("plain", "late", "committed", "aborted"))
        if old:
            magic = random.choice((0, 1))
            records = [records[0]] if codec == "zstd" else records
            data = message_set(records, magic, "none" if codec == "zstd" else codec)
            types = (TimestampType.NONE, TimestampType.CREATE_TIME)
            written.add(offset, records[-1].offset, data)
            written.show(records, *LEVELS, kind=types[magic])
        elif kind in {"plain", "late"}:
            last += random.choice((0, 3))
            late = kind == "late"
            written.add(offset, last, batch(records, codec, last=last, attributes=APPEND_TIME * late))
            written.show(
                records,
                *LEVELS,
                kind=TimestampType.LOG_APPEND_TIME if late else TimestampType.CREATE_TIME,
            )
        else:
            data = batch(records, codec, attributes=TRANSACTIONAL, producer=number)
            written.add(offset, last, data)
            written.add(last + 1, last + 1, marker(last + 1, number, commit=kind == "committed"))
            if kind == "aborted":
                written.log.aborted.append((number, offset, last + 1))
            levels = LEVELS if kind == "committed" else [Isolation.READ_UNCOMMITTED]
            written.show(records, *levels, kind=TimestampType.CREATE_TIME)
        offset = written.log.end + random.choice((0, 0, 9))
    return written


def live(written: Written, isolation: Isolation) -> PartitionReader:
    """A reader that asks a broker."""
    world = FakeWorld(topics={AT.topic: [1]}, logs={AT: written.log})
    return LiveLogs(world.observer()).open([AT], isolation)[AT]


def copied(written: Written, isolation: Isolation, folder: Path, *, cut: int) -> PartitionReader:
    """A reader of two segment files, the second from batch ``cut`` on."""
    below = folder / str(AT)
    below.mkdir(parents=True, exist_ok=True)
    parts = written.log.batches[:cut], written.log.batches[cut:]
    for part in filter(None, parts):
        (below / f"{part[0][0]:020}.log").write_bytes(b"".join(data for _, _, data in part))
    return copied_partitions(str(folder), [AT.topic], isolation)[AT]


def agrees(reader: PartitionReader, records: list[LogRecordView], random: Random, end: int) -> None:
    """Fail unless reads at any place and in any order give what the log holds there."""
    assert reader.read(0, len(records) + 1) == records
    for _ in range(30):
        offset, limit = random.randint(0, end + 2), random.choice((1, 2, 5, 40))
        assert reader.read(offset, limit) == [each for each in records if each.offset >= offset][:limit]
        assert reader.before(offset, limit) == [each for each in records if each.offset < offset][-limit:]


@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 30), isolation=st.sampled_from(LEVELS))
def test_reads_at_a_broker_give_what_the_level_shows(seed: int, isolation: Isolation) -> None:
    """Every codec and format, markers, aborted records, holes; from an offset on, and before one."""
    random = Random(seed)
    written = history(random, random.randint(1, 25))
    reader = live(written, isolation)
    assert (reader.start, reader.end) == (written.log.start, written.log.end)
    agrees(reader, written.given[isolation], random, written.log.end)


@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 30), isolation=st.sampled_from(LEVELS))
def test_reads_of_copied_files_give_the_same(
    seed: int, isolation: Isolation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two segment files."""
    random = Random(seed)
    written = history(random, random.randint(2, 25))
    cut = random.randint(1, len(written.log.batches) - 1)
    reader = copied(written, isolation, tmp_path_factory.mktemp("copy"), cut=cut)
    assert reader.end == written.log.end
    agrees(reader, written.given[isolation], random, written.log.end)


def plain(count: int, *, size: int = 100) -> Written:
    """A log of batches of ten records each."""
    written = Written()
    for first in range(0, count, 10):
        records = [
            Record(offset=offset, timestamp_ms=offset, key=None, value=b"x" * size)
            for offset in range(first, first + 10)
        ]
        written.add(first, first + 9, batch(records))
    return written


def test_nothing_from_the_last_stable_offset_on_is_given_to_read_committed() -> None:
    """An open transaction: its records are there at the other level."""
    written = plain(30)
    written.log.stable = 20
    assert [each.offset for each in live(written, Isolation.READ_COMMITTED).read(15, 99)] == [*range(15, 20)]
    assert live(written, Isolation.READ_COMMITTED).before(30, 1)[0].offset == 19
    assert live(written, Isolation.READ_COMMITTED).end == 30
    assert live(written, Isolation.READ_UNCOMMITTED).before(30, 1)[0].offset == 29


def test_a_single_look_asks_for_few_bytes_and_a_pass_for_many() -> None:
    """A probe of a bisection costs 32 KiB; a pass of a log grows to answers of 4 MiB."""
    written = plain(50_000)
    reader = live(written, Isolation.READ_UNCOMMITTED)
    for offset in (25_000, 12_500, 40_000, 6_000):
        assert [each.offset for each in reader.before(offset, 2)] == [offset - 2, offset - 1]
    assert written.log.limits == [32 * 1024] * 4
    written.log.limits.clear()
    assert len(reader.read(0, 50_000)) == 50_000
    assert max(written.log.limits) == 4 << 20
    assert len(written.log.limits) < 20


def test_what_was_read_is_not_fetched_again_while_it_is_kept() -> None:
    """Many groups near each other; and what is kept is bounded."""
    written = plain(2_000)
    reader = live(written, Isolation.READ_UNCOMMITTED)
    for offset in range(0, 2_000, 7):
        assert reader.read(offset, 16)[0].offset == offset
        reader.before(offset, 16)
    assert reader.records_read == 2_000
    large = live(plain(4_000, size=10_000), Isolation.READ_UNCOMMITTED)
    assert len(large.read(0, 4_000)) == 4_000
    assert large.records_read == 4_000
    assert len(large.read(3_000, 1_000)) == 1_000
    assert large.records_read == 4_000
    assert large.read(0, 1)[0].offset == 0
    assert large.records_read > 4_000


def test_records_that_were_deleted_meanwhile_are_a_hole() -> None:
    """Retention passes the reader by."""
    written = plain(100)
    reader = live(written, Isolation.READ_UNCOMMITTED)
    written.log.start = 40
    written.log.batches = [each for each in written.log.batches if each[0] >= 40]
    assert [each.offset for each in reader.read(5, 2)] == [40, 41]
    assert reader.start == 0


def test_a_leader_that_moved_is_looked_up_again() -> None:
    """The one that was asked says that it is none."""
    written = plain(40)
    world = FakeWorld(topics={AT.topic: [1]}, logs={AT: written.log})
    reader = LiveLogs(world.observer()).open([AT], Isolation.READ_COMMITTED)[AT]
    assert reader.read(0, 1)[0].offset == 0
    world.topics[AT.topic] = [2]
    reader._pieces.clear()
    assert reader.read(0, 1)[0].offset == 0
    assert world.asked[-1][:2] == (2, Api.FETCH)


def test_a_partition_without_a_leader_is_given_up_in_time() -> None:
    """It stays so."""
    written = plain(40)
    world = FakeWorld(topics={AT.topic: [1]}, logs={AT: written.log})
    reader = LiveLogs(world.observer(timeout_s=0.3)).open([AT], Isolation.READ_COMMITTED)[AT]
    world.topics[AT.topic] = [-1]
    with pytest.raises(Transient, match=r"within 0\.3 s"):
        reader.read(0, 1)


def test_partitions_that_do_not_exist_are_left_out_and_topics_are_told() -> None:
    """Of one that is there, and another one."""
    world = FakeWorld(topics={AT.topic: [1, 2]}, logs={AT: plain(10).log})
    logs = LiveLogs(world.observer())
    assert set(logs.open([AT, TopicPartition("gone", 0), TopicPartition(AT.topic, 2)], LEVELS[0])) == {AT}
    assert {name: sorted(each.epochs) for name, each in logs.topics().items()} == {AT.topic: [0, 1]}


@pytest.mark.parametrize("raw", [b"\x02", b"\x02\x02ab", b"\x00\x00", b"\x02\x02a\x09bcde", b"\xff"])
def test_damaged_headers_are_told(raw: bytes) -> None:
    """Too short, and bytes left over."""
    with pytest.raises(Broken, match="no headers"):
        headers_in(raw)
