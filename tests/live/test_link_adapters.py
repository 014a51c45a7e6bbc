"""What a link reads and writes at two real clusters: records, offset syncs, proven positions, groups."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.parquet.sync_archive import ParquetSyncArchive
from groupshift.adapters.system import SystemClock
from groupshift.domain.commit_places import TopicNow
from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import GONE, OffsetRow
from groupshift.errors import Rejected, Transient
from groupshift.links.archived_syncs import ArchivedSyncs
from groupshift.links.discovery import find_link
from groupshift.links.link import Link, LinkKind, SyncLocation
from groupshift.links.ports import GroupPartition, TopicLogs
from groupshift.links.proven_positions import PositionKey, ProvenPosition
from groupshift.links.sync_log import SyncLogPosition
from groupshift.links.translation import Certainty
from groupshift.ports.changes import refusal_of
from groupshift.ports.records import LogRecordView, PartitionReader, TimestampType
from groupshift.spark.broker_source import Brokers
from groupshift.spark.link_sides import LiveCommitTail, LiveSide
from groupshift.spark.link_topics import KafkaProvenPositions, KafkaSyncLog
from groupshift.spark.record_reads import LiveLogs, copied_partitions
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import marked, stop, wait_until
from groupshift_sandbox.replication.clusters import ClusterPair, start_again, start_pair, stop_cluster
from groupshift_sandbox.replication.logs import read_log, read_syncs
from groupshift_sandbox.replication.replicator import (
    OFFSET_HEADER,
    Replicator,
    ReplicatorOptions,
    positions_file,
)
from support.classic_member import ClassicMember
from support.native_member import NativeMember, joined
from support.numbered_records import write
from support.open_transaction import OpenTransaction

pytestmark = pytest.mark.timeout(600)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPair]:
    """Two clusters of one node of 4.3.1."""
    home = Home(tmp_path_factory.mktemp("pair")).create()
    try:
        yield start_pair(home)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


@pytest.fixture
def topic(pair: ClusterPair) -> Callable[..., str]:
    """A fresh topic of the source, with so many numbered records in each partition."""

    def make(records: int = 0, *, partitions: int = 1, target: bool = False, **config: str) -> str:
        name = f"orders-{next(_NUMBERS)}"
        for cluster in (pair.source, pair.target) if target else (pair.source,):
            create_topic(cluster.bootstrap, name, partitions, config=config)
        if records:
            write(pair.source.bootstrap, name, partitions, records)
        return name

    return make


def cluster_of(cluster: Cluster, timeout_s: float = 60.0) -> KafkaCluster:
    """Connections of our own."""
    return KafkaCluster(cluster.bootstrap, timeout_s=timeout_s)


def brokers_of(cluster: Cluster) -> Brokers:
    """Where to ask."""
    return Brokers(bootstrap_servers=cluster.bootstrap, timeout_s=60.0)


def link(kind: LinkKind, **fields) -> Link:
    """Of aliases that no other link here has."""
    number = next(_NUMBERS)
    return Link(
        name=f"link-{number}", kind=kind, source_alias=f"s{number}", target_alias=f"t{number}", **fields
    )


# -- records -------------------------------------------------------------------------------------------


def every_kind(bootstrap: str, topic: str) -> None:
    """Records of every codec with headers, nulls, committed and aborted transactions, large ones."""
    for codec in CODECS:
        settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20}
        plain = Producer(settings)
        for number in range(60):
            headers = [("näme", b"%d" % number), ("null", None)][: number % 3]
            value = None if number % 7 == 6 else b"%s-%d " % (codec.encode(), number) * (1 + number % 40)
            key = None if number % 5 == 4 else b"k%d" % number
            plain.produce(topic, value, key, partition=0, headers=headers)
        assert plain.flush(60) == 0
        transactional = Producer({**settings, "transactional.id": f"{topic}-{codec}"})
        transactional.init_transactions(60)
        for ended in (transactional.commit_transaction, transactional.abort_transaction):
            transactional.begin_transaction()
            for number in range(20):
                transactional.produce(topic, b"in %d" % number, partition=0)
            transactional.flush(30)
            plain.produce(topic, b"between", partition=0)
            assert plain.flush(60) == 0
            ended(30)


def agrees(reader: PartitionReader, records: tuple[LogRecordView, ...]) -> None:
    """Fail unless reads at any place give what a consumer was given."""
    assert tuple(reader.read(0, len(records) + 10)) == records
    random = Random(7)
    for _ in range(60):
        offset, limit = random.randint(0, reader.end + 1), random.choice((1, 3, 16, 100))
        assert tuple(reader.read(offset, limit)) == tuple(r for r in records if r.offset >= offset)[:limit]
        assert tuple(reader.before(offset, limit)) == tuple(r for r in records if r.offset < offset)[-limit:]


def test_reads_give_what_a_consumer_is_given_at_brokers_and_in_copied_files(
    pair: ClusterPair, topic: Callable[..., str]
) -> None:
    """Both levels, every codec, an open transaction at the end, deleted records at the start."""
    name = topic(0)
    at = TopicPartition(name, 0)
    every_kind(pair.source.bootstrap, name)
    hanging = Producer({"bootstrap.servers": pair.source.bootstrap, "transactional.id": f"hanging-{name}"})
    hanging.init_transactions(60)
    hanging.begin_transaction()
    hanging.produce(name, b"open", partition=0)
    hanging.flush(30)
    admin = AdminClient({"bootstrap.servers": pair.source.bootstrap, "log_level": 0})
    (deleted,) = admin.delete_records([KafkaPartition(name, 0, 7)], request_timeout=60).values()
    deleted.result(timeout=60)
    truth = {level: read_log(pair.source.bootstrap, at, isolation=level) for level in Isolation}
    assert len(truth[Isolation.READ_UNCOMMITTED].records) > len(truth[Isolation.READ_COMMITTED].records) > 300
    with closing(LiveLogs(cluster_of(pair.source))) as logs:
        for level, whole in truth.items():
            reader = logs.open([at], level)[at]
            assert (reader.start, reader.end) == (7, truth[Isolation.READ_UNCOMMITTED].end)
            agrees(reader, whole.records)
    (node,) = pair.source.brokers
    for level, whole in truth.items():
        copy = copied_partitions(str(node.folder), [name], level)[at]
        assert copy.end == truth[Isolation.READ_UNCOMMITTED].end
        kept = tuple(copy.read(7, 10_000))
        assert kept == whole.records
    hanging.abort_transaction(30)


def test_the_time_of_the_broker_is_told_as_such(pair: ClusterPair, topic: Callable[..., str]) -> None:
    """`message.timestamp.type`, as a consumer tells it."""
    late, plain = topic(3, **{"message.timestamp.type": "LogAppendTime"}), topic(3)
    with closing(LiveLogs(cluster_of(pair.source))) as logs:
        for name, kind in ((late, TimestampType.LOG_APPEND_TIME), (plain, TimestampType.CREATE_TIME)):
            at = TopicPartition(name, 0)
            records = logs.open([at], Isolation.READ_COMMITTED)[at].read(0, 9)
            assert {record.timestamp_type for record in records} == {kind}
            seen = read_log(pair.source.bootstrap, at).records
            assert [r.timestamp_ms for r in records] == [r.timestamp_ms for r in seen]


def test_topics_and_partitions_are_told_at_once(pair: ClusterPair, topic: Callable[..., str]) -> None:
    """Ids, partitions, internal topics; what does not exist is left out."""
    name = topic(5, partitions=3)
    with closing(LiveLogs(cluster_of(pair.source))) as logs:
        told = logs.topics()[name]
        assert sorted(told.epochs) == [0, 1, 2]
        assert len(told.topic_id) == 22
        wanted = [TopicPartition(name, number) for number in range(5)]
        readers = logs.open([*wanted, TopicPartition("nowhere", 0)], Isolation.READ_COMMITTED)
        assert list(readers) == wanted[:3]
        assert {each.end for each in readers.values()} == {5}


def test_a_reader_survives_the_restart_of_a_broker_and_gives_up_in_time(
    pair: ClusterPair, topic: Callable[..., str]
) -> None:
    """Killed: `Transient`; there again: it goes on."""
    at = TopicPartition(topic(500), 0)
    with closing(LiveLogs(cluster_of(pair.source, 3.0))) as hasty:
        reader = hasty.open([at], Isolation.READ_COMMITTED)[at]
        stop_cluster(pair.source, kill=True)
        begun = time.monotonic()
        with pytest.raises(Transient, match="does not answer"):
            reader.read(0, 10)
        assert time.monotonic() - begun < 30
        start_again(pair.source)
        wait_until(lambda: _can_read(reader), 60.0, "the broker serves again")
        assert len(reader.read(0, 1_000)) == 500


def _can_read(reader: PartitionReader) -> bool:
    try:
        return len(reader.read(490, 10)) == 10
    except Transient:
        return False


# -- offset syncs --------------------------------------------------------------------------------------


def replicator(pair: ClusterPair, of: Link, *topics: str, **more) -> Replicator:
    """Copies from source to target."""
    options = ReplicatorOptions(
        link=of, source=pair.source.bootstrap, target=pair.target.bootstrap, topics=topics, batch=20, **more
    )
    return Replicator(options, positions_file(pair.home, of.name))


def translated(syncs: ArchivedSyncs, at: TopicPartition, commits: range) -> list[int | None]:
    """What the syncs make of committed offsets."""
    history = syncs.history(at)
    found = [history.conservative(commit) if history else None for commit in commits]
    return [each.offset if each else None for each in found]


@pytest.mark.parametrize("location", list(SyncLocation))
def test_the_archive_keeps_what_the_topic_of_syncs_forgets(
    pair: ClusterPair, topic: Callable[..., str], tmp_path: Path, location: SyncLocation
) -> None:
    """Read in two processes; then the topic is made anew, with only the newest sync in it."""
    name = topic(300)
    of, at = link(LinkKind.MM2_DEFAULT, sync_location=location), TopicPartition(name, 0)
    cluster = pair.source if location is SyncLocation.SOURCE else pair.target
    syncs_topic = of.internal_topics.offset_syncs if of.internal_topics else ""
    log = KafkaSyncLog(brokers_of(cluster), syncs_topic)
    folder = str(tmp_path / "archive")
    with pytest.raises(Rejected, match="sync_location"):
        log.read(SyncLogPosition())
    copying = replicator(pair, of, name)
    copying.settle()
    written = len(read_syncs(of, pair.source.bootstrap, pair.target.bootstrap))
    garbage = Producer({"bootstrap.servers": cluster.bootstrap})
    garbage.produce(syncs_topic, b"x", b"\xff", partition=0)
    assert garbage.flush(60) == 0
    with closing(ArchivedSyncs(log, ParquetSyncArchive(folder, of.name))) as syncs:
        syncs.read()
        assert len(syncs.all_of(at)) == written
        first = translated(syncs, at, range(320))
        assert len([each for each in first if each is not None]) > 250
    assert ParquetSyncArchive(folder, of.name).unreadable == 1
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.delete_topics([syncs_topic])[syncs_topic].result(timeout=60)
    wait_until(lambda: syncs_topic not in admin.list_topics(timeout=60).topics, 60.0, "the topic is gone")
    create_topic(cluster.bootstrap, syncs_topic, 1, config={"cleanup.policy": "compact"})
    write(pair.source.bootstrap, name, 1, 100)
    copying.settle()
    copying.close()
    with closing(ArchivedSyncs(log, ParquetSyncArchive(folder, of.name))) as syncs:
        syncs.read()
        again = translated(syncs, at, range(320))
        assert again[:290] == first[:290]
        history = syncs.history(at)
        assert history is not None
        assert history.newest is not None
        assert history.newest.upstream == 399
        assert history.newest.log_offset < syncs.log_end()
        fresh = log.read(SyncLogPosition())
        assert len(fresh.syncs) < len(history)


# -- proven positions ----------------------------------------------------------------------------------


def position(offset: int) -> ProvenPosition:
    """A proven position."""
    return ProvenPosition(
        source_topic="orders",
        source_offset=offset,
        target_offset=offset - 1,
        source_topic_id="source",
        target_topic_id="target",
        certainty=Certainty.EXACT_PROVEN,
        proven_at_ms=1_700_000_000_000,
    )


def test_proven_positions_are_kept_in_a_compacted_topic_that_says_them_alone(pair: ClusterPair) -> None:
    """Made once, written again and again, forgotten, read by somebody else; another topic is refused."""
    of = link(LinkKind.MM2_DEFAULT)
    kept = KafkaProvenPositions(brokers_of(pair.target), of.positions_topic)
    assert kept.read().positions == {}
    for _ in range(2):
        kept.prepare()
    first, second = PositionKey("billing", "s.orders", 0), PositionKey("grün 🚀", "s.orders", 1)
    kept.write({first: position(10), second: position(20)})
    kept.write({first: position(11)})
    reader = KafkaProvenPositions(brokers_of(pair.target), of.positions_topic)
    assert reader.read().positions == {first: position(11), second: position(20)}
    kept.forget([second])
    foreign = Producer({"bootstrap.servers": pair.target.bootstrap})
    foreign.produce(of.positions_topic, b"{}", b"[]", partition=0)
    assert foreign.flush(60) == 0
    read = reader.read()
    assert (read.positions, read.unreadable) == ({first: position(11)}, 1)
    wrong = link(LinkKind.MM2_DEFAULT)
    create_topic(pair.target.bootstrap, wrong.positions_topic, 1)
    with pytest.raises(Rejected, match="set it to 'compact'"):
        KafkaProvenPositions(brokers_of(pair.target), wrong.positions_topic).prepare()


# -- finding a link ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (LinkKind.MM2_DEFAULT, {}),
        (LinkKind.MM2_DEFAULT, {"sync_location": SyncLocation.TARGET, "separator": "_"}),
        (LinkKind.HEADER, {"provenance_header": OFFSET_HEADER}),
        (LinkKind.OFFSET_PRESERVING, {}),
        (LinkKind.NONE, {}),
    ],
)
def test_what_replicates_is_found_by_looking(
    pair: ClusterPair, topic: Callable[..., str], kind: LinkKind, fields: dict[str, str]
) -> None:
    """Between two clusters that have nothing else."""
    of, names = link(kind, **fields), [topic(100, partitions=2), topic(100, partitions=2)]
    if kind is not LinkKind.OFFSET_PRESERVING:
        _begin_elsewhere(pair, of, names)
    copying = replicator(pair, of, *names)
    copying.settle()
    copying.close()
    own = of.internal_topics.offset_syncs if of.internal_topics else ""
    shown = {own, *names, *(str(of.target_topic(each).topic) for each in names)}
    with (
        closing(Only(cluster_of(pair.source), shown)) as source,
        closing(Only(cluster_of(pair.target), shown)) as target,
    ):
        found = find_link(of.name, source, target).link
    assert found.kind is kind
    assert [found.target_topic(each) for each in names] == [of.target_topic(each) for each in names]
    if kind is LinkKind.MM2_DEFAULT:
        assert found.internal_topics is not None
        assert (found.sync_location, found.internal_topics.offset_syncs) == (of.sync_location, own)
    assert found.provenance_header == of.provenance_header


class Only(LiveLogs):
    """A cluster that shows some of its topics."""

    def __init__(self, cluster: KafkaCluster, names: set[str]) -> None:
        super().__init__(cluster)
        self._names = names

    def topics(self) -> Mapping[str, TopicNow]:
        """See the port."""
        return {name: each for name, each in super().topics().items() if name in self._names}


def _begin_elsewhere(pair: ClusterPair, of: Link, names: list[str]) -> None:
    """Write something to the copies first, so that offsets differ."""
    for name in names:
        copy = str(of.target_topic(name).topic)
        create_topic(pair.target.bootstrap, copy, 2)
        producer = Producer({"bootstrap.servers": pair.target.bootstrap})
        for partition in range(2):
            producer.produce(copy, b"before all", partition=partition)
        assert producer.flush(60) == 0


# -- groups --------------------------------------------------------------------------------------------


@pytest.fixture
def target(pair: ClusterPair) -> Iterator[LiveSide]:
    """The target's side."""
    with closing(LiveSide(cluster_of(pair.target), SystemClock())) as side:
        yield side


def fresh(what: str) -> str:
    """A group of this test's own."""
    return f"{what}-{uuid.uuid4().hex[:6]}"


def committed(side: LiveSide, group: str) -> Mapping[TopicPartition, OffsetRow]:
    """What the group has committed."""
    answer = side.committed([group])
    assert answer.problems == []
    return {row.at: row for row in answer.offsets}


METADATA = ("", "grün 🚀", "ends with\0", "kpr1;x", "x" * 4000)


@pytest.mark.parametrize("fenced", [False, True])
def test_a_commit_over_the_link_is_read_back_byte_for_byte_and_without_an_epoch(
    target: LiveSide, topic: Callable[..., str], *, fenced: bool
) -> None:
    """For a group that is not there, and again for one that is; only to the topic of the id that is given."""
    name, group = topic(0, partitions=len(METADATA), target=True), fresh("new")
    told = target.logs([name])[name]
    assert isinstance(told, TopicLogs)
    rows = [
        OffsetRow(
            group=group, topic=name, partition=number, offset=number, metadata=text, topic_id=told.topic_id
        )
        for number, text in enumerate(METADATA)
    ]
    for more in (0, 5):
        wanted = [replace(row, offset=row.offset + more) for row in rows]
        assert target.commit(wanted, fenced=fenced) == {}
        found = committed(target, group)
        assert found == {row.at: row for row in wanted}
        assert {row.leader_epoch for row in found.values()} == {None}
        assert {row.topic_id for row in found.values()} == {told.topic_id}
    assert target.states([group]) == {group: "Empty"}
    other = replace(rows[0], offset=99, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    assert "UNKNOWN_TOPIC_ID" in target.commit([other], fenced=fenced)[group]
    assert committed(target, group)[rows[0].at].offset == 5


def test_states_are_told_whatever_the_protocol_of_a_group(
    pair: ClusterPair, target: LiveSide, topic: Callable[..., str]
) -> None:
    """Classic and native members, empty ones of both, one that is not there."""
    name = topic(0, target=True)
    classic, native, empty, left = fresh("classic"), fresh("native"), fresh("empty"), fresh("left")
    with closing(cluster_of(pair.target)) as cluster:
        commit(cluster, {empty: {TopicPartition(name, 0): (1, "")}})
        member = ClassicMember(cluster.coordinator(classic), classic, [name])
        member.join()
        member.sync()
        first = joined(NativeMember, cluster, native, [name])
        first.await_assigned(1)
        second = joined(NativeMember, cluster, left, [name])
        second.await_assigned(1)
        second.leave()
        states = target.states([classic, native, empty, left, "nobody"])
        assert states == {
            classic: "Stable",
            native: "Stable",
            empty: "Empty",
            left: "Empty",
            "nobody": GONE,
        }
        rows = [
            OffsetRow(group=group, topic=name, partition=0, offset=7) for group in (classic, native, left)
        ]
        for fenced in (False, True):
            refused = target.commit(rows, fenced=fenced)
            assert [bool(refusal_of(refused, row)) for row in rows] == [True, True, False]
            assert committed(target, classic) == committed(target, native) == {}
            assert committed(target, left)[TopicPartition(name, 0)].offset == 7
        assert {classic, native, empty, left} <= target.groups()
        first.leave()
        member.leave()


def test_a_member_that_joins_while_a_fenced_commit_is_made_reads_what_was_committed(
    pair: ClusterPair, target: LiveSide, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits until the fence is down, and begins at the new offset."""
    name, group = topic(0, target=True), fresh("fenced")
    at = TopicPartition(name, 0)
    write(pair.target.bootstrap, name, 1, 20)
    row = OffsetRow(group=group, topic=name, partition=0, offset=3, metadata="")
    assert target.commit([row]) == {}
    began, offsets = threading.Event(), list[int]()

    def consume() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": pair.target.bootstrap,
                "group.id": group,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
            }
        )
        with closing(consumer):
            consumer.subscribe([name])
            began.set()
            while not offsets:
                message = consumer.poll(1.0)
                if message is not None and message.error() is None:
                    offsets.append(int(message.offset() or 0))

    joining = threading.Thread(target=consume, daemon=True)
    choose = target._fenced.commit

    def slowly(group: str, chosen):
        def late(now):
            joining.start()
            began.wait(10)
            time.sleep(1.0)  # its JoinGroup is at the coordinator by then
            return chosen(now)

        return choose(group, late)

    monkeypatch.setattr(target._fenced, "commit", slowly)
    refused = target.commit([replace(row, offset=11)], fenced=True)
    joining.join(60)
    assert offsets == [committed(target, group)[at].offset] == [3 if refused else 11]


def test_logs_tell_ids_ranges_and_what_is_not_there(
    pair: ClusterPair, target: LiveSide, topic: Callable[..., str]
) -> None:
    """As discovery and plans ask."""
    name = topic(0, partitions=2, target=True)
    write(pair.target.bootstrap, name, 2, 5)
    told = target.logs([name, "nowhere"])
    assert list(told) == [name]
    logs = told[name]
    assert isinstance(logs, TopicLogs)
    assert {number: (each.start, each.end) for number, each in logs.logs.items()} == {0: (0, 5), 1: (0, 5)}
    assert name in target.topic_names()
    assert target.cluster_id() == pair.target.cluster_id


def test_commits_of_the_source_are_followed_as_they_are_made(
    pair: ClusterPair, topic: Callable[..., str]
) -> None:
    """Plain ones at once, those of a transaction when it is committed, never when it is aborted."""
    name = topic(10, partitions=2)
    groups = [fresh("follow") for _ in range(40)]
    at = TopicPartition(name, 1)
    with closing(cluster_of(pair.source)) as cluster, closing(cluster_of(pair.source)) as ours:
        commit(cluster, {groups[0]: {at: (1, "")}})
        tail = LiveCommitTail(ours, SystemClock())
        tail.poll(0.05)
        commit(cluster, {group: {at: (2, "m")} for group in groups})
        places = dict[str, GroupPartition]()

        def followed(wanted: set[str]) -> bool:
            batch = tail.poll(0.2)
            assert batch.behind_ms < 10_000
            places.update({place.group: place for place, _ in batch.commits})
            return wanted <= places.keys()

        wait_until(lambda: followed(set(groups)), 30.0, "the commits")
        assert places[groups[3]] == GroupPartition(groups[3], at)
        places.clear()
        good, bad = fresh("good"), fresh("bad")
        pending = [
            OpenTransaction(pair.source.bootstrap, each, KafkaPartition(name, 0, 5)) for each in (good, bad)
        ]
        for _ in range(3):
            followed(set())
        assert not {good, bad} & places.keys()
        pending[1].abort()
        pending[0].commit()
        wait_until(lambda: followed({good}), 30.0, "the commit of the transaction")
        followed(set())
        assert bad not in places
