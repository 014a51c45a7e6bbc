"""A sandbox with an ordinary old group: leftovers, a transactional producer, a compacted topic.

The topic was compacted before the members came. While all members are aware every record is a transaction of
its own, and every third one is aborted. Old members cannot read such a topic at its end (a broker, 3.9.2,
makes of a marker a record "larger than the maximum fetch size" for them), so plain records are written while
there are any. The group has offsets that no member reads.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from groupshift.adapters.drivers.process import ask
from groupshift.domain.run import RunState, SparkJob
from groupshift.errors import Transient
from groupshift.ports.runs import Event, EventKind
from groupshift.settings import Settings, load
from groupshift_sandbox import legacy
from groupshift_sandbox import up as sandbox_up
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic, start_kafka
from groupshift_sandbox.ledger import read_ledgers
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.producer import value_of
from groupshift_sandbox.up import UpOptions
from groupshift_sandbox.zookeeper import start_zookeeper
from support.coordination_app import GroupApp
from support.protocol_fleet import patiently
from support.typed_again import typed_again
from support.warm_spark import warm_spark

GROUP, TOPIC, PARTITIONS = "orders-app", "orders", 6
KEYS, FILLED = 5, 60
Properties = Mapping[str, Mapping[str, str]]
LEFT = {"payments-old/0": 77, "deleted-topic/3": 5, f"{TOPIC}/9": 3}
"""A live topic that nobody subscribes to, a topic that is gone, and a partition that is gone."""
BLANK = "deleted-topic/4"
"""Another of the topic that is gone; its node holds nothing."""


def leave_offsets(zookeeper: KazooClient, bootstrap: str) -> None:
    """Make the offset nodes that no member reads, and the live topic among theirs."""
    create_topic(bootstrap, "payments-old", 1)
    for name, offset in {**LEFT, BLANK: ""}.items():
        zookeeper.create(f"/consumers/{GROUP}/offsets/{name}", str(offset).encode(), makepath=True)


def left_offsets(zookeeper: KazooClient) -> dict[str, int]:
    """The offset nodes that no member reads, as they are now."""
    path = f"/consumers/{GROUP}/offsets/"
    assert zookeeper.get(path + BLANK)[0] == b""
    return {name: int(zookeeper.get(path + name)[0]) for name in LEFT}


@dataclass
class Writer(threading.Thread):
    """One record after the other over all partitions in turn; while ``transactional`` is set each in a
    transaction of its own, every third one of which is aborted. A value tells its own offset, as the recorder
    of old members wants it: behind every record of a transaction lies a marker."""

    bootstrap: str
    following: dict[int, int]
    every_s: float = 0.05
    transactional: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)
    aborted: int = 0
    failure: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        """Until it is told to end, or fails."""
        settings = {"bootstrap.servers": self.bootstrap, "linger.ms": 0, "log_level": 0}
        plain, producer = Producer(settings), Producer({**settings, "transactional.id": "field"})
        try:
            producer.init_transactions(60)
            number = 0
            while not self.ending.wait(self.every_s):
                partition = number % PARTITIONS
                value = value_of(TOPIC, partition, self.following[partition])
                if self.transactional.is_set():
                    self._transaction(producer, (value, f"record {number}", partition), number)
                else:
                    plain.produce(TOPIC, value, f"record {number}", partition=partition)
                    assert plain.flush(30) == 0
                    self.following[partition] += 1
                number += 1
        except BaseException as error:  # noqa: BLE001 - told by the test
            self.failure.append(error)

    def _transaction(self, producer: Producer, record: tuple[bytes, str, int], number: int) -> None:
        value, key, partition = record
        producer.begin_transaction()
        producer.produce(TOPIC, value, key, partition=partition)
        producer.flush(30)
        self.following[partition] += 2
        if (number + number // PARTITIONS) % 3 == 2:
            producer.abort_transaction(30)
            self.aborted += 1
        else:
            producer.commit_transaction(30)

    def end(self) -> None:
        """Stop, and wait until it has stopped. Fails when it failed."""
        self.ending.set()
        self.join(60)
        assert not self.failure, self.failure


@dataclass
class Field:
    """The servers, the members and what writes to their topic."""

    home: Home
    settings: Settings
    bootstrap: str
    zookeeper: KazooClient
    writer: Writer

    def groupshift(self, *arguments: str) -> None:
        """The command line, again while a server does not answer."""
        typed_again(self.home, *arguments)

    def aware(self) -> bool:
        """Whether every place runs a migration-aware member."""
        try:
            slots = ask(self.home.supervisor_socket, {"verb": "slots"})["slots"]
        except Transient:
            return False
        return all((slot["kind"], slot["state"]) == ("aware", "running") for slot in slots)

    def write_transactions_when_aware(self) -> None:
        """From the roll's end on."""

        def wait() -> None:
            wait_until(self.aware, 1500.0, "every member is aware", every_s=0.5)
            self.writer.transactional.set()

        threading.Thread(target=wait, daemon=True).start()

    def write_plain_records(self) -> None:
        """Before old members come back: a plain record behind the last marker of every partition."""
        self.writer.transactional.clear()
        wait_until(lambda: self.writer.failure or self._went_on(), 60.0, "plain records are written")

    def _went_on(self) -> bool:
        before = dict(self.writer.following)
        wait_until(
            lambda: all(self.writer.following[each] > at + 1 for each, at in before.items()),
            60.0,
            "every partition has two records more",
        )
        return True


def _compacted(bootstrap: str) -> dict[int, int]:
    """Fill the topic with few keys, wait until compaction has left holes in every partition; the log ends."""
    following = dict.fromkeys(range(PARTITIONS), 0)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})

    def write(partition: int, key: str) -> None:
        producer.produce(TOPIC, value_of(TOPIC, partition, following[partition]), key, partition=partition)
        following[partition] += 1

    for partition in range(PARTITIONS):
        for number in range(FILLED):
            write(partition, f"k{number % KEYS}")
    assert producer.flush(60) == 0

    def holes() -> bool:
        for partition in range(PARTITIONS):  # a record that is due later rolls the segment
            write(partition, "roll")
        assert producer.flush(30) == 0
        return all(_first_offsets(bootstrap, partition) > 0 for partition in range(PARTITIONS))

    wait_until(holes, 120.0, "every partition is compacted", every_s=1.5)
    return following


def _first_offsets(bootstrap: str, partition: int) -> int:
    """The offset of the first record that is left in a log whose start stays at 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looking", "log_level": 0})
    try:
        consumer.assign([KafkaPartition(TOPIC, partition, 0)])
        message = consumer.poll(5.0)
        return -1 if message is None or message.error() else message.offset()
    finally:
        consumer.close()


def _topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    compact = {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "0",
        "delete.retention.ms": "1000",
    }
    wanted = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1, config=compact)
    admin.create_topics([wanted])[TOPIC].result(60)


@contextmanager
def field_sandbox(folder: Path, properties: Properties | None = None) -> Iterator[Field]:
    """Three old members of a group with leftovers, on a compacted topic that is written in transactions."""
    home, options = Home(folder.resolve()), UpOptions(airflow=False, properties=properties or {})
    home.create()
    zookeeper, writer = None, None
    try:
        hosts = start_zookeeper(home)
        broker = start_kafka(home, hosts, options.kafka)
        _topics(broker.address)
        following = _compacted(broker.address)
        legacy.seed_offsets(hosts, GROUP, TOPIC, PARTITIONS)
        zookeeper = KazooClient(hosts)
        zookeeper.start(60)
        leave_offsets(zookeeper, broker.address)
        writer = Writer(broker.address, following)
        writer.start()
        sandbox_up.write_fleet(home, options, hosts, broker)
        sandbox_up.start_supervisor(home)
        sandbox_up.await_fleet(home, options, hosts)
        sandbox_up.write_settings(home, hosts, broker.address)
        with home.settings_file.open("a") as settings:
            settings.write("[thresholds]\npatience_s = 30\nsettle_s = 240\n")
        with warm_spark(home.root) as submit:
            text = home.settings_file.read_text().replace("[spark]", f'[spark]\nsubmit = "{submit}"')
            home.settings_file.write_text(text)
            yield Field(home, load(home.settings_file), broker.address, zookeeper, writer)
    finally:
        if writer is not None:
            writer.ending.set()
        if zookeeper is not None:
            zookeeper.stop()
            zookeeper.close()
        down(home)


def _delivered(field: Field) -> bool:
    """Every record that a reader of committed records is given was delivered to somebody."""
    wanted = {
        (partition, offset)
        for partition in range(PARTITIONS)
        for offset in _readable(field.bootstrap, partition)
    }
    return wanted <= {(each.partition.partition, each.offset) for each in read_ledgers(field.home.ledgers)}


def _readable(bootstrap: str, partition: int) -> list[int]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "looking", "enable.partition.eof": True}
    consumer, found = Consumer({**settings, "log_level": 0}), []
    try:
        consumer.assign([KafkaPartition(TOPIC, partition, 0)])
        while (message := consumer.poll(10.0)) is not None and message.error() is None:
            found.append(message.offset())
        assert message is not None, "the log is read to its end"
        return found
    finally:
        consumer.close()


def ready(app: GroupApp) -> None:
    """The group can be moved; the offsets that no member reads are named, and are no reason against it."""
    wait_until(lambda: patiently(lambda: app.assess(GROUP)).ready, 90.0, "the group is ready")
    found = patiently(lambda: app.assess(GROUP))
    (said,) = [each for each in found.findings if each.rule == "C29"]
    assert said.verdict == "pass"
    assert all(name.replace("/", "-") in said.reason for name in (*LEFT, BLANK)), said.reason


def prove_there_and_back(field: Field, app: GroupApp, run: str, folder: Path) -> None:
    """Every verdict of a run that was rolled back is pass, no leftover was touched; every record was
    delivered and none is lost."""
    assert app.state(run) is RunState.ROLLED_BACK
    judged_equal(app.tools.runs.events(run))
    assert left_offsets(field.zookeeper) == LEFT
    field.writer.end()
    wait_until(lambda: _delivered(field), 90.0, "every record is delivered", every_s=1.0)
    audit = _audited(app, field, folder)
    assert audit["verdict"] == "pass", audit["findings"]
    assert audit["lost"] == 0
    assert audit["empty_ranges"], "markers and holes were met, and the log was asked about them"


def judged_equal(events: Iterable[Event]) -> None:
    """Every comparison of a run there and back passed, and told of the offsets that nobody reads."""
    judged = [event for event in events if event.kind is EventKind.JUDGED]
    assert len(judged) >= 8
    assert {event.body["outcome"] for event in judged} == {"pass"}, [e.body for e in judged]
    assert {f["verdict"] for e in judged for f in e.body["findings"]} == {"pass"}
    told = [f["reason"] for e in judged for f in e.body["findings"] if f["rule"] == "V25"]
    assert len(told) == len(judged)
    assert all("no member reads it: kept as it is" in each for each in told), told


def _audited(app: GroupApp, field: Field, folder: Path) -> dict[str, Any]:
    arguments = (
        *("--ledgers", str(field.home.ledgers), "--zookeeper-log", str(field.home.zookeeper)),
        *("--group", GROUP, "--output", str(folder), "--brokers", field.bootstrap),
    )
    app.submits(SparkJob(job="audit_consumption", arguments=arguments, inputs={}, output=str(folder)))
    return json.loads((folder / "audit.json").read_text())
