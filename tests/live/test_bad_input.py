"""Bad input and failed dependencies: one clear sentence each, and nothing is changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from kazoo.client import KazooClient

from groupshift.domain.plan import PhaseName
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.registration import Registration, encode_awareness, encode_registration
from groupshift.domain.requests import request_of
from groupshift.domain.run import RunState, plan_from
from groupshift.domain.verdict import Verdict
from groupshift.engine.gates import answer
from groupshift.engine.progress import Stopped
from groupshift.engine.questions_and_approvers import Answer, Question
from groupshift.engine.replace_members import REPLACE_MEMBERS
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.moves.coordination.facts import CoordinationRequest
from groupshift.settings import Settings, parse
from groupshift_sandbox.processes import free_port, wait_until
from support.coordination_app import GroupApp, coordination_app
from support.patient_readers import wait_longer

PARTITIONS = 2
SECRETS = {"zookeeper": "looking-glass-2"}
"""A Kafka login that PLAINTEXT does not use is refused (S4); test_security.py has one that is used."""


@pytest.fixture
def settings(cluster, tmp_path: Path) -> Settings:
    """The session's servers, a journal and an evidence folder of this test's own, and secrets."""
    return parse(
        {
            "kafka": {"bootstrap_servers": cluster.bootstrap},
            "zookeeper": {
                "hosts": cluster.zookeeper,
                "username": "alice",
                "password": SECRETS["zookeeper"],
            },
            "fleet": {"driver": "manual"},
            "journal": {"url": f"sqlite:///{tmp_path}/journal.db"},
            "evidence": {"root": str(tmp_path / "evidence"), "ledgers": str(tmp_path / "ledgers")},
            "thresholds": {"patience_s": 1},
        }
    )


@pytest.fixture
def app(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[GroupApp]:
    """The move over the real adapters."""
    wait_longer(monkeypatch)
    with coordination_app(settings, spark=False) as made:
        yield made


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """An operator's hand on the nodes of one group; members are their nodes, held by this session."""

    kazoo: KazooClient
    group: str
    topic: str

    def path(self, *parts: str) -> str:
        """Below the group."""
        return "/".join((f"/consumers/{self.group}", *parts))

    def put(self, data: bytes, *parts: str, ephemeral: bool = False) -> None:
        """Create a node with its parents."""
        self.kazoo.create(self.path(*parts), data, ephemeral=ephemeral, makepath=True)

    def member(self, name: str, *, aware: bool = False) -> str:
        """A registered member; returns its id."""
        registration = Registration(subscription=((self.topic, 1),), timestamp="1486000000000")
        member = f"{self.group}_{name}"
        self.put(encode_registration(registration), "ids", member, ephemeral=True)
        if aware:
            node = encode_awareness(registration, software="0.1.0")
            self.put(node, "migration", "ids", member, ephemeral=True)
        return member

    def own(self, member: str) -> None:
        """Let the member own every partition, with an offset in ZooKeeper."""
        for number in range(PARTITIONS):
            self.put(f"{member}-0".encode(), "owners", self.topic, str(number), ephemeral=True)

    def offsets(self) -> None:
        """Offset 0 for every partition."""
        for number in range(PARTITIONS):
            self.put(b"0", "offsets", self.topic, str(number))

    def tree(self) -> dict[str, tuple[bytes, int]]:
        """Every node of the group with data and version: what must not change."""
        found: dict[str, tuple[bytes, int]] = {}
        waiting = [self.path()] if self.kazoo.exists(self.path()) else []
        while waiting:
            path = waiting.pop()
            data, stat = self.kazoo.get(path)
            found[path] = (data, stat.version)
            waiting.extend(f"{path}/{child}" for child in self.kazoo.get_children(path))
        return found


@pytest.fixture
def nodes(kazoo: KazooClient, group: str, topic: Callable[[int], str]) -> Nodes:
    """The nodes of this test's group, none yet, and its topic."""
    return Nodes(kazoo=kazoo, group=group, topic=topic(PARTITIONS))


@pytest.fixture
def ready(nodes: Nodes) -> Nodes:
    """A group of one old member that owns everything and has committed: ready to move."""
    nodes.own(nodes.member("m1-1"))
    nodes.offsets()
    return nodes


@pytest.fixture
def kafka_member(cluster, group: str) -> Iterator[Callable[[str, str], Consumer]]:
    """Factory: a Kafka consumer of this test's group, joined."""
    made: list[Consumer] = []

    def join(client_id: str, topic: str) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "client.id": client_id,
                "enable.auto.commit": False,
            }
        )
        made.append(consumer)
        consumer.subscribe([topic])

        def joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        wait_until(joined, 60, f"{client_id} holds partitions")
        return consumer

    yield join
    for consumer in made:
        consumer.close()


def failed(app: GroupApp, group: str) -> dict[str, str]:
    """Rule → reason of what assess calls a failure."""
    assessed = app.assess(group)
    assert not assessed.ready
    return {one.rule: one.reason for one in assessed.findings if one.verdict is Verdict.FAIL}


def refused(app: GroupApp, nodes: Nodes, *said: str) -> None:
    """Planning is refused in one sentence that says all this, and nothing was changed or journaled."""
    before = nodes.tree()
    with pytest.raises(Rejected) as caught:
        app.plan(nodes.group)
    for words in said:
        assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert nodes.tree() == before
    assert not app.tools.runs.recent(1, previews=True)


def test_the_ready_group_of_these_tests_is_ready(app: GroupApp, ready: Nodes) -> None:
    """Else each refusal below would prove nothing."""
    assessed = app.assess(ready.group)
    assert assessed.ready, assessed.failed()
    plan = plan_from(app.record(app.plan(ready.group)).plan)
    assert plan.steps[1].phase == PhaseName.CANARY


def test_an_unknown_group_is_refused(app: GroupApp, nodes: Nodes) -> None:
    """It names the group and asks to check the name."""
    assert set(failed(app, nodes.group)) == {"C01"}
    refused(app, nodes, nodes.group, "known neither to ZooKeeper nor to Kafka")


def test_a_group_with_no_members_is_refused(app: GroupApp, nodes: Nodes) -> None:
    """Its offsets are there, but nobody to replace."""
    nodes.offsets()
    assert "no members" in failed(app, nodes.group)["C02"]
    refused(app, nodes, nodes.group, "no members", "start its consumers")


def test_a_group_of_plain_consumers_only_is_refused(app: GroupApp, nodes: Nodes, kafka_member) -> None:
    """There is nothing to move from ZooKeeper."""
    kafka_member("app-1", nodes.topic)
    assert any("only 1 plain Kafka members" in each for each in failed(app, nodes.group).values())
    refused(app, nodes, "only 1 plain Kafka members")


def test_plain_members_beside_old_ones_forbid_the_move(app: GroupApp, ready: Nodes, kafka_member) -> None:
    """Every partition they hold would be consumed twice (D11)."""
    kafka_member("app-1", ready.topic)
    assert "app-1" in failed(app, ready.group)["C04"]
    refused(app, ready, "consumed twice")


@pytest.mark.parametrize("data", [b"{not json", b'{"version":1}', b""])
def test_a_malformed_registration_is_named(app: GroupApp, ready: Nodes, data: bytes) -> None:
    """Path, content and remedy: old members cannot rebalance while it is there."""
    member = f"{ready.group}_broken-1"
    ready.put(data, "ids", member, ephemeral=True)
    reason = failed(app, ready.group)["C03"]
    assert ready.path("ids", member) in reason
    assert repr(data.decode()) in reason
    assert "restart that member" in reason
    refused(app, ready, "C03", "assess again")


@pytest.mark.parametrize("data", [b"KAFKA", b"kafka\n", b"on"])
def test_a_malformed_mode_node_is_named(app: GroupApp, ready: Nodes, data: bytes) -> None:
    """Members read it as zookeeper; it has to be set right or deleted first."""
    ready.put(data, "migration", "mode")
    reasons = failed(app, ready.group)
    assert ready.path("migration", "mode") in reasons["C03"]
    assert data.decode().strip() in reasons["C07"]
    refused(app, ready, "delete it")


def test_a_young_group_without_znode_offsets_is_refused(
    app: GroupApp, nodes: Nodes, cluster, kafka_member
) -> None:
    """An old consumer would start at its reset position and lose or repeat records (N3)."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(PARTITIONS):
        producer.produce(nodes.topic, b"x", partition=number)
    assert producer.flush(15) == 0
    member = nodes.member("m1-1", aware=True)
    nodes.own(member)
    consumer = kafka_member(member, nodes.topic)
    committed = [KafkaPartition(nodes.topic, number, 1) for number in range(PARTITIONS)]
    consumer.commit(offsets=committed, asynchronous=False)
    reason = failed(app, nodes.group)["C05"]
    assert f"{nodes.topic}-0" in reason
    assert "N3" in reason
    refused(app, nodes, "no offset in ZooKeeper", "commit once to ZooKeeper")


def test_a_second_run_of_the_same_group_is_refused(app: GroupApp, ready: Nodes) -> None:
    """The first is named, with what to do; the same origin (a task that is tried again) gets its run."""
    first = app.plan(ready.group, origin="one")
    assert app.plan(ready.group, origin="one") == first
    with pytest.raises(Conflict, match=rf"run {first} .* is in the way .* groupshift continue {first}"):
        app.plan(ready.group, origin="two")
    assert [each.run for each in app.tools.runs.recent(9)] == [first]


def test_an_approval_is_void_when_the_group_changed(app: GroupApp, ready: Nodes) -> None:
    """What was shown at the gate is no longer what would be changed: it is shown again, with what changed."""
    run = app.plan(ready.group)
    before: list[dict[str, tuple[bytes, int]]] = []
    asked: list[Question] = []

    def decide(question: Question) -> Answer | None:
        asked.append(question)
        if before:
            return None
        ready.member("m2-1")
        before.append(ready.tree())
        return Answer(choice=Choice.APPROVE, who="alice", fingerprint=question.fingerprint)

    stopped = app.forward(run, decide=decide)
    assert isinstance(stopped, Stopped)
    assert stopped.waits
    first, second = asked
    assert first.fingerprint != second.fingerprint
    assert any("members" in each for each in second.changes), second.changes
    given = Answer(choice=Choice.APPROVE, who="alice", fingerprint=first.fingerprint)
    with pytest.raises(Conflict, match="members"):
        answer(app.claim(run), second.gate, given)
    assert ready.tree() == before[0]
    assert app.state(run) is RunState.PLANNED


@pytest.mark.parametrize("server", ["zookeeper", "kafka"])
def test_a_server_that_is_not_there_is_transient(settings: Settings, ready: Nodes, server: str) -> None:
    """The sentence names the address and the setting; repeating the command is safe."""
    address = f"127.0.0.1:{free_port()}"
    changed = (
        replace(settings, zookeeper=replace(settings.zookeeper, hosts=address))
        if server == "zookeeper"
        else replace(settings, kafka=replace(settings.kafka, bootstrap_servers=address))
    )
    before = ready.tree()
    with coordination_app(changed) as app:
        with pytest.raises(Transient) as caught:
            app.plan(ready.group)
        assert address in str(caught.value)
        assert f"[{server}]" in str(caught.value)
        assert "run the same command again" in str(caught.value)
        assert not app.tools.runs.recent(1, previews=True)
    assert ready.tree() == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"group": "a/b"}, "group 'a/b'"),
        ({"canary": 0}, "canary 0"),
        ({"canary": 9}, "canary 9"),
        ({"soak": -1}, "soak -1"),
        ({"driver": "carrier-pigeon"}, "carrier-pigeon"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(
    app: GroupApp, ready: Nodes, changes: dict[str, object], said: str
) -> None:
    """Field, value and remedy, before anything is asked of the group's members."""
    before = ready.tree()
    values = {"group": ready.group, **changes}
    with pytest.raises(Rejected, match=said):
        request_of(CoordinationRequest, values) and app.plan(**values)
    assert ready.tree() == before
    assert not app.tools.runs.recent(1, previews=True)


def test_no_secret_is_in_what_a_run_leaves_behind(
    app: GroupApp, ready: Nodes, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in logs (at DEBUG), plans, questions, journal or evidence, nor in the settings' own text."""
    caplog.set_level(logging.DEBUG)
    for name in ("groupshift.zookeeper", "groupshift.kafka", "kazoo", "sqlalchemy"):
        caplog.set_level(logging.DEBUG, logger=name)
    asked: list[Question] = []

    def decide(question: Question) -> Answer | None:
        asked.append(question)
        return app.decide(question)

    run = app.plan(ready.group)
    stopped = app.forward(run, decide=decide, waits_for_people=False)
    assert isinstance(stopped, Stopped)
    assert stopped.waits, stopped
    assert stopped.step.kind == REPLACE_MEMBERS
    shown = (app.record(run), asked, stopped, app.tools.runs.events(run), app.status(run), settings)
    texts = [caplog.text.encode(), repr(shown).encode()]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".db", ".parquet", ".json"}
    texts += [path.read_bytes() for path in files]
    assert ready.group.encode() in b"".join(texts)
    assert b"Connecting to" in texts[0]
    for secret in SECRETS.values():
        assert all(secret.encode() not in text for text in texts)
