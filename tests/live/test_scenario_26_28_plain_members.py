"""Scenarios 26 and 28: members of the Kafka group that have no registration in ZooKeeper."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.adapters.kafka.cluster import observer
from groupshift.adapters.kafka.groups import KafkaGroups
from groupshift.bootstrap.moves import build_scans
from groupshift.domain.modes import Mode
from groupshift.domain.plan import WayBack
from groupshift.domain.run import Findings
from groupshift.domain.verdict import Verdict
from groupshift.engine.begin import assess, claim
from groupshift.engine.move import RunOptions
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import drive
from groupshift.errors import Rejected
from groupshift.moves.coordination.facts import CoordinationRequest
from groupshift.moves.coordination.move import CoordinationMove
from groupshift.scan.ports import ToggleState
from groupshift.scan.toggles import Toggle, Toggles
from groupshift.settings import parse
from groupshift_sandbox.processes import free_port, wait_until
from support.group_log import GroupLog
from support.group_probe import PATIENCE_S, GroupProbe, exported
from support.protocol_fleet import patiently

TIMEOUT_S = 6
SILENT_S = 15
"""More than twice every timeout that is involved, instead of the table's 60 s."""
RATE = 20
BAD = {Verdict.FAIL, Verdict.ERROR}


@pytest.fixture
def toggles(cluster, tmp_path: Path) -> Iterator[Toggles]:
    """The runs of a scan over real servers, in a fresh journal."""
    settings = parse(
        {
            "kafka": {"bootstrap_servers": cluster.bootstrap},
            "zookeeper": {"hosts": cluster.zookeeper},
            "fleet": {"driver": "manual"},
            "journal": {"url": f"sqlite:///{tmp_path / 'journal.db'}"},
            "evidence": {"root": str(tmp_path / "evidence")},
            "thresholds": {"patience_s": 20, "settle_s": 60},
        }
    )
    with build_scans(settings) as scans:
        yield scans.toggles


def hasty(toggles: Toggles) -> Toggles:
    """The same for what is to be refused: it is waited for as long as patience lasts."""
    terms = replace(toggles.ports.terms, patience_s=3, settle_s=3)
    return replace(toggles, ports=replace(toggles.ports, terms=terms))


def begun(toggles: Toggles, group: str, to: Mode) -> Toggle:
    """The toggle of one scan, begun again while a server does not answer it: a scan goes on with its own."""
    found: list[Toggle] = []

    def told() -> bool:
        found.append(Toggle(group=group, to=to))
        toggles.start(found[-1], "scan-26")
        return found[-1].state is not ToggleState.FAILED

    wait_until(told, 2 * PATIENCE_S, f"servers answer the toggle to {to}", every_s=0.5)
    return found[-1]


def findings_of(toggles: Toggles, group: str) -> Findings:
    """What the move says of the group now."""
    move, request = CoordinationMove(), CoordinationRequest(group=group, driver="manual")
    return patiently(lambda: assess(move, toggles.tools, toggles.ports, request))[1]


def alarm_metric(port: int) -> float:
    """The sample ``groupshift_consumer_alarms`` of one member."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    (sample,) = [line for line in lines if line.startswith("groupshift_consumer_alarms{")]
    return float(sample.rpartition(" ")[2])


def test_scenario_26_kc_guard(
    cluster, toggles, topic, group, producer, consume_member, scala_member, clients, kazoo, ledger
):
    """The tool does not set zookeeper beside a plain Kafka consumer; where a Scala member joins all the
    same, ours stay in kafka mode and raise the alarm until it is gone (D11)."""
    name, probe = topic(6), GroupProbe(kazoo, group)
    log = GroupLog(cluster.home.zookeeper, group)
    producer(name, 6, rate=20)
    ports = {f"m{number}-1": free_port() for number in (1, 2)}
    ours = [
        consume_member("migrating", each, [name], properties={"metrics.port": str(port)})
        for each, port in ports.items()
    ]
    names = [each.member_id for each in ours]
    probe.await_shares(name, dict.fromkeys(names, 3))
    wait_until(lambda: set(names) <= clients(), PATIENCE_S, "ours are in the Kafka group")

    def ready() -> bool:
        return all(each.verdict not in BAD for each in findings_of(toggles, group))

    wait_until(ready, PATIENCE_S, "the group is ready to toggle", every_s=0.3)
    toggle = begun(toggles, group, Mode.KAFKA)
    assert toggle.state is ToggleState.STARTED, toggle
    node = probe.mode_node()
    probe.await_published(names, Mode.KAFKA, node)
    # the first by name: it gets 0 and 1, so what Scala will ask for is held by ours
    plain = consume_member("plain", "m0-1", [name])
    probe.await_shares(name, dict.fromkeys(names, 2))
    wait_until(lambda: len(plain.deliveries()) > 20, PATIENCE_S, "the plain consumer delivers")

    back = begun(hasty(toggles), group, Mode.ZOOKEEPER)
    assert back.state is ToggleState.SKIPPED, back
    assert "plain Kafka" in back.reason
    move, tools, impatient = toggles.moves[Mode.KAFKA], toggles.tools, hasty(toggles).ports
    options, record = RunOptions(who="ann", holder="cli", every_s=0.3), tools.runs.find(toggle.run.name)
    person = patiently(lambda: claim(move, tools, impatient, record, options, take_over=True))
    assert patiently(lambda: begin_roll_back(person, WayBack.ZOOKEEPER_MODE))
    with pytest.raises(Rejected, match=r"set_mode of run .* was not started.*plain Kafka"):
        patiently(lambda: drive(person))
    assert probe.mode_node() == node
    assert not any(alarm_metric(port) for port in ports.values())

    switched = len(log.published())
    scala = scala_member("1.1.1", "m3-1", [name])

    def alarmed() -> bool:
        said = [exported(each.state_file).get("alarms", []) for each in ours]
        return all(any(plain.member_id in alarm for alarm in alarms) for alarms in said)

    wait_until(alarmed, PATIENCE_S, "both raise the alarm and name the plain consumer")
    assert all(alarm_metric(port) >= 1 for port in ports.values())
    (finding,) = [each for each in findings_of(toggles, group) if each.rule == "C04"]
    assert finding.verdict is Verdict.FAIL
    assert scala.member_id in finding.reason
    scala.stop()
    wait_until(
        lambda: not any(alarm_metric(port) for port in ports.values()), PATIENCE_S, "the alarm is over"
    )
    assert {each.mode for each in log.published()[switched:]} <= {Mode.KAFKA}
    assert {exported(each.state_file)["mode"] for each in ours} == {Mode.KAFKA.value}
    probe.await_shares(name, dict.fromkeys(names, 2))
    ledger.assert_no_overlap()


class Churn:
    """Members of the Kafka group that never fetch, one after the other, in a thread of their own."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._properties = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"{group}_churn",
            "session.timeout.ms": TIMEOUT_S * 1000,
            "partition.assignment.strategy": "range",
            "enable.auto.commit": False,
        }
        self._topic, self._over = topic, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.joined = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._over.is_set():
            assigned = threading.Event()

            def take_nothing(consumer: Consumer, _partitions: object, assigned=assigned) -> None:
                consumer.assign([])
                assigned.set()

            consumer = Consumer(self._properties)
            consumer.subscribe([self._topic], on_assign=take_nothing)
            while not assigned.is_set() and not self._over.is_set():
                consumer.poll(0.1)
            consumer.close()
            self.joined += assigned.is_set()


@pytest.fixture
def clients(cluster, group) -> Iterator[Callable[[], set[str]]]:
    """The client ids that the Kafka group has now."""
    groups = KafkaGroups(observer(cluster.bootstrap, timeout_s=60.0))

    def read() -> set[str]:
        found = patiently(lambda: groups.observe(group))
        return {each.client_id for each in found.kafka.members}

    yield read
    groups.close()


def kafka_offsets(cluster, group: str, topic: str, partitions: list[int]) -> list[int]:
    """What the coordinator holds for these partitions."""
    client = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        asked = [KafkaPartition(topic, each) for each in partitions]
        found = patiently(lambda: client.committed(asked, timeout=60))
        return [each.offset for each in found]
    finally:
        client.close()


def test_scenario_28_ekc_rebalance_in_zk_mode(
    cluster, topic, group, producer, consume_member, scala_member, relay, clients, kazoo, ledger, log_ends
):
    """The Kafka group rebalances all the time and its coordinator is silent to ours for a while: in
    ZooKeeper mode neither consumption, nor a Scala member's coming and going, nor commits suffer."""
    name, probe, link = topic(6), GroupProbe(kazoo, group), relay("kafka")
    producer(name, 6, rate=RATE)
    often = {"auto.commit.interval.ms": "500"}
    embedded = {
        "coordination.migration.bootstrap.servers": link.address,
        "coordination.migration.socket.timeout.ms": str(TIMEOUT_S * 1000),
        "session.timeout.ms": str(TIMEOUT_S * 1000),
        # who loses its session holds partitions for less than the 8 s after which an old member gives up
        "zookeeper.session.timeout.ms": "4000",
        "zookeeper.connection.timeout.ms": "60000",
    }
    scala = scala_member("1.1.1", "m1-1", [name], seed=6, properties=often)
    ours = [consume_member("migrating", f"m{n}-1", [name], properties={**often, **embedded}) for n in (2, 3)]
    names = [each.member_id for each in ours]
    three = dict.fromkeys([scala.member_id, *names], 2)
    probe.await_shares(name, three)
    wait_until(lambda: set(names) <= clients(), PATIENCE_S, "ours are in the Kafka group")
    with Churn(cluster.bootstrap, group, name) as churn:
        guest = scala_member("1.1.1", "m4-1", [name], properties=often)
        probe.await_shares(name, three | {names[1]: 1, guest.member_id: 1})
        wait_until(lambda: churn.joined >= 3, PATIENCE_S, "three members of the Kafka group came and went")
        link.stall()
        ends = log_ends(name, 6)
        wait_until(lambda: not set(names) & clients(), PATIENCE_S, "the coordinator has given ours up")
        guest.stop()
        probe.await_shares(name, three)
        wait_until(
            lambda: all(
                (probe.offset(name, each.partition) or 0) >= end + RATE * SILENT_S
                for each, end in ends.items()
            ),
            PATIENCE_S,
            "what was written while the coordinator is silent is delivered and committed to ZooKeeper",
        )
        assert not set(names) & clients()
        link.restore()
    wait_until(lambda: clients() == set(names), PATIENCE_S, "ours are back in the Kafka group")
    held = [number for number, (member, _, _) in probe.owners(name).items() if member in names]
    done = max(log_ends(name, 6).values())
    wait_until(
        lambda: min(kafka_offsets(cluster, group, name, held)) >= done,
        PATIENCE_S,
        "Kafka follows",
        every_s=0.2,
    )
    assert {exported(each.state_file)["mode"] for each in ours} == {Mode.ZOOKEEPER.value}
    for each in (scala, guest):
        assert "ConsumerRebalanceFailedException" not in each.log_file.read_text()
    ends = log_ends(name, 6)
    ledger.await_all({each: end + 10 for each, end in ends.items()})
    log, old = GroupLog(cluster.home.zookeeper, group), [scala.member_id, guest.member_id]
    log.assert_no_overlap(ledger.deliveries(), old=old)
    log.assert_fenced(ledger.deliveries(), ends, old=old)
