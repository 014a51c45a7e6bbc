"""One write of the mode node with nobody there: what scans run. Its runs are runs of the move: whoever
continues, watches or takes one back does so as with any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from groupshift.domain.modes import Mode
from groupshift.domain.plan import Until, WayBack
from groupshift.domain.run import Checked, Findings, Outcome, Plan, Step, StepRecord
from groupshift.engine.handlers import Judge
from groupshift.engine.move import Run
from groupshift.moves.coordination import facts as observed
from groupshift.moves.coordination import plan as plans
from groupshift.moves.coordination.facts import CoordinationPorts, CoordinationRequest, LiveGroup
from groupshift.moves.coordination.move import CoordinationMove
from groupshift.moves.coordination.rules import RULES
from groupshift.moves.coordination.steps import HANDLERS


class _JudgeAlone(Judge[CoordinationPorts]):
    """Nobody can be asked about a doubt: it lets the run go on, and stays in the history."""

    def check(self, run: Run[CoordinationPorts], step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        found = super().check(run, step, record)
        return replace(found, outcome=Outcome.PASS) if found.outcome is Outcome.INCONCLUSIVE else found


_HANDLERS = {**HANDLERS, "judge": _JudgeAlone(RULES.live)}


class ModeAlone(CoordinationMove):
    """Sets the mode of a group to ``to`` and judges the group by live rules alone. The step itself asks the
    preconditions, so nothing is assessed before. A rollback is one write, too."""

    back_to = (WayBack.ZOOKEEPER_MODE.value,)
    handlers = _HANDLERS

    def __init__(self, to: Mode) -> None:
        self.to = to

    def of(self, group: str) -> CoordinationRequest:
        """Return the request for a group."""
        return CoordinationRequest(
            group=group, until=Until.TOGGLE, driver=plans.MANUAL, canary_watch=0, soak=0
        )

    def look(self, ports: CoordinationPorts, request: CoordinationRequest) -> LiveGroup:
        """See `Move`."""
        return observed.glance(ports, request)

    def assess(self, request: CoordinationRequest, facts: LiveGroup) -> Findings:
        """See `Move`."""
        return ()

    def plan(self, request: CoordinationRequest, facts: LiveGroup) -> Plan:
        """See `Move`."""
        return plans.mode_alone(request.group, self.to, facts.terms)

    def roll_back_plan(
        self, run: Run[CoordinationPorts], begun: Mapping[str, StepRecord], facts: LiveGroup, to: str
    ) -> Plan:
        """See `Move`."""
        return plans.back_alone(run.there, run.records, len(run.rollbacks()) + 1, facts.terms)
