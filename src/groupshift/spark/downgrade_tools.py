"""Every port of a downgrade's run over the real adapters, opened together and closed together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from groupshift.adapters.clock import SystemClock
from groupshift.application.downgrade_work import DowngradeTools
from groupshift.bootstrap.downgrade import (
    cluster_acts,
    cluster_runs,
    commit_hashes,
    downgrade_views,
    run_evidence,
    step_crash_points,
)
from groupshift.bootstrap.snapshots import cluster_snapshot_store, group_snapshots
from groupshift.ports.broker_replacement import BrokerReplacement
from groupshift.settings import KafkaSettings
from groupshift.spark.direct_log import DirectLog
from groupshift.spark.downgrade_report.sealing import ReportAndPack
from groupshift.spark.fetched import Brokers
from groupshift.spark.snapshot_compare import SparkSnapshotCompare


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """Where a run works and remembers: the cluster, the journal's URL, the folder of its snapshots.
    ``java_home`` is Spark's, empty for the one of the environment."""

    kafka: KafkaSettings
    journal: str
    evidence: Path
    java_home: str = ""


@contextmanager
def open_tools(place: RunPlace, nodes: BrokerReplacement, *, timeout_s: float) -> Iterator[DowngradeTools]:
    """Connections open at first use. Raises `Rejected` for an address or a URL that cannot be used."""
    brokers = Brokers(
        bootstrap_servers=place.kafka.bootstrap_servers,
        properties=place.kafka.properties,
        timeout_s=timeout_s,
    )
    with ExitStack() as stack:
        views = downgrade_views(place.kafka, timeout_s=timeout_s)
        stack.callback(views.close)
        acts = cluster_acts(place.kafka, timeout_s=timeout_s)
        stack.callback(acts.close)
        reader = group_snapshots(place.kafka, timeout_s=timeout_s)
        stack.callback(reader.close)
        runs = cluster_runs(place.journal)
        stack.callback(runs.close)
        yield DowngradeTools(
            views=views,
            cluster=acts,
            log=DirectLog(brokers),
            reader=reader,
            store=cluster_snapshot_store(),
            compare=SparkSnapshotCompare(java_home=place.java_home),
            commits=commit_hashes(),
            nodes=nodes,
            runs=runs,
            clock=SystemClock(),
            evidence=place.evidence,
            crash=step_crash_points(os.environ),
            seal=ReportAndPack(evidence=run_evidence(place.evidence)),
        )
