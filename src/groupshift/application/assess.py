"""Assess: what every rule says about a group, before anything is planned."""

from __future__ import annotations

from groupshift.application.environment import Environment
from groupshift.application.observe import LOOK_AGAIN_S, look
from groupshift.domain.books import BOOKS
from groupshift.domain.judgement import Assessment, Judgement
from groupshift.domain.plan import MoveName, MoveRequest
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected
from groupshift.ports.cluster import findings as identities

_BAD = frozenset({Verdict.FAIL, Verdict.ERROR})


def validated(request: MoveRequest) -> None:
    """Raise `Rejected` with everything wrong with the request's values."""
    problems = BOOKS[request.move].check(request)
    if problems:
        raise Rejected(f"the request cannot be used: {'; '.join(problems)}; correct it and run again")


def assess(env: Environment, request: MoveRequest) -> Assessment:
    """One look at the group: findings for every rule and the tool's own identities (I01, I02), passed ones
    included; findings never raise.

    Where C24 has reason to, a second look, up to one commit interval later."""
    validated(request)
    book = BOOKS[request.move]
    seen = look(env, request.group, request.driver, book.looked, book.aim(request))
    found = book.assess(request, seen)
    return Assessment(view=seen.view, findings=(*found, *identities(env.access.prove(seen.view))))


def assess_patiently(env: Environment, request: MoveRequest) -> tuple[Assessment, tuple[str, ...]]:
    """As `assess`, looking again while rules fail that time may heal; with the reasons that remain."""
    deadline = env.clock.now_ms() + env.thresholds.patience_s * 1000
    while True:
        found = assess(env, request)
        if found.ready or not _may_heal(request, found) or env.clock.now_ms() >= deadline:
            return found, Judgement(findings=found.findings).reasons
        env.clock.sleep(LOOK_AGAIN_S)


def _may_heal(request: MoveRequest, found: Assessment) -> bool:
    """A group that is not there, or has nobody to wait for, and a login that lacks a right do not."""
    there = found.view.exists and (request.move is not MoveName.COORDINATION or bool(found.view.ids))
    bad = {each.rule for each in found.findings if each.verdict in _BAD}
    return there and bad <= set(BOOKS[request.move].heals)
