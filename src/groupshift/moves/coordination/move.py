"""The move: what the engine asks of it, and the same move as one write of the mode node.

Source: docs/reference/zookeeper-coordination.md §9 (the path), §8.10 (what a write of the mode needs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from groupshift.domain.modes import Mode
from groupshift.domain.plan import PhaseName, Until, WayBack
from groupshift.domain.run import (
    Checked,
    Findings,
    Outcome,
    Plan,
    Step,
    StepRecord,
    StepState,
    Target,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.group import group_of
from groupshift.engine.group_move import GroupMove
from groupshift.engine.handlers import Judge
from groupshift.engine.move import Run
from groupshift.moves.coordination import facts as facts_of_group
from groupshift.moves.coordination import plan_and_rollback as plans
from groupshift.moves.coordination import report as reports
from groupshift.moves.coordination import rules
from groupshift.moves.coordination.facts import CoordinationPorts, CoordinationRequest, LiveGroup
from groupshift.moves.coordination.steps import HANDLERS, take_fence


class CoordinationMove(GroupMove[CoordinationPorts]):
    """Moves a group of old consumers from ZooKeeper to Kafka, member by member."""

    name = "coordination"
    request = CoordinationRequest
    ports = CoordinationPorts
    back_to: tuple[str, ...] = (WayBack.OLD_MEMBERS.value, WayBack.ZOOKEEPER_MODE.value)
    heals = rules.HEALS
    handlers = HANDLERS
    look = staticmethod(facts_of_group.look)
    glance = look_back = staticmethod(facts_of_group.glance)
    assess = staticmethod(rules.assess)
    plan = staticmethod(plans.plan)
    closing = staticmethod(reports.closing)
    pause = staticmethod(reports.pause)
    shown = staticmethod(reports.shown)
    report = staticmethod(reports.report_sections)
    page = staticmethod(reports.page)

    def target(self, ports: CoordinationPorts, request: CoordinationRequest) -> Target:
        """See `Move`."""
        return Target(kind="group", name=request.group, within=ports.side.cluster_id())

    def fence(self, run: Run[CoordinationPorts], when: Literal["claimed", "rolling_back"]) -> None:
        """See `Move`. ZooKeeper is told whose writes of the mode count; a driver, that a rollback begins."""
        if when == "claimed":
            take_fence(run)
        super().fence(run, when)

    def may_roll_back(self, run: Run[CoordinationPorts], facts: LiveGroup) -> Finding:
        """See `Move`. A mode node that the run removed closes it, whatever the journal says."""
        view, records = facts.facts.view, run.records
        toggles = [each.key for each in run.there.steps if each.kind == plans.SET_MODE]
        toggled = any(key in records and records[key].state is StepState.DONE for key in toggles)
        if toggled and view.mode.data is None and not view.ids:
            reason = f"the mode node of group {group_of(run)} is gone, and no member is in ZooKeeper"
            hint = "plan a new run instead"
            return Finding(rule="R00", verdict=Verdict.FAIL, reason=reason, hint=hint)
        return Finding(rule="R00", verdict=Verdict.PASS, reason="the group can go back to ZooKeeper")

    def roll_back_plan(
        self, run: Run[CoordinationPorts], begun: Mapping[str, StepRecord], facts: LiveGroup, to: str
    ) -> Plan:
        """See `Move`."""
        number = len(run.rollbacks()) + 1
        return plans.roll_back_plan(run.there, run.records, number, facts, WayBack(to))

    def falls_back_to(self, run: Run[CoordinationPorts]) -> str:
        """See `Move`. What only set the mode goes back by the mode, whoever drives it."""
        return WayBack.ZOOKEEPER_MODE.value if plans.is_alone(run.there) else self.back_to[0]

    def watch(self, run: Run[CoordinationPorts]) -> Checked:
        """Ask what the soak asked, in the mode that the run led to."""
        if run.going_back:
            return Checked(outcome=Outcome.PASS, detail="the run was taken back: there is nothing to watch")
        checked = rules.RULES.soaks(run, Step(phase=PhaseName.SOAK, kind="soak"))
        detail = "a group can change as long as it has members: watch it again after each change of them"
        return replace(checked, detail=detail, heals=False)


class _JudgeAlone(Judge[CoordinationPorts]):
    """Nobody can be asked about a doubt: it lets the run go on, and stays in the history."""

    def check(self, run: Run[CoordinationPorts], step: Step, record: StepRecord) -> Checked:
        """See `Handler`."""
        checked = super().check(run, step, record)
        return replace(checked, outcome=Outcome.PASS) if checked.outcome is Outcome.INCONCLUSIVE else checked


_HANDLERS = {**HANDLERS, "judge": _JudgeAlone(rules.RULES.live)}


class ModeAlone(CoordinationMove):
    """One write of the mode node with nobody there: what scans run. Its runs are runs of the move: whoever
    continues, watches or takes one back does so as with any other.

    Sets the mode of a group to ``to`` and judges the group by live rules alone. The step itself asks the
    preconditions, so nothing is assessed before. A rollback is one write, too."""

    back_to = (WayBack.ZOOKEEPER_MODE.value,)
    handlers = _HANDLERS
    look = staticmethod(facts_of_group.glance)

    def __init__(self, to: Mode) -> None:
        self.to = to

    def of(self, group: str) -> CoordinationRequest:
        """Return the request for a group."""
        return CoordinationRequest(
            group=group, until=Until.TOGGLE, driver=plans.MANUAL, canary_watch=0, soak=0
        )

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
