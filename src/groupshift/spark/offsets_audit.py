"""The three-way audit of a cluster put together: sources, one run, and where it is kept. No Spark session."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, field

from groupshift.application.audit import AuditOptions, Progress, audit_offsets
from groupshift.bootstrap.audits import audit_sources, audit_store
from groupshift.domain.audit import Audit
from groupshift.settings import KafkaSettings, ZookeeperSettings
from groupshift.spark.direct_log import DirectLog
from groupshift.spark.fetched import Brokers


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


def run_audit(request: AuditRequest, told: Progress = lambda *_: None) -> Audit:
    """Audit and keep what was found; the output folder is looked at before anything is read.

    Raises as `audit_offsets` and `groupshift.ports.audits.AuditStore.write`."""
    store = audit_store()
    if request.output is not None:
        store.refuse(request.output)
    kafka = request.kafka
    log = DirectLog(
        Brokers(
            bootstrap_servers=kafka.bootstrap_servers,
            properties=kafka.properties,
            timeout_s=request.timeout_s,
        )
    )
    sources = audit_sources(kafka, request.zookeeper, log, timeout_s=request.timeout_s)
    with closing(sources):
        found = audit_offsets(sources, request.options, request.groups, told)
    if request.output is not None:
        store.write(request.output, found)
    return found
