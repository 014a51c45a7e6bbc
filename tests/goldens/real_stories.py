"""What is recorded of moves with real servers: one story of each move, there and back.

Servers, members and Spark are real; the product runs in this process, with its ports recorded as in the
simulated stories. What differs from run to run is never in a line: servers have fixed ids (a controller of
its own leads the metadata quorum, so that no election decides which broker comes last), groups and topics
fixed names, and a story begins when the cluster says the same twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goldens.cluster_stories import Told, there, there_and_back
from goldens.driven_stories import Driven, _downgrade_ports
from goldens.group_stories import assessed, recorded, rules_of
from groupshift.adapters.spark_submit.java import java_home
from groupshift.adapters.system import SystemClock
from groupshift.application import expansion_run
from groupshift.bootstrap import App, build
from groupshift.bootstrap.connect import connect
from groupshift.bootstrap.moves import Place, opened, submit
from groupshift.bootstrap.runs import RunPlace, open_expansion
from groupshift.cli.live import Agreed, LiveListener
from groupshift.cli.runner import Runner, claim
from groupshift.cli.terminal import Console
from groupshift.domain.group_protocol import Kind, Protocol, Way
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import MoveName, MoveRequest, Until, WayBack
from groupshift.domain.run import SparkJob, Step
from groupshift.domain.step import RunStep
from groupshift.engine.begin import assess
from groupshift.moves.downgrade.move import DowngradeMove
from groupshift.moves.downgrade.request import DowngradeRequest
from groupshift.ports.spark_jobs import Compared, ComparisonOutcomes
from groupshift.settings import EvidenceSettings, KafkaSettings, Settings, SparkSettings, load
from groupshift_sandbox.committing import commit
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.replacement import SandboxReplacement
from groupshift_sandbox.servers import stop_all
from groupshift_sandbox.up import UpOptions, up
from support.downgrade_story import groups_at
from support.driven_moves import Driver
from support.effects import Recorder
from support.protocol_fleet import FleetOptions, fleet_at, patiently, protocol_cluster
from support.protocol_move import RUN_S, SETTLE_S, settings_of
from support.warm_spark import warm_spark

READY_S = 180.0
TIMEOUT_S = 60.0
GROUP = "orders-app"
TOPIC, SIMPLE, NATIVE = "orders", "simple", "native"
CONTROLLER = "101"
CONFIGS = {"consumer.session.timeout.ms": "50000"}
GROUPS = tuple(f"g{number}" for number in range(24))
BEFORE, AFTER = 5, 8
"""Partitions of the offsets topic."""


def coordination(folder: Path) -> Recorder:
    """Three old members of Scala and six partitions, with ZooKeeper: as far as the toggle, and all the way
    back."""
    home = Home(folder / "home")
    try:
        up(home, UpOptions(group=GROUP, topic=TOPIC, airflow=False), print)
        with warm_spark(folder) as submit:
            found = load(home.settings_file)
            settings = replace(
                found,
                spark=replace(found.spark, submit=str(submit)),
                thresholds=replace(found.thresholds, patience_s=120, settle_s=SETTLE_S),
            )
            return _moved(settings, _request(until=Until.TOGGLE))
    finally:
        down(home)


def protocol(folder: Path) -> Recorder:
    """Three classic members and six partitions: online to the consumer protocol, and all the way back."""
    with (
        warm_spark(folder) as submit,
        protocol_cluster(folder) as cluster,
        fleet_at(cluster.bootstrap, folder, FleetOptions(group=GROUP, topic=TOPIC)) as fleet,
    ):
        fleet.await_written(20)
        values = {"move": MoveName.PROTOCOL, "to": Protocol.CONSUMER, "way": Way.ONLINE}
        return _moved(settings_of(fleet, folder, str(submit)), _request(until=Until.ROLL, **values))


def _request(**values: Any) -> MoveRequest:
    return MoveRequest(group=GROUP, soak_s=0, execute=True, actor="test", run="plan", **values)


def _moved(settings: Settings, request: MoveRequest) -> Recorder:
    """There and all the way back, in a run each; plan and toggle are approved, doubts are not. A run that a
    silent server ended is gone on with, as people are told to."""
    with build(settings) as looking:
        wait_until(lambda: patiently(lambda: looking.assess(request)).ready, READY_S, f"{GROUP} is ready")
    recorder = Recorder()
    env = recorded(connect(settings), recorder)
    with App(env) as app:
        assessed(recorder, patiently(lambda: app.assess(request)))
        migration = patiently(lambda: app.plan(request)).migration
        forward = _runner(app, migration, "there")
        patiently(forward.forward, RUN_S)
        back = _runner(app, migration, "back")
        patiently(lambda: back.back(WayBack.OLD_MEMBERS), RUN_S)
        rules_of(env.journal, recorder)
    return recorder


def _runner(app: App, migration: str, run: str) -> Runner:
    """What drives the migration from now on; it tells on standard error what it does."""
    return Runner(
        app=app,
        claimed=claim(app, migration, run, "test"),
        decide=Agreed(),
        listener=LiveListener(Console(stderr=True)),
        clock=SystemClock(),
        settle_s=SETTLE_S,
    )


def downgrade(folder: Path) -> Recorder:
    """Two brokers of 4.3.1 under a controller of its own, with an empty native group that is configured: both
    are of 3.9.2 when the process is killed before the controller, and go back; then all three go."""
    options = KraftOptions(
        nodes=2,
        controllers=1,
        heap="320m",
        format_arguments=("--release-version", "3.9", "--feature", "group.version=1"),
        properties={"metadata.log.max.snapshot.interval.ms": "5000", "broker.session.timeout.ms": "12000"},
    )
    request, move = DowngradeRequest(to="3.9.2", from_="4.3.1"), DowngradeMove()
    with _cluster(folder, options) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 2)
        with groups_at(cluster.bootstrap, TOPIC) as groups:
            commit(groups.cluster, _offsets((SIMPLE, NATIVE)))
            groups.native(NATIVE, 2).leave()
            groups.await_kinds({SIMPLE: Kind.CLASSIC, NATIVE: Kind.CONSUMER})
        with ExitStack() as stack:
            place = _engine_place(folder, cluster, stack.enter_context(warm_spark(folder)))
            ports = stack.enter_context(opened(move, place, request))
            ports.cluster.configure_group(NATIVE, CONFIGS)
            wait_until(lambda: NATIVE in ports.views.look().group_configs, READY_S, f"{NATIVE} is configured")
            compared = Submitted(place.settings, ports.outcomes)
            told = Driven(
                world=cluster,
                driver=Driver(move=move, ports=ports, comparisons=compared, clock=SystemClock()),
                request=request,
                last_act=f"replace {CONTROLLER}",
                wrap=_downgrade_ports,
                terms={"patience_s": 600.0, "tell": _said},
            )
            _await_ready(told)
            there_and_back(told, f"replace {CONTROLLER}")
            _await_ready(told)
            there(told)
            return told.recorder


def expansion(folder: Path) -> Recorder:
    """Three brokers of 4.3.1 under a controller of its own and 24 groups: groups that move are deleted when
    the process is killed before partitions are made, and go back; then there, from where none is."""
    options = KraftOptions(
        nodes=3, controllers=1, heap="320m", properties={"offsets.topic.num.partitions": str(BEFORE)}
    )
    with _cluster(folder, options) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 2)
        with groups_at(cluster.bootstrap, TOPIC) as groups:
            commit(groups.cluster, _offsets(GROUPS))
        with open_expansion(*_place(folder, cluster), timeout_s=TIMEOUT_S) as tools:
            told = Told(
                move=expansion_run,
                world=cluster,
                tools=tools,
                make_plan=lambda ports: expansion_run.plan_run(ports, AFTER),
                terms=TERMS,
            )
            return _killed_and_again(told, "create-partitions")


@dataclass(frozen=True, slots=True)
class Submitted:
    """Comparisons as Spark makes them; `Driven` asks what was left by the name of a folder."""

    settings: Settings
    outcomes: ComparisonOutcomes

    def submit(self, job: SparkJob) -> None:
        """Run the job to its end."""
        submit(self.settings)(job)

    @property
    def left(self) -> Submitted:
        """What was left."""
        return self

    def get(self, output: str) -> Compared | None:
        """The comparison in this folder."""
        return self.outcomes.read(Path(output))


def _engine_place(folder: Path, cluster: Cluster, spark: Path) -> Place:
    """Where a run of this cluster works on the engine; the sandbox replaces its nodes."""
    nodes = folder / "nodes.toml"
    where = f'home = "{cluster.home.root}"\ncluster = "{cluster.options.name}"\n'
    nodes.write_text(f'driver = "sandbox"\n[sandbox]\n{where}')
    settings = Settings(
        kafka=KafkaSettings(bootstrap_servers=cluster.bootstrap),
        evidence=EvidenceSettings(root=str(folder / "evidence")),
        spark=SparkSettings(submit=str(spark), java_home=str(java_home())),
    )
    return Place(settings=settings, nodes=nodes, timeout_s=TIMEOUT_S)


def _said(step: Step, detail: str) -> None:
    print(f"{step.key}: {detail}")


def _await_ready(told: Driven) -> None:
    """As `_await_settled`, on the engine."""
    seen: list[object] = []

    def settled() -> bool:
        ports, move = told.driver.ports, told.driver.move
        facts, findings = patiently(lambda: assess(move, told.driver.tools(), ports, told.request))
        seen.append([(each.rule, each.verdict) for each in findings])
        return not move.obstacles(told.request, facts, findings) and seen[-2:] == [seen[-1]] * 2

    wait_until(settled, READY_S, "the cluster may be moved and is at rest", every_s=1.0)


STORIES: dict[str, Callable[[Path], Recorder]] = {
    "coordination: there until toggle, and back": coordination,
    "protocol: online to consumer, and back": protocol,
    "downgrade: from 4.3.1 to 3.9.2, killed before the controller, and back; then there": downgrade,
    "expansion: from 5 to 8 partitions, killed before they are made, and back; then there": expansion,
}
"""By what happens; each is told a folder that is its own."""


def _told(step: RunStep, detail: str) -> None:
    print(f"{step.key}: {detail}")


TERMS = {"patience_s": 600.0, "told": _told}
"""Real nodes take their time; why a run stopped is in the output of the test."""


def _killed_and_again(told: Told, before: str) -> Recorder:
    _await_settled(told)
    there_and_back(told, before)
    _await_settled(told)
    there(told)
    return told.recorder


def _await_settled(told: Told) -> None:
    """Wait until the move may begin and every rule says the same twice; nothing of that is recorded."""
    seen: list[object] = []

    def settled() -> bool:
        planned = patiently(lambda: told.make_plan(told.tools))
        seen.append([(each.rule, each.verdict) for each in planned.findings])
        return planned.possible and seen[-2:] == [seen[-1]] * 2

    wait_until(settled, READY_S, "the cluster may be moved and is at rest", every_s=1.0)


def _offsets(groups: tuple[str, ...]) -> dict[str, dict[TopicPartition, tuple[int, str]]]:
    """Two offsets of each group, with metadata."""
    return {
        group: {TopicPartition(TOPIC, at): (100 * number + at, group) for at in range(2)}
        for number, group in enumerate(groups)
    }


@contextmanager
def _cluster(folder: Path, options: KraftOptions) -> Iterator[Cluster]:
    """A cluster with a home of its own; every process of it is ended, the controller last."""
    home = Home(folder / "home").create()
    try:
        yield start_kraft(home, options)
    finally:
        stop_all(home, last=(f"{options.name}-{CONTROLLER}",))


def _place(folder: Path, cluster: Cluster) -> tuple[RunPlace, SandboxReplacement]:
    """Where a run of this cluster works, and what replaces its nodes."""
    place = RunPlace(
        kafka=KafkaSettings(bootstrap_servers=cluster.bootstrap),
        journal=f"sqlite:///{folder / 'journal.db'}",
        evidence=folder / "evidence",
        java_home=str(java_home()),
    )
    return place, SandboxReplacement(cluster.home, cluster.options.name)
