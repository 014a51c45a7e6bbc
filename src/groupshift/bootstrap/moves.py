"""The installed moves with the ports that each names, over the real adapters; and the scans, which make runs.

The ``ports`` of a move is a frozen dataclass. Each field has a port as its type and is filled from `OPENERS`;
connections open at first use. The ports of a move from elsewhere may have a class method
``opened(settings, request)``, a context manager that returns them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_type_hints

from groupshift.adapters.system import SystemClock
from groupshift.bootstrap.connect import (
    broker_side,
    brokers_of,
    cluster_acts,
    cluster_snapshot_store,
    commit_hashes,
    downgrade_views,
    group_snapshots,
    offset_restoring,
    placement_views,
    signer_of,
    step_crash_points,
    topic_expansion,
    verifier,
    zookeeper_connection,
    zookeeper_side,
)
from groupshift.bootstrap.member_and_broker_drivers import driver_of
from groupshift.domain.canary import CanaryLimits
from groupshift.domain.evidence import PlanOf, refuse_older
from groupshift.domain.modes import Isolation, Mode
from groupshift.domain.requests import options_of
from groupshift.domain.run import Json, RunState, SparkJob
from groupshift.domain.seal import REPORT, Verification
from groupshift.engine.evidence import Pages, Progress, Sealer, tell_nobody
from groupshift.engine.evidence_check import verify
from groupshift.engine.installed_moves import move_named
from groupshift.engine.move import Move, Tools
from groupshift.engine.questions_and_approvers import Approvers
from groupshift.errors import GroupshiftError, Rejected
from groupshift.ports.changes import ClusterActs, OffsetRestoring, TopicExpansion
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import (
    ClusterGroups,
    ClusterSnapshotStore,
    CoordinatorGauges,
    DowngradeViews,
    PlacementViews,
)
from groupshift.ports.driver import BrokerReplacement
from groupshift.ports.evidence import EvidenceFolder, EvidenceStore, Ledger
from groupshift.ports.group import BrokerSide, CanaryTerms, GroupTerms, ZookeeperSide
from groupshift.ports.log import CommitHashes, CopiedLogs, LogVerification, OffsetsLog, RecordLog
from groupshift.ports.runs import Runs
from groupshift.ports.spark_jobs import ComparisonOutcomes
from groupshift.settings import Settings

if TYPE_CHECKING:
    from groupshift.report.kept_evidence import Kept
    from groupshift.scan.scan import FleetScans

P = TypeVar("P")
_LOG = logging.getLogger(__name__)
_RUN = re.compile(r".+-[0-9]{13,}")
"""Names of runs: they end with the time of their plan (`groupshift.engine.begin`)."""
JOBS = "groupshift.jobs"
"""Entry points of Spark jobs of moves from elsewhere: the module that spark-submit runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where runs work and remember: ``nodes`` is the file of who replaces nodes (None: a person),
    ``timeout_s`` the time of one request to a server."""

    settings: Settings
    nodes: Path | None = None
    timeout_s: float = 30.0


Opener = Callable[[Place, ExitStack], object]


def _closed(make: Callable[..., Any]) -> Opener:
    """Open with the Kafka settings and the timeout; closed with the other ports."""
    return lambda place, stack: stack.enter_context(
        closing(make(place.settings.kafka, timeout_s=place.timeout_s))
    )


def _copied_logs(folder: str) -> OffsetsLog:
    """Return the copy of a broker's log folder. Raises `Rejected` where there is no such folder."""
    from groupshift.spark.copied_log import CopiedLog

    if "://" not in folder and not Path(folder).is_dir():
        raise Rejected(f"{folder} is no folder; give a copy of a broker's log folder")
    return CopiedLog(folder)


def _offsets_log(place: Place, _stack: ExitStack) -> OffsetsLog:
    from groupshift.spark.copied_log import DirectLog

    return DirectLog(brokers_of(place.settings.kafka, timeout_s=place.timeout_s))


def _log_verification(place: Place, _stack: ExitStack) -> LogVerification:
    from groupshift.adapters.spark_submit.java import java_home
    from groupshift.spark.verify_log import SparkLogVerification

    brokers = brokers_of(place.settings.kafka, timeout_s=place.timeout_s)
    return SparkLogVerification(brokers=brokers, java_home=place.settings.spark.java_home or str(java_home()))


def _outcomes(_place: Place, _stack: ExitStack) -> ComparisonOutcomes:
    from groupshift.adapters.parquet.snapshots import ComparisonFolders

    return ComparisonFolders()


def _evidence(place: Place, _stack: ExitStack) -> Path:
    """Return the folder of the evidence. Raises `Rejected` where it is no local folder."""
    root = place.settings.evidence.root
    if "://" in root:
        raise Rejected(f"evidence.root {root!r} is no local folder, which a run needs; name one")
    return Path(root)


def _ledger(settings: Settings) -> Ledger:
    from groupshift.adapters.ledger import LedgerFiles

    return LedgerFiles(settings.evidence.ledgers or None)


def _record_log(place: Place, _stack: ExitStack) -> RecordLog:
    from groupshift.adapters.kafka.record_log import KafkaRecordLog

    return KafkaRecordLog(place.settings.kafka.bootstrap_servers, place.settings.kafka.properties)


def _gauges(_place: Place, _stack: ExitStack) -> CoordinatorGauges:
    """Metrics of the brokers by JMX, read by the `kafka-tools` of ``KAFKA_HOME``."""
    from groupshift.adapters.kafka.group_gauges import JmxToolGauges
    from groupshift.adapters.spark_submit.java import java_binary

    home = os.environ.get("KAFKA_HOME")
    return JmxToolGauges(java_binary(), f"{home}/libs/*" if home else "")


def _canary_limits(place: Place, _stack: ExitStack) -> CanaryLimits:
    """The numbers of the settings that decide about a canary."""
    named = asdict(place.settings.thresholds)
    wanted = [each.name for each in fields(CanaryLimits)]
    return CanaryLimits(**{name: named.get(f"canary_{name}", named.get(name, 0)) for name in wanted})


def _group_terms(place: Place, _stack: ExitStack) -> GroupTerms:
    """The numbers of the settings that decide in a run of one group."""
    named, members = asdict(place.settings.thresholds), place.settings.fleet
    numbers = {each.name: named[each.name] for each in fields(GroupTerms) if each.name in named}
    return GroupTerms(driver=members.driver, isolation=Isolation(members.isolation_level), **numbers)


OPENERS: Mapping[object, Opener] = {
    BrokerReplacement: lambda place, _stack: driver_of(place.nodes),
    BrokerSide: lambda place, stack: stack.enter_context(broker_side(place.settings)),
    CanaryTerms: _canary_limits,
    Clock: lambda _place, _stack: SystemClock(),
    ClusterActs: _closed(cluster_acts),
    ClusterGroups: _closed(group_snapshots),
    ClusterSnapshotStore: lambda _place, _stack: cluster_snapshot_store(),
    CommitHashes: lambda _place, _stack: commit_hashes(),
    CopiedLogs: lambda _place, _stack: _copied_logs,
    ComparisonOutcomes: _outcomes,
    CoordinatorGauges: _gauges,
    DowngradeViews: _closed(downgrade_views),
    EvidenceFolder: _evidence,
    EvidenceStore: lambda place, _stack: evidence_of(place.settings),
    GroupTerms: _group_terms,
    Ledger: lambda place, _stack: _ledger(place.settings),
    LogVerification: _log_verification,
    OffsetRestoring: _closed(offset_restoring),
    OffsetsLog: _offsets_log,
    PlacementViews: _closed(placement_views),
    RecordLog: _record_log,
    TopicExpansion: _closed(topic_expansion),
    ZookeeperSide: lambda place, stack: stack.enter_context(zookeeper_side(place.settings)),
}
"""How each port is opened, by its type."""


def request_at(move: Move[Any], values: Mapping[str, Any], settings: Settings) -> Any:
    """Return the request of these values; an option that names a setting and is not given gets its value.

    Raises:
        Rejected: a value cannot be used, one is missing, or the move names a setting that there is not.
    """
    filled = dict(values)
    for each in options_of(move.request):
        if each.setting and each.name not in filled:
            try:
                filled[each.name] = attrgetter(each.setting)(settings)
            except AttributeError:
                raise Rejected(f"the move names a setting {each.setting!r}, which there is not") from None
    return move.request_from(filled)


@contextmanager
def opened(move: Move[P], place: Place, request: Any) -> Iterator[P]:
    """Open the ports of a move, and close them at the end.

    Raises:
        Rejected: an address, a file or a folder cannot be used, or the move names a port that nobody opens.
    """
    own = getattr(move.ports, "opened", None)
    if own is not None:
        with own(place.settings, request) as ports:
            yield ports
        return
    kinds = get_type_hints(move.ports)
    wanted = {each.name: kinds[each.name] for each in fields(cast("Any", move.ports))}
    lacks = [name for name, kind in wanted.items() if kind not in OPENERS]
    if lacks:
        raise Rejected(f"move {move.name} names ports that nobody opens: {', '.join(lacks)}")
    with ExitStack() as stack:
        yield move.ports(**{name: OPENERS[kind](place, stack) for name, kind in wanted.items()})


@contextmanager
def journal(settings: Settings) -> Iterator[Runs]:
    """Open the journal of runs. Raises `Rejected` for a URL that cannot be used."""
    from groupshift.adapters.sqlalchemy.runs import SqlRuns

    with closing(SqlRuns(settings.journal.url)) as runs:
        yield runs


def plan_of(settings: Settings, run: str, folder: Path | None = None) -> tuple[str, PlanOf]:
    """Return the group of a run (empty: it is of a cluster), and what binds a snapshot to its plan.

    Raises:
        Rejected: the journal knows no such run, or a snapshot taken now into ``folder`` would be older than
            the plan, since this clock is behind.
    """
    with journal(settings) as runs:
        record = runs.find(run)
    plan = PlanOf(run=run, hash=record.plan_hash, made_at_ms=record.created_at_ms)
    if folder is not None:
        refuse_older(f"snapshot {folder}", SystemClock().now_ms(), plan)
    return record.target.name if record.target.kind == "group" else "", plan


def tools_of(runs: Runs, settings: Settings, pages: Pages | None = None) -> Tools:
    """Return what the engine itself needs; ``pages`` makes what is sealed with a run besides its files (None:
    the page of the run)."""
    approval, signer = settings.approval, signer_of(settings.evidence.signing_key)
    return Tools(
        seal=lambda run, closing: sealer_of(runs, settings, pages).prepare(run, closing),
        may_seal=lambda: signer and signer.sign(b""),
        runs=runs,
        clock=SystemClock(),
        crash=step_crash_points(os.environ),
        approvers=Approvers(names=approval.approvers, four_eyes=approval.four_eyes),
        gate_expiry_s=settings.thresholds.gate_expiry_s,
    )


def sealer_of(runs: Runs, settings: Settings, pages: Pages | None = None) -> Sealer:
    """Return what seals the evidence of runs, also of those that are over. Raises `Rejected` for a root of
    evidence that cannot be opened."""
    return Sealer(
        evidence=evidence_of(settings),
        runs=runs,
        clock=SystemClock(),
        signer=signer_of(settings.evidence.signing_key),
        pages=pages if pages is not None else pages_of(runs, settings),
    )


def verified(
    settings: Settings, run: str, public_key: str = "", progress: Progress = tell_nobody
) -> Verification | None:
    """Verify the evidence of a run with this key (empty: that of the settings); None where the journal knows
    no run of this name. Raises as `groupshift.engine.evidence_check.verify`."""
    if not _RUN.fullmatch(run):
        return None
    with journal(settings) as runs:
        if not runs.events(run):
            return None
        key = verifier(public_key or settings.evidence.public_key)
        return verify(evidence_of(settings), runs, run, key, progress)


def request_of_job(job: SparkJob) -> SparkJob:
    """Return what spark-submit is asked for: the job by its file instead of its name.

    Raises:
        Rejected: no installed job has this name.
    """
    ours = {each.name: each for each in files("groupshift").joinpath("jobs").iterdir()}
    if f"{job.job}.py" in ours:
        return replace(job, job=str(ours[f"{job.job}.py"]))
    jobs = entry_points(group=JOBS, name=job.job)
    spec = find_spec(next(iter(jobs)).value) if jobs else None
    if spec is None or spec.origin is None:
        raise Rejected(f"no Spark job {job.job!r} is installed; install the move that brings it")
    return replace(job, job=spec.origin)


def submit(settings: Settings) -> Callable[[SparkJob], None]:
    """Return what runs a Spark job to its end. It raises `Transient` when the job fails."""

    def run(job: SparkJob) -> None:
        from groupshift.adapters.spark_submit.submit import SparkSubmit

        SparkSubmit(settings.spark).run(request_of_job(job))

    return run


def evidence_of(settings: Settings) -> EvidenceStore:
    """Return the evidence of runs, each in a folder of its name. Arrow is loaded for it."""
    from groupshift.adapters.parquet.evidence import ParquetEvidence

    return ParquetEvidence(settings.evidence.root)


def pages_of(runs: Runs, settings: Settings) -> Pages:
    """Return what makes the page that is sealed with a run. A page that cannot be made keeps no run open: it
    is sealed without one, and `groupshift report` makes it later."""

    def pages(run: str, closing: Json) -> Mapping[str, str]:
        try:
            return {REPORT: page_of(runs, settings, run, closing)[0]}
        except GroupshiftError:
            raise
        except Exception:  # noqa: BLE001 - whatever a page meets, the run ends
            _LOG.exception("the page of run %s was not made", run)
            return {}

    return pages


def page_of(
    runs: Runs, settings: Settings, run: str, closing: Json | None = None, troubles: Sequence[str] = ()
) -> tuple[str, Kept | None]:
    """Return the HTML page of a run as it stands, and what is kept of it, with sentences about what of that
    cannot be relied on (None: nothing is kept). ``closing`` is what is journaled of an end that is not
    written yet; ``troubles`` are such sentences that are known already.

    Raises:
        Rejected: the run is not in the journal, its plan is of another version, or its move is not installed.
        Broken: a file of the evidence was replaced while it was read.
    """
    from groupshift.report.kept_evidence import kept_of
    from groupshift.report.run_page import closed_reader, document_of

    record = runs.find(run)
    kept = None
    if settings.evidence.root and record.state is not RunState.PREVIEW:
        kept = kept_of(evidence_of(settings), runs, run, closing=closing, ledger=_ledger(settings))
        kept.troubles += troubles
    reader = closed_reader(move_named(record.move), runs, SystemClock(), run, closing)
    return document_of(reader, kept), kept


@contextmanager
def build_scans(settings: Settings) -> Iterator[FleetScans]:
    """Open the use cases of an ensemble, and close at the end what they opened. Connections open at first
    use.

    Raises:
        Rejected: an address, a folder or a URL cannot be used.
        Transient: see `FleetScans`.
    """
    from groupshift.adapters.groups import LiveEnsembleReader
    from groupshift.adapters.kafka.cluster import observer
    from groupshift.adapters.kafka.groups import ListedKafkaGroups
    from groupshift.adapters.sqlalchemy.scans import SqlScans
    from groupshift.adapters.system import SystemClock
    from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
    from groupshift.adapters.zookeeper.mode_brake_and_rights import ZookeeperBrake
    from groupshift.moves.coordination.move import ModeAlone
    from groupshift.scan.scan import FleetScans
    from groupshift.scan.toggles import Toggles

    clock, moves = SystemClock(), {each: ModeAlone(each) for each in Mode}
    zookeeper = zookeeper_connection(settings.zookeeper)
    kafka = observer(settings.kafka.bootstrap_servers, properties=settings.kafka.properties)
    with (
        journal(settings) as runs,
        opened(moves[Mode.KAFKA], Place(settings=settings), None) as ports,
        closing(LiveEnsembleReader(ZookeeperGroups(zookeeper), ListedKafkaGroups(kafka), clock)) as reader,
        closing(SqlScans(settings.journal.url)) as scans,
    ):
        toggles = Toggles(moves=moves, tools=tools_of(runs, settings), ports=ports)
        brake = ZookeeperBrake(zookeeper)
        yield FleetScans(clock=clock, reader=reader, scans=scans, brake=brake, toggles=toggles)
