"""The plan of an expansion as data, and what undoes it before brokers restart. Nothing here acts.

``steps.toml`` beside this module says what each step does. The order is that of
docs/reference/group-coordinator.md §3.4: groups that move are deleted while their old coordinators still
serve them, and committed again when every broker uses the new count. The count of each broker's file is set
while it is restarted, which is before it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC as TOPIC
from groupshift.domain.run import (
    IRREVERSIBLE,
    OnDifference,
    Plan,
    Step,
    StepRecord,
    findings_data,
    make_plan,
    make_rollback,
)
from groupshift.domain.step_table import StepTable
from groupshift.engine.snapshots import compare_step
from groupshift.moves.expansion.facts import PlacementFacts
from groupshift.moves.expansion.ports import BACK, BEFORE_DELETE, SNAPSHOT, VERIFIED
from groupshift.moves.expansion.rules import Placement

_step = StepTable("moves/expansion/steps.toml").step
BEGUN = ("delete", "create", "restart", "place", "restore")
"""Phases whose begun steps change what the plan was approved for."""


def aspects(facts: PlacementFacts) -> dict[str, dict[str, str]]:
    """Return what an approval is given for: counts, brokers, and the groups that move, each with its way."""
    brokers = facts.view.cluster.brokers
    return {
        "partitions": {"in use": str(facts.before), "of the topic": str(facts.view.count)},
        "broker": {str(each.node_id): f"{each.line}, {each.coordinator.value}" for each in brokers},
        "group": {each.group: f"moves from {each.before} to {each.after}" for each in facts.movers},
    }


def planned(placement: Placement, drain_s: int) -> Plan:
    """Return the plan that the engine walks; groups may take ``drain_s`` seconds to become empty. Of a
    cluster whose driver can keep clients out (``found.fenced``) it does so until the end.

    A group may lose an offset to its expiry before groups are deleted: then only a rollback helps. What the
    last comparison finds may be accepted by a person."""
    facts, cluster = placement.facts, placement.facts.view.cluster
    nodes = [each.node_id for each in cluster.brokers]
    about = {
        "cluster_id": cluster.cluster_id,
        "before": facts.before,
        "partitions": facts.view.count,
        "to": facts.to,
        "brokers": nodes,
        "movers": [[each.group, each.before, each.after] for each in facts.movers],
        "met": aspects(facts),
        "checks": findings_data(placement.judgement.findings),
    }
    why = (
        "an OLD coordinator would answer what stays there"
        if facts.view.old
        else "nothing is left there to expire"
    )
    said = {"before": facts.before, "to": facts.to, "topic": TOPIC, "many": len(facts.movers), "why": why}
    restore, reopen, to = _step("restore", SNAPSHOT), _step("reopen"), str(facts.to)
    last = cluster.quorum.leader if cluster.quorum else cluster.controller
    steps = [
        _step("drain", patience_s=drain_s),
        _step("snapshot", SNAPSHOT),
        _step("agree", SNAPSHOT),
        _step("approve", "plan", said),
        *([_step("fence", undo=reopen)] if placement.fenced else []),
        compare_step(
            "go",
            (BEFORE_DELETE, SNAPSHOT),
            Comparison.EXPANSION,
            repeat=True,
            then=OnDifference.ONLY_ROLLBACK_HELPS,
        ),
        _step("prove", to),
        _step("rehearse", SNAPSHOT),
        _step("delete-groups", TOPIC, said, undo=restore),
        _step("create-partitions", TOPIC, said),
        *(
            _step("restart", str(node), said, undo=IRREVERSIBLE)
            for node in sorted(nodes, key=lambda each: (each == last, each))
        ),
        _step("place", to, said, undo=IRREVERSIBLE),
        replace(restore, undo=IRREVERSIBLE),
        compare_step("prove", (VERIFIED, SNAPSHOT), Comparison.EXPANSION, then=OnDifference.ACCEPTABLE),
        _step("verify", VERIFIED, said),
        _step("audit", TOPIC),
        *([reopen] if placement.fenced else []),
    ]
    return make_plan(steps, about)


def rollback(there: Plan, begun: Mapping[str, StepRecord], number: int) -> Plan:
    """Return what undoes the begun steps, before brokers restart: groups that were deleted are committed
    again, after an approval of its own, and clients are let in again."""
    done = {each.kind: each.key for each in there.steps if each.key in begun}
    steps: list[Step] = []
    if "delete-groups" in done:
        approve = _step("approve-back", "back")
        steps += (
            approve,
            replace(_step("restore", SNAPSHOT), undoes=done["delete-groups"], gate=approve.name),
            compare_step("prove", (BACK, SNAPSHOT), Comparison.EXPANSION, then=OnDifference.ACCEPTABLE),
            _step("audit", TOPIC),
        )
    if "fence" in done:
        steps.append(_step("reopen", undoes=done["fence"]))
    return make_rollback(steps, number)
