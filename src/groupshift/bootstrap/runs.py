"""The ports of a run that changes a cluster, over the real adapters; opened and closed together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groupshift.adapters.system import SystemClock
from groupshift.application.expansion_work import ExpansionTools
from groupshift.application.run_reports import ReportAndPack
from groupshift.bootstrap.clusters import (
    cluster_runs,
    commit_hashes,
    offset_restoring,
    placement_views,
    run_evidence,
    step_crash_points,
    topic_expansion,
)
from groupshift.bootstrap.connect import cluster_snapshot_store, group_snapshots, signer_of
from groupshift.ports.driver import BrokerReplacement
from groupshift.settings import ApprovalSettings, KafkaSettings
from groupshift.spark.broker_source import Brokers
from groupshift.spark.compare.snapshots import SparkSnapshotCompare
from groupshift.spark.copied_log import DirectLog
from groupshift.spark.verify_log import SparkLogVerification


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """Where a run works and remembers: the cluster, the journal's URL, the folder of its snapshots.
    ``java_home`` is Spark's, empty for the one of the environment; ``signing_key`` signs its evidence, none
    where it is empty; ``approval`` says who may say yes."""

    kafka: KafkaSettings
    journal: str
    evidence: Path
    java_home: str = ""
    signing_key: str = field(default="", repr=False)
    approval: ApprovalSettings = field(default_factory=ApprovalSettings)


def brokers_of(place: RunPlace, timeout_s: float) -> Brokers:
    """How the log of the offsets topic is read there."""
    return Brokers(
        bootstrap_servers=place.kafka.bootstrap_servers,
        properties=place.kafka.properties,
        timeout_s=timeout_s,
    )


def sealing(place: RunPlace) -> ReportAndPack:
    """What seals a run there."""
    return ReportAndPack(evidence=run_evidence(place.evidence), signer=signer_of(place.signing_key))


def shared(stack: ExitStack, place: RunPlace, nodes: BrokerReplacement, timeout_s: float) -> dict[str, Any]:
    """The fields of `groupshift.application.run_work.RunTools`; connections open at first use and are closed
    by ``stack``. Raises `Rejected` for an address or a URL that cannot be used."""
    seal = sealing(place)
    reader = group_snapshots(place.kafka, timeout_s=timeout_s)
    stack.callback(reader.close)
    runs = cluster_runs(place.journal)
    stack.callback(runs.close)
    return {
        "log": DirectLog(brokers_of(place, timeout_s)),
        "reader": reader,
        "store": cluster_snapshot_store(),
        "compare": SparkSnapshotCompare(java_home=place.java_home),
        "commits": commit_hashes(),
        "nodes": nodes,
        "runs": runs,
        "clock": SystemClock(),
        "evidence": place.evidence,
        "crash": step_crash_points(os.environ),
        "seal": seal,
        "may_seal": seal.demand_key,
    }


@contextmanager
def open_expansion(
    place: RunPlace, nodes: BrokerReplacement, *, timeout_s: float
) -> Iterator[ExpansionTools]:
    """Connections open at first use. Raises `Rejected` for an address or a URL that cannot be used."""
    with ExitStack() as stack:
        views = placement_views(place.kafka, timeout_s=timeout_s)
        stack.callback(views.close)
        topic = topic_expansion(place.kafka, timeout_s=timeout_s)
        stack.callback(topic.close)
        restoring = offset_restoring(place.kafka, timeout_s=timeout_s)
        stack.callback(restoring.close)
        fields = shared(stack, place, nodes, timeout_s)
        verify = SparkLogVerification(brokers=brokers_of(place, timeout_s), java_home=place.java_home)
        yield ExpansionTools(views=views, topic=topic, restoring=restoring, verify=verify, **fields)
