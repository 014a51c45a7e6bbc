"""Steps of an expansion that wait for groups, take them away, and give them back.

Source: specs/group-coordinator.md §3.4 steps 3 to 5, 10 and 11.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groupshift.application.expansion_work import Expanding, naming
from groupshift.application.placement import audit_placement
from groupshift.application.restore_offsets import NotRestored, read_back, restore_offsets
from groupshift.application.run_work import HOLDS, Handler, Look
from groupshift.domain.cluster_run.progress import Seen
from groupshift.domain.cluster_run.steps import RunAct, RunStep
from groupshift.domain.expansion.agreement import disagreements
from groupshift.domain.expansion.log import LogReading
from groupshift.domain.expansion.rules import Use, ask
from groupshift.domain.expansion.rules_groups import busy_groups
from groupshift.domain.expansion.run_plan import SNAPSHOT, against
from groupshift.domain.expansion.view import PlacementView
from groupshift.domain.facts import sentence_list
from groupshift.errors import Conflict
from groupshift.ports.cluster_runs import RunStepRecord

_SAID = 10
"""How many sentences are journaled."""


def hidden(work: Expanding, view: PlacementView) -> str:
    """Why brokers may not list all groups now, so that an empty answer proves nothing; empty when they do."""
    cluster = view.cluster
    loading = [str(each.node_id) for each in cluster.brokers if each.loading]
    absent = sorted(set(work.plan.brokers) - {each.node_id for each in cluster.brokers})
    leaderless = [number for number, node in enumerate(view.topic.leaders) if node < 0]
    if loading:
        return f"broker {', '.join(loading)} still loads coordinator partitions and lists not all its groups"
    if absent:
        return f"broker {', '.join(map(str, absent))} is not registered, and lists no groups"
    if leaderless:
        return f"partition {leaderless[0]} of the offsets topic has no leader, its groups are not listed"
    return ""


def undrained(work: Expanding, view: PlacementView) -> str:
    """Who still uses groups, and why that may not be all; empty when nobody does."""
    if unseen := hidden(work, view):
        return unseen
    busy = busy_groups(view.cluster)
    if busy:
        return f"members are in {naming(busy)}; stop them"
    ids = sorted({each for found in view.open_transactions.values() for each in found})
    return f"transactional id {sentence_list(ids)} writes offsets now; stop that producer" if ids else ""


def _drained(work: Expanding, _step: RunStep, _record: RunStepRecord) -> Look:
    """Nothing is changed here: where the drain stops, whoever was stopped may start again."""
    left = undrained(work, work.tools.views.look())
    if not left:
        return HOLDS
    return Look(seen=Seen.NOT_YET, detail=f"{left} (nothing was changed: clients may also start again)")


def _agree(work: Expanding, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    taken, log = work.snapshot_of(SNAPSHOT), work.tools.log
    rows = work.tools.store.offsets(Path(taken["folder"]), taken["manifest_sha256"])
    found = disagreements(rows, log.read(log.position()), work.plan.before)
    moving = {row.group for row in rows} & work.plan.moving_names
    return {
        "offsets": len(rows),
        "groups_that_move": len(moving),
        "differing": len(found),
        "reasons": [said for _, said in found[:_SAID]],
    }


def _agreed(_work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    if not record.result["differing"]:
        return HOLDS
    said = "; ".join(record.result["reasons"])
    return Look(
        seen=Seen.FAILED,
        detail=f"{record.result['differing']} offsets differ between brokers and log: {said}; take the "
        "run back (groupshift expansion back --execute), look with groupshift audit placement, begin anew",
    )


def _prove(work: Expanding, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Also asks the controller whether it would make the partitions, before anything is taken away."""
    facts = work.facts()
    bad = against(ask(facts, Use.PLAN))
    said = [f"{each.rule}: {each.reason}" for each in bad]
    busy = undrained(work, facts.view)
    if facts.view.count != work.plan.to:
        work.tools.topic.check(work.plan.to)
    return {"against": [*said, *([busy] if busy else [])]}


def _go(_work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    said = record.result["against"]
    return Look(seen=Seen.FAILED, detail=f"no go: {'; '.join(said)}") if said else HOLDS


def _delete(work: Expanding, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Only what the snapshot has. Raises `Conflict` when a group committed since, or has members."""
    busy = undrained(work, work.tools.views.look())
    if busy:
        raise Conflict(f"{busy}, then run it again; what is deleted already is in snapshot {SNAPSHOT}")
    changed = [each for each in _differing(work) if each.found is not None]
    if changed:
        raise Conflict(
            f"offsets of {naming(each.wanted.group for each in changed)} changed since snapshot {SNAPSHOT}: "
            "nothing was deleted now; take the run back with groupshift expansion back --execute, and begin "
            "anew"
        )
    refused = work.tools.restoring.delete(work.plan.moving)
    return {"refused": sorted(refused.values())[:_SAID]}


def _differing(work: Expanding) -> tuple[NotRestored, ...]:
    return read_back(work.tools.reader, work.kept()).differing


def _deleted(work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    if record.result["refused"]:
        said = "; ".join(record.result["refused"])
        return Look(seen=Seen.FAILED, detail=f"{said}; stop their members, then run it again")
    view = work.tools.views.look()
    listed = {each.group for broker in view.cluster.brokers for each in broker.groups}
    left = work.plan.moving_names & listed
    why = hidden(work, view) or (f"still listed: {naming(left)}" if left else "")
    if not why and (answering := work.tools.views.answering(work.plan.moving)):
        why = f"still answering: {naming(answering)}"
    if not why and (logged := _live_in_log(work)):
        why = f"tombstones are not on all replicas yet: {naming(logged)}"
    return Look(seen=Seen.NOT_YET, detail=why) if why else HOLDS


def _live_in_log(work: Expanding) -> frozenset[str]:
    """Groups that move and of which the log, as far as all replicas have it, holds anything live.

    An OLD coordinator answers a deletion before followers have its tombstones: a broker that is stopped right
    then hands its partitions to one without them, and they are gone (docs/expansion.md)."""
    log, before = work.tools.log, work.plan.before
    found = LogReading().take(log.read(log.position())).places(before, before, newest=False)
    return work.plan.moving_names & found.groups.keys()


def _restore(work: Expanding, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """What nobody committed since is committed again; what somebody did is left to a person."""
    rows = work.kept()
    unlike = read_back(work.tools.reader, rows).differing
    absent = [each.wanted for each in unlike if each.found is None]
    theirs = [each for each in unlike if each.found is not None]
    restored = restore_offsets(work.tools.restoring, work.tools.reader, absent)
    reasons: dict[str, list[str]] = defaultdict(list)
    for each in (*restored.differing, *theirs):
        reasons[each.wanted.group].append(_unlike(each))
    left = len(restored.differing) + len(theirs)
    return {
        "offsets": len(rows),
        "equal": len(rows) - left,
        "refused": len(restored.differing),
        "left": left,
        "reasons": [said for group in sorted(reasons) for said in reasons[group]][:_SAID],
        **work.asking(step),
    }


def _unlike(found: NotRestored) -> str:
    wanted, there = found.wanted, found.found
    place = f"{wanted.group!r} {wanted.topic}-{wanted.partition}"
    if there is None:
        return f"{place}: {wanted.offset} was not committed ({found.reason or 'it is not answered'})"
    return f"{place}: {wanted.offset} in the snapshot, {there.offset} was committed since"


def _restored(work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    """A client that came too early may have committed: its offset stays unless a person sets it back."""
    result = record.result
    if not result["left"]:
        return HOLDS
    said = f"{result['left']} of {result['offsets']} offsets are not as in the snapshot: "
    said += "; ".join(result["reasons"])
    if result["refused"]:
        return Look(seen=Seen.PERSON, detail=f"{said}; stop the members of these groups, then run it again")
    if work.said(record):
        return Look(seen=Seen.HOLDS, detail=said, result={"accepted_by": work.terms.who})
    return Look(
        seen=Seen.PERSON,
        detail=f"{said}; stop these clients and set the offsets, then run it again, or keep theirs: --seen",
    )


def _audit(work: Expanding, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    found = audit_placement(work.tools.views, work.tools.log)
    bad = against(found.judgement.findings)
    said = [f"{each.rule}: {each.reason}" for each in bad]
    return {"against": said, "records": found.facts.log.records if found.facts.log else 0}


def _clean(_work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    said = record.result["against"]
    if not said:
        return HOLDS
    return Look(seen=Seen.FAILED, detail=f"do not start clients: {'; '.join(said)}")


HANDLERS: Mapping[RunAct, Handler[Expanding]] = {
    RunAct.DRAIN: Handler(read_back=_drained),
    RunAct.AGREE: Handler(act=_agree, read_back=_agreed),
    RunAct.PROVE: Handler(act=_prove, read_back=_go),
    RunAct.DELETE_GROUPS: Handler(act=_delete, read_back=_deleted),
    RunAct.RESTORE: Handler(act=_restore, read_back=_restored),
    RunAct.AUDIT: Handler(act=_audit, read_back=_clean),
}
"""By what a step does."""
