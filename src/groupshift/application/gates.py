"""Gates: what a person sees, and what becomes of the answer."""

from __future__ import annotations

from groupshift.application.approval import (
    current,
    demand_approved,
    demand_unchanged,
    require_approver,
    shown,
    voided,
)
from groupshift.application.brief_text import Asked, answers, body, subject
from groupshift.application.environment import Environment
from groupshift.application.observe import look
from groupshift.application.records import Migration, load
from groupshift.domain.judgement import ASK, GateBrief, GateTerms
from groupshift.domain.plan import Answer, Choice, Gate, Phase, StageName
from groupshift.domain.rules import ask
from groupshift.errors import Conflict, Rejected
from groupshift.ports.journal import Entry, Event, EventKind

_ALLOWED = {
    Gate.PLAN: frozenset({Choice.APPROVE, Choice.REJECT}),
    Gate.TOGGLE: frozenset({Choice.APPROVE, Choice.REJECT}),
    Gate.FINALISE: frozenset({Choice.FINALISE, Choice.KEEP, Choice.REJECT}),
    Gate.REVIEW: frozenset({Choice.APPROVE, Choice.REJECT, Choice.STOP}),
}


def brief(
    env: Environment, migration: str, gate: Gate, stage: StageName | None = None, terms: GateTerms = ASK
) -> GateBrief:
    """See `App.brief`. What was shown is journaled, so that an answer can be held against it."""
    found = load(env, migration)
    book, request = found.book, found.request
    again = gate is Gate.PLAN and voided(found) is not None
    rules = book.looked if gate is Gate.PLAN and not again else _rules(found, gate)
    seen = look(env, found.record.group, found.plan.driver, rules, book.aim(request))
    findings = ask(rules, seen) if again or gate is not Gate.PLAN else book.assess(request, seen)
    mark = current(env, found)
    env.append(
        Entry(
            migration=migration,
            at_ms=env.clock.now_ms(),
            kind=EventKind.GATE_SHOWN,
            stage=stage,
            body={"gate": gate.value, "fingerprint": mark.text, "parts": dict(mark.parts)},
        )
    )
    until_s = min(env.thresholds.gate_expiry_s, terms.within_s or env.thresholds.gate_expiry_s)
    by_ms = env.clock.now_ms() + until_s * 1000
    asked = Asked(gate=gate, stage=stage, findings=findings, terms=terms, by_ms=by_ms)
    return GateBrief(
        gate=gate,
        subject=subject(found, gate, stage),
        body=body(found, asked, mark),
        fingerprint=mark.text,
        options=answers(found, gate, stage),
    )


def _rules(migration: Migration, gate: Gate) -> tuple[str, ...]:
    """The preconditions of the stage behind the gate, or of the one whose approval became void."""
    lost = voided(migration)
    if gate is Gate.PLAN and lost is not None:
        return tuple(
            rule for stage in migration.plan.stages if stage.name is lost.stage for rule in stage.before
        )
    return tuple(rule for stage in migration.plan.stages if stage.gate is gate for rule in stage.before)


def answer(env: Environment, migration: str, gate: Gate, given: Answer) -> None:
    """See `App.answer`."""
    found = load(env, migration)
    _usable(gate, given)
    if _repeated(found, gate, given):
        return
    if given.choice in {Choice.APPROVE, Choice.FINALISE}:  # all others change nothing, and are always taken
        require_approver(env.approval, given.who, found.request.actor, gate)
        _demand_fresh(env, found, gate, given)
    env.append(
        Entry(
            migration=migration,
            at_ms=env.clock.now_ms(),
            kind=EventKind.GATE_ANSWERED,
            stage=_reviewed(found, given),
            body={
                "gate": gate.value,
                "choice": given.choice.value,
                "who": given.who,
                "fingerprint": given.fingerprint,
            },
            phase=_next_phase(found, gate, given),
        )
    )


def approved(env: Environment, migration: str, gate: Gate) -> bool:
    """See `App.approved`."""
    found = load(env, migration)
    try:
        demand_approved(env, found, gate)
    except Conflict:
        return False
    return True


def _reviewed(found: Migration, given: Answer) -> StageName | None:
    """The stage that was shown under this fingerprint (gate ``review`` only)."""
    shown_ = [event for event in found.events if event.kind is EventKind.GATE_SHOWN]
    stages = [event.stage for event in shown_ if event.body["fingerprint"] == given.fingerprint]
    return stages[-1] if stages else None


def _usable(gate: Gate, given: Answer) -> None:
    if given.choice not in _ALLOWED[gate]:
        allowed = ", ".join(sorted(choice.value for choice in _ALLOWED[gate]))
        raise Rejected(f"answer {given.choice} does not fit gate {gate}; choose one of {allowed}")
    if not given.who:
        raise Rejected(f"the answer at gate {gate} names nobody; say who answers")


def _repeated(found: Migration, gate: Gate, given: Answer) -> bool:
    """Whether this very answer is the last one at this gate (a killed task answers again)."""
    if voided(found) is not None:
        return False
    last: Event | None = next((e for e in reversed(found.events) if e.kind is EventKind.GATE_ANSWERED), None)
    return bool(
        last
        and last.body["gate"] == gate.value
        and last.body["choice"] == given.choice.value
        and last.body["fingerprint"] == given.fingerprint
    )


def _demand_fresh(env: Environment, found: Migration, gate: Gate, given: Answer) -> None:
    approved = shown(found, gate, given.fingerprint)
    when = max(
        event.at_ms
        for event in found.events
        if event.kind is EventKind.GATE_SHOWN and event.body["fingerprint"] == given.fingerprint
    )
    age_s = (env.clock.now_ms() - when) // 1000
    if age_s > env.thresholds.gate_expiry_s:
        raise Conflict(
            f"approval void: gate {gate} of migration {found.id} was shown {age_s} s ago, longer than "
            f"{env.thresholds.gate_expiry_s} s; open the gate again"
        )
    demand_unchanged(approved, current(env, found), gate)


def _next_phase(found: Migration, gate: Gate, given: Answer) -> Phase | None:
    if gate is not Gate.PLAN or found.phase is not Phase.PLANNED:
        return None
    return Phase.APPROVED if given.choice is Choice.APPROVE else Phase.REJECTED
