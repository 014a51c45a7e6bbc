"""Steps of a downgrade that approve and measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.application.downgrade_work import Work
from groupshift.application.run_work import HOLDS, Handler, Look
from groupshift.domain.step import RunAct, RunStep, Seen
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Transient
from groupshift.moves.downgrade.rules import ask, no_go
from groupshift.ports.journal import RunStepRecord


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
    findings = ask(facts)
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


HANDLERS: Mapping[RunAct, Handler[Work]] = {
    RunAct.AWAIT_SNAPSHOT: Handler(intend=_wanted_offset, act=_told, read_back=_snapshots_there),
    RunAct.PROVE: Handler(act=_prove, read_back=_go),
}
"""By what a step does."""
