"""Steps of a downgrade that approve, measure, and replace nodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groupshift.application.downgrade_work import HOLDS, Handler, Look, Question, Work
from groupshift.application.snapshot_cluster import snapshot_cluster
from groupshift.domain.downgrade import preflight
from groupshift.domain.downgrade.path import Standing, standing
from groupshift.domain.downgrade.progress import Seen, no_go
from groupshift.domain.downgrade.releases import Target, target_of
from groupshift.domain.downgrade.run_plan import RunAct, RunStep, met
from groupshift.domain.downgrade.view import BrokerView
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Transient
from groupshift.ports.broker_replacement import ForPerson, NodeState, NodeStatus, Replacement
from groupshift.ports.cluster_runs import RunState, RunStepRecord

_SAID = 10
"""How many sentences of a comparison are journaled; all are in its folder."""


def _approve(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask; an approval of the plan is void when what it was given for has changed.

    Raises `Conflict`, and ends the run, when it is void."""
    yes = work.terms.decide(Question(run=work.run, plan=work.plan, step=step))
    if yes and step.subject == "plan":
        _refuse_changed(work)
    return {"approved": yes, "by": work.terms.who, "plan": work.plan.hash}


def _refuse_changed(work: Work) -> None:
    then, now = work.plan.met, met(work.facts())
    names = sorted(then.keys() | now.keys())
    changed = [
        f"{name}: {then.get(name, 'not there')} is now {now.get(name, 'not there')}"
        for name in names
        if then.get(name) != now.get(name)
    ]
    if changed:
        work.tools.runs.move(work.run, work.token, RunState.ENDED, work.tools.clock.now_ms())
        raise Conflict(f"approval void, nothing was changed: {'; '.join(changed)}; run it again to plan anew")


def _approved(_work: Work, _step: RunStep, record: RunStepRecord) -> Look:
    if record.result.get("approved"):
        return HOLDS
    if record.result.get("approved") is None:
        return Look(seen=Seen.PERSON, detail="an approval waits for a person: answer in a terminal, or --yes")
    return Look(seen=Seen.REFUSED, detail="not approved; nothing more is changed")


def _snapshot(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    folder = work.tools.evidence / work.run / f"{step.subject}-{work.token}"
    state, manifest = snapshot_cluster(work.tools.reader, work.tools.store, folder)
    return {
        "folder": str(folder),
        "groups": len(state.groups),
        "manifest_sha256": manifest.digest,
        "problems": [row.problem for row in state.problems][:_SAID],
    }


def _whole(_work: Work, _step: RunStep, record: RunStepRecord) -> Look:
    problems = record.result["problems"]
    return Look(seen=Seen.FAILED, detail=f"the snapshot has problems: {problems[0]}") if problems else HOLDS


def _compare(work: Work, step: RunStep, intent: Mapping[str, Any]) -> Mapping[str, Any]:
    taken = _snapshot(work, step, intent)
    if taken["problems"]:
        return {**taken, "verdict": Verdict.ERROR.value, "reasons": taken["problems"]}
    before, after = Path(work.result_of(step.args["base"])["folder"]), Path(taken["folder"])
    found = work.tools.compare(before, after, Comparison(step.args["move"]), live=work.plan.live)
    return {**taken, "verdict": found.verdict.value, "reasons": list(found.reasons[:_SAID])}


def _equal(_work: Work, step: RunStep, record: RunStepRecord) -> Look:
    if record.result["verdict"] == Verdict.PASS:
        return HOLDS
    said = "; ".join(record.result["reasons"]) or record.result["verdict"]
    detail = f"snapshot {step.subject} is not equal to {step.args['base']}: {said}"
    return Look(seen=Seen.FAILED, detail=detail)


def _wanted_offset(work: Work, _step: RunStep) -> Mapping[str, Any]:
    """Up to where the metadata log is committed now: a snapshot must hold all of it. Raises `Transient`."""
    quorum = work.tools.views.look().quorum
    if quorum is None:
        raise Transient("no controller tells the metadata quorum; run it again")
    return {"offset": quorum.high_watermark}


def _snapshots_there(work: Work, _step: RunStep, record: RunStepRecord) -> Look:
    wanted = int(record.intent["offset"])
    nodes = [int(each.subject) for each in work.plan.steps if each.act is RunAct.REPLACE]
    found = {node: work.tools.nodes.observe(node).snapshot for node in nodes}
    told = {node: offset for node, offset in found.items() if offset is not None}
    if all(offset >= wanted for offset in told.values()) and (len(told) == len(nodes) or work.terms.seen):
        by = {} if len(told) == len(nodes) else {"seen_by": work.terms.who}
        return Look(seen=Seen.HOLDS, result={"offsets": {str(node): told[node] for node in told}, **by})
    said = f"a metadata snapshot up to offset {wanted} on nodes {', '.join(map(str, nodes))}"
    if len(told) < len(nodes):
        look = f"look for __cluster_metadata-0/<offset>-<epoch>.checkpoint of {said}, then run it with --seen"
        return Look(seen=Seen.PERSON, detail=look)
    return Look(seen=Seen.NOT_YET, detail=f"waiting for {said}; there are {told}")


def _prove(work: Work, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    facts = work.facts()
    bad = no_go(facts, preflight.ask(facts))
    records = 0 if facts.log is None else facts.log.records
    return {"records": records, "against": [f"{each.rule}: {each.reason}" for each in bad]}


def _go(_work: Work, _step: RunStep, record: RunStepRecord) -> Look:
    against = record.result["against"]
    return Look(seen=Seen.FAILED, detail=f"no go: {'; '.join(against)}") if against else HOLDS


def _await_whole(work: Work, _step: RunStep) -> Mapping[str, Any]:
    """A node is only touched when all others are in sync. Raises `Transient` when they are not in time."""
    end = work.tools.clock.now_ms() + work.terms.patience_s * 1000
    while lacks := work.tools.cluster.lacks(work.plan.brokers):
        if work.tools.clock.now_ms() > end:
            raise Transient(f"the cluster is not whole, no node is touched: {lacks}; run it again")
        work.tools.clock.sleep(work.terms.every_s)
    return {}


def _replacement(work: Work, step: RunStep) -> Replacement:
    back = bool(step.args.get("back"))
    return Replacement(
        change_id=f"{work.run}/{step.key}".replace(" ", "_"),
        node_id=int(step.subject),
        release=work.plan.now if back else work.plan.release,
        coordinator=work.plan.running if back else work.plan.coordinator,
        without=tuple(step.args.get("without", ())),
        fence=work.run,
        token=work.token,
    )


def _replace(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    started = work.tools.nodes.start(_replacement(work, step))
    return {"instruction": started.instruction} if isinstance(started, ForPerson) else {}


def _replaced(work: Work, step: RunStep, record: RunStepRecord) -> Look:
    """By the driver, and by the cluster: the broker tells the release, replicas are in sync."""
    wanted, status = _replacement(work, step), work.tools.nodes.observe(int(step.subject))
    if status.state is NodeState.DOWN:
        return Look(
            seen=Seen.FAILED, detail=f"node {step.subject} does not run: {status.trouble or 'no reason'}"
        )
    lacks = _node_lacks(work, wanted, status)
    if not lacks:
        return Look(seen=Seen.HOLDS, result={"release": wanted.release})
    if status.state is NodeState.UNKNOWN:
        if work.terms.seen and wanted.node_id not in work.plan.brokers:
            return Look(seen=Seen.HOLDS, result={"seen_by": work.terms.who})
        return Look(seen=Seen.PERSON, detail=f"{record.result.get('instruction') or step.does} ({lacks})")
    return Look(seen=Seen.NOT_YET, detail=lacks)


def _node_lacks(work: Work, wanted: Replacement, status: NodeStatus) -> str:
    if status.state is NodeState.CHANGING:
        return f"node {wanted.node_id} is being replaced"
    ran = (status.change_id, status.release) == (wanted.change_id, wanted.release)
    if status.state is NodeState.RUNNING and not ran:
        return f"node {wanted.node_id} runs {status.release or 'another release'}, not by this change"
    if wanted.node_id not in work.plan.brokers:
        asks = status.state is NodeState.UNKNOWN
        return "nobody but its own log tells what a controller runs: say --seen" if asks else ""
    try:
        brokers = work.tools.views.look().brokers
    except Transient as silent:
        return str(silent)
    found = next((each for each in brokers if each.node_id == wanted.node_id), None)
    if found is None or found.loading or not _runs(found, target_of(wanted.release, wanted.coordinator)):
        return f"broker {wanted.node_id} does not tell {wanted.release} yet"
    return work.tools.cluster.lacks(work.plan.brokers)


def _runs(broker: BrokerView, target: Target) -> bool:
    """Whether a broker is of the line and has the coordinator; within a line brokers tell no release."""
    if broker.line is None:
        return standing(target.version, broker.coordinator, target) is not Standing.OLDER
    return broker.line.holds(target.version) and broker.coordinator is target.coordinator


HANDLERS: Mapping[RunAct, Handler] = {
    RunAct.APPROVE: Handler(act=_approve, read_back=_approved),
    RunAct.SNAPSHOT: Handler(act=_snapshot, read_back=_whole),
    RunAct.COMPARE: Handler(act=_compare, read_back=_equal),
    RunAct.AWAIT_SNAPSHOT: Handler(intend=_wanted_offset, read_back=_snapshots_there),
    RunAct.PROVE: Handler(act=_prove, read_back=_go),
    RunAct.REPLACE: Handler(intend=_await_whole, act=_replace, read_back=_replaced),
}
"""By what a step does."""
