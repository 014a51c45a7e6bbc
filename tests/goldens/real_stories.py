"""What is recorded of moves with real servers: one story of each move, there and back.

Servers, members and Spark are real; the product runs in this process, with its ports recorded as in the
simulated stories. What differs from run to run is never in a line: servers have fixed ids (a controller of
its own leads the metadata quorum, so that no election decides which broker comes last), groups and topics
fixed names, and a story begins when the cluster says the same twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from goldens.cluster_stories import there, there_and_back
from goldens.coordination_stories import FINALISE
from goldens.coordination_stories import Told as Coordination
from goldens.coordination_stories import _deleted as deleted
from goldens.coordination_stories import _fenced as fenced
from goldens.coordination_stories import _set as written
from goldens.driven_stories import Driven
from goldens.driven_stories import _downgrade_ports as downgrade_ports
from goldens.driven_stories import _expansion_ports as expansion_ports
from goldens.run_stories import Recording
from goldens.run_stories import _replaced as replaced
from groupshift.adapters.spark_submit.java import java_home
from groupshift.adapters.system import SystemClock
from groupshift.bootstrap.moves import Place, journal, opened, submit, tools_of
from groupshift.domain.group_protocol import Kind, Protocol
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.plan import Until
from groupshift.domain.run import Findings, SparkJob, Step
from groupshift.engine.begin import assess
from groupshift.engine.move import Move, RunOptions, Sealing, Tools
from groupshift.moves.coordination.facts import CoordinationRequest
from groupshift.moves.coordination.move import CoordinationMove
from groupshift.moves.downgrade.facts import DowngradeRequest
from groupshift.moves.downgrade.move import DowngradeMove
from groupshift.moves.expansion.facts import ExpansionRequest
from groupshift.moves.expansion.move import ExpansionMove
from groupshift.moves.protocol.facts import ProtocolRequest
from groupshift.moves.protocol.move import ProtocolMove
from groupshift.ports.spark_jobs import ComparisonOutcomes
from groupshift.settings import (
    EvidenceSettings,
    FleetSettings,
    JournalSettings,
    KafkaSettings,
    Settings,
    SparkSettings,
    load,
)
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
from support.effects import Recorded, Recorder
from support.protocol_fleet import FleetOptions, fleet_at, patiently, protocol_cluster
from support.protocol_move import RUN_S, SETTLE_S, settings_of
from support.warm_spark import warm_spark

READY_S = 180.0
TIMEOUT_S = 60.0
STEP_S = 600.0
"""Real nodes take their time."""
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
        with warm_spark(folder) as command:
            found = load(home.settings_file)
            settings = replace(
                found,
                spark=replace(found.spark, submit=str(command)),
                thresholds=replace(found.thresholds, patience_s=120, settle_s=SETTLE_S),
            )
            request = CoordinationRequest(group=GROUP, until=Until.TOGGLE, canary_watch=0, soak=0)
            return _moved(CoordinationOfServers, CoordinationMove(), settings, request)
    finally:
        down(home)


def protocol(folder: Path) -> Recorder:
    """Three classic members and six partitions: online to the consumer protocol, and all the way back."""
    with (
        warm_spark(folder) as command,
        protocol_cluster(folder) as cluster,
        fleet_at(cluster.bootstrap, folder, FleetOptions(group=GROUP, topic=TOPIC)) as fleet,
    ):
        fleet.await_written(20)
        settings = settings_of(fleet, folder, str(command))
        request = ProtocolRequest(group=GROUP, to=Protocol.CONSUMER, soak=0)
        return _moved(ProtocolOfServers, ProtocolMove(), settings, request)


@dataclass(slots=True)
class ProtocolOfServers(Recording):
    """A real group whose ports are recorded: the opened ports, the tools, what submits Spark jobs, and what
    is asked for."""

    opened: Any = None
    real: Tools | None = None
    spark: Callable[[SparkJob], None] = print
    asked_for: Any = None

    def ports(self) -> Any:
        """See `Recording`."""
        ports, recorder = self.opened, self.recorder

        def fleets(driver: str) -> Recorded:
            reads = {"slots": "places", "observe": "change of members", "took_up": "change of members"}
            return Recorded(ports.side.fleets(driver), recorder, reads=reads, acts={"start": replaced})

        groups = Recorded(ports.side.groups, recorder, reads={"read": "group"})
        ledger = {"last_delivered": "ledger", "intervals": "ledger"}
        return replace(
            ports,
            side=replace(ports.side, groups=groups, fleets=fleets),
            evidence=Recorded(
                ports.evidence, recorder, reads={"read": "snapshots"}, acts={"write": self._written}
            ),
            ledger=Recorded(ports.ledger, recorder, reads=ledger),
        )

    def request(self, **values: Any) -> Any:
        """See `Processes`."""
        del values
        return self.asked_for

    def submit(self, job: SparkJob) -> None:
        """See `Processes`."""
        self.spark(job)
        self.recorder.did("compare snapshots")

    def _seal(self, run: str, closing: Mapping[str, Any]) -> Sealing:
        assert self.real is not None
        assert self.real.seal is not None
        return self.real.seal(run, closing)


@dataclass(slots=True)
class CoordinationOfServers(Coordination):
    """As `ProtocolOfServers`, of a group that ZooKeeper coordinates."""

    opened: Any = None
    real: Tools | None = None
    spark: Callable[[SparkJob], None] = print
    asked_for: Any = None
    declines: frozenset[str] = frozenset({FINALISE})
    request = ProtocolOfServers.request
    submit = ProtocolOfServers.submit
    _seal = ProtocolOfServers._seal

    def ports(self) -> Any:
        """See `Recording`."""
        shared = ProtocolOfServers.ports(self)  # type: ignore[arg-type]
        acts = {"take": fenced, "compare_and_set": written, "delete": deleted}
        mode = Recorded(shared.side.mode, self.recorder, reads={"read": "mode node"}, acts=acts)
        return replace(shared, side=replace(shared.side, mode=mode))


def _moved(recording: type[Any], move: Move[Any], settings: Settings, request: Any) -> Recorder:
    """There and all the way back, by a process each; plan and toggle are approved, doubts are not. A run that
    a silent server stopped is gone on with, as people are told to."""
    with journal(settings) as runs, opened(move, Place(settings=settings), request) as ports:
        tools = tools_of(runs, settings)

        def ready() -> bool:
            facts, findings = patiently(lambda: assess(move, tools, ports, request))
            return not move.obstacles(request, facts, findings)

        wait_until(ready, READY_S, f"{GROUP} is ready")
        told = recording(
            clock=SystemClock(),
            world=None,
            fleet=None,
            evidence=None,
            proof=None,
            runs=runs,
            move=move,
            opened=ports,
            real=tools,
            spark=submit(settings),
            asked_for=request,
        )
        name = patiently(told.plan)
        told.terminal(patiently(lambda: told.drive(name), RUN_S))
        told.terminal(patiently(lambda: told.roll_back(name), RUN_S))
        return told.recorder


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
    request = DowngradeRequest(to="3.9.2", from_="4.3.1")
    with _cluster(folder, options) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 2)
        with groups_at(cluster.bootstrap, TOPIC) as groups:
            commit(groups.cluster, _offsets((SIMPLE, NATIVE)))
            groups.native(NATIVE, 2).leave()
            groups.await_kinds({SIMPLE: Kind.CLASSIC, NATIVE: Kind.CONSUMER})
        with _driver(folder, cluster, DowngradeMove(), request) as driver:
            views, acts = driver.ports.views, driver.ports.cluster
            acts.configure_group(NATIVE, CONFIGS)
            wait_until(lambda: NATIVE in views.look().group_configs, READY_S, f"{NATIVE} is configured")
            return _killed_and_again(
                Driven(
                    world=cluster, driver=driver, request=request, last_act="replace 1", wrap=downgrade_ports
                ),
                f"replace {CONTROLLER}",
            )


def expansion(folder: Path) -> Recorder:
    """Three brokers of 4.3.1 under a controller of its own and 24 groups: groups that move are deleted when
    the process is killed before partitions are made, and go back; then there, from where none is."""
    options = KraftOptions(
        nodes=3, controllers=1, heap="320m", properties={"offsets.topic.num.partitions": str(BEFORE)}
    )
    request, last = ExpansionRequest(to=AFTER), "create-partitions"
    with _cluster(folder, options) as cluster:
        create_topic(cluster.bootstrap, TOPIC, 2)
        with groups_at(cluster.bootstrap, TOPIC) as groups:
            commit(groups.cluster, _offsets(GROUPS))
        with _driver(folder, cluster, ExpansionMove(), request) as driver:
            told = Driven(world=cluster, driver=driver, request=request, last_act=last, wrap=expansion_ports)
            return _killed_and_again(told, last)


STORIES: dict[str, Callable[[Path], Recorder]] = {
    "coordination: there until toggle, and back": coordination,
    "protocol: online to consumer, and back": protocol,
    "downgrade: from 4.3.1 to 3.9.2, killed before the controller, and back; then there": downgrade,
    "expansion: from 5 to 8 partitions, killed before they are made, and back; then there": expansion,
}
"""By what happens; each is told a folder that is its own."""


@dataclass(slots=True)
class Submitted:
    """Comparisons by Spark, and what they left; as `support.driven_moves.Comparisons`."""

    spark: Callable[[SparkJob], None]
    outcomes: ComparisonOutcomes

    def submit(self, job: SparkJob) -> None:
        """Run the job to its end."""
        self.spark(job)

    @property
    def left(self) -> Submitted:
        """What has `get`."""
        return self

    def get(self, output: str) -> Any:
        """What the job with this output left."""
        return self.outcomes.read(Path(output))


@dataclass(slots=True)
class OfServers(Driver):
    """Processes at real servers; why a run stopped is in the output of the test."""

    said: list[str] = field(default_factory=list)

    def options(self, **changes: Any) -> RunOptions:
        """See `Driver`."""
        return Driver.options(self, **{"patience_s": STEP_S, "tell": self._tell, **changes})

    def _tell(self, step: Step, detail: str) -> None:
        line = f"{step.key}: {detail}"
        if line not in self.said[-1:]:
            self.said.append(line)
            print(line)


@contextmanager
def _driver(folder: Path, cluster: Cluster, move: Move[Any], request: Any) -> Iterator[OfServers]:
    """Processes that move this cluster, whose nodes the sandbox replaces."""
    settings = Settings(
        kafka=KafkaSettings(bootstrap_servers=cluster.bootstrap),
        journal=JournalSettings(url=f"sqlite:///{folder / 'journal.db'}"),
        evidence=EvidenceSettings(root=str(folder / "evidence")),
        fleet=FleetSettings(driver="manual"),
        spark=SparkSettings(java_home=str(java_home())),
    )
    place = Place(settings=settings, timeout_s=TIMEOUT_S)
    with journal(settings) as runs, opened(move, place, request) as ports:
        yield OfServers(
            move=move,
            ports=replace(ports, nodes=SandboxReplacement(cluster.home, cluster.options.name)),
            comparisons=Submitted(spark=submit(settings), outcomes=ports.outcomes),  # type: ignore[arg-type]
            runs=runs,
            clock=SystemClock(),  # type: ignore[arg-type]
        )


def _killed_and_again(told: Driven, before: str) -> Recorder:
    _await_settled(told)
    there_and_back(told, before)  # type: ignore[arg-type]
    _await_settled(told)
    there(told)  # type: ignore[arg-type]
    return told.recorder


def _await_settled(told: Driven) -> None:
    """Wait until the move may begin and every rule says the same twice; nothing of that is recorded."""
    driver, seen = told.driver, []

    def look() -> tuple[Any, Findings]:
        return assess(driver.move, driver.tools(), driver.ports, told.request)

    def settled() -> bool:
        facts, findings = patiently(look)
        seen.append([(each.rule, each.verdict) for each in findings])
        possible = not driver.move.obstacles(told.request, facts, findings)
        return possible and seen[-2:] == [seen[-1]] * 2

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
