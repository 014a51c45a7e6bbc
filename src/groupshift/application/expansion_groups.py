"""Steps of an expansion that wait for groups, prove that it may begin, and take groups away.

Source: docs/reference/group-coordinator.md §3.4 steps 3 to 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from groupshift.application.expansion_plan import SNAPSHOT, against, run_plan
from groupshift.application.expansion_work import Expanding, naming, sized
from groupshift.application.run_snapshots import changes
from groupshift.application.run_work import HOLDS, Handler, Look
from groupshift.domain.cluster import PlacementView
from groupshift.domain.step import RunAct, RunStep, Seen
from groupshift.errors import Conflict, Transient
from groupshift.moves.expansion.facts import agreement
from groupshift.moves.expansion.load import Hashed, LogReading
from groupshift.moves.expansion.restore import demand_answers, unlike
from groupshift.moves.expansion.rules import Use, ask, busy_groups, transacting
from groupshift.ports.journal import RunStepRecord

_SAID = 10
"""How many sentences are journaled."""
_REFUSED = (
    "stop the members where it says 68, let this login delete groups where it says 29 or 30; where it says "
    "-1 or 10 its coordinator could not write the tombstones: read its log, and max.message.bytes of the "
    "offsets topic"
)
_ALL = "groupshift audit placement --json"


def hidden(work: Expanding, view: PlacementView) -> str:
    """Why brokers may not list all groups now, so that an empty answer proves nothing; empty when they do."""
    cluster = view.cluster
    loading = [str(each.node_id) for each in cluster.brokers if each.loading]
    absent = sorted(set(work.plan.brokers) - {each.node_id for each in cluster.brokers})
    leaderless = [number for number, node in enumerate(view.topic.leaders) if node < 0]
    if loading:
        return f"broker {', '.join(loading)} still loads coordinator partitions and lists not all its groups"
    if absent:
        nodes = ", ".join(map(str, absent))
        return f"broker {nodes} is not registered, and lists no groups: bring one of that id up"
    if leaderless:
        return f"partition {leaderless[0]} of the offsets topic has no leader, its groups are not listed"
    return ""


def undrained(work: Expanding, view: PlacementView) -> str:
    """Who still uses groups, and why that may not be all; empty when nobody does."""
    if unseen := hidden(work, view):
        return unseen
    busy = busy_groups(view.cluster)
    if busy:
        return f"members are in {naming(busy, _ALL)}; stop them"
    return transacting(view)


def _drained(work: Expanding, _step: RunStep, _record: RunStepRecord) -> Look:
    """Nothing is changed here: where the drain stops, whoever was stopped may start again."""
    left = undrained(work, work.tools.views.look())
    if not left:
        return HOLDS
    return Look(seen=Seen.NOT_YET, detail=f"{left} (nothing was changed: clients may also start again)")


def _agree(work: Expanding, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    taken, log = work.snapshot_of(SNAPSHOT), work.tools.log
    rows = work.tools.store.offsets(Path(taken["folder"]), taken["manifest_sha256"])
    listed = {each.group for broker in work.tools.views.look().cluster.brokers for each in broker.groups}
    found = agreement(rows, log.read(log.position()), work.plan.before)
    moving = {row.group for row in rows} & work.plan.moving_names
    # a group that no broker lists and that stays was not asked for: rule X15 warned of it
    differing = [said for group, said in found.differing if group in listed | work.plan.moving_names]
    expiring = [group for group in found.expiring if group in moving]
    return {
        "offsets": len(rows),
        "groups_that_move": len(moving),
        "differing": len(differing),
        "expiring": len(expiring),
        "of": sorted(set(expiring))[:_SAID],
        "reasons": differing[:_SAID],
    }


def _agreed(_work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    if not record.result["differing"]:
        return HOLDS
    said = "; ".join(record.result["reasons"])
    return Look(
        seen=Seen.FAILED,
        detail=f"{record.result['differing']} offsets differ between brokers and log: {said}; take the "
        "run back (groupshift expansion back --execute), look with groupshift audit placement, begin anew",
        hopeless=True,
    )


def _prove(work: Expanding, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Also whether each step before it was done, the plan is still that of the cluster, all topics are in
    sync, and the controller would make the partitions: before anything is taken away."""
    facts = work.facts()
    said = [each.with_remedy for each in against(ask(facts, Use.PLAN))]
    void = changes(work.plan.met, run_plan(facts, work.plan.to).met)
    said += [*void, *work.unproven(step)]
    said += [each for each in (undrained(work, facts.view), _cluster_lacks(work)) if each]
    if facts.view.count != work.plan.to:
        work.tools.topic.check(work.plan.to)
    return {"against": said[:_SAID], "void": bool(void)}


def _cluster_lacks(work: Expanding) -> str:
    lacks = work.tools.topic.cluster_lacks(work.plan.brokers)
    return f"{lacks}: brokers will be stopped one after the other; cure that first" if lacks else ""


def _go(_work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    said, void = record.result["against"], record.result["void"]
    if not said:
        return HOLDS
    anew = "; take the run back with groupshift expansion back --execute, and plan anew" if void else ""
    return Look(seen=Seen.FAILED, detail=f"no go: {'; '.join(said)}{anew}", hopeless=void)


def await_listed(work: Expanding) -> PlacementView:
    """A view in which every broker lists all its groups. Raises `Transient` when there is none in time."""
    end = work.tools.clock.now_ms() + work.terms.patience_s * 1000
    while unseen := hidden(work, view := work.tools.views.look()):
        if work.tools.clock.now_ms() >= end:
            raise Transient(f"{unseen}; run it again")
        work.tools.clock.sleep(work.terms.every_s)
    return view


def _delete(work: Expanding, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Only what the snapshot has. Raises `Conflict`, having deleted nothing now, when a group committed
    since, has members, or came since and would move."""
    view = await_listed(work)
    if busy := undrained(work, view):
        raise Conflict(f"{busy}, then run it again; what is deleted already is in snapshot {SNAPSHOT}")
    changed = _unlike_the_snapshot(work, view)
    if changed:
        raise Conflict(
            f"offsets of {naming(changed)} changed since snapshot {SNAPSHOT}: nothing was deleted now; take "
            "the run back with groupshift expansion back --execute, and begin anew"
        )
    refused: dict[str, str] = {}
    for groups in sized(work.plan.moving, work.kept()):
        refused |= work.tools.restoring.delete(groups, partial(work.hold_again, step))
    return {"refused": sorted(refused.values())[:_SAID]}


def _unlike_the_snapshot(work: Expanding, view: PlacementView) -> frozenset[str]:
    """Groups that move and answer something that the snapshot has not, or that the plan does not know. Those
    that answer nothing are deleted already. Raises `Transient` where one does not answer."""
    kept = {(row.group, row.topic, row.partition): row for row in work.kept()}
    state = work.tools.reader.take(sorted(work.plan.moving_names | movers_now(work, view)))
    demand_answers(state)
    return frozenset(
        row.group
        for row in state.offsets
        if (there := kept.get((row.group, row.topic, row.partition))) is None or unlike(row, there)
    )


def _deleted(work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    if record.result["refused"]:
        said = "; ".join(record.result["refused"])
        remedy = _REFUSED
        return Look(seen=Seen.FAILED, detail=f"{said}; {remedy}, then run it again")
    view = work.tools.views.look()
    listed = {each.group for broker in view.cluster.brokers for each in broker.groups}
    left = work.plan.moving_names & listed
    why = hidden(work, view) or (f"still listed: {naming(left)}" if left else "")
    if not why and (answering := work.tools.views.answering(work.plan.moving)):
        why = f"still answering: {naming(answering)}"
    if not why and (logged := work.plan.moving_names & live_in_log(work, view)):
        why = f"tombstones are not on all replicas yet: {naming(logged)}"
    return Look(seen=Seen.NOT_YET, detail=why) if why else HOLDS


def movers_now(work: Expanding, view: PlacementView) -> frozenset[str]:
    """Groups that a broker lists or the log has, and that the plan's counts move: more than the plan's where
    some came since."""
    listed = {each.group for broker in view.cluster.brokers for each in broker.groups}
    found = Hashed(listed | live_in_log(work, view)).movers(work.plan.before, work.plan.to)
    return frozenset(each.group for each in found)


def live_in_log(work: Expanding, view: PlacementView) -> frozenset[str]:
    """Groups of which the log, as far as all replicas have it, holds anything live that coordinators load.

    An OLD coordinator answers a deletion before followers have its tombstones: a broker that is stopped right
    then hands its partitions to one without them, and they are gone (docs/reference/placement-rules.md)."""
    log, before = work.tools.log, work.plan.before
    found = LogReading().take(log.read(log.position())).places(before, before, newest=False, old=view.old)
    return frozenset(found.groups)


HANDLERS: Mapping[RunAct, Handler[Expanding]] = {
    RunAct.DRAIN: Handler(read_back=_drained),
    RunAct.AGREE: Handler(act=_agree, read_back=_agreed),
    RunAct.PROVE: Handler(act=_prove, read_back=_go),
    RunAct.DELETE_GROUPS: Handler(act=_delete, read_back=_deleted),
}
"""By what a step does."""
