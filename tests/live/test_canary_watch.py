"""The canary's watch on real servers: one of two Scala members is replaced, and judged beside the other."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from groupshift.adapters.clock import SystemClock
from groupshift.adapters.fleet.manual import ManualFleet
from groupshift.adapters.group_reader import LiveGroupReader
from groupshift.adapters.kafka.connection import KafkaConnection
from groupshift.adapters.kafka.groups import KafkaGroups
from groupshift.adapters.ledger.files import LedgerFiles
from groupshift.adapters.memory.journal import MemoryJournal
from groupshift.adapters.memory.ports import MemoryEvidence, MemoryProof
from groupshift.adapters.zookeeper.connection import ZookeeperConnection
from groupshift.adapters.zookeeper.groups import ZookeeperGroups
from groupshift.adapters.zookeeper.mode import ZookeeperModeSwitch
from groupshift.application.environment import Environment
from groupshift.bootstrap import App
from groupshift.consumers import MigratingConsumer
from groupshift.domain.judgement import ActState, Judgement
from groupshift.domain.moves import Answer, Choice, Gate, MoveRequest, StageName, Until
from groupshift.domain.verdict import Verdict
from groupshift.sandbox.processes import wait_until
from groupshift.settings import Thresholds

PARTITIONS, RATE, WATCH_S = 4, 50.0, 8
OFTEN = {"auto.commit.interval.ms": "500"}
THRESHOLDS = Thresholds(patience_s=15, commit_interval_ms=1000, canary_every_s=1)


@pytest.fixture
def app(cluster) -> Iterator[App]:
    """Every use case over real servers; people deploy, and the journal lives as long as the test."""
    zookeeper = ZookeeperConnection(cluster.zookeeper)
    reader = LiveGroupReader(
        ZookeeperGroups(zookeeper), KafkaGroups(KafkaConnection(cluster.bootstrap)), SystemClock()
    )
    evidence = MemoryEvidence()
    opened = App(
        Environment(
            groups=reader,
            mode=ZookeeperModeSwitch(zookeeper),
            fleets=lambda _driver: ManualFleet(),
            evidence=evidence,
            ledger=LedgerFiles(cluster.home.ledgers),
            journal=MemoryJournal(),
            proof=MemoryProof(evidence),
            clock=SystemClock(),
            job="validate.py",
            thresholds=THRESHOLDS,
            closing=(reader.close,),
        )
    )
    yield opened
    opened.close_connections()


@contextlib.contextmanager
def throttled(cluster, group: str, topic: str, pause_s: float) -> Iterator[None]:
    """A migrating member in this process whose application takes so long for each record."""
    consumer = MigratingConsumer(
        {
            "group.id": group,
            "consumer.id": "m1-2",
            "zookeeper.connect": cluster.zookeeper,
            "bootstrap.servers": cluster.bootstrap,
            "auto.offset.reset": "smallest",
            **OFTEN,
        }
    )
    consumer.subscribe([topic])
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            if consumer.poll(0.2) is not None:
                over.wait(pause_s)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=30)
        consumer.close()


def planned(app: App, group: str) -> tuple[str, int]:
    """An approved migration as far as the canary, ready to act."""
    request = MoveRequest(
        group=group,
        driver="manual",
        until=Until.CANARY,
        canary_share=0.5,
        canary_watch_s=WATCH_S,
        execute=True,
        actor="ann",
    )
    migration = app.plan(request).migration
    brief = app.brief(migration, Gate.PLAN)
    app.answer(migration, Gate.PLAN, Answer(choice=Choice.APPROVE, who="ann", fingerprint=brief.fingerprint))
    app.snapshot(migration, StageName.CANARY, "before")
    return migration, app.claim(migration, "run")


def watched(app: App, migration: str) -> Judgement:
    """Look until the watch is over, then measure and judge as a run does."""
    wait_until(lambda: app.watch(migration, StageName.CANARY).settled, 90.0, "the watch is over", every_s=0.5)
    app.snapshot(migration, StageName.CANARY, "after")
    app.prove(app.proof(migration, StageName.CANARY, "after"))
    return app.judge(migration, StageName.CANARY, "after")


@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "slow"])
def test_a_canary_is_judged_beside_a_scala_member(
    app: App,
    cluster,
    group: str,
    topic: Callable[[int], str],
    producer,
    scala_member,
    consume_member,
    owners,
    *,
    healthy: bool,
) -> None:
    """One that keeps up passes every rule; one that takes 0.2 s for a record of a hundred a second fails
    by lag slope and commit rate."""
    name = topic(PARTITIONS)
    producer(name, PARTITIONS, rate=RATE)
    first, second = (
        scala_member("1.1.1", each, [name], seed=PARTITIONS, properties=OFTEN) for each in ("m1-1", "m2-1")
    )
    wait_until(lambda: len(set(owners(name).values())) == 2, 60.0, "both Scala members own partitions")
    migration, token = planned(app, group)
    assert app.act(migration, StageName.CANARY, token).state is ActState.PENDING
    first.stop()
    with contextlib.ExitStack() as stack:
        if healthy:
            consume_member("migrating", "m1-2", [name], properties=OFTEN)
        else:
            stack.enter_context(throttled(cluster, group, name, 0.2))
        judged = watched(app, migration)
    found = {finding.rule: finding for finding in judged.findings if finding.rule.startswith("K")}
    assert found["K01"].verdict is Verdict.PASS, found["K01"].reason
    failed = {rule for rule, finding in found.items() if finding.verdict is not Verdict.PASS}
    # A slow member may work off one partition first: the other one then stands still (K04).
    assert failed - {"K04"} == (set() if healthy else {"K02", "K03"}), judged.findings
    assert set(found) == {"K01", "K02", "K03", "K04", "K05", "K06"}
    assert judged.verdict is (Verdict.PASS if healthy else Verdict.FAIL), judged.findings
    assert second.running
