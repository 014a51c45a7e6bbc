"""A careless expansion of ``__consumer_offsets`` on real brokers, looked at after each of its steps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from groupshift.adapters.kafka.broker_views import LivePlacementViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import named_by
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots
from groupshift.adapters.system import SystemClock
from groupshift.cli.main import main
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Verdict
from groupshift.moves.expansion.rules import Placement, audit_placement
from groupshift.spark.broker_source import Brokers
from groupshift.spark.copied_log import DirectLog
from groupshift_sandbox.committing import commit
from groupshift_sandbox.elections import lead_as_preferred
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster, unchanged
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.readiness import leaders_of
from groupshift_sandbox.rolling import replace_node

TOPIC, OFFSETS = "orders", "__consumer_offsets"
GROUPS = [f"g{number}" for number in range(200)]
BEFORE, AFTER, FURTHER = 5, 8, 16
MOVING = [group for group in GROUPS if partition_of(group, BEFORE) != partition_of(group, AFTER)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What ``groupshift expansion assess``, and a verb that would begin a run, said of `FURTHER` partitions;
    the runs in the journal then; and what was there before and after: the leaders that each broker tells, and
    where each partition ends."""

    assessed: tuple[int, Mapping[str, Any]]
    begun: tuple[int, Mapping[str, Any]]
    """Exit code and document; where there is none, the sentence is its ``error``."""
    runs: tuple[Mapping[str, Any], ...]
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Audits:
    """What an audit said after each step, and the cluster in the end; what a run further on said while nobody
    was restarted (planned only), and while one was (to be executed)."""

    cluster: Cluster
    before: Placement
    expanded: Placement
    mixed: Placement
    restarted: Placement
    planned: Asked
    refused: Asked
    answered: Mapping[str, int]
    hidden: tuple[Mapping[str, tuple[int, ...]], Mapping[str, tuple[int, ...]]]
    """Of groups that move between two partitions of one leader, while one broker was restarted: whom each
    broker names, asked directly, and which brokers serve it."""


def said(found: Placement, rule: str) -> list[tuple[Verdict, str]]:
    """What a rule had to say."""
    return [(each.verdict, each.reason) for each in found.judgement.findings if each.rule == rule]


def counts(found: Placement) -> dict[int, tuple[int, ...]]:
    """What every broker may count."""
    return dict(found.facts.view.counted)


def audited(cluster: Cluster) -> Placement:
    """The audit of a running cluster, once no broker loads groups any more."""
    raw = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    log = DirectLog(Brokers(bootstrap_servers=cluster.bootstrap, properties={}, timeout_s=60.0))
    found: list[Placement] = []

    def loaded() -> bool:
        found.append(audit_placement(views, log))
        return not any(each.loading for each in found[-1].facts.view.cluster.brokers)

    with closing(LivePlacementViews(raw, SystemClock())) as views:
        wait_until(loaded, 120.0, "every broker has loaded its groups", every_s=0.5)
    return found[-1]


def told_by_each(cluster: Cluster) -> set[tuple[tuple[int, int], ...]]:
    """The leaders as each broker tells them: one entry when all agree. A broker that is silent is asked
    again."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}

    def told() -> bool:
        for node in cluster.brokers:
            try:
                found[node.address] = tuple(sorted(leaders_of(node.address, OFFSETS).items()))
            except OSError:
                return False
        return True

    wait_until(told, 120.0, f"every broker tells the leaders of {OFFSETS}", every_s=0.5)
    return set(found.values())


def whole(cluster: Cluster, count: int) -> bool:
    """Whether every broker tells so many partitions, each with a leader."""
    (first, *others) = told_by_each(cluster)
    return not others and len(first) == count and all(node >= 0 for _, node in first)


def expand(cluster: Cluster, count: int) -> None:
    """Create partitions, and wait until every broker tells that every one is led."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for each in admin.create_partitions([NewPartitions(OFFSETS, count)], request_timeout=30.0).values():
        each.result(timeout=60.0)

    wait_until(lambda: whole(cluster, count), 60.0, f"{count} partitions of {OFFSETS} are led")


def committed(cluster: Cluster) -> None:
    """One offset for each group."""
    create_topic(cluster.bootstrap, TOPIC, 1)
    raw = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    with closing(raw):
        commit(raw, {group: {TopicPartition(TOPIC, 0): (100, "")} for group in GROUPS})


def overwrite(cluster: Cluster, group: str, offset: int) -> None:
    """A client commits after the restart, as one that found nothing does."""
    with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as raw:
        commit(raw, {group: {TopicPartition(TOPIC, 0): (offset, "")}})


def careless(cluster: Cluster) -> Audits:
    """Commit, create partitions, restart the last broker, then all others; clients are not asked."""
    committed(cluster)
    before = audited(cluster)
    expand(cluster, AFTER)
    expanded, planned = audited(cluster), further(cluster, "plan")
    nodes = [node.node_id for node in cluster.brokers]
    cluster, _ = replace_node(cluster, nodes[-1], unchanged)
    lead_as_preferred(cluster, OFFSETS)
    mixed, refused = audited(cluster), further(cluster, "run", "--execute", "--yes")
    hidden = _asked_directly(cluster, mixed)
    for node in nodes[:-1]:
        cluster, _ = replace_node(cluster, node, unchanged)
    lead_as_preferred(cluster, OFFSETS)
    return Audits(
        cluster=cluster,
        before=before,
        expanded=expanded,
        mixed=mixed,
        restarted=audited(cluster),
        planned=planned,
        refused=refused,
        answered=answered(cluster),
        hidden=hidden,
    )


def further(cluster: Cluster, verb: str, *options: str) -> Asked:
    """Assess, then ask for a run by this verb, each in a process of its own; no driver is named: only a
    person may restart brokers."""
    log = DirectLog(Brokers(bootstrap_servers=cluster.bootstrap, properties={}, timeout_s=60.0))
    state = ("--state", str(cluster.home.root / "further"))
    where = ("--to", str(FURTHER), "--bootstrap-servers", cluster.bootstrap, "--timeout", "60", *state)
    before = (told_by_each(cluster), log.position())
    assessed = _apart("expansion", "assess", *where)
    begun = _apart("expansion", verb, *where, *options)
    _, listed = _apart("status", *state)
    return Asked(
        assessed=assessed,
        begun=begun,
        runs=tuple(listed["runs"]),
        before=before,
        after=(told_by_each(cluster), log.position()),
    )


def _apart(*arguments: str) -> tuple[int, Mapping[str, Any]]:
    argv = [sys.executable, "-m", "groupshift.cli.main", *arguments, "--json"]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    return ran.returncode, json.loads(ran.stdout) if ran.stdout.strip() else {"error": ran.stderr}


def _asked_directly(
    cluster: Cluster, found: Placement
) -> tuple[Mapping[str, tuple[int, ...]], Mapping[str, tuple[int, ...]]]:
    leaders = found.facts.view.topic.leaders
    groups = sorted(
        group
        for group in MOVING
        if leaders[partition_of(group, BEFORE)] == leaders[partition_of(group, AFTER)]
    )
    raw = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    with closing(LivePlacementViews(raw, SystemClock())) as views:
        told = [named_by(raw.broker(node.node_id), groups) for node in raw.brokers()]
        return {group: tuple(each[group] for each in told) for group in groups}, views.owners(groups)


def answered(cluster: Cluster) -> dict[str, int]:
    """The committed offset that is answered for each group, -1 where there is none."""
    raw = KafkaCluster(cluster.bootstrap, timeout_s=60.0)
    with closing(LiveGroupSnapshots(raw, SystemClock(), patience_s=60.0)) as snapshots:
        state = snapshots.take(GROUPS)
    return dict.fromkeys(GROUPS, -1) | {row.group: row.offset for row in state.offsets}


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Exit code and JSON document of a verb."""
    capsys.readouterr()
    code = main([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)
