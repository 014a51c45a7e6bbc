"""Steps that approve, and that take all groups of a cluster and hold them against what they were, whatever
the move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from groupshift.application.run_commits import committing, differing_commits, keep_commits
from groupshift.application.run_work import HOLDS, REQUESTER, Handler, Look, Question, RunWork
from groupshift.domain.equality_rules import FIELDS, PREFIX, Comparison, Field
from groupshift.domain.rows import LISTED_TOO, ProblemRow
from groupshift.domain.step import RunAct, RunStep, Seen
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict
from groupshift.ports.journal import RunState, RunStepRecord
from groupshift.ports.spark_jobs import Compared

_SETS = (Field.GROUPS, Field.COMMITTED)
"""Fields that are sets: of group ids, and of committed offsets."""
_SAID = 10
"""How many sentences of a comparison are journaled; all are in its folder."""


def _requested(work: RunWork, _step: RunStep) -> Mapping[str, Any]:
    """Who asked for the run, so that somebody else may have to approve it."""
    return {REQUESTER: work.requester()}


def _approve(work: RunWork, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask; an approval of the plan is void when what it was given for has changed.

    Raises `Conflict`, and ends the run, when it is void, `Rejected` when who answers may not say yes."""
    yes = work.terms.decide(Question(run=work.run, plan=work.plan, step=step, steps=work.steps))
    if yes:
        work.require_approver(step.key)
    if yes and step.subject == "plan":
        _refuse_changed(work)
    return {"approved": yes, "by": work.terms.who, "plan": work.plan.hash}


def _refuse_changed(work: RunWork) -> None:
    changed = changes(work.plan.met, work.met_now())
    if changed:
        work.tools.runs.move(work.run, work.token, RunState.ENDED, work.tools.clock.now_ms())
        more = f" and {len(changed) - _SAID} more" if len(changed) > _SAID else ""
        said = f"{'; '.join(changed[:_SAID])}{more}"
        raise Conflict(f"approval void, nothing was changed: {said}; run it again to plan anew")


def changes(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What a plan was made for and is not so any more, one sentence each, by name."""
    return [
        f"{name}: {then.get(name, 'not there')} is now {now.get(name, 'not there')}"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    ]


def _approved(_work: RunWork, _step: RunStep, record: RunStepRecord) -> Look:
    if record.result.get("approved"):
        return HOLDS
    if record.result.get("approved") is None:
        return Look(seen=Seen.PERSON, detail="an approval waits for a person: answer in a terminal, or --yes")
    return Look(seen=Seen.REFUSED, detail="not approved; nothing more is changed")


def _snapshot(work: RunWork, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    return _taken(work, step)[1]


def _taken(work: RunWork, step: RunStep) -> tuple[list[ProblemRow], Mapping[str, Any]]:
    """Every problem of a snapshot that is taken now, and what is journaled of it."""
    folder = work.tools.evidence / work.run / f"{step.subject}-{work.token}"
    work.tools.store.refuse(folder)
    state = work.tools.reader.take(None)
    manifest = work.tools.store.write(folder, state)
    problems = [each for each in state.problems if not work.harmless(each)]
    return problems, {
        "folder": str(folder),
        "groups": len(state.groups),
        "manifest_sha256": manifest.digest,
        "problems": [row.problem for row in problems][:_SAID],
        "told": all(row.of_listing or row.group is None for row in problems),
        **keep_commits(work, folder),
    }


def _whole(_work: RunWork, _step: RunStep, record: RunStepRecord) -> Look:
    problems = record.result["problems"]
    if not problems:
        return HOLDS
    detail = f"the snapshot has problems: {problems[0]}; cure that and run it again, or take the run back"
    return Look(seen=Seen.FAILED, detail=detail)


def _compare(work: RunWork, step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """A snapshot that is not whole is not compared, unless every group's offsets were told (residue, log ends
    that cannot be read); then what differs is said before that."""
    problems, taken = _taken(work, step)
    acceptable = bool(step.args.get("acceptable"))
    verdict, reasons = Verdict.ERROR if problems else Verdict.PASS, [row.problem for row in problems]
    outcome: Mapping[str, str] = {}
    if not problems or (acceptable and taken["told"] and work.residue()):
        before, after = Path(work.snapshot_of(step.args["base"])["folder"]), Path(taken["folder"])
        found = work.tools.compare(before, after, Comparison(step.args["move"]), live=committing(work, step))
        outcome = found.files
        changed, lost = differing_commits(work, step, taken), work.dropped()
        judged = found.verdict
        if lost and judged is Verdict.FAIL and _only_lost(work, step, taken, found.reasons):
            judged, found = Verdict.PASS, Compared(verdict=Verdict.PASS)
        reasons = [*found.reasons, *changed, *reasons]
        judged = Verdict.FAIL if changed else judged
        verdict = verdict if judged is Verdict.PASS else judged
    shown = reasons if acceptable else ()
    said = {"verdict": verdict.value, "reasons": _first(reasons), "outcome": dict(outcome)}
    return {**taken, **said, **work.asking(step, shown)}


def _only_lost(work: RunWork, step: RunStep, taken: Mapping[str, Any], reasons: Iterable[str]) -> bool:
    """Whether nothing differs but offsets that were dropped, and groups that had no others."""
    sets = {f"{PREFIX[Comparison(step.args['move'])]}{FIELDS[each].number:02d}" for each in _SETS}
    if any(each.partition(":")[0] not in sets for each in reasons):
        return False
    before, after = (
        {(row.group, row.topic, row.partition) for row in work.tools.store.offsets(Path(folder), digest)}
        for folder, digest in (
            (each["folder"], each["manifest_sha256"]) for each in (work.snapshot_of(step.args["base"]), taken)
        )
    )
    return before - after <= work.dropped() and not after - before


def _first(reasons: list[str]) -> list[str]:
    """As many as are journaled, and how many there are besides."""
    more = len(reasons) - _SAID
    return [*reasons[:_SAID], *([f"and {more} more, in the folder of the snapshot"] if more > 0 else [])]


def _equal(work: RunWork, step: RunStep, record: RunStepRecord) -> Look:
    if record.result["verdict"] == Verdict.PASS:
        return HOLDS
    said = "; ".join(record.result["reasons"]) or record.result["verdict"]
    detail = f"snapshot {step.subject} is not equal to {step.args['base']}: {said}"
    measured = record.result["verdict"] != Verdict.ERROR
    twice = not measured and step.args.get("acceptable") and record.result.get("told")
    residue = work.residue() if twice else ""
    if residue and LISTED_TOO in said:
        detail += f" ({residue})"
    if step.args.get("anew") or (step.args.get("acceptable") and (measured or residue)):
        if work.said(record):
            return Look(seen=Seen.HOLDS, detail=detail, result={"accepted_by": work.terms.who})
        if step.args.get("hopeless"):
            detail += "; take the run back, or accept it with --seen (such as what expired meanwhile)"
            return Look(seen=Seen.FAILED, detail=detail, hopeless=True)
        then = "the rest is undone too" if step.args.get("anew") else "the run goes on"
        detail += f"; correct that, or accept it with --seen: then {then}"
    return Look(seen=Seen.FAILED, detail=detail, hopeless=bool(step.args.get("hopeless")))


HANDLERS: Mapping[RunAct, Handler[RunWork]] = {
    RunAct.APPROVE: Handler(intend=_requested, act=_approve, read_back=_approved),
    RunAct.SNAPSHOT: Handler(act=_snapshot, read_back=_whole),
    RunAct.COMPARE: Handler(act=_compare, read_back=_equal),
}
"""By what a step does."""
