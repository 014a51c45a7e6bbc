"""The chosen replicator over clusters in memory, against the model of one and the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken, Rejected, Transient
from groupshift.links.link import Link, SyncLocation
from groupshift.links.mirrormaker import OffsetSync, decode_sync
from groupshift.links.position_search import HeaderEncoding, OffsetHeader
from groupshift.ports.records import LogRecordView
from groupshift_sandbox.replication import replicator as module
from groupshift_sandbox.replication.logs import PartitionLog, copies
from groupshift_sandbox.replication.replicator import (
    FOREIGN,
    OFFSET_HEADER,
    PROVENANCE_HEADER,
    Choices,
    Replicator,
    ReplicatorOptions,
    with_source_offset,
)
from groupshift_testing.replication import Replication

MM2 = Link(name="dr", kind="mm2-default", source_alias="a", target_alias="b")
AT = TopicPartition("orders", 0)
S, T = "s:1", "t:2"


@dataclass
class Stored:
    """A record of a log in memory, as confluent-kafka hands it out."""

    at: TopicPartition
    number: int
    content: bytes | None
    named: bytes | None = None
    time: int = 5
    tags: list[tuple[str, bytes | None]] = field(default_factory=list)

    def topic(self) -> str:
        return self.at.topic

    def partition(self) -> int:
        return self.at.partition

    def offset(self) -> int:
        return self.number

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes | None:
        return self.named

    def timestamp(self) -> tuple[int, int]:
        return (1, self.time)

    def headers(self) -> list[tuple[str, bytes | None]]:
        return self.tags

    def error(self) -> Any:
        return None


class _End(Stored):
    """The event at the end of a partition."""

    def error(self) -> Any:
        class Error:
            def code(self) -> int:
                return module.KafkaError._PARTITION_EOF

        return Error()


class Clusters:
    """Both clusters; ``refused`` targets answer each record with an error."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, TopicPartition], list[Stored]] = {}
        self.ends: dict[tuple[str, TopicPartition], int] = {}
        self.transactions: list[str] = []
        self.refused = False

    def write(self, address: str, at: TopicPartition, value: bytes | None, **fields: Any) -> Stored:
        number = self.ends.get((address, at), 0)
        stored = Stored(at, number, value, **fields)
        self.logs.setdefault((address, at), []).append(stored)
        self.ends[address, at] = number + 1
        return stored

    def skip(self, address: str, at: TopicPartition, offsets: int = 1) -> None:
        self.ends[address, at] = self.ends.get((address, at), 0) + offsets

    def log(self, address: str, at: TopicPartition) -> PartitionLog:
        records = self.logs.get((address, at), [])
        views = (
            LogRecordView(offset=each.number, timestamp_ms=each.time, value=each.content, key=each.named)
            for each in records
        )
        return PartitionLog(start=0, end=self.ends.get((address, at), 0), records=tuple(views))


class MemoryConsumer:
    """Gives what is behind its positions, then the end of each partition, once."""

    def __init__(self, clusters: Clusters, settings: dict[str, Any]) -> None:
        self._clusters, self._address = clusters, settings["bootstrap.servers"]

    def assign(self, places: list[Any]) -> None:
        self._left = {TopicPartition(each.topic, each.partition): each.offset for each in places}
        self._ended: set[TopicPartition] = set()

    def consume(self, most: int, timeout: float) -> list[Stored]:  # noqa: ARG002
        taken: list[Stored] = []
        for at, position in self._left.items():
            behind = [
                each for each in self._clusters.logs.get((self._address, at), []) if each.number >= position
            ]
            chosen = behind[: most - len(taken)]
            taken += chosen
            if chosen:
                self._left[at] = chosen[-1].number + 1
            if len(chosen) == len(behind) and len(taken) < most and at not in self._ended:
                self._ended.add(at)
                taken.append(_End(at, 0, None))
        return taken

    def close(self) -> None:
        return


class MemoryProducer:
    """Writes at once and reports at the flush, as a real one does later."""

    def __init__(self, clusters: Clusters, settings: dict[str, Any]) -> None:
        self._clusters, self._address = clusters, settings["bootstrap.servers"]
        self._reports: list[Callable[[], None]] = []
        self._wrote: set[TopicPartition] = set()

    def produce(self, topic: str, value: bytes | None, *, partition: int, **fields: Any) -> None:
        at = TopicPartition(topic, partition)
        report = fields.get("on_delivery")
        stored = self._clusters.write(
            self._address,
            at,
            value,
            named=fields.get("key"),
            time=fields.get("timestamp", 5),
            tags=fields.get("headers", []),
        )
        self._wrote.add(at)
        if report is not None:
            error = _Refusal() if self._clusters.refused else None
            self._reports.append(lambda: report(error, stored))

    def flush(self, timeout: float) -> int:  # noqa: ARG002
        for report in self._reports:
            report()
        self._reports.clear()
        return 0

    def init_transactions(self, timeout: float) -> None:  # noqa: ARG002
        self._clusters.transactions.append("init")

    def begin_transaction(self) -> None:
        self._clusters.transactions.append("begin")
        self._wrote.clear()

    def commit_transaction(self, timeout: float) -> None:  # noqa: ARG002
        self._clusters.transactions.append("commit")
        for at in self._wrote:
            self._clusters.skip(self._address, at)


class _Refusal:
    def str(self) -> str:
        return "not today"


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    """With topic ``orders`` of one partition on the source; clients come to them."""
    made = Clusters()
    made.ends[S, AT] = 0

    def topics(address: str) -> tuple[dict[str, int], str]:
        names = {at.topic: 1 for where, at in made.ends if where == address}
        return names, f"id-of-{address}"

    def create(address: str, topic: str, partitions: int, **_: Any) -> None:
        for number in range(partitions):
            made.ends[address, TopicPartition(topic, number)] = 0

    def ends(address: str, topic: str, partitions: int) -> dict[TopicPartition, int]:
        places = (TopicPartition(topic, number) for number in range(partitions))
        return {at: made.ends[address, at] for at in places}

    monkeypatch.setattr(module, "_topics_at", topics)
    monkeypatch.setattr(module, "create_topic", create)
    monkeypatch.setattr(module, "log_ends", ends)
    monkeypatch.setattr(module, "Consumer", lambda settings: MemoryConsumer(made, settings))
    monkeypatch.setattr(module, "Producer", lambda settings: MemoryProducer(made, settings))
    return made


def options(link: Link = MM2, **more: Any) -> ReplicatorOptions:
    """Of topic ``orders``."""
    return ReplicatorOptions(link=link, source=S, target=T, topics=("orders",), **more)


def produce(clusters: Clusters, count: int) -> None:
    """So many records on the source, each with its offset as content."""
    for _ in range(count):
        clusters.write(S, AT, b"%d" % clusters.ends[S, AT])


def syncs(clusters: Clusters, address: str = S, topic: str = "mm2-offset-syncs.b.internal") -> list[tuple]:
    """The pairs in the topic of offset syncs."""
    decoded = [
        decode_sync(each.named, each.content)
        for each in clusters.logs.get((address, TopicPartition(topic, 0)), [])
    ]
    assert all(isinstance(each, OffsetSync) and each.key == AT for each in decoded)
    return [(each.upstream, each.downstream) for each in decoded if isinstance(each, OffsetSync)]


def values(clusters: Clusters, topic: str = "a.orders") -> list[bytes | None]:
    """What the copy holds."""
    return [each.content for each in clusters.logs.get((T, TopicPartition(topic, 0)), [])]


def test_its_syncs_are_those_of_the_model(clusters: Clusters, tmp_path: Path) -> None:
    """The same holes, batches, commits and crashes in both: the same pairs in the same order."""
    model = Replication(offset_lag_max=2, acknowledge_every=1)
    real = Replicator(options(offset_lag_max=2, batch=1), tmp_path / "p.json")
    for step in range(150):
        if step % 7 == 0:
            model.source.skip(2)
            clusters.skip(S, AT, 2)
        model.produce(b"%d" % model.source.end)
        produce(clusters, 1)
        if step % 3 == 0:
            assert model.replicate(2) == real.replicate(2)
        if step % 10 == 9:
            model.commit()
            real.commit()
        if step % 60 == 59:
            model.crash()
            real.crash()
    model.settle()
    real.settle()
    assert syncs(clusters) == [(each.upstream, each.downstream) for each in model.syncs]
    assert len(syncs(clusters)) > 40
    truth = copies(clusters.log(S, AT), clusters.log(T, TopicPartition("a.orders", 0)))
    assert truth == model.truth


def test_chosen_exceptions_happen_where_they_were_chosen(clusters: Clusters, tmp_path: Path) -> None:
    """Dropped, doubled, foreign; contents, keys, times and headers of the others are the source's."""
    produce(clusters, 4)
    clusters.write(S, AT, None, named=b"k", time=9, tags=[("h", None)])
    choices = Choices(dropped=frozenset({1}), doubled=frozenset({2}), foreign=frozenset({3}))
    Replicator(options(choices=choices), tmp_path / "p.json").settle()
    assert values(clusters) == [b"0", b"2", b"2", FOREIGN, b"3", None]
    last = clusters.logs[T, TopicPartition("a.orders", 0)][-1]
    assert (last.named, last.time, last.tags) == (b"k", 9, [("h", None)])


def test_a_replay_copies_again_as_a_new_task(clusters: Clusters, tmp_path: Path) -> None:
    """Once; its first sync is that of the first record that is copied again."""
    produce(clusters, 10)
    replicator = Replicator(options(choices=Choices(replays={8: 3}), batch=4), tmp_path / "p.json")
    replicator.settle()
    assert values(clusters) == [b"%d" % each for each in (*range(8), *range(3, 10))]
    assert (3, 8) in syncs(clusters)
    assert syncs(clusters)[-1] == (9, 14)


def test_a_task_that_starts_again_sends_a_sync_at_once(clusters: Clusters, tmp_path: Path) -> None:
    """Also where nothing is copied again."""
    produce(clusters, 10)
    Replicator(options(choices=Choices(replays={5: 5}), batch=4), tmp_path / "p.json").settle()
    assert values(clusters) == [b"%d" % each for each in range(10)]
    assert syncs(clusters) == [(0, 0), (5, 5), (9, 9)]


def test_a_lost_sync_is_never_sent(clusters: Clusters, tmp_path: Path) -> None:
    """Its record is copied all the same."""
    produce(clusters, 3)
    choices = Choices(lost_syncs=frozenset({0, 2}))
    Replicator(options(choices=choices, offset_lag_max=0, batch=1), tmp_path / "p.json").settle()
    assert [upstream for upstream, _ in syncs(clusters)] == [1]
    assert values(clusters) == [b"0", b"1", b"2"]


def test_syncs_lie_on_the_target_where_the_link_says_so(clusters: Clusters, tmp_path: Path) -> None:
    """Under the alias of the source then."""
    link = Link(
        name="dr", kind="mm2-identity", source_alias="a", target_alias="b", sync_location=SyncLocation.TARGET
    )
    produce(clusters, 1)
    Replicator(options(link), tmp_path / "p.json").settle()
    assert syncs(clusters, T, "mm2-offset-syncs.a.internal") == [(0, 0)]
    assert values(clusters, "orders") == [b"0"]


def test_it_starts_where_its_positions_were_noted(clusters: Clusters, tmp_path: Path) -> None:
    """What was copied behind them is copied again by the next one."""
    produce(clusters, 4)
    first = Replicator(options(), tmp_path / "p.json")
    first.replicate(2)
    first.commit()
    first.replicate(1)
    Replicator(options(), tmp_path / "p.json").settle()
    assert values(clusters) == [b"0", b"1", b"2", b"2", b"3"]


def test_transactions_leave_markers_on_the_target(clusters: Clusters, tmp_path: Path) -> None:
    """One behind each batch; what a predecessor left open is ended first."""
    produce(clusters, 4)
    Replicator(options(transactional=True, batch=2), tmp_path / "p.json").settle()
    offsets = [each.number for each in clusters.logs[T, TopicPartition("a.orders", 0)]]
    assert offsets == [0, 1, 3, 4]
    assert clusters.transactions == ["init", "begin", "commit", "begin", "commit"]


def test_the_header_of_the_source_offset_is_what_a_link_reads(clusters: Clusters, tmp_path: Path) -> None:
    """Eight bytes, big-endian, beside the provenance."""
    link = Link(name="dr", kind="header", source_alias="a", target_alias="b", provenance_header=OFFSET_HEADER)
    clusters.skip(S, AT, 300)
    produce(clusters, 2)
    Replicator(options(link), tmp_path / "p.json").settle()
    stored = clusters.logs[T, AT]
    assert [each.tags for each in stored] == [
        [(PROVENANCE_HEADER, b"id-of-s:1"), (OFFSET_HEADER, (300 + n).to_bytes(8, "big"))] for n in range(2)
    ]
    header = OffsetHeader(name=OFFSET_HEADER, encoding=HeaderEncoding.INT64)
    view = LogRecordView(offset=1, timestamp_ms=0, value=None, headers=tuple(stored[1].tags))
    assert header.source_offset(view) == 301


def test_an_earlier_hop_keeps_its_provenance_and_gives_its_offset_away() -> None:
    """Redpanda's migrator replaces the offset hop by hop."""
    before = [(OFFSET_HEADER, b"\0" * 8), (PROVENANCE_HEADER, b"first"), ("h", None)]
    assert with_source_offset(before, OFFSET_HEADER, 2, "second") == [
        (OFFSET_HEADER, (2).to_bytes(8, "big")),
        (PROVENANCE_HEADER, b"first"),
        ("h", None),
    ]


PRESERVING = Link(name="eq", kind="offset-preserving", source_alias="a", target_alias="b")


def test_an_equal_copy_goes_on_at_the_targets_end(clusters: Clusters, tmp_path: Path) -> None:
    """Whatever was noted; no syncs are written."""
    produce(clusters, 3)
    first = Replicator(options(PRESERVING), tmp_path / "p.json")
    first.replicate(2)
    produce(clusters, 1)
    Replicator(options(PRESERVING), tmp_path / "p.json").settle()
    assert values(clusters, "orders") == [b"0", b"1", b"2", b"3"]
    assert [name.topic for _, name in clusters.ends] == ["orders", "orders"]


def test_an_equal_copy_ends_at_a_hole(clusters: Clusters, tmp_path: Path) -> None:
    """With the copy equal up to there, and what to do."""
    produce(clusters, 2)
    clusters.skip(S, AT)
    produce(clusters, 1)
    replicator = Replicator(options(PRESERVING), tmp_path / "p.json")
    with pytest.raises(Broken, match=r"orders-0 has no record at 2, the next is at 3: .*segment files"):
        replicator.settle()
    assert values(clusters, "orders") == [b"0", b"1"]


def test_an_equal_copy_that_others_write_to_is_none(clusters: Clusters, tmp_path: Path) -> None:
    """Told at the first record that does not get its offset."""
    produce(clusters, 3)
    replicator = Replicator(options(PRESERVING), tmp_path / "p.json")
    replicator.replicate(1)
    clusters.write(T, AT, b"stranger")
    with pytest.raises(Broken, match="the copy of orders-0 at 1 got offset 2: somebody else writes to it"):
        replicator.settle()


def test_a_topic_that_is_not_there_or_has_no_name_is_refused(clusters: Clusters, tmp_path: Path) -> None:
    """Before anything is copied."""
    wanted = ReplicatorOptions(link=MM2, source=S, target=T, topics=("absent",))
    with pytest.raises(Rejected, match="topic 'absent' is not on s:1; create it first"):
        Replicator(wanted, tmp_path / "p.json")
    clusters.ends[S, TopicPartition("x.internal", 0)] = 0
    wanted = ReplicatorOptions(link=MM2, source=S, target=T, topics=("x.internal",))
    with pytest.raises(Rejected, match=r"has no name on the target: x\.internal counts as an internal topic"):
        Replicator(wanted, tmp_path / "p.json")


def test_a_record_that_is_not_written_ends_it(clusters: Clusters, tmp_path: Path) -> None:
    """And its position is not noted."""
    produce(clusters, 1)
    replicator = Replicator(options(), tmp_path / "p.json")
    clusters.refused = True
    with pytest.raises(Transient, match="a record was not written to t:2: not today"):
        replicator.settle()
    clusters.refused = False
    assert Replicator(options(), tmp_path / "p.json").positions == {AT: 0}


def test_a_plan_is_read_as_it_was_written() -> None:
    """By the process that is started with it, over JSON."""
    wanted = options(
        choices=Choices(dropped=frozenset({3, 1}), replays={8: 3}),
        transactional=True,
        batch=7,
    )
    assert ReplicatorOptions.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted
