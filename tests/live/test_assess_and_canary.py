"""Real Scala members assessed, and a canary judged beside one: what only deeds can tell."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groupshift.consumers import MigratingConsumer
from groupshift.domain.assignment import Assignor, TextForm, assign
from groupshift.domain.plan import PhaseName, Until
from groupshift.domain.run import Findings, RunState, Step, findings_from
from groupshift.domain.verdict import Finding, Verdict
from groupshift.ports.runs import EventKind
from groupshift.settings import parse
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.processes import wait_until
from support.coordination_app import Assessed, GroupApp, coordination_app
from support.patient_readers import wait_longer

PARTITIONS, RATE, WATCH_S = 4, 50.0, 15
OFTEN = {"auto.commit.interval.ms": "500"}
THRESHOLDS = {
    "patience_s": 15,
    "commit_interval_ms": 1000,
    "canary_every_s": 1,
    "canary_lag_growth_pct": 50,
    "canary_commit_rate_pct": 40,
    "canary_rebalances": 3,
}
"""A healthy member on a busy machine is within them; one that commits a twentieth of what arrives is not."""


@pytest.fixture
def app(cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GroupApp]:
    """The move over real servers; people deploy, and this process compares."""
    wait_longer(monkeypatch)
    settings = parse(
        {
            "kafka": {"bootstrap_servers": cluster.bootstrap},
            "zookeeper": {"hosts": cluster.zookeeper},
            "fleet": {"driver": "manual"},
            "journal": {"url": f"sqlite:///{tmp_path / 'journal.db'}"},
            "evidence": {"root": str(tmp_path / "evidence"), "ledgers": str(cluster.home.ledgers)},
            "thresholds": THRESHOLDS,
        }
    )
    with coordination_app(settings, spark=False) as opened:
        yield opened


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


def judged(app: GroupApp, run: str) -> Findings:
    """What the judge behind the watch says, the first time that it looks at all of it."""
    for event in app.tools.runs.events(run):
        if event.kind is EventKind.JUDGED and event.step.endswith("canary/judge after"):
            return findings_from(event.body["findings"])
    raise AssertionError([(each.kind, each.step) for each in app.tools.runs.events(run)])


@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "slow"])
def test_a_canary_is_judged_beside_a_scala_member(
    app: GroupApp,
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
    run = app.plan(group, until=Until.CANARY, canary_share=0.5, canary_watch=WATCH_S)
    with contextlib.ExitStack() as stack:

        def deploy(text: str) -> None:
            assert first.member_id in text
            first.stop()
            if healthy:
                consume_member("migrating", "m1-2", [name], properties=OFTEN)
            else:
                stack.enter_context(throttled(cluster, group, name, 0.2))

        app.forward(run, instruct=once(deploy), phases=frozenset({"plan", PhaseName.CANARY}))
    findings = judged(app, run)
    found = {finding.rule: finding for finding in findings if finding.rule.startswith("K")}
    assert found["K01"].verdict is Verdict.PASS, found["K01"].reason
    failed = {rule for rule, finding in found.items() if finding.verdict is not Verdict.PASS}
    # A slow member may work off one partition first: the other one then stands still (K04).
    assert failed - {"K04"} == (set() if healthy else {"K02", "K03"}), findings
    assert set(found) == {"K01", "K02", "K03", "K04", "K05", "K06"}
    wanted = {Verdict.PASS} if healthy else {Verdict.PASS, Verdict.FAIL}
    assert {each.verdict for each in findings} <= wanted, findings
    assert app.state(run) is (RunState.RUNNING if healthy else RunState.ROLLING_BACK)
    assert second.running


def once(deploy: Callable[[str], None]) -> Callable[[Step, str], None]:
    """What a person does who is told the first time; afterwards nobody is there."""
    told: list[str] = []

    def instruct(_step: Step, text: str) -> None:
        if not told:
            told.append(text)
            deploy(text)

    return instruct


@pytest.mark.parametrize(("dual", "found"), [("false", True), ("true", True), (None, False)])
def test_an_old_member_with_its_offsets_in_kafka_is_refused_by_name(
    app: GroupApp,
    cluster,
    group: str,
    topic: Callable[[int], str],
    producer,
    scala_member,
    dual: str,
    *,
    found: bool,
) -> None:
    """With and without dual commit; one that commits to ZooKeeper passes the same rule (§9 line 6)."""
    name = topic(2)
    producer(name, 2, rate=RATE)
    storage = {"offsets.storage": "kafka", "dual.commit.enabled": dual} if dual else {}
    member = scala_member("1.1.1", "m1-1", [name], seed=2, properties={**OFTEN, **storage})
    findings: list[Finding] = []

    def settled() -> bool:
        """It has committed where it is told to, and where that is Kafka the same look says so."""
        looked = app.assess(group)
        findings[:] = [each for each in looked.findings if each.rule == "C24"]
        stored = looked.view.kafka_offsets if dual else looked.view.zookeeper_offsets
        committed = len(looked.view.owners) == 2 and len(stored) == 2 and all(at.offset for at in stored)
        return committed and (findings[0].verdict is Verdict.FAIL or not found)

    wait_until(settled, 120.0, "the member has committed where it is told to", every_s=0.5)
    (finding,) = findings
    assert finding.verdict is (Verdict.FAIL if found else Verdict.PASS), finding
    assert (f"old member {member.member_id} commits to Kafka" in finding.reason) is found


def telling_topics() -> tuple[str, str]:
    """Two topics whose partitions the two text forms of round-robin deal out differently (RR3)."""
    while True:
        stamp = uuid.uuid4().hex[:6]
        names = (f"clicks-{stamp}", f"orders-{stamp}")
        threads = dict.fromkeys(names, ("g_m1-1-0", "g_m2-1-0"))
        partitions = {names[0]: (0, 1), names[1]: (0, 1, 2)}
        dash, bracket = (
            assign(Assignor.ROUND_ROBIN, threads, partitions, form)
            for form in (TextForm.DASH, TextForm.BRACKET)
        )
        if dash != bracket:
            return names


@pytest.mark.parametrize(
    ("release", "strategy", "says"),
    [
        ("0.10.2.2", "roundrobin", "roundrobin (bracket form, up to 0.11)"),
        ("1.1.1", "roundrobin", "roundrobin (dash form, from 1.0)"),
        ("1.1.1", "range", "range"),
    ],
)
def test_the_owner_nodes_of_real_members_tell_their_assignor(
    app: GroupApp, cluster, group: str, scala_member, release: str, strategy: str, says: str
) -> None:
    """The registration does not carry it; both text forms and range are told apart (§5)."""
    names = telling_topics()
    for name, partitions in zip(names, (2, 3), strict=True):
        create_topic(cluster.bootstrap, name, partitions)
    properties = {**OFTEN, "partition.assignment.strategy": strategy}
    for each in ("m1-1", "m2-1"):
        scala_member(release, each, list(names), properties=properties)

    looks: list[Assessed] = []

    def finding() -> Finding:
        return next(each for each in looks[-1].findings if each.rule == "C25")

    def settled() -> bool:
        """One look, which no rebalance met: both own something, and one assignor gives what they own."""
        looks.append(app.assess(group))
        owners = [owner.member_id for owner in looks[-1].view.owners]
        return len(owners) == 5 and len(set(owners)) == 2 and finding().verdict is not Verdict.INCONCLUSIVE

    wait_until(settled, 60.0, "both members own what one assignor gives them", every_s=0.5)
    assert (finding().verdict, finding().reason) == (Verdict.PASS, f"the owner nodes fit {says}")
