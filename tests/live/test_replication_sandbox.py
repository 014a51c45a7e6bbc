"""Two real clusters and what copies between them: MirrorMaker 2, chosen replicators, equal copies, files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count, pairwise

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import metadata
from groupshift.domain.modes import Isolation
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken
from groupshift.links.link import Link, LinkKind, SyncLocation
from groupshift.links.mirrormaker import MirrorMakerStore, OffsetSync
from groupshift.links.position_search import HeaderEncoding, OffsetHeader
from groupshift_sandbox import faults
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic, log_ends
from groupshift_sandbox.processes import is_running, marked, stop, wait_until
from groupshift_sandbox.readiness import connect_to
from groupshift_sandbox.replication.clusters import (
    SMALL,
    ClusterPair,
    relayed,
    start_again,
    start_node_relay,
    start_pair,
    stop_cluster,
)
from groupshift_sandbox.replication.logs import (
    COMPACTED_SOON,
    await_compacted,
    await_copied,
    await_synced,
    copies,
    read_checkpoints,
    read_log,
    read_syncs,
)
from groupshift_sandbox.replication.mirrormaker import MirrorMakerOptions, start_mirrormaker
from groupshift_sandbox.replication.replicator import (
    OFFSET_HEADER,
    Choices,
    Replicator,
    ReplicatorOptions,
    positions_file,
    start_replicator,
)
from groupshift_sandbox.replication.segments import copy_segments
from support.numbered_records import write

pytestmark = pytest.mark.timeout(600)
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPair]:
    """Two clusters of one node of 4.3.1; the source can be reached over a relay."""
    home = Home(tmp_path_factory.mktemp("pair")).create()
    try:
        yield start_pair(home, relayed(SMALL), SMALL)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


@pytest.fixture
def topic(pair: ClusterPair) -> Callable[[int], str]:
    """A fresh topic of the source with one partition and so many numbered records."""

    def make(records: int) -> str:
        name = f"orders-{next(_NUMBERS)}"
        create_topic(pair.source.bootstrap, name, 1)
        write(pair.source.bootstrap, name, 1, records)
        return name

    return make


def link(kind: LinkKind, **fields) -> Link:
    """Of aliases that no other link here has."""
    number = next(_NUMBERS)
    return Link(
        name=f"link-{number}", kind=kind, source_alias=f"s{number}", target_alias=f"t{number}", **fields
    )


def options(pair: ClusterPair, of: Link, *topics: str, **more) -> ReplicatorOptions:
    """A replicator between the two clusters."""
    return ReplicatorOptions(
        link=of, source=pair.source.bootstrap, target=pair.target.bootstrap, topics=topics, **more
    )


def transactions(bootstrap: str, topic: str, *, committed: int, aborted: int, first: int = 0) -> None:
    """Transactions of ten records each, which differ by their numbers: committed ones, then aborted ones."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"writer-{topic}"})
    producer.init_transactions(60)
    for number in range(committed + aborted):
        producer.begin_transaction()
        for each in range(10):
            producer.produce(topic, b"%d" % (first + 10 * number + each), partition=0)
        producer.flush(30)  # what was not sent would leave no trace when it is aborted
        (producer.commit_transaction if number < committed else producer.abort_transaction)(30)


@pytest.mark.parametrize(
    ("kind", "location", "guarantee"),
    [
        (LinkKind.MM2_DEFAULT, SyncLocation.SOURCE, "at least once"),
        (LinkKind.MM2_IDENTITY, SyncLocation.TARGET, "exactly once"),
    ],
)
def test_mirrormaker_copies_syncs_and_survives_a_kill(
    pair: ClusterPair, topic: Callable[[int], str], kind: LinkKind, location: SyncLocation, guarantee: str
) -> None:
    """Each of its syncs is true, its checkpoint is what its rules say, before and behind a kill -9; in its
    exactly-once mode nothing is there twice, and markers of its own lie on the target."""
    name = topic(1_000)
    of = link(kind, sync_location=location, isolation=Isolation.READ_COMMITTED)
    options = MirrorMakerOptions(
        link=of,
        source=pair.source.bootstrap,
        target=pair.target.bootstrap,
        topics=name,
        groups=f"{of.name}-.*",
        exactly_once=guarantee == "exactly once",
        flush_s=1.0,
        refresh_s=1,
    )
    at = TopicPartition(name, 0)
    copy = TopicPartition(str(of.target_topic(name).topic), 0)
    running = start_mirrormaker(pair.home, options, topics=[name], name=of.name)
    try:
        for killed in (False, True):
            if killed:
                faults.kill(running.process)
                write(pair.source.bootstrap, name, 1, 500)
                running = start_mirrormaker(pair.home, options, topics=[name], name=of.name)
            await_copied(pair.source.bootstrap, pair.target.bootstrap, {at: copy})
            await_synced(of, pair.source.bootstrap, pair.target.bootstrap, [at])
            source, target = read_log(pair.source.bootstrap, at), read_log(pair.target.bootstrap, copy)
            truth = copies(source, target)
            assert set(truth.source_of.values()) == {each.offset for each in source.records}
            store = MirrorMakerStore()
            store.finish_loading()
            for sync in read_syncs(of, pair.source.bootstrap, pair.target.bootstrap):
                assert isinstance(sync, OffsetSync)
                assert truth.source_of[sync.downstream] == sync.upstream
                store.insert(sync.upstream, sync.downstream)
            if options.exactly_once:
                assert len(truth.source_of) == len(source.records)
                assert target.end > len(source.records)
            group, c = f"{of.name}-{killed}", source.end - 100
            commit_on(pair.source.bootstrap, group, at, c)
            wait_until(
                lambda group=group: (
                    group in {each.key.group for each in read_checkpoints(of, pair.target.bootstrap)}
                ),
                60.0,
                f"a checkpoint of {group}",
                every_s=0.2,
            )
            checkpoint = [
                each for each in read_checkpoints(of, pair.target.bootstrap) if each.key.group == group
            ][-1]
            assert (checkpoint.topic, checkpoint.upstream) == (copy.topic, c)
            assert checkpoint.downstream == store.translate(c)
            assert truth.lost(checkpoint.downstream, c) == 0
    finally:
        stop(running.process, 30.0)


def commit_on(bootstrap: str, group: str, at: TopicPartition, offset: int) -> None:
    """For a group without members."""
    cluster = KafkaCluster(bootstrap, timeout_s=60.0)
    try:
        commit(cluster, {group: {at: (offset, "")}})
    finally:
        cluster.close()


def test_the_header_tells_the_source_offset_over_a_cut_link_and_a_kill(
    pair: ClusterPair, topic: Callable[[int], str]
) -> None:
    """What a link reads in the header is what the content says; records that are there twice, too."""
    name = topic(300)
    of = link(LinkKind.HEADER, provenance_header=OFFSET_HEADER)
    relay = start_node_relay(pair.source, pair.source.nodes[0])
    at = TopicPartition(name, 0)
    plan = ReplicatorOptions(
        link=of,
        source=relay.address,
        target=pair.target.bootstrap,
        topics=(name,),
        commit_s=0.2,
        batch=50,
    )
    process = start_replicator(pair.home, plan, name=of.name)
    try:
        await_copied(pair.source.bootstrap, pair.target.bootstrap, {at: at})
        relay.cut()
        write(pair.source.bootstrap, name, 1, 300)
        assert relay.state()["connections"] == 0
        assert log_ends(pair.target.bootstrap, name, 1)[at] == 300
        relay.restore()
        await_copied(pair.source.bootstrap, pair.target.bootstrap, {at: at})
        faults.kill(process)
        noted = json.loads(positions_file(pair.home, of.name).read_text())
        noted["positions"][f"{name}-0"] = 550  # as if it had been killed before it noted the last ones
        positions_file(pair.home, of.name).write_text(json.dumps(noted))
        process = start_replicator(pair.home, plan, name=of.name)
        wait_until(
            lambda: log_ends(pair.target.bootstrap, name, 1)[at] == 650, 60.0, "the replay", every_s=0.1
        )
    finally:
        stop(process)
        stop(relay.process)
    source, target = read_log(pair.source.bootstrap, at), read_log(pair.target.bootstrap, at)
    truth = copies(source, target)
    header = OffsetHeader(name=OFFSET_HEADER, encoding=HeaderEncoding.INT64)
    assert {each.offset: header.source_offset(each) for each in target.records} == truth.source_of
    assert (truth.exact(550), truth.exact(600), len(truth.source_of)) == (600, 650, 650)


def test_chosen_exceptions_lie_in_real_logs_with_true_syncs(
    pair: ClusterPair, topic: Callable[[int], str]
) -> None:
    """Dropped, doubled, foreign and replayed records, and markers, where they were chosen."""
    name = topic(200)
    of = link(LinkKind.MM2_DEFAULT)
    choices = Choices(
        dropped=frozenset({10, 150}), doubled=frozenset({20}), foreign=frozenset({30}), replays={100: 80}
    )
    replicator = Replicator(
        options(pair, of, name, choices=choices, batch=50, transactional=True, offset_lag_max=10),
        positions_file(pair.home, of.name),
    )
    replicator.settle()
    replicator.write_foreign(name)
    replicator.close()
    at, copy = TopicPartition(name, 0), TopicPartition(str(of.target_topic(name).topic), 0)
    target = read_log(pair.target.bootstrap, copy)
    truth = copies(read_log(pair.source.bootstrap, at), target)
    last = truth.last()
    assert sorted(set(range(200)) - set(last)) == [10, 150]
    assert [len([s for s in truth.source_of.values() if s == each]) for each in (19, 20, 80, 99, 100)] == [
        1,
        2,
        2,
        2,
        1,
    ]
    assert len(target.records) == len(truth.source_of) + 2
    assert target.end > len(target.records)
    pairs = [
        (each.upstream, each.downstream)
        for each in read_syncs(of, pair.source.bootstrap, pair.target.bootstrap)
        if isinstance(each, OffsetSync)
    ]
    assert all(truth.source_of[downstream] == upstream for upstream, downstream in pairs)
    assert pairs[-1][0] == 199
    assert any(later[0] < earlier[0] for earlier, later in pairwise(pairs))


def test_an_equal_copy_is_equal_up_to_the_first_hole(pair: ClusterPair, topic: Callable[[int], str]) -> None:
    """Live, also over a restart; at a marker the process ends with a sentence."""
    name, of = topic(300), link(LinkKind.OFFSET_PRESERVING)
    at = TopicPartition(name, 0)
    plan = options(pair, of, name)
    stop(start_replicator(pair.home, plan, name=of.name))
    process = start_replicator(pair.home, plan, name=of.name)
    await_copied(pair.source.bootstrap, pair.target.bootstrap, {at: at})
    transactions(pair.source.bootstrap, name, committed=2, aborted=0, first=1_000)
    wait_until(lambda: not is_running(process), 60.0, "the end at the hole", every_s=0.1)
    log = (pair.home.logs / f"{of.name}.log").read_text()
    assert f"{name}-0 has no record at 310, the next is at 311" in log
    source, target = read_log(pair.source.bootstrap, at), read_log(pair.target.bootstrap, at)
    assert target.records == source.records[: len(target.records)]
    assert target.end == 310
    with pytest.raises(Broken, match="no record at 310"):
        Replicator(plan, positions_file(pair.home, of.name)).settle()


def test_a_copy_that_is_compacted_has_holes_and_the_truth_knows(pair: ClusterPair) -> None:
    """Older copies of a key go; what is left is still known by its content."""
    name, of = f"keys-{next(_NUMBERS)}", link(LinkKind.MM2_IDENTITY)
    for cluster in (pair.source, pair.target):
        create_topic(cluster.bootstrap, name, 1, config=COMPACTED_SOON if cluster is pair.target else {})
    producer = Producer({"bootstrap.servers": pair.source.bootstrap})
    replicator = Replicator(options(pair, of, name), positions_file(pair.home, of.name))
    at = TopicPartition(name, 0)
    for number in range(50):
        producer.produce(name, b"%d" % number, key=b"%d" % (number % 10), partition=0)
    producer.flush(60)
    replicator.settle()
    time.sleep(0.3)  # a segment is rolled by the first record that comes so long after its first one
    producer.produce(name, b"last", key=b"last", partition=0)
    producer.flush(60)
    replicator.settle()
    replicator.close()
    await_compacted(pair.target.bootstrap, at, 11)
    truth = copies(read_log(pair.source.bootstrap, at), read_log(pair.target.bootstrap, at))
    assert sorted(truth.source_of.values()) == list(range(40, 51))
    assert (truth.exact(5), truth.lost(40, 0), truth.end) == (40, 0, 51)


def test_files_of_a_stopped_source_are_an_equal_copy_with_its_holes(pair: ClusterPair) -> None:
    """Markers, aborted records, a log start above 0 and leader epochs that the target never had."""
    name = f"files-{next(_NUMBERS)}"
    at = TopicPartition(name, 0)
    for cluster in (pair.source, pair.target):
        create_topic(cluster.bootstrap, name, 1)
    transactions(pair.source.bootstrap, name, committed=3, aborted=2)
    for _ in range(2):  # each start makes a newer leader epoch
        stop_cluster(pair.source)
        start_again(pair.source)
    transactions(pair.source.bootstrap, name, committed=1, aborted=0, first=100)
    admin = AdminClient({"bootstrap.servers": pair.source.bootstrap, "log_level": 0})
    (deleted,) = admin.delete_records([KafkaPartition(name, 0, 15)], request_timeout=60).values()
    deleted.result(timeout=60)
    levels = list(Isolation)
    before = {level: read_log(pair.source.bootstrap, at, isolation=level) for level in levels}
    stop_cluster(pair.source)
    copy_segments(pair.source, pair.target, [name])
    after = {level: read_log(pair.target.bootstrap, at, isolation=level) for level in levels}
    assert after == before
    whole = after[Isolation.READ_UNCOMMITTED]
    assert (whole.start, whole.end, len(whole.records)) == (15, 66, 46)
    assert len(after[Isolation.READ_COMMITTED].records) == 26
    epochs = (pair.source.nodes[0].folder / f"{name}-0" / "leader-epoch-checkpoint").read_text()
    with closing(connect_to(pair.target.brokers[0].address)) as connection:
        (copied,) = (each for each in metadata(connection, None).topics if each.name == name)
    assert int(epochs.split()[-2]) > int(copied.partitions[0].leader_epoch)
    # an idempotent one, whose id the source may have given to another
    write_one = Producer({"bootstrap.servers": pair.target.bootstrap, "enable.idempotence": True})
    write_one.produce(name, b"new", partition=0)
    assert write_one.flush(60) == 0
    assert log_ends(pair.target.bootstrap, name, 1)[at] == 67
