"""The three-way audit of a cluster put together: sources, one run, and where it is kept; in this process, or
in a Spark session."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupshift.audit.offsets import Audit
from groupshift.audit.ports import Comparison
from groupshift.audit.run import AuditOptions, Progress, audit_offsets
from groupshift.bootstrap.audits import audit_sources, audit_store
from groupshift.settings import KafkaSettings, ZookeeperSettings
from groupshift.spark.direct_log import DirectLog
from groupshift.spark.fetched import Brokers
from groupshift.spark.offsets.document import render

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
    options: AuditOptions = field(default_factory=AuditOptions)
    timeout_s: float = 10.0


def run_audit(
    request: AuditRequest,
    told: Progress = lambda *_: None,
    session: Callable[[], SparkSession] | None = None,
) -> Audit:
    """Audit and keep what was found; the output folder is looked at before anything is read. With a
    ``session`` its executors read the log and hold the sources against each other, else this process does.

    Raises as `audit_offsets` and `groupshift.audit.ports.AuditStore.write`."""
    store = audit_store()
    if request.output is not None:
        store.refuse(request.output)
    kafka = request.kafka
    brokers = Brokers(
        bootstrap_servers=kafka.bootstrap_servers, properties=kafka.properties, timeout_s=request.timeout_s
    )
    log = DirectLog(brokers)
    comparison = None if session is None else _in_spark(session(), brokers, log)
    sources = audit_sources(kafka, request.zookeeper, log, comparison=comparison, timeout_s=request.timeout_s)
    with closing(sources):
        found = audit_offsets(sources, request.options, request.groups, told)
    if request.output is not None:
        store.write(request.output, found, render(found))
    return found


def _in_spark(spark: SparkSession, brokers: Brokers, log: DirectLog) -> Comparison:
    from groupshift.spark.offsets.comparison import SparkComparison

    return SparkComparison(spark, brokers, log)
