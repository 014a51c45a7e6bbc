"""Steps of a downgrade that approve and measure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groupshift.application.downgrade_commits import committing, differing_commits, keep_commits
from groupshift.application.downgrade_work import HOLDS, Handler, Look, Question, Work
from groupshift.application.snapshot_cluster import snapshot_cluster
from groupshift.domain.downgrade import preflight
from groupshift.domain.downgrade.progress import Seen, no_go
from groupshift.domain.downgrade.run_plan import RunAct, RunStep, met
from groupshift.domain.equality_rules import Comparison
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Conflict, Transient
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
        **keep_commits(work, folder),
    }


def _whole(_work: Work, _step: RunStep, record: RunStepRecord) -> Look:
    problems = record.result["problems"]
    return Look(seen=Seen.FAILED, detail=f"the snapshot has problems: {problems[0]}") if problems else HOLDS


def _compare(work: Work, step: RunStep, intent: Mapping[str, Any]) -> Mapping[str, Any]:
    taken = _snapshot(work, step, intent)
    if taken["problems"]:
        return {**taken, "verdict": Verdict.ERROR.value, "reasons": taken["problems"], **work.asking(step)}
    before, after = Path(work.snapshot_of(step.args["base"])["folder"]), Path(taken["folder"])
    found = work.tools.compare(before, after, Comparison(step.args["move"]), live=committing(work, step))
    changed = differing_commits(work, step, taken)
    verdict = Verdict.FAIL if changed else found.verdict
    reasons = [*found.reasons, *changed][:_SAID]
    return {**taken, "verdict": verdict.value, "reasons": reasons, **work.asking(step)}


def _equal(work: Work, step: RunStep, record: RunStepRecord) -> Look:
    if record.result["verdict"] == Verdict.PASS:
        return HOLDS
    said = "; ".join(record.result["reasons"]) or record.result["verdict"]
    detail = f"snapshot {step.subject} is not equal to {step.args['base']}: {said}"
    if step.args.get("anew"):
        if work.said(record):
            return Look(seen=Seen.HOLDS, detail=detail, result={"accepted_by": work.terms.who})
        detail += "; correct that, or accept it with --seen: then the rest is undone too"
    return Look(seen=Seen.FAILED, detail=detail)


def _wanted_offset(work: Work, _step: RunStep) -> Mapping[str, Any]:
    """Up to where the metadata log is committed now: a snapshot must hold all of it. Raises `Transient`."""
    quorum = work.tools.views.look().quorum
    if quorum is None:
        raise Transient("no controller tells the metadata quorum; run it again")
    return {"offset": quorum.high_watermark}


def _told(work: Work, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    return work.asking(step)


def _snapshots_there(work: Work, _step: RunStep, record: RunStepRecord) -> Look:
    wanted = int(record.intent["offset"])
    nodes = [int(each.subject) for each in work.plan.steps if each.act is RunAct.REPLACE]
    found = {node: work.tools.nodes.observe(node).snapshot for node in nodes}
    told = {node: offset for node, offset in found.items() if offset is not None}
    if all(offset >= wanted for offset in told.values()) and (len(told) == len(nodes) or work.said(record)):
        by = {} if len(told) == len(nodes) else {"seen_by": work.terms.who}
        return Look(seen=Seen.HOLDS, result={"offsets": {str(node): told[node] for node in told}, **by})
    said = f"a metadata snapshot up to offset {wanted} on nodes {', '.join(map(str, nodes))}"
    if len(told) < len(nodes):
        look = f"look for __cluster_metadata-0/<offset>-<epoch>.checkpoint of {said}, then run it with --seen"
        return Look(seen=Seen.PERSON, detail=look)
    return Look(seen=Seen.NOT_YET, detail=f"waiting for {said}; there are {told}")


def _prove(work: Work, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    facts = work.facts()
    findings = preflight.ask(facts)
    bad = no_go(facts, findings)
    records = 0 if facts.log is None else facts.log.records
    return {
        "records": records,
        "against": [f"{each.rule}: {each.reason}" for each in bad],
        "findings": [_journaled(each) for each in findings if each.hint or each.verdict is not Verdict.PASS],
    }


def _journaled(finding: Finding) -> dict[str, str]:
    """A finding as it is journaled."""
    return {
        "rule": finding.rule,
        "verdict": finding.verdict.value,
        "reason": finding.reason,
        "hint": finding.hint,
    }


def _go(_work: Work, _step: RunStep, record: RunStepRecord) -> Look:
    against = record.result["against"]
    return Look(seen=Seen.FAILED, detail=f"no go: {'; '.join(against)}") if against else HOLDS


HANDLERS: Mapping[RunAct, Handler] = {
    RunAct.APPROVE: Handler(act=_approve, read_back=_approved),
    RunAct.SNAPSHOT: Handler(act=_snapshot, read_back=_whole),
    RunAct.COMPARE: Handler(act=_compare, read_back=_equal),
    RunAct.AWAIT_SNAPSHOT: Handler(intend=_wanted_offset, act=_told, read_back=_snapshots_there),
    RunAct.PROVE: Handler(act=_prove, read_back=_go),
}
"""By what a step does."""
