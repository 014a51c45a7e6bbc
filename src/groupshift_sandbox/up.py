"""Bringing a whole sandbox up: servers, topic, producer, fleet, Airflow."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from groupshift.adapters.drivers.process import ask
from groupshift.adapters.spark_submit.java import java_home
from groupshift.domain.modes import MemberKind
from groupshift.errors import Rejected, Transient
from groupshift_sandbox import airflow, legacy
from groupshift_sandbox.airflow_api import AirflowApi
from groupshift_sandbox.artifacts import ALL, jars
from groupshift_sandbox.down import down
from groupshift_sandbox.fleet import FleetDefinition, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import Broker, KafkaOptions, create_topic, start_kafka
from groupshift_sandbox.processes import (
    Command,
    Running,
    await_start,
    free_port,
    is_running,
    marked,
    start,
    wait_until,
)
from groupshift_sandbox.state import SandboxState, write_document
from groupshift_sandbox.zookeeper import start_zookeeper

_FLEET_S = 120.0
_SERVER_S = 300.0
# With range on both sides a toggle moves no partition and proves nothing
# (docs/reference/zookeeper-coordination.md §8.11, N6).
_MOVING = {"coordination.migration.partition.assignment.strategy": "roundrobin,range"}
_OWNED = ("logs", "ledgers", "members", "configuration", "zookeeper", "kafka", "evidence", "airflow")
_OWNED_FILES = (
    "settings.toml",
    "nodes.toml",
    "fleet.json",
    "supervisor.json",
    "supervisor.sock",
    "journal.db",
    "state.json",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What to bring up. ``rate`` is records per second on each partition; ``idle`` partitions get their
    first 100 records only; ``kind`` is the kind of the first members; ``kafka`` the broker's options;
    ``properties`` are further properties of members by their kind."""

    members: int = 3
    partitions: int = 6
    rate: float = 20.0
    airflow: bool = True
    group: str = "orders-app"
    topic: str = "orders"
    kind: MemberKind = MemberKind.ZOOKEEPER
    idle: tuple[int, ...] = ()
    kafka: KafkaOptions = field(default_factory=KafkaOptions)
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def up(home: Home, options: UpOptions, tell: Callable[[str], None]) -> None:
    """Bring everything up in a fresh home; ``tell`` gets one line a step.

    Whatever an earlier sandbox left in this home is removed first. Ends what it started when it fails or
    is interrupted. Raises `Rejected` for options that cannot be used and while a sandbox is up here,
    `Transient` when something does not come up in time."""
    _check(home, options)
    complete = False
    before = os.umask(0o077)  # what is started has it too: journal and evidence are nobody else's
    try:
        _start_all(home, options, tell)
        complete = True
    finally:
        os.umask(before)
        if not complete:
            tell("not complete: ending what was started")
            down(home)


def _start_all(home: Home, options: UpOptions, tell: Callable[[str], None]) -> None:
    fresh(home)
    tell("fetching Kafka and the Scala consumers (kept for the next time)")
    for artifact in ALL:
        jars(artifact)
    tell("starting ZooKeeper and Kafka")
    zookeeper = start_zookeeper(home)
    broker = start_kafka(home, zookeeper, options.kafka)
    create_topic(broker.address, options.topic, options.partitions)
    legacy.seed_offsets(zookeeper, options.group, options.topic, options.partitions)
    tell(f"starting the producer: {options.rate:g} records/s on each of {options.partitions} partitions")
    start_producer(home, options, broker.address)
    tell(f"starting {options.members} {options.kind.value} members in group {options.group}")
    write_fleet(home, options, zookeeper, broker)
    start_supervisor(home)
    await_fleet(home, options, zookeeper)
    write_settings(home, zookeeper, broker.address)
    if options.airflow:
        tell("starting Airflow")
        start_airflow(home, zookeeper, broker.address)


def _check(home: Home, options: UpOptions) -> None:
    if options.members < 1 or options.partitions < 1 or options.rate <= 0:
        raise Rejected(
            f"members {options.members}, partitions {options.partitions} and rate {options.rate:g} "
            "must all be above 0; give larger values"
        )
    require_unused(home)


def require_unused(home: Home) -> None:
    """Raise `Rejected` while a sandbox is up in this home, and where the folder is no sandbox's."""
    if marked(home):
        raise Rejected(f"a sandbox is up in {home.root}; use it, or run `groupshift sandbox down` first")
    if home.root.exists() and any(home.root.iterdir()) and not home.state_file.exists():
        raise Rejected(f"{home.root} holds other files; set GROUPSHIFT_HOME to an empty or absent folder")


def fresh(home: Home) -> None:
    """Remove what an earlier sandbox left in this home, and make its folders."""
    for name in _OWNED:
        shutil.rmtree(home.root / name, ignore_errors=True)
    for node in home.root.glob("kraft-*"):
        shutil.rmtree(node, ignore_errors=True)
    for name in _OWNED_FILES:
        (home.root / name).unlink(missing_ok=True)
    for cluster in home.root.glob("kraft.*"):
        cluster.unlink()
    home.create()


def start_producer(home: Home, options: UpOptions, bootstrap: str) -> Running:
    """The numbered producer as process ``producer``."""
    argv = [
        sys.executable, "-m", "groupshift_sandbox.producer", "--bootstrap", bootstrap,
        "--topic", options.topic, "--partitions", str(options.partitions), "--rate", str(options.rate),
    ]  # fmt: skip
    for partition in options.idle:
        argv += ["--idle", str(partition)]
    return start(home, Command(name="producer", argv=argv))


def write_fleet(home: Home, options: UpOptions, zookeeper: str, broker: Broker) -> None:
    """``fleet.json``: slots m1, m2, ... with the Scala releases in turn."""
    slots = tuple(
        SlotDefinition(
            name=f"m{number + 1}",
            release=legacy.RELEASES[number % len(legacy.RELEASES)],
            kind=options.kind,
        )
        for number in range(options.members)
    )
    fleet = FleetDefinition(
        group=options.group,
        topics=(options.topic,),
        zookeeper=zookeeper,
        bootstrap=broker.address,
        slots=slots,
        properties={
            **options.properties,
            MemberKind.AWARE: {**_MOVING, **options.properties.get(MemberKind.AWARE, {})},
        },
    )
    write_document(home.fleet_file, fleet.to_json())


def start_supervisor(home: Home) -> Running:
    """The supervisor as process ``supervisor``; waits until it answers."""
    argv = [sys.executable, "-m", "groupshift_sandbox.supervisor", "--home", str(home.root)]
    process = start(home, Command(name="supervisor", argv=argv))
    await_start(home, process, lambda: bool(slots_of(home)), 90.0)
    return process


def slots_of(home: Home) -> list[dict[str, Any]]:
    """The slots as the supervisor knows them; none while it does not answer."""
    try:
        return list(ask(home.supervisor_socket, {"verb": "slots"})["slots"])
    except Transient:
        return []


def await_fleet(home: Home, options: UpOptions, zookeeper: str) -> None:
    """Wait until every slot runs and every partition has an owner. Raises `Transient` at the deadline."""

    def running() -> bool:
        slots = slots_of(home)
        return bool(slots) and all(slot["state"] == "running" for slot in slots)

    wait_until(running, _FLEET_S, f"{options.members} members run", every_s=0.2)
    if options.kind is not MemberKind.PLAIN:
        wait_until(
            lambda: _owned(zookeeper, options.group, options.topic) == options.partitions,
            _FLEET_S,
            f"every partition of {options.topic} has an owner",
            every_s=0.5,
        )


def _owned(zookeeper: str, group: str, topic: str) -> int:
    client = KazooClient(hosts=zookeeper)
    try:
        client.start(timeout=10.0)
        return len(client.get_children(f"/consumers/{group}/owners/{topic}"))
    except (NoNodeError, KazooException, client.handler.timeout_exception):
        return 0
    finally:
        client.stop()
        client.close()


def write_settings(home: Home, zookeeper: str, bootstrap: str) -> None:
    """``settings.toml`` for the command line and for Airflow's journal, evidence and fleet; ``zookeeper`` is
    empty for brokers without one."""
    sections = {
        "kafka": {"bootstrap_servers": bootstrap},
        **({"zookeeper": {"hosts": zookeeper, "chroot": ""}} if zookeeper else {}),
        "fleet": {"driver": "process", "socket": str(home.supervisor_socket)},
        "journal": {"url": f"sqlite:///{home.journal}"},
        "evidence": {"root": str(home.evidence), "ledgers": str(home.ledgers)},
        "spark": {"master": "local[*]", "java_home": str(java_home())},
    }
    # a JSON string is a TOML basic string
    text = "\n".join(
        f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        for section, values in sections.items()
    )
    home.settings_file.write_text(text)


def start_airflow(home: Home, zookeeper: str, bootstrap: str, extra: Mapping[str, str] | None = None) -> str:
    """Airflow's three processes; waits until a run could start and returns the address of its UI. They see
    the environment variables of ``extra`` too, which win."""
    spec = airflow.AirflowSpec(
        home=home.root / "airflow",
        project=airflow.find_project(),
        port=free_port(),
        settings=home.settings_file,
        connections=airflow.connections(bootstrap, zookeeper),
        extra={"JAVA_HOME": str(java_home()), **(extra or {})},
    )
    airflow.prepare(spec)
    _run_airflow(home, spec)
    return spec.url


def _run_airflow(home: Home, spec: airflow.AirflowSpec) -> None:
    """Start its processes one after another, the next one when the API server answers. Raises `Transient`
    as soon as one of them has ended."""
    running: list[Running] = []

    def demand() -> None:
        for process in running:
            if not is_running(process):
                log = home.logs / f"{process.name}.log"
                raise Transient(f"{process.name} ended while Airflow was starting; its log is {log}")

    def answers() -> bool:
        demand()
        return AirflowApi(url=spec.url).answers()

    environment = airflow.environment(spec)
    for name in airflow.PROCESSES:
        command = Command(name=name, argv=airflow.command(name), environment=environment, complete=True)
        running.append(start(home, command))
        wait_until(answers, _SERVER_S, f"Airflow's API server answers at {spec.url}", every_s=0.5)
    SandboxState(home).put_address("airflow", spec.url)
    airflow.wait_healthy(spec, demand=demand)
