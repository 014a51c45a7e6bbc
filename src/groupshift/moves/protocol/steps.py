"""How each kind of step is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupshift.domain.run import Checked, Findings, Outcome, Step, outcome_of
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.group import GroupMeasurements, ask_live
from groupshift.engine.handlers import Approve, Compare, Judge, Soak, TakeSnapshot
from groupshift.engine.members import REPLACE_MEMBERS, ReplaceMembers
from groupshift.engine.move import Handler, Run
from groupshift.moves.protocol.facts import ProtocolPorts, look
from groupshift.moves.protocol.rules import ProtocolRules

RULES = ProtocolRules()
MEASUREMENTS = GroupMeasurements(RULES)


def tells(run: Run[ProtocolPorts], _step: Step) -> Findings:
    """Return what speaks against showing a gate now: the coordinator of a classic group that rebalances does
    not tell what its members subscribe to."""
    hides = look(run.ports, run.request).hides
    verdict = Verdict.FAIL if hides else Verdict.PASS
    return (Finding(rule="PR02", verdict=verdict, reason="the coordinator tells each subscription"),)


def soaks(run: Run[ProtocolPorts], step: Step) -> Checked:
    """Look once at the group while it soaks."""
    findings = ask_live(run, RULES.after(step), RULES.wanted(run, step))
    outcome = outcome_of(findings)
    return Checked(outcome=outcome, findings=findings, heals=outcome in {Outcome.FAIL, Outcome.ERROR})


HANDLERS: Mapping[str, Handler[Any]] = {
    "approve": Approve(tells),
    "snapshot": TakeSnapshot(MEASUREMENTS.take, MEASUREMENTS.digest, MEASUREMENTS.calm),
    "compare": Compare(MEASUREMENTS.job, MEASUREMENTS.read),
    "judge": Judge(MEASUREMENTS.live),
    "soak": Soak(soaks),
    REPLACE_MEMBERS: ReplaceMembers(RULES),
}
