"""The plan of an expansion as data, and what undoes it before brokers restart. Nothing here acts.

The count of each broker's file is set while it is restarted, which is before it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from groupshift.domain.cluster import COUNT
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.run import (
    IRREVERSIBLE,
    OnDifference,
    Plan,
    Step,
    StepRecord,
    WhenLate,
    findings_data,
    make_plan,
    make_rollback,
)
from groupshift.engine.snapshots import compare_step, snapshot_step
from groupshift.moves.expansion.facts import PlacementFacts
from groupshift.moves.expansion.ports import BACK, BEFORE_DELETE, SNAPSHOT, VERIFIED
from groupshift.moves.expansion.rules import TOPIC, Placement

BEGUN = ("delete", "create", "restart", "place", "restore")
"""Phases whose begun steps change what the plan was approved for."""


def met(facts: PlacementFacts) -> dict[str, dict[str, str]]:
    """Return what an approval is given for: counts, brokers, and the groups that move, each with its way."""
    brokers = facts.view.cluster.brokers
    return {
        "partitions": {"in use": str(facts.before), "of the topic": str(facts.view.count)},
        "broker": {str(each.node_id): f"{each.line}, {each.coordinator.value}" for each in brokers},
        "group": {each.group: f"moves from {each.before} to {each.after}" for each in facts.movers},
    }


def planned(found: Placement, drain_s: int) -> Plan:
    """Return the plan that the engine walks; groups may take ``drain_s`` seconds to become empty."""
    facts = found.facts
    about = {
        "cluster_id": facts.view.cluster.cluster_id,
        "before": facts.before,
        "partitions": facts.view.count,
        "to": facts.to,
        "brokers": [each.node_id for each in facts.view.cluster.brokers],
        "movers": [[each.group, each.before, each.after] for each in facts.movers],
        "met": met(facts),
        "checks": findings_data(found.judgement.findings),
    }
    steps = (
        *_looking(drain_s),
        *_approved(facts, fenced=found.fenced),
        *_changing(facts),
        *_proving(facts.to),
        *([_reopen()] if found.fenced else []),
    )
    return make_plan(steps, about)


def _looking(drain_s: int) -> Iterator[Step]:
    yield Step(
        phase="drain",
        kind="drain",
        when_late=WhenLate.END,
        patience_s=drain_s,
        does="wait until every group is without members, on every broker (Connect, Streams and MirrorMaker "
        "too), and no transaction writes offsets",
        proof="every broker lists every group as Empty",
    )
    yield snapshot_step(
        "snapshot", SNAPSHOT, does=f"snapshot {SNAPSHOT} of all groups, with the bytes of their records"
    )
    yield Step(
        phase="snapshot",
        kind="agree",
        subject=SNAPSHOT,
        does="compare what brokers answered with what the log has",
        proof="every offset, epoch and metadata is the same in both",
    )


def _approved(facts: PlacementFacts, *, fenced: bool) -> Iterator[Step]:
    many = f"{len(facts.movers):,} groups move"
    yield Step(
        phase="approve",
        kind="approve",
        subject="plan",
        does=f"approve {facts.before} to {facts.to} partitions of {TOPIC}: {many}",
    )
    if fenced:
        yield Step(
            phase="go",
            kind="fence",
            undo=_reopen(),
            does="keep clients out, by the programs of [fence], also those that start again by themselves",
            proof="its program says so; every broker is asked for members before each step",
        )
    yield compare_step(
        "go",
        (BEFORE_DELETE, SNAPSHOT),
        Comparison.EXPANSION,
        repeat=True,
        then=OnDifference.ONLY_ROLLBACK_HELPS,  # an offset may have expired meanwhile
    )
    yield Step(
        phase="go",
        kind="prove",
        subject=str(facts.to),
        repeat=True,
        does="ask every rule again, and let the controller check the new count without making it",
        proof="no rule fails, the plan is still that of the cluster",
    )
    yield Step(
        phase="go",
        kind="rehearse",
        subject=SNAPSHOT,
        repeat=True,
        on_difference=OnDifference.ASKED,
        does=f"commit snapshot {SNAPSHOT} of the groups that move once, where it is already: may this login, "
        "and does every coordinator take it",
        proof="each is read back as it was: groups may be deleted",
    )


def _changing(facts: PlacementFacts) -> Iterator[Step]:
    old, cluster = facts.view.old, facts.view.cluster
    why = "an OLD coordinator would answer what stays there" if old else "nothing is left there to expire"
    yield Step(
        phase="delete",
        kind="delete-groups",
        subject=TOPIC,
        undo=_restore(),
        does=f"delete the {len(facts.movers):,} groups that move at their coordinators of now ({why})",
        proof="no broker lists them, none answers an offset, all replicas have their tombstones",
    )
    yield Step(
        phase="create",
        kind="create-partitions",
        subject=TOPIC,
        does=f"create partitions of {TOPIC}: {facts.to} in all",
        proof=f"every broker tells {facts.to}, each with a leader and all replicas in sync",
    )
    last = cluster.quorum.leader if cluster.quorum else cluster.controller
    for node in sorted((each.node_id for each in cluster.brokers), key=lambda each: (each == last, each)):
        yield Step(
            phase="restart",
            kind="restart",
            subject=str(node),
            undo=IRREVERSIBLE,
            does=f"restart broker {node} with {COUNT}={facts.to} in its file",
            proof="it is registered, replicas are in sync, its partitions are led again",
        )


def _proving(to: int | None) -> Iterator[Step]:
    yield Step(
        phase="place",
        kind="place",
        subject=str(to),
        undo=IRREVERSIBLE,
        does="ask each broker directly by which count it coordinates; one that deviates is restarted again",
        proof=f"each broker counts {to}",
    )
    yield replace(_restore(), undo=IRREVERSIBLE)
    yield compare_step("prove", (VERIFIED, SNAPSHOT), Comparison.EXPANSION, then=OnDifference.ACCEPTABLE)
    yield Step(
        phase="prove",
        kind="verify",
        subject=VERIFIED,
        on_difference=OnDifference.ASKED,
        does=f"compare snapshot {VERIFIED}, what coordinators answer, with the bytes of the log, in Spark",
        proof=f"every offset lies where {to} partitions put its group, as answered, and no other does",
    )
    yield _audit()


def _audit() -> Step:
    return Step(
        phase="prove",
        kind="audit",
        subject=TOPIC,
        on_difference=OnDifference.ASKED,
        does="read the whole log: every group's records lie in its own partition, one broker serves it",
        proof="the rules of groupshift audit placement do not fail; then clients may start",
    )


def _reopen() -> Step:
    return Step(
        phase="reopen",
        kind="reopen",
        does="let clients in again, by the programs of [fence]",
        proof="its program says so; then clients may start",
    )


def _restore() -> Step:
    return Step(
        phase="restore",
        kind="restore",
        subject=SNAPSHOT,
        on_difference=OnDifference.ASKED,
        does=f"commit snapshot {SNAPSHOT} of the groups that move, with epochs and metadata",
        proof="each is read back as it was",
    )


def rollback(there: Plan, begun: Mapping[str, StepRecord], number: int) -> Plan:
    """Return what undoes the begun steps, before brokers restart: groups that were deleted are committed
    again, after an approval of its own, and clients are let in again."""
    done = {each.kind: each.key for each in there.steps if each.key in begun}
    steps: list[Step] = []
    if "delete-groups" in done:
        steps += (
            Step(
                phase="approve",
                kind="approve",
                subject="back",
                does="approve to commit the deleted groups again",
            ),
            replace(_restore(), undoes=done["delete-groups"], gate="approve/approve back"),
            compare_step("prove", (BACK, SNAPSHOT), Comparison.EXPANSION, then=OnDifference.ACCEPTABLE),
            _audit(),
        )
    if "fence" in done:
        steps.append(replace(_reopen(), undoes=done["fence"]))
    return make_rollback(steps, number)
