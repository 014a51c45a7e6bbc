"""Proof: which two snapshots the Spark job compares, and what it may find."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from groupshift.application.claim import demand_held
from groupshift.application.environment import Environment
from groupshift.application.records import Migration, load
from groupshift.domain.equality import (
    AllowedChanges,
    Snapshot,
    allowed_changes,
    records_per_interval,
    restored_changes,
)
from groupshift.domain.evidence import Moment, PlanOf, refuse_older
from groupshift.domain.log_gaps import answers_data, gaps
from groupshift.domain.plan import Stage, StageName
from groupshift.domain.step import ReplaceMembers
from groupshift.errors import Rejected
from groupshift.ports.journal import Entry, EventKind
from groupshift.ports.spark_jobs import ProofRequest

RULES_FILE = "rules.json"
VERDICT_FILE = "verdict.json"
REPORT_FILE = "report.html"


def folder(moment: Moment) -> str:
    """Name of the folder that holds the validation of a moment."""
    return f"validation-{moment}"


def proof(env: Environment, migration: str, stage: StageName, moment: Moment) -> ProofRequest:
    """See `App.proof`."""
    found = load(env, migration)
    compared = baseline(found, stage, moment)
    before = env.evidence.read(migration, compared[0].value, compared[1])
    after = env.evidence.read(migration, stage.value, moment)
    for (name, when), tables in ((compared, before), ((stage, moment), after)):
        _refuse_older(found, f"snapshot {name}/{when}", tables)
    changes = _changes(env, _compared_stage(found, stage, moment), moment, before, after)
    if restores(found, stage, moment):
        node = after["group"][0]["mode_text"]
        changes = restored_changes(changes, None if node is None else "zookeeper")
    asked = gaps(before, after, env.isolation)
    log = answers_data(env.records.read(asked)) if asked else []
    demand_held(env, migration)
    text = json.dumps(changes.to_data() | ({"log": log} if log else {}), indent=1, sort_keys=True)
    rules = env.evidence.write_text(migration, stage.value, folder(moment), RULES_FILE, text=text)
    body = {
        "moment": moment.value,
        "against": [compared[0].value, compared[1].value],
        "rules": hashlib.sha256(text.encode()).hexdigest(),
    }
    now = env.clock.now_ms()
    env.append(Entry(migration=migration, at_ms=now, kind=EventKind.PROOF_REQUESTED, stage=stage, body=body))
    snapshots = ((compared[0].value, compared[1].value), (stage.value, moment.value))
    paths = tuple(env.evidence.path(migration, *each) for each in snapshots)
    return _request(env, found, (stage, moment), (*paths, rules))


def _refuse_older(found: Migration, what: str, tables: Snapshot) -> None:
    record = found.record
    plan = PlanOf(migration=found.id, hash=record.plan_hash, made_at_ms=record.created_at_ms)
    refuse_older(what, int(tables["group"][0]["taken_at_ms"] or 0), plan)


def _request(
    env: Environment, found: Migration, about: tuple[StageName, Moment], paths: tuple[str, ...]
) -> ProofRequest:
    """``paths`` are the earlier snapshot, the later one and the rules."""
    stage, moment = about
    before, after, rules = paths
    output = env.evidence.path(found.id, stage.value, folder(moment))
    return ProofRequest(
        job=env.job,
        arguments=(
            *("--before", before, "--after", after, "--output", output),
            *("--stage", stage.value, "--moment", moment.value, "--rules", rules),
        ),
        output=output,
    )


def baseline(found: Migration, stage: StageName, moment: Moment) -> tuple[StageName, Moment]:
    """The snapshot that this one is compared with.

    After a stage: the one before it (before its places were vacated, where it fills them), and after the
    last way back to old members the migration's first one. Before a stage: the one taken last before it;
    the very first is compared with itself, and so is one before a stage of the way back, for what failed
    before it is known already."""
    taken = [(name, when) for name, when, _ in found.snapshots()]
    if (stage, moment) not in taken:
        raise Rejected(f"migration {found.id} has no snapshot {stage}/{moment}; take it first")
    if restores(found, stage, moment):
        return taken[0] if taken else (stage, moment)
    if moment is Moment.AFTER:
        emptied = stage is StageName.FILL and (StageName.EMPTY, Moment.BEFORE) in taken
        return (StageName.EMPTY if emptied else stage), Moment.BEFORE
    earlier = [] if stage.undoes else taken[: taken.index((stage, moment))]
    return earlier[-1] if earlier else (stage, moment)


def restores(found: Migration, stage: StageName, moment: Moment) -> bool:
    """Whether this is the proof that everything is as it was before the migration."""
    first = next(iter(found.plan.stages)).name
    replaced = first in {StageName.CANARY, StageName.ROLL, StageName.EMPTY}
    last = stage in {StageName.UNDO_MEMBERS, StageName.UNDO_EMPTY}
    return last and moment is Moment.AFTER and replaced


def _compared_stage(found: Migration, name: StageName, moment: Moment) -> Stage:
    """The stage as what happened between both snapshots: a stage that fills places, and the one that vacated
    them, are compared as one."""
    stage = found.stage(name)
    if stage is None:
        raise Rejected(f"migration {found.id} has no stage {name}")
    emptied = found.plan.stage(StageName.EMPTY) if name is StageName.FILL else None
    if emptied is None or moment is Moment.BEFORE:
        return stage
    match stage.step, emptied.step:
        case ReplaceMembers() as filled, ReplaceMembers() as vacated:
            return replace(stage, step=filled.after(vacated))
    return stage


def _changes(
    env: Environment, stage: Stage, moment: Moment, before: Snapshot, after: Snapshot
) -> AllowedChanges:
    thresholds = env.thresholds
    produced = records_per_interval(before, after, thresholds.commit_interval_ms)
    return allowed_changes(stage, moment, before, after, produced + thresholds.commit_slack_records)
