"""One real ZooKeeper-mode Kafka broker as a child process, and topics on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Transient
from groupshift_sandbox.artifacts import BROKER, JAXB, LOGGING, Artifact, class_path
from groupshift_sandbox.home import Home
from groupshift_sandbox.jvm import java_argv, write_properties
from groupshift_sandbox.node_properties import listener_properties
from groupshift_sandbox.processes import Command, Running, await_start, free_port, start, wait_until
from groupshift_sandbox.state import SandboxState

NAME = "kafka"
_READY_S = 200.0
_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayedListener:
    """One extra listener: the broker listens on ``port`` and tells clients to come to ``advertised_port``,
    where their relay listens (both on 127.0.0.1)."""

    port: int
    advertised_port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """``relayed`` extra listeners for members behind a relay; ``secured_port`` that of a listener SECURED
    with TLS and SASL (0: none), which ``properties`` have to describe; ``initial_rebalance_delay_ms`` None
    is the broker's own 3 s; ``java`` are options of its JVM; ``release`` is another broker than 3.9.2;
    ``properties`` come last and win."""

    relayed: int = 0
    initial_rebalance_delay_ms: int | None = None
    heap: str = "512m"
    secured_port: int = 0
    java: Sequence[str] = ()
    release: Artifact = BROKER
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """Where a broker answers: ``address`` is ``127.0.0.1:<port>``."""

    address: str
    relayed: tuple[RelayedListener, ...] = ()


def start_kafka(home: Home, zookeeper: str, options: KafkaOptions = KafkaOptions()) -> Broker:
    """Start the broker and wait until it answers. Raises `Transient` when it does not in time."""
    port = free_port()
    relayed = tuple(
        RelayedListener(port=free_port(), advertised_port=free_port()) for _ in range(options.relayed)
    )
    argv = java_argv(
        home,
        "kafka.Kafka",
        write_properties(home, NAME, broker_properties(home, zookeeper, port, relayed, options)),
        classes=zookeeper_class_path(options.release),
        heap=options.heap,
        options=options.java,
        release=options.release.version,
    )
    process = start(home, Command(name=NAME, argv=argv))
    broker = Broker(address=f"127.0.0.1:{port}", relayed=relayed)
    SandboxState(home).put_address("kafka", broker.address)
    await_kafka(home, process, broker.address)
    return broker


def zookeeper_class_path(release: Artifact) -> str:
    """The class path of a broker that runs with ZooKeeper, and of its own tools."""
    return class_path(LOGGING, release, *([JAXB] if release.version.startswith("0.") else []))


def broker_properties(
    home: Home, zookeeper: str, port: int, relayed: tuple[RelayedListener, ...], options: KafkaOptions
) -> dict[str, str]:
    """The broker's configuration: stock behaviour for groups, single-replica internal topics."""
    ports = {"PLAINTEXT": port, **{f"RELAY{n}": extra.port for n, extra in enumerate(relayed)}}
    protocols = dict.fromkeys(ports, "PLAINTEXT")
    if options.secured_port:
        ports["SECURED"], protocols["SECURED"] = options.secured_port, "SASL_SSL"
    advertised = {f"RELAY{n}": extra.advertised_port for n, extra in enumerate(relayed)}
    properties = {
        "broker.id": "0",
        "zookeeper.connect": zookeeper,
        **listener_properties(ports, protocols, advertised),
        "log.dirs": str(home.kafka),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "10",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.retention.ms": "-1",
    }
    if options.initial_rebalance_delay_ms is not None:
        properties["group.initial.rebalance.delay.ms"] = str(options.initial_rebalance_delay_ms)
    return {**properties, **options.properties}


def await_kafka(home: Home, process: Running, address: str) -> None:
    """Wait until the broker answers. Raises `Transient` when it died or is late."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})

    def answers() -> bool:
        try:
            return bool(admin.list_topics(timeout=1.0).brokers)
        except KafkaException:
            return False

    await_start(home, process, answers, _READY_S)


def create_topic(bootstrap: str, topic: str, partitions: int, *, replicas: int = 1) -> None:
    """Create a topic with so many replicas and wait until every partition has a leader.

    Raises `Transient` when the broker does not do it in time; a topic that exists is an error too,
    for numbered records need a fresh one."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=replicas)
    pending = admin.create_topics([wanted])
    try:
        pending[topic].result(timeout=_ANSWER_S)
    except (KafkaException, TimeoutError) as error:
        raise Transient(f"topic {topic!r} could not be created on {bootstrap}: {error}") from error

    def led() -> bool:
        metadata = admin.list_topics(topic=topic, timeout=_ANSWER_S).topics[topic]
        leaders = [each.leader for each in metadata.partitions.values() if each.leader >= 0]
        return len(leaders) == partitions

    wait_until(led, _ANSWER_S, f"topic {topic!r} has leaders")


def log_ends(bootstrap: str, topic: str, partitions: int) -> dict[TopicPartition, int]:
    """The log end of every partition now. A broker that has just started may say that the topic has no
    partitions (seen with 3.9.2): it is asked again. Raises `Transient` when it does not tell in time."""
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "log-ends", "log_level": 0})
    ends: dict[TopicPartition, int] = {}

    def complete() -> bool:
        try:
            for number in range(partitions):
                marks = client.get_watermark_offsets(KafkaPartition(topic, number), timeout=_ANSWER_S)
                ends[TopicPartition(topic, number)] = marks[1]
        except KafkaException:
            return False
        return True

    try:
        wait_until(complete, _ANSWER_S, f"log ends of topic {topic!r}")
    finally:
        client.close()
    return ends
