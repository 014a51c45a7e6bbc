"""The composition root: settings become an `App`; nothing else chooses an implementation."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Self

from groupshift.application import (
    act,
    assess,
    claim,
    close,
    finalise,
    gates,
    judge,
    plan,
    proof,
    rehearse,
    roll_back,
    snapshot,
    soak,
    status,
    watch,
)
from groupshift.application.environment import Environment
from groupshift.application.fleet_scans import FleetScans
from groupshift.application.status import MigrationStatus
from groupshift.domain.evidence import Manifest, Moment
from groupshift.domain.judgement import (
    ActOutcome,
    Assessment,
    Closing,
    GateBrief,
    Judgement,
    Planned,
    ProofRequest,
    StageStatus,
)
from groupshift.domain.moves import Answer, Gate, MoveRequest, StageName, WayBack
from groupshift.errors import Rejected
from groupshift.ports.access import Access
from groupshift.ports.clock import Clock
from groupshift.ports.crash import CrashPoints, NoCrash
from groupshift.ports.fleet import FleetDriver
from groupshift.ports.groups import GroupReader
from groupshift.ports.mode import ModeSwitch
from groupshift.settings import DRIVERS, FleetSettings, Settings, ZookeeperSettings

if TYPE_CHECKING:
    from groupshift.adapters.zookeeper.connection import ZookeeperConnection

_GroupSide = tuple[GroupReader, ModeSwitch, Access]


class App:
    """Every use case of groupshift, ready to call; every method is safe to repeat.

    All methods raise `Transient` when ZooKeeper, Kafka, the fleet driver or the journal does not answer
    within its bounded retries (repeat the call), `Rejected` for input that cannot be used (nothing was
    changed) and `Broken` when evidence was altered. Ids are strings; ``stage``, ``moment``, ``gate`` and
    ``to`` take the enum or its text. Close it, or use it as a context manager.
    """

    def __init__(self, environment: Environment) -> None:
        self._env = environment

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close_connections()

    def close_connections(self) -> None:
        """Close every connection; the App cannot be used afterwards."""
        for closing in self._env.closing:
            closing()

    def assess(self, request: MoveRequest) -> Assessment:
        """Read the group and ask every rule of assess, passed ones included. Changes nothing."""
        return assess.assess(self._env, self._with_driver(request))

    def plan(self, request: MoveRequest) -> Planned:
        """Assess, plan and journal (phase ``planned``; without ``execute``: ``preview``).

        The same ``request.run`` gets the same migration again. Raises `Rejected` when the group is not
        ready, has an open migration already, or a value of the request cannot be used."""
        return plan.plan(self._env, self._with_driver(request))

    def _with_driver(self, request: MoveRequest) -> MoveRequest:
        """With the driver that the settings name where the request names none."""
        return request if request.driver else replace(request, driver=self._env.driver)

    def planned(self, migration: str) -> Planned:
        """The journaled plan."""
        return plan.planned(self._env, migration)

    def has_stage(self, migration: str, stage: StageName | str) -> bool:
        """Whether the plan, or the way back once begun, contains this stage."""
        return status.has_stage(self._env, migration, StageName(stage))

    def claim(self, migration: str, run: str) -> int:
        """A fencing token for ``run``; rising. A claim by another run fences this one's acts."""
        return claim.claim(self._env, migration, run)

    def brief(self, migration: str, gate: Gate | str, stage: StageName | str | None = None) -> GateBrief:
        """What a person needs to decide, as Markdown, and the fingerprint of the group and evidence.

        ``stage`` names what is reviewed (gate ``review`` only)."""
        return gates.brief(self._env, migration, Gate(gate), StageName(stage) if stage else None)

    def answer(self, migration: str, gate: Gate | str, answer: Answer) -> None:
        """Journal an answer. Raises `Conflict` (approval void, naming what changed) when an approval's
        fingerprint is no longer true or too old; a rejection is always taken."""
        gates.answer(self._env, migration, Gate(gate), answer)

    def rehearse(self, migration: str) -> Judgement:
        """Compute the inverse of the toggle and check the preconditions of both directions live."""
        return rehearse.rehearse(self._env, migration)

    def snapshot(self, migration: str, stage: StageName | str, moment: Moment | str) -> Manifest:
        """Read group and ledgers and write the evidence; a snapshot that an act or a judgement already
        relied on is returned, not taken again."""
        return snapshot.snapshot(self._env, migration, StageName(stage), Moment(moment))

    def proof(self, migration: str, stage: StageName | str, moment: Moment | str) -> ProofRequest:
        """The Spark job to run: ``before`` compares the previous snapshot of the migration with this
        one (continuity; the first one with itself), ``after`` compares before with after.

        Raises `Broken` when a file of a snapshot is not what its manifest says."""
        return proof.proof(self._env, migration, StageName(stage), Moment(moment))

    def prove(self, request: ProofRequest) -> None:
        """Run the Spark job through spark-submit and wait for it (bounded)."""
        self._env.proof.run(request)

    def act(self, migration: str, stage: StageName | str, token: int) -> ActOutcome:
        """Make the one change of this stage: journal the intent, act, journal, read back.

        Raises `Conflict` when the token is fenced, the approval is void or another actor changed the
        mode node; `Rejected` when a precondition fails. A repetition continues where a killed one
        stopped and never acts twice; ``unchanged`` for a stage the plan does not have."""
        return act.act(self._env, migration, StageName(stage), token)

    def watch(self, migration: str, stage: StageName | str) -> StageStatus:
        """Whether what `act` started has settled in the live group (one look, never blocks)."""
        return watch.watch(self._env, migration, StageName(stage))

    def judge(self, migration: str, stage: StageName | str, moment: Moment | str) -> Judgement:
        """Verdict of the Spark job and of the live rules together; journaled.

        Without a verdict of exactly these snapshots the verdict is ``error``."""
        return judge.judge(self._env, migration, StageName(stage), Moment(moment))

    def soak(self, migration: str) -> StageStatus:
        """One look of the soak: settled when its time is over, or at once when a live rule failed
        (`judge` of stage ``soak`` then says so)."""
        return soak.soak(self._env, migration)

    def finalise(self, migration: str, token: int) -> Closing:
        """Remove the mode node if retire is proven (phase ``finalised``); else keep it and say why
        (phase ``moved``)."""
        return finalise.finalise(self._env, migration, token)

    def keep(self, migration: str, token: int) -> Closing:
        """Keep the way back open: phase ``moved``."""
        return finalise.keep(self._env, migration, token)

    def begin_roll_back(
        self, migration: str, to: WayBack | str, token: int, *, because: str = ""
    ) -> tuple[str, ...]:
        """Enter phase ``rolling_back`` and return the undo stages needed, in order (may be empty).

        ``because`` is the reason when a run has to go back (it then ends red), empty when asked for.

        Raises `Rejected` when there is nothing to take back (never acted, finalised, or a later
        migration of the group exists)."""
        return roll_back.begin(self._env, migration, (WayBack(to), because), token)

    def close(self, migration: str, token: int) -> Closing:
        """End the run: phase, verdict and reason. A verdict other than pass means a red run."""
        return close.close(self._env, migration, token)

    def status(self, migration: str | None = None) -> tuple[MigrationStatus, ...]:
        """One migration with its stages, or the latest migrations, newest first."""
        return status.status(self._env, migration)


def build(settings: Settings) -> App:
    """Ready use cases over the real adapters; connections open at first use.

    Raises `Transient` when the journal cannot be opened."""
    return App(_connect(settings))


def build_scans(settings: Settings) -> FleetScans:
    """The use cases of a whole ensemble over the real adapters; connections open at first use."""
    from groupshift.adapters.ensemble_reader import LiveEnsembleReader
    from groupshift.adapters.kafka.connection import KafkaConnection
    from groupshift.adapters.kafka.ensemble import KafkaEnsemble
    from groupshift.adapters.sqlalchemy.scans import SqlScans
    from groupshift.adapters.zookeeper.brake import ZookeeperBrake
    from groupshift.adapters.zookeeper.ensemble import ZookeeperEnsemble

    env, zookeeper = _connect(settings), _zookeeper(settings.zookeeper)
    kafka = KafkaConnection(settings.kafka.bootstrap_servers, properties=settings.kafka.properties)
    reader = LiveEnsembleReader(ZookeeperEnsemble(zookeeper), KafkaEnsemble(kafka), env.clock)
    scans = SqlScans(settings.journal.url)
    return FleetScans(
        env=env,
        reader=reader,
        scans=scans,
        brake=ZookeeperBrake(zookeeper),
        closing=(reader.close, scans.close),
    )


def _connect(settings: Settings) -> Environment:
    """Choose every implementation. Imports are local: a DAG file that is parsed pays for none."""
    from groupshift.adapters.clock import SystemClock
    from groupshift.adapters.ledger.files import LedgerFiles
    from groupshift.adapters.parquet.evidence import ParquetEvidence
    from groupshift.adapters.spark_submit.runner import SparkSubmit
    from groupshift.adapters.sqlalchemy.journal import SqlJournal

    clock = SystemClock()
    (groups, mode, access), close_groups = _group_side(settings, clock)
    journal = SqlJournal(settings.journal.url)
    return Environment(
        groups=groups,
        mode=mode,
        access=access,
        driver=settings.fleet.driver,
        fleets=partial(_fleet, settings.fleet, groups),
        evidence=ParquetEvidence(settings.evidence.root),
        ledger=LedgerFiles(settings.evidence.ledgers or None),
        journal=journal,
        proof=SparkSubmit(settings.spark),
        clock=clock,
        job=str(files("groupshift").joinpath("spark", "jobs", "validate.py")),
        thresholds=settings.thresholds,
        crash=crash_points(),
        closing=(close_groups, journal.close),
    )


def _group_side(settings: Settings, clock: Clock) -> tuple[_GroupSide, Callable[[], None]]:
    """Reading groups, writing the mode and the right to, over one ZooKeeper session; and how to close it."""
    from groupshift.adapters.access import LiveAccess
    from groupshift.adapters.group_reader import LiveGroupReader
    from groupshift.adapters.kafka.connection import KafkaConnection
    from groupshift.adapters.kafka.groups import KafkaGroups
    from groupshift.adapters.kafka.rights import KafkaRights
    from groupshift.adapters.zookeeper.groups import ZookeeperGroups
    from groupshift.adapters.zookeeper.mode import ZookeeperModeSwitch
    from groupshift.adapters.zookeeper.rights import ZookeeperRights

    zookeeper = _zookeeper(settings.zookeeper)
    kafka = KafkaConnection(settings.kafka.bootstrap_servers, properties=settings.kafka.properties)
    groups = LiveGroupReader(ZookeeperGroups(zookeeper), KafkaGroups(kafka), clock)
    access = LiveAccess(ZookeeperRights(zookeeper), KafkaRights(kafka))
    return (groups, ZookeeperModeSwitch(zookeeper), access), groups.close


def _zookeeper(where: ZookeeperSettings) -> ZookeeperConnection:
    from groupshift.adapters.zookeeper.connection import ZookeeperConnection

    return ZookeeperConnection(
        where.hosts,
        chroot=where.chroot,
        username=where.username,
        password=where.password,
        properties=where.properties,
    )


def _fleet(settings: FleetSettings, groups: GroupReader, driver: str) -> FleetDriver:
    """The driver of that name. Raises `Rejected` for one that is unknown or not configured."""
    if driver not in DRIVERS:
        raise Rejected(f"driver {driver!r} is unknown; choose one of {', '.join(DRIVERS)}")
    if driver == "process":
        from groupshift.adapters.fleet.process import ProcessFleet

        if not settings.socket:
            raise Rejected(
                "driver 'process' needs fleet.socket in the settings; name the supervisor's socket"
            )
        return ProcessFleet(settings.socket)
    if driver == "command":
        from groupshift.adapters.fleet.command import CommandFleet

        return CommandFleet(settings.command)
    if driver == "kubernetes":
        return _kubernetes(settings, groups)
    from groupshift.adapters.fleet.manual import ManualFleet

    return ManualFleet()


def _kubernetes(settings: FleetSettings, groups: GroupReader) -> FleetDriver:
    """Raises `Rejected` where the client library is not installed: it is an extra."""
    try:
        from groupshift.adapters.fleet.kubernetes import KubernetesFleet
        from groupshift.adapters.fleet.kubernetes_api import KubernetesApi
    except ModuleNotFoundError as error:
        raise Rejected(
            f"driver 'kubernetes' needs a library that is not installed ({error.name}): "
            "pip install 'kafka-groupshift[kubernetes]'"
        ) from error
    return KubernetesFleet(KubernetesApi(settings.kubernetes), partial(client_ids, groups))


def client_ids(groups: GroupReader, group: str) -> tuple[str, ...]:
    """The consumer ids and client ids under which the group knows its members now."""
    view = groups.read(group)
    clients = {member.client_id for member in view.kafka.members if member.client_id}
    return tuple(sorted(clients | set(view.ids)))


def crash_points() -> CrashPoints:
    """None outside tests; with ``GROUPSHIFT_TEST_HOOKS=1`` what ``GROUPSHIFT_CRASH_AT`` asks for."""
    if os.environ.get("GROUPSHIFT_TEST_HOOKS") != "1":
        return NoCrash()
    from groupshift.adapters.crash import KillAt

    return KillAt.from_environment(os.environ) or NoCrash()
