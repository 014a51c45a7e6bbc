"""Assess: what every rule says about a group, before anything is planned."""

from __future__ import annotations

from groupshift.application.environment import Environment
from groupshift.application.observe import look, patient
from groupshift.domain.access import findings as identities
from groupshift.domain.judgement import Assessment, Judgement
from groupshift.domain.moves import MoveRequest
from groupshift.domain.planning import check
from groupshift.domain.rulebook import ASSESS, assessed, wanted
from groupshift.domain.rules import ask
from groupshift.errors import Rejected


def validated(request: MoveRequest) -> None:
    """Raise `Rejected` with everything wrong with the request's values."""
    problems = check(request)
    if problems:
        raise Rejected(f"the request cannot be used: {'; '.join(problems)}; correct it and run again")


def assess(env: Environment, request: MoveRequest) -> Assessment:
    """One look at the group: findings for every rule and the tool's own identities (I01, I02), passed ones
    included; findings never raise.

    Where C24 has reason to, a second look, up to one commit interval later."""
    validated(request)
    seen = look(env, request.group, request.driver, ASSESS, wanted(request.until))
    ruled = ask(assessed(seen.view, request.until), seen)
    return Assessment(view=seen.view, findings=(*ruled, *identities(env.access.prove(seen.view))))


def assess_patiently(env: Environment, request: MoveRequest) -> tuple[Assessment, tuple[str, ...]]:
    """As `assess`, looking again while rules fail that time may heal; with the reasons that remain."""
    first = assess(env, request)
    if first.ready or not first.view.exists or not first.view.ids:
        return first, ()
    rules = assessed(first.view, request.until)
    seen, judged = patient(env, request.group, request.driver, rules, wanted(request.until))
    found = Judgement(findings=(*judged.findings, *identities(env.access.prove(seen.view))))
    return Assessment(view=seen.view, findings=found.findings), found.reasons
