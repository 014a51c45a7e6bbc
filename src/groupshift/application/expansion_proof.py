"""Steps of an expansion that prove its end: the snapshot against the bytes of the log, and the whole log.

Source: docs/reference/group-coordinator.md §3.4 step 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groupshift.application.expansion_counts import still_placed
from groupshift.application.expansion_plan import against
from groupshift.application.expansion_work import Expanding
from groupshift.application.run_work import HOLDS, Handler, Look
from groupshift.domain.step import RunAct, RunStep, Seen
from groupshift.domain.verdict import Verdict
from groupshift.moves.expansion.assess import PlacementAudit, audit_placement
from groupshift.ports.journal import RunStepRecord

_SAID = 10
"""How many sentences are journaled."""
_STATIC = "X08"


def _verify(work: Expanding, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was answered is as snapshot S, or a person said so: here it is held against what brokers would
    load, for a cache may hide what lies in the log."""
    taken = work.snapshot_of(step.subject)
    folder = work.tools.evidence / work.run / f"log-{work.token}"
    snapshot = Path(taken["folder"])
    found = work.tools.verify(snapshot, taken["manifest_sha256"], work.count, folder)
    return {
        "folder": str(folder),
        "verdict": found.verdict.value,
        "left": len(found.reasons),
        "reasons": list(found.reasons[:_SAID]),
        "outcome": dict(found.files),
        **work.asking(step, found.reasons),
    }


def _verified(work: Expanding, step: RunStep, record: RunStepRecord) -> Look:
    result = record.result
    if result["verdict"] == Verdict.PASS:
        return HOLDS
    said = (
        f"the log is not as snapshot {step.subject}, {result['left']} offsets: {'; '.join(result['reasons'])}"
    )
    if work.said(record):
        return Look(seen=Seen.HOLDS, detail=said, result={"accepted_by": work.terms.who})
    return Look(seen=Seen.PERSON, detail=f"{said}; correct that and run it again, or accept it with --seen")


def _audit(work: Expanding, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    found = audit_placement(work.tools.views, work.tools.log)
    said = [each.with_remedy for each in against(found.judgement.findings)]
    planned = not work.goes_back and work.count == work.plan.to  # what the steps were to set
    said += [*(_unset(found) if planned else ()), *work.unproven(step)]
    return {
        "against": said,
        "records": found.facts.log.records if found.facts.log else 0,
        **work.asking(step, said),
    }


def _unset(found: PlacementAudit) -> list[str]:
    """Brokers that were restarted without the count in their file: what was to be set is read back."""
    findings = found.judgement.findings
    return [
        each.with_remedy for each in findings if each.rule == _STATIC and each.verdict is not Verdict.PASS
    ]


def _clean(work: Expanding, _step: RunStep, record: RunStepRecord) -> Look:
    said = record.result["against"]
    if not said:
        return HOLDS
    detail = f"do not start clients: {'; '.join(said)}"
    if work.said(record):
        return Look(seen=Seen.HOLDS, detail=detail, result={"accepted_by": work.terms.who})
    return Look(seen=Seen.PERSON, detail=f"{detail}; cure it and run it again, or accept it with --seen")


HANDLERS: Mapping[RunAct, Handler[Expanding]] = {
    RunAct.VERIFY: still_placed(Handler(act=_verify, read_back=_verified)),
    RunAct.AUDIT: still_placed(Handler(act=_audit, read_back=_clean)),
}
"""By what a step does."""
