"""Rehearse: the way back of the toggle, computed and its preconditions checked live."""

from __future__ import annotations

from groupshift.application.environment import Environment
from groupshift.application.observe import patient
from groupshift.application.records import findings_data, load
from groupshift.domain.judgement import Judgement
from groupshift.domain.plan import StageName
from groupshift.domain.planning import stage_of
from groupshift.domain.step import SetMode
from groupshift.domain.verdict import Finding, Verdict
from groupshift.ports.cluster import findings as identities
from groupshift.ports.journal import Entry, EventKind


def rehearse(env: Environment, migration: str) -> Judgement:
    """See `App.rehearse`; a plan without a toggle has nothing to rehearse and passes."""
    found = load(env, migration)
    toggle = found.plan.stage(StageName.TOGGLE)
    if toggle is None or not isinstance(toggle.step, SetMode):
        said = "the plan has no toggle to take back"
        findings: tuple[Finding, ...] = (Finding(rule="R01", verdict=Verdict.PASS, reason=said),)
    else:
        back = stage_of(StageName.UNDO_TOGGLE, toggle.step.inverse)
        rules = tuple(dict.fromkeys((*toggle.before, *back.before)))
        seen, judged = patient(env, found.record.group, found.plan.driver, rules, toggle.step.to)
        way = f"the way back of mode {toggle.step.to} is mode {toggle.step.inverse.to}"
        findings = (Finding(rule="R01", verdict=Verdict.PASS, reason=way), *judged.findings)
        findings = (*findings, *identities(env.access.prove(seen.view)))
    env.append(
        Entry(
            migration=migration,
            at_ms=env.clock.now_ms(),
            kind=EventKind.REHEARSED,
            stage=StageName.TOGGLE,
            body={"findings": findings_data(findings)},
        )
    )
    return Judgement(findings=findings)
