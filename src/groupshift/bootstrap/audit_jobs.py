"""The three-way audit of a cluster: sources, one run and where it is kept; in this process or in Spark.

A Spark job gets its request through a file that only its owner may read, for it holds logins: everybody can
read a command line. The driver runs where the job is submitted, so a folder of this machine is enough. There
the job leaves its result for the process that submitted it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from groupshift.adapters.spark_submit.submit import SparkSubmit
from groupshift.adapters.system import SystemClock, collector_paused
from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
from groupshift.audit.inputs import Terms
from groupshift.audit.offsets import Audit
from groupshift.audit.report import render
from groupshift.audit.run import AuditSources, Comparison, Progress, audit_offsets, in_process
from groupshift.bootstrap.connect import audit_store, brokers_of, group_snapshots, zookeeper_connection
from groupshift.domain.plain import from_plain
from groupshift.domain.run import SparkJob
from groupshift.errors import Broken, Conflict, GroupshiftError, Rejected, Transient
from groupshift.settings import KafkaSettings, SparkSettings, ZookeeperSettings
from groupshift.spark.copied_log import DirectLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """``zookeeper`` None: a cluster without one; ``groups`` None: all; ``output`` None: keep nothing;
    ``timeout_s`` bounds each wait for a broker with all retries."""

    kafka: KafkaSettings
    zookeeper: ZookeeperSettings | None
    groups: Collection[str] | None = None
    output: str | None = None
    options: Terms = field(default_factory=Terms)
    timeout_s: float = 10.0


def run_audit(
    request: AuditRequest,
    progress: Progress = lambda *_: None,
    session: Callable[[], SparkSession] | None = None,
) -> Audit:
    """Audit and keep what was found; the output folder is looked at before anything is read. With a
    ``session`` its executors read the log and hold the sources against each other, else this process does.

    Raises as `audit_offsets` and `ParquetAudits.write`."""
    store = audit_store()
    if request.output is not None:
        store.refuse(request.output)
    brokers = brokers_of(request.kafka, timeout_s=request.timeout_s)
    log = DirectLog(brokers)
    comparison: Comparison = collector_paused()(partial(in_process, log))
    if session is not None:
        from groupshift.spark.audit_offsets import compared

        comparison = partial(compared, session(), brokers, log)
    where = request.zookeeper
    sources = AuditSources(
        admin=group_snapshots(request.kafka, timeout_s=request.timeout_s),
        log=log,
        zookeeper=None if where is None else ZookeeperGroups(zookeeper_connection(where)),
        clock=SystemClock(),
        comparison=comparison,
    )
    with closing(sources):
        audit = audit_offsets(sources, request.options, request.groups, progress)
    if request.output is not None:
        store.write(request.output, audit, render(audit))
    return audit


_REQUEST, _REFUSAL, _AUDIT = "request.json", "refusal.json", "audit"
_FAMILIES = {each.exit_code: each for each in (Rejected, Conflict, Transient, Broken)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A job to submit: ``job`` is its file; ``folder`` holds the request and is gone afterwards."""

    job: str
    arguments: tuple[str, ...]
    folder: Path
    output: str

    def refusal(self) -> GroupshiftError | None:
        """The error with which the job itself ended, if it did."""
        path = self.folder / _REFUSAL
        if not path.exists():
            return None
        document = json.loads(path.read_text(encoding="utf-8"))
        return _FAMILIES.get(document["exit_code"], Broken)(document["message"])

    def result(self) -> Audit:
        """What the job found. Raises as `ParquetAudits.read`."""
        return audit_store().read(self.output)


@contextmanager
def handed_over(request: AuditRequest) -> Iterator[Handed]:
    """A job for this request. Its folder stays, without the request, where the job ended without a word: the
    log of the job is in it. Raises `Rejected` when the request's output is there already."""
    if request.output is not None:
        audit_store().refuse(request.output)
    folder = Path(tempfile.mkdtemp(prefix="groupshift-audit-"))
    output = request.output or str(folder / _AUDIT)
    path = folder / _REQUEST
    path.touch(mode=0o600, exist_ok=False)
    document = asdict(replace(request, output=output))
    path.write_text(json.dumps(document, default=list), encoding="utf-8")
    job = str(files("groupshift.jobs") / "audit_offsets.py")
    handed = Handed(job=job, arguments=("--request", str(path)), folder=folder, output=output)
    silent = True
    try:
        yield handed
        silent = False
    finally:
        path.unlink(missing_ok=True)
        if not silent or handed.refusal() is not None:
            shutil.rmtree(folder, ignore_errors=True)


def read_request(path: Path) -> AuditRequest:
    """The request in this file. Raises `Rejected` for anything else."""
    try:
        return from_plain(AuditRequest, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Rejected(
            f"--request {path.name} is not the request of an audit ({type(error).__name__}); "
            "groupshift audit --spark makes it"
        ) from error


def leave_refusal(request: Path, error: GroupshiftError) -> None:
    """Tell the submitter, beside its request, with which error the job ended."""
    document = {"exit_code": error.exit_code, "message": str(error)}
    (request.parent / _REFUSAL).write_text(json.dumps(document), encoding="utf-8")


def submitted(request: AuditRequest, spark: SparkSettings) -> Audit:
    """Audit by a job through ``spark-submit``, to whatever master these settings name.

    Raises the job's own error, else `Transient` as `SparkSubmit.run`."""
    with handed_over(request) as handed:
        proof = SparkJob(job=handed.job, arguments=handed.arguments, output=str(handed.folder))
        try:
            SparkSubmit(spark).run(proof)
        except Transient as failed:
            raise handed.refusal() or failed from None
        return handed.result()
