"""The move ``protocol``: members of one group speak the other rebalance protocol."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from groupshift.domain.run import Checked, Findings, Plan, RunState, Step, StepRecord, Target
from groupshift.engine.group_move import GroupMove
from groupshift.engine.move import Aspects, Run
from groupshift.engine.questions import Observed, Section
from groupshift.moves.protocol import facts, report, rules
from groupshift.moves.protocol import plan as plans
from groupshift.moves.protocol.facts import LiveGroup, ProtocolPorts, ProtocolRequest
from groupshift.moves.protocol.liveness import Watcher
from groupshift.moves.protocol.steps import HANDLERS
from groupshift.report.history import History
from groupshift.report.kept import Kept
from groupshift.report.run_page import PageParts


class ProtocolMove(GroupMove[ProtocolPorts]):
    """See the package."""

    name = "protocol"
    request = ProtocolRequest
    ports = ProtocolPorts
    back_to = (plans.OLD_MEMBERS,)
    heals = rules.HEALS
    handlers = HANDLERS

    def target(self, ports: ProtocolPorts, request: ProtocolRequest) -> Target:
        """See `Move`."""
        view = ports.side.groups.read(request.group)
        within = view.protocol.cluster_id if view.protocol else ""
        return Target(kind="group", name=request.group, within=within)

    def look(self, ports: ProtocolPorts, request: ProtocolRequest) -> LiveGroup:
        """See `Move`."""
        return facts.look(ports, request)

    def assess(self, request: ProtocolRequest, facts: LiveGroup) -> Findings:
        """See `Move`."""
        return rules.assess(request, facts)

    def observed(self, request: ProtocolRequest, facts: LiveGroup) -> Observed:
        """See `Move`: the members, and what the coordinator will answer."""
        return report.observed(request, facts)

    def plan(self, request: ProtocolRequest, facts: LiveGroup) -> Plan:
        """See `Move`."""
        return plans.plan(request, facts)

    def fingerprint(self, facts: LiveGroup, begun: Collection[str]) -> Aspects:
        """See `Move`. An act behind the first one compares with what the last judge met, so nothing that the
        run itself changed is left out."""
        del begun
        return facts.aspects

    def roll_back_plan(
        self, run: Run[ProtocolPorts], begun: Mapping[str, StepRecord], facts: LiveGroup, to: str
    ) -> Plan:
        """See `Move`. There is one way back only."""
        del begun, to
        return plans.roll_back_plan(run.there, run.records, len(run.rollbacks()) + 1, facts.terms)

    def watch(self, run: Run[ProtocolPorts]) -> Checked:
        """See `Move`: one look."""
        return self.watcher(run)()

    def watcher(self, run: Run[ProtocolPorts]) -> Callable[[], Checked]:
        """See `Move`. The group is of the wanted type with all members on its epochs, and everybody whom the
        driver has in a place is a member that commits."""
        return Watcher(run).look

    def closing(self, run: Run[ProtocolPorts], state: RunState) -> tuple[str, str]:
        """See `Move`."""
        return report.closing(run.there, state), ""

    def pause(self, plan: Plan, ahead: Sequence[Step]) -> str:
        """See `Move`."""
        return report.pause(plan, ahead)

    def report(self, run: Run[ProtocolPorts]) -> Sequence[Section]:
        """See `Move`."""
        return report.sections(run)

    def page(self, run: Run[ProtocolPorts], history: History, kept: Kept | None) -> PageParts:
        """See `groupshift.report.run_page.PageParts`."""
        return report.page(run, history, kept)
