"""Whole ensembles on real ZooKeeper and Kafka: reading, history, waves there and back, the brake."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from groupshift.adapters.groups import LiveEnsembleReader, LiveGroupReader
from groupshift.adapters.kafka.cluster import observer
from groupshift.adapters.kafka.groups import KafkaGroups, ListedKafkaGroups
from groupshift.adapters.spark_submit.java import java_binary
from groupshift.adapters.system import SystemClock
from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
from groupshift.adapters.zookeeper.session import ZookeeperConnection
from groupshift.bootstrap.moves import build_scans
from groupshift.domain.group import GroupView
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import PhaseName
from groupshift.domain.run import RunState
from groupshift.domain.verdict import Readiness
from groupshift.errors import Rejected, Transient
from groupshift.scan.group_state import Aspect, GroupChange, GroupState, Life
from groupshift.scan.ports import ToggleState
from groupshift.scan.scan import FleetScans
from groupshift.scan.waves import WaveRules
from groupshift.settings import parse
from groupshift_sandbox import legacy
from groupshift_sandbox.artifacts import LOGGING, SCALA_CONSUMERS, class_path
from groupshift_sandbox.home import Home
from groupshift_sandbox.jvm import write_logging
from groupshift_sandbox.kafka import KafkaOptions, await_kafka, broker_properties, create_topic
from groupshift_sandbox.processes import Running, free_port, wait_until
from groupshift_sandbox.zookeeper import serves
from support.group_probe import PATIENCE_S

NOW = WaveRules(size=2, budget=1, stable_s=0)
PARTITIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """One session's cluster with readers of both kinds and a way to start members of any group."""

    zookeeper: str
    bootstrap: str
    scans: FleetScans
    single: LiveGroupReader
    member: Callable[..., Running]

    def scan(self) -> dict[str, GroupState]:
        """One scan; the state of every group by name."""
        self.scans.scan(lambda _done, _total: None)
        return {state.group: state for state in self.scans.states()}

    def view(self, group: str) -> GroupView:
        """One group by the reader of one group."""
        return self.single.read(group)

    def await_ready(self, group: str, phase: PhaseName) -> dict[str, GroupState]:
        """Wait until a scan finds the group ready for a phase, without a warning; what that scan found."""
        seen: dict[str, GroupState] = {}

        def ready() -> bool:
            try:
                latest = self.scan()
            except Transient:
                return False
            seen.clear()
            seen.update(latest)
            found = seen[group].phase(phase)
            return found is not None and not found.findings

        try:
            wait_until(ready, PATIENCE_S, f"{group} is ready for {phase}", every_s=0.5)
        except Transient as late:
            pytest.fail(f"{late}; last seen: {seen.get(group)}; now: {self.view(group)}")
        return seen

    def await_quiet(self, *groups: str) -> None:
        """Wait until a scan shows that nothing of these groups has changed since the one before."""

        def quiet() -> bool:
            try:
                self.scan()
            except Transient:
                return False
            return not self.changed(*groups)

        wait_until(quiet, PATIENCE_S, f"nothing of {groups} changes", every_s=0.5)

    def changed(self, *groups: str) -> dict[tuple[str, Aspect], GroupChange]:
        """What the last scan shows of these groups."""
        found = self.scans.changes(self.scans.last().record.number)
        return {(each.group, each.aspect): each for each in found if each.group in groups}


@pytest.fixture
def ensemble(cluster, process, tmp_path: Path) -> Iterator[Ensemble]:
    """A fresh journal over the session's cluster."""
    settings = parse(
        {
            "kafka": {"bootstrap_servers": cluster.bootstrap},
            "zookeeper": {"hosts": cluster.zookeeper},
            "fleet": {"driver": "manual"},
            "journal": {"url": f"sqlite:///{tmp_path / 'journal.db'}"},
            "evidence": {"root": str(tmp_path / "evidence")},
            "thresholds": {"settle_s": 240},
        }
    )

    def member(kind: str, group: str, name: str, topic: str) -> Running:
        argv = [sys.executable, "-m", "groupshift.cli.consume", "--kind", kind, "--group", group]
        argv += ["--topic", topic, "--zookeeper", cluster.zookeeper, "--bootstrap", cluster.bootstrap]
        argv += ["--consumer-id", name, "--ledger", str(tmp_path / f"{group}_{name}.jsonl")]
        argv += ["--property", "auto.commit.interval.ms=500", "--property", "auto.offset.reset=earliest"]
        return process(f"{group}_{name}", argv)

    single = LiveGroupReader(
        ZookeeperGroups(ZookeeperConnection(cluster.zookeeper, timeout_s=60.0)),
        KafkaGroups(observer(cluster.bootstrap, timeout_s=60.0)),
        SystemClock(),
    )
    with build_scans(settings) as scans:
        yield Ensemble(
            zookeeper=cluster.zookeeper,
            bootstrap=cluster.bootstrap,
            scans=scans,
            single=single,
            member=member,
        )
    single.close()


def name(kind: str) -> str:
    """A group of this test's own."""
    return f"scan-{kind}-{uuid.uuid4().hex[:6]}"


def commit_everywhere(ensemble: Ensemble, group: str, topic: str, offset: int = 0) -> None:
    """Offsets of every partition in both stores."""
    legacy.seed_offsets(ensemble.zookeeper, group, topic, PARTITIONS)
    consumer = Consumer({"bootstrap.servers": ensemble.bootstrap, "group.id": group})
    consumer.commit(offsets=[KafkaPartition(topic, n, offset) for n in range(PARTITIONS)], asynchronous=False)
    consumer.close()


def still(view: GroupView) -> GroupView:
    """Without the moment of reading, and without who answered."""
    return replace(view, taken_at_ms=0, brokers=())


@pytest.mark.parametrize("together", [True, False], ids=["multiread", "one-by-one"])
def test_every_group_is_read_as_the_reader_of_one_group_reads_it(
    ensemble: Ensemble, topic, kazoo: KazooClient, *, together: bool
) -> None:
    """Aware, ZooKeeper-only, plain, dead and unused groups: the views are equal, either way of reading.

    A group whose name cannot be a node is read from Kafka alone."""
    orders = topic(PARTITIONS)
    aware, zookeeper, plain, dead, unused = (name(k) for k in ("aware", "zk", "plain", "dead", "unused"))
    slashed = f"{name('slash')}/x"
    consumer = Consumer({"bootstrap.servers": ensemble.bootstrap, "group.id": slashed})
    consumer.commit(offsets=[KafkaPartition(orders, 0, 0)], asynchronous=False)
    consumer.close()
    for group in (aware, zookeeper, dead):
        commit_everywhere(ensemble, group, orders)
    kazoo.ensure_path(f"/consumers/{unused}/ids")
    kazoo.create(f"/consumers/{zookeeper}/migration/mode", b"kafka\n", makepath=True)
    for kind, group in (("migrating", aware), ("zookeeper", zookeeper), ("plain", plain)):
        ensemble.member(kind, group, "m1", orders)
    for group in (aware, plain):
        wait_until(lambda g=group: ensemble.view(g).kafka.state == "Stable", PATIENCE_S, f"{group} is stable")
    for group in (aware, zookeeper):
        wait_until(lambda g=group: len(ensemble.view(g).owners) == PARTITIONS, PATIENCE_S, f"{group} owns")
    wait_until(
        lambda: all(m.acting_on for m in ensemble.view(aware).members), PATIENCE_S, "the member publishes"
    )
    reader = LiveEnsembleReader(
        ZookeeperGroups(ZookeeperConnection(ensemble.zookeeper, timeout_s=60.0), together=together),
        ListedKafkaGroups(observer(ensemble.bootstrap, timeout_s=60.0)),
        SystemClock(),
    )
    listed = reader.groups()
    groups = (aware, zookeeper, plain, dead, unused, slashed)
    views = {observed.view.group: observed.view for observed in reader.read(groups)}
    reader.close()
    assert set(groups) <= set(listed)
    for group in (aware, zookeeper, plain, dead):
        assert still(views[group]) == still(ensemble.view(group)), group
    assert views[zookeeper].problems
    assert views[unused].members == ()
    assert [offset.offset for offset in views[slashed].kafka_offsets] == [0]


def test_a_server_that_knows_no_multiread_is_asked_one_by_one(tmp_path: Path, process) -> None:
    """A real ZooKeeper 3.4 drops the request without a word; the scan notices and reads node by node."""
    port = free_port()
    configuration = tmp_path / "zoo.cfg"
    configuration.write_text(
        f"dataDir={tmp_path}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=500\n"
    )
    jars = class_path(LOGGING, SCALA_CONSUMERS["1.1.1"])
    argv = [java_binary(), "-Xmx128m", "-Dzookeeper.jmx.log4j.disable=true", "-cp", jars]
    process(
        f"old-zookeeper-{port}",
        [*argv, "org.apache.zookeeper.server.ZooKeeperServerMain", str(configuration)],
    )
    address = f"127.0.0.1:{port}"
    wait_until(lambda: serves(address), PATIENCE_S, "ZooKeeper 3.4 answers")
    client = KazooClient(hosts=address)
    client.start(timeout=60)
    registration = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
    client.create("/consumers/g/ids/g_a", registration, makepath=True, ephemeral=True)
    client.create("/consumers/g/offsets/t/0", b"7", makepath=True)
    reader = ZookeeperGroups(ZookeeperConnection(address))
    try:
        assert reader.groups() == ("g",)
        ((side, times),) = reader.window(("g",))
    finally:
        reader.close()
        client.stop()
        client.close()
    assert [member.member_id for member in side.members] == ["g_a"]
    assert [offset.offset for offset in side.zookeeper_offsets] == [7]
    assert times.changes


def test_a_broker_that_knows_no_batches_is_asked_group_by_group(cluster, tmp_path: Path, process) -> None:
    """A real broker 1.1.1: membership in one request, offsets a group at a time, log ends as ever."""
    port, home = free_port(), Home(tmp_path / "old").create()
    own = {"zookeeper.connect": f"{cluster.zookeeper}/old", "log.dirs": str(home.kafka)}
    properties = broker_properties(home, cluster.zookeeper, port, (), KafkaOptions(properties=own))
    configuration = home.configuration / "kafka.properties"
    configuration.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    argv = [java_binary(), "-Xmx256m", f"-Dlog4j.configuration=file:{write_logging(home)}"]
    argv += ["-cp", class_path(LOGGING, SCALA_CONSUMERS["1.1.1"]), "kafka.Kafka", str(configuration)]
    address = f"127.0.0.1:{port}"
    await_kafka(home, process(f"old-kafka-{port}", argv), address)
    create_topic(address, "orders", 2)
    for group in ("a", "b"):
        consumer = Consumer({"bootstrap.servers": address, "group.id": group})
        consumer.commit(offsets=[KafkaPartition("orders", n, 0) for n in range(2)], asynchronous=False)
        consumer.close()
    reader = ListedKafkaGroups(observer(address))
    try:
        assert reader.groups() == ("a", "b")
        found = reader.observe({"a": (), "b": (), "nobody": ()})
        ends, problems = reader.log_ends([TopicPartition("orders", n) for n in range(2)])
    finally:
        reader.close()
    assert {name: (side.kafka.state, len(side.kafka_offsets)) for name, side in found.items()} == {
        "a": ("Empty", 2),
        "b": ("Empty", 2),
        "nobody": ("Dead", 0),
    }
    assert (len(ends), problems) == (2, [])


def test_a_scan_says_what_each_group_is_and_what_has_changed(
    ensemble: Ensemble, topic, kazoo: KazooClient, scala_member, group: str
) -> None:
    """Dead, unused and old groups by name; the second scan shows exactly the one that changed."""
    orders = topic(PARTITIONS)
    dead, unused = name("dead"), name("unused")
    commit_everywhere(ensemble, dead, orders)
    kazoo.ensure_path(f"/consumers/{unused}/ids")
    member = scala_member("1.1.1", "m1", [orders], seed=PARTITIONS)
    states = ensemble.await_ready(group, PhaseName.CANARY)
    assert (states[dead].life, states[unused].life) == (Life.DEAD, Life.UNUSED)
    old = states[group]
    assert (old.life, old.old, old.owned, old.zookeeper_offsets) == (Life.ACTIVE, 1, PARTITIONS, PARTITIONS)
    assert old.lag == 0
    assert old.phase(PhaseName.TOGGLE).state is Readiness.NOT_READY
    assert any(finding.rule == "C13" for finding in old.phase(PhaseName.TOGGLE).findings)
    ensemble.await_quiet(dead, unused, group)
    member.stop()
    registered = f"/consumers/{group}/ids/{member.member_id}"
    wait_until(lambda: kazoo.exists(registered) is None, PATIENCE_S, "the member is gone")
    kazoo.delete(f"/consumers/{unused}", recursive=True)
    later = ensemble.scan()
    changed = ensemble.changed(dead, unused, group)
    assert set(changed) == {
        (group, Aspect.LIFE),
        (group, Aspect.MEMBERS),
        (group, Aspect.NEXT),
        (unused, Aspect.VANISHED),
    }
    assert (changed[group, Aspect.MEMBERS].before, changed[group, Aspect.MEMBERS].after) == ("1 old", "none")
    assert later[group].stable_since_ms > old.stable_since_ms


def test_a_group_that_may_not_be_read_is_told_and_stops_no_other(
    ensemble: Ensemble, group: str, topic, kazoo: KazooClient
) -> None:
    """Somebody else's ACL on one group."""
    topic(1)  # a broker without any looks as if it had just started
    nobody = [make_digest_acl("alice", "wonder-land-1", all=True)]
    kazoo.create(f"/consumers/{group}", b"")
    kazoo.create(f"/consumers/{group}/ids", b"", acl=nobody)
    kazoo.create(f"/consumers/{group}-open/ids", b"", makepath=True)
    found = ensemble.scan()
    assert any(f"/consumers/{group}/ids may not be read" in each for each in found[group].problems)
    assert found[f"{group}-open"].problems == ()


def test_rest_is_counted_from_the_last_change_that_zookeeper_tells(
    ensemble: Ensemble, topic, kazoo: KazooClient
) -> None:
    """The first scan knows a join's time from the nodes; a leave without any later write counts as now."""
    orders, zookeeper = topic(PARTITIONS), name("rest")
    legacy.seed_offsets(ensemble.zookeeper, zookeeper, orders, PARTITIONS)
    ensemble.member("zookeeper", zookeeper, "m1", orders)
    ensemble.await_ready(zookeeper, PhaseName.CANARY)
    _, stat = kazoo.get(f"/consumers/{zookeeper}/owners/{orders}/{PARTITIONS - 1}")
    found = ensemble.scan()[zookeeper]
    newest = max(kazoo.get(f"/consumers/{zookeeper}/owners/{orders}/{n}")[1].ctime for n in range(PARTITIONS))
    assert stat.ctime <= newest == found.stable_since_ms < found.taken_at_ms


def test_waves_toggle_what_is_fit_and_take_it_back(ensemble: Ensemble, topic, kazoo: KazooClient) -> None:
    """Noop without execute; stopped by the brake; then in kafka mode, journaled, and back by pattern."""
    orders = topic(PARTITIONS)
    prefix = name("waves")
    groups = [f"{prefix}-{n}" for n in range(3)]
    for group in groups:
        commit_everywhere(ensemble, group, orders)
        ensemble.member("migrating", group, "m1", orders)
    for group in groups:
        ensemble.await_ready(group, PhaseName.TOGGLE)
    scans = ensemble.scans
    assert set(groups) <= set(scans.fit(NOW))
    assert not set(groups) & set(scans.fit(WaveRules(stable_s=86_400)))

    planned = scans.toggle(scans.last(), NOW, execute=False)
    assert {each.state for each in planned.toggles} == {ToggleState.PLANNED}
    scans.brake.pull("the test holds it")
    held = scans.toggle(scans.last(), NOW, execute=True)
    assert held.toggles == ()
    assert "the test holds it" in held.stopped
    assert not any(kazoo.exists(f"/consumers/{group}/migration/mode") for group in groups)

    scans.brake.release()
    done = scans.toggle(scans.last(), NOW, execute=True)
    ours = {each.group: each for each in done.toggles if each.group in groups}
    assert {each.state for each in ours.values()} == {ToggleState.DONE}, ours
    assert max(each.wave for each in done.toggles) > 1
    for group in groups:
        view = ensemble.view(group)
        assert (view.effective_mode, {member.mode for member in view.members}) == (Mode.KAFKA, {Mode.KAFKA})
        assert scans.toggles.tools.runs.find(ours[group].run).state is RunState.MOVED

    after = ensemble.scan()
    assert all(after[group].mode is Mode.KAFKA for group in groups)
    assert not set(groups) & set(scans.fit(NOW))
    written = [kazoo.get(f"/consumers/{group}/migration/mode")[1].version for group in groups]
    back = scans.take_back([f"{prefix}-0", f"*{prefix[1:]}-1"], NOW, execute=True)
    assert {(each.group, each.state) for each in back.toggles} == {(g, ToggleState.DONE) for g in groups[:2]}
    assert [ensemble.view(group).effective_mode for group in groups] == [
        Mode.ZOOKEEPER,
        Mode.ZOOKEEPER,
        Mode.KAFKA,
    ]
    versions = [kazoo.get(f"/consumers/{group}/migration/mode")[1].version for group in groups]
    assert [now - then for then, now in zip(written, versions, strict=True)] == [1, 1, 0]
    assert scans.toggles.tools.runs.find(ours[groups[0]].run).state is RunState.ROLLED_BACK
    ensemble.scan()
    with pytest.raises(Rejected, match="names no group in kafka mode"):
        scans.take_back([groups[0]], NOW, execute=True)


def test_a_group_that_does_not_settle_uses_the_budget_and_is_taken_back(
    ensemble: Ensemble, topic, kazoo: KazooClient
) -> None:
    """A member that stands still does not act on the mode: the wave fails, goes back, and nothing follows."""
    orders = topic(PARTITIONS)
    prefix = name("stuck")
    first, second = f"{prefix}-a", f"{prefix}-b"
    for group in (first, second):
        commit_everywhere(ensemble, group, orders)
        ensemble.member("migrating", group, "m1", orders)
        ensemble.await_ready(group, PhaseName.TOGGLE)
    ports = ensemble.scans.toggles.ports
    deaf = replace(ports.side, groups=_Deaf(ports.side.groups, first))
    hasty = replace(ports, side=deaf, terms=replace(ports.terms, settle_s=5, patience_s=5))
    scans = replace(ensemble.scans, toggles=replace(ensemble.scans.toggles, ports=hasty))
    waves = scans.waves(scans.last(), WaveRules(size=5, budget=1, stable_s=0))
    found = waves.run((first, second), Mode.KAFKA, execute=True)
    assert [(each.group, each.state) for each in found.toggles] == [(first, ToggleState.FAILED)]
    assert "it was taken back to zookeeper mode" in found.toggles[0].reason
    assert (found.left, "error budget of 1" in found.stopped) == ((second,), True)
    assert kazoo.get(f"/consumers/{first}/migration/mode")[0] == b"zookeeper"
    assert not kazoo.exists(f"/consumers/{second}/migration/mode")
    assert scans.toggles.tools.runs.find(found.toggles[0].run).state is RunState.ROLLED_BACK


@dataclass(frozen=True, slots=True)
class _Deaf:
    """The real reader, but one group's members never seem to act on kafka mode."""

    reader: object
    group: str

    def read(self, group: str) -> GroupView:
        view = self.reader.read(group)
        if group != self.group:
            return view
        return replace(view, members=tuple(replace(m, mode=Mode.ZOOKEEPER) for m in view.members))
