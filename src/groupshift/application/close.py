"""Close: the phase, verdict and reason with which a run ends."""

from __future__ import annotations

from groupshift.application.approval import answered
from groupshift.application.environment import Environment
from groupshift.application.leftovers import left_behind
from groupshift.application.pack import seal
from groupshift.application.records import Migration, load
from groupshift.domain.judgement import Closing
from groupshift.domain.plan import Choice, Gate, Phase, StageName
from groupshift.domain.verdict import Verdict
from groupshift.ports.journal import Entry, EventKind

SHOWN = 3
"""How many failed findings a reason names; all of them are in the report."""


def close(env: Environment, migration: str, token: int) -> Closing:
    """See `App.close`."""
    found = load(env, migration)
    closing = _closing(env, found, token)
    env.append(
        Entry(
            migration=migration,
            at_ms=env.clock.now_ms(),
            kind=EventKind.CLOSED,
            body={"verdict": closing.verdict.value, "reason": closing.reason},
            token=token,
            phase=closing.phase,
        )
    )
    seal(env, migration)
    return closing


def _closing(env: Environment, found: Migration, token: int) -> Closing:
    match found.phase:
        case Phase.PREVIEW:
            return Closing(
                phase=found.phase, verdict=Verdict.PASS, reason="planned only, nothing was changed"
            )
        case Phase.MOVED | Phase.FINALISED:
            return Closing(phase=found.phase, verdict=Verdict.PASS, reason=_last_reason(found))
        case Phase.PLANNED | Phase.APPROVED | Phase.REJECTED:
            return Closing(phase=Phase.REJECTED, verdict=Verdict.FAIL, reason=_not_approved(found))
        case Phase.ROLLING_BACK | Phase.ROLLED_BACK:
            return _after_roll_back(env, found, token)
        case Phase.RUNNING:
            return _unfinished(found) or _reached(found)


def _last_reason(found: Migration) -> str:
    for event in reversed(found.events):
        if event.kind in {EventKind.KEPT, EventKind.CLOSED}:
            return str(event.body["reason"])
    return str(found.phase)


def _not_approved(found: Migration) -> str:
    failed = failed_judgement(found)
    if failed:
        return f"nothing was changed: {failed}"
    said = answered(found, Gate.PLAN)
    if said is None:
        return "the plan was not answered in time; nothing was changed"
    if said.body["choice"] == Choice.REJECT.value:
        return f"the plan was rejected by {said.body['who']}; nothing was changed"
    return "nothing was changed although the plan was approved"


def failed_judgement(found: Migration) -> str:
    """The sentences of the last failed forward judgement; empty when none failed."""
    for event in reversed(found.events):
        forward = event.kind is EventKind.JUDGED and event.stage and not event.stage.undoes
        if forward and event.body["verdict"] == Verdict.FAIL.value:
            bad = [f for f in event.body["findings"] if f["verdict"] == Verdict.FAIL.value][:SHOWN]
            said = "; ".join(f"{finding['rule']}: {finding['reason']}" for finding in bad)
            return f"stage {event.stage} failed {event.body['moment']} it: {said}"
    return ""


def _after_roll_back(env: Environment, found: Migration, token: int) -> Closing:
    """Rolled back once every stage of the way back is judged as passed.

    The run that moved the group and had to take it back ends red; a run that was asked to take it back
    ends green."""
    unproven = [stage.name for stage in found.undo if not found.passed(stage.name)]
    if unproven:
        reason = _not_back(found, unproven[0])
        return Closing(phase=Phase.ROLLING_BACK, verdict=Verdict.FAIL, reason=reason)
    stays = left_behind(env, found)
    rest = f". {stays.sentence}; remove them with: {stays.command}" if stays else ""
    if _forced(env, found, token):
        why = failed_judgement(found) or "the run could not go on"
        return Closing(phase=Phase.ROLLED_BACK, verdict=Verdict.FAIL, reason=f"rolled back: {why}{rest}")
    begun = found.latest(EventKind.ROLL_BACK_BEGUN)
    to = str(begun.body["to"]).replace("_", " ") if begun else ""
    reason = f"rolled back to {to}, proven equal{rest}"
    return Closing(phase=Phase.ROLLED_BACK, verdict=Verdict.PASS, reason=reason)


def _not_back(found: Migration, stage: StageName) -> str:
    judged = found.latest(EventKind.JUDGED, stage)
    bad = [f for f in judged.body["findings"] if f["verdict"] != Verdict.PASS.value] if judged else []
    why = f"{bad[0]['rule']}: {bad[0]['reason']}" if bad else "not done yet"
    first = failed_judgement(found)
    begun = f"{first}; " if first else ""
    return (
        f"{begun}on the way back stage {stage} is not proven ({why}); "
        f"correct that and run: groupshift roll-back {found.id} --execute"
    )


def _forced(env: Environment, found: Migration, token: int) -> bool:
    """Whether a run had to go back: it says why, or the run that closes is one that acted forward."""
    begun = found.latest(EventKind.ROLL_BACK_BEGUN)
    if begun and begun.body["because"]:
        return True
    claims = env.journal.claims(found.id)
    forward = {
        claims.get(event.token)
        for event in found.events
        if event.kind is EventKind.INTENDED and event.stage and not event.stage.undoes
    }
    return claims.get(token) in forward


def _reached(found: Migration) -> Closing:
    """Every stage of the plan was judged as passed, and there was nothing to finalise."""
    reason = f"{found.book.reached(found.plan)}; the way back is open"
    return Closing(phase=Phase.MOVED, verdict=Verdict.PASS, reason=reason)


def _unfinished(found: Migration) -> Closing | None:
    for gate in (Gate.PLAN, Gate.TOGGLE, Gate.REVIEW, Gate.FINALISE):
        said = answered(found, gate)
        if said and said.body["choice"] in {Choice.REJECT.value, Choice.STOP.value}:
            how = "rejected" if said.body["choice"] == Choice.REJECT.value else "stopped"
            reason = (
                f"gate {gate} was {how} by {said.body['who']}; the group stays as it is, "
                f"take it back with: groupshift roll-back {found.id} --execute"
            )
            return Closing(phase=Phase.MOVED, verdict=Verdict.INCONCLUSIVE, reason=reason)
    open_ = [s.name for s in found.plan.stages if s.name is not StageName.FINALISE]
    open_ = [name for name in open_ if not found.passed(name)]
    if not open_:
        return None
    why = failed_judgement(found) or f"the run ended before stage {open_[0]} was judged as passed"
    reason = f"{why}; go on or take it back with: groupshift roll-back {found.id} --execute"
    return Closing(phase=Phase.RUNNING, verdict=Verdict.ERROR, reason=reason)
