"""The move ``protocol``: members of one group speak the other rebalance protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from groupshift.domain.run import Checked, Plan, StepRecord, Target
from groupshift.engine.group import LiveGroup
from groupshift.engine.group_move import GroupMove
from groupshift.engine.move import Run
from groupshift.moves.protocol import facts, rules
from groupshift.moves.protocol import plan_and_rollback as plans
from groupshift.moves.protocol import report as reports
from groupshift.moves.protocol.facts import ProtocolPorts, ProtocolRequest
from groupshift.moves.protocol.liveness import Watcher
from groupshift.moves.protocol.steps import HANDLERS


class ProtocolMove(GroupMove[ProtocolPorts]):
    """See the package."""

    name = "protocol"
    request = ProtocolRequest
    ports = ProtocolPorts
    back_to = (plans.OLD_MEMBERS,)
    heals = rules.HEALS
    handlers = HANDLERS
    look = staticmethod(facts.look)
    assess = staticmethod(rules.assess)
    observed = staticmethod(reports.observed)
    plan = staticmethod(plans.plan)
    closing = staticmethod(reports.closing)
    pause = staticmethod(reports.pause)
    report = staticmethod(reports.report_sections)
    page = staticmethod(reports.page)

    def target(self, ports: ProtocolPorts, request: ProtocolRequest) -> Target:
        """See `Move`."""
        view = ports.side.groups.read(request.group)
        within = view.protocol.cluster_id if view.protocol else ""
        return Target(kind="group", name=request.group, within=within)

    def roll_back_plan(
        self, run: Run[ProtocolPorts], begun: Mapping[str, StepRecord], facts: LiveGroup, to: str
    ) -> Plan:
        """See `Move`. There is one rollback only."""
        del begun, to
        return plans.roll_back_plan(run.there, run.records, len(run.rollbacks()) + 1, facts.terms)

    def watch(self, run: Run[ProtocolPorts]) -> Checked:
        """See `Move`: one look."""
        return self.watcher(run)()

    def watcher(self, run: Run[ProtocolPorts]) -> Callable[[], Checked]:
        """See `Move`. The group is of the wanted type with all members on its epochs, and everybody whom the
        driver has in a place is a member that commits."""
        return Watcher(run).look
