"""The move ``downgrade``: brokers get an older release, or the old group coordinator, one after the other.

Before the first node the whole cluster is compared; then every node is replaced and all groups are compared
again. A run stops at what it does not understand and stays open: nothing is taken back by itself, because a
rollback replaces nodes, too. Source: KIP-915; docs/reference/group-coordinator.md §6.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from groupshift.domain.group_gauges import COUNTS, CountView
from groupshift.domain.run import Checked, Findings, Outcome, Plan, RunState, Step, StepRecord
from groupshift.engine.handlers import Soak, own_handlers
from groupshift.engine.move import Aspects, Handler, Run
from groupshift.engine.snapshots import (
    ClusterMove,
    CompareClusters,
    Exceptions,
    TakeClusterSnapshot,
    fallen_offsets,
)
from groupshift.moves.downgrade import compaction_steps, steps
from groupshift.moves.downgrade import report as reports
from groupshift.moves.downgrade.facts import (
    DowngradeFacts,
    DowngradePorts,
    DowngradeRequest,
    Downgrading,
    look_at,
)
from groupshift.moves.downgrade.plan_and_rollback import BEFORE_NODES, BEGUN, aspects, planned, rollback
from groupshift.moves.downgrade.rules import ask, obstacles


class _Exceptions(Exceptions[DowngradePorts]):
    def has_log(self, run: Downgrading) -> bool:
        """Whether there is an offsets topic."""
        return bool(run.ports.views.look().partitions)


def _still_answered(run: Downgrading, _step: Step | None = None) -> Checked:
    """Whether every group answers at least what it had before the first node."""
    findings = fallen_offsets(run, BEFORE_NODES)
    bad = [each for each in findings if each.verdict.value != "pass"]
    return Checked(outcome=Outcome.FAIL if bad else Outcome.PASS, findings=findings)


class DowngradeMove(ClusterMove[DowngradePorts]):
    """Brokers to an older release (KIP-915) or to the old group coordinator, one after the other."""

    name = "downgrade"
    request = DowngradeRequest
    ports = DowngradePorts
    changing = BEGUN
    heals = COUNTS
    handlers: Mapping[str, Handler[DowngradePorts]] = {
        **own_handlers(),
        "snapshot": TakeClusterSnapshot(_Exceptions()),
        "compare": CompareClusters(_Exceptions()),
        "soak": Soak(_still_answered),
        "convert": steps.Convert(),
        "convert-empty": steps.Convert(),
        "delete-configs": steps.DeleteConfigs(),
        "set-configs": steps.SetConfigs(),
        "lower": steps.SetLevel(),
        "raise": steps.SetLevel(),
        "quicken-compaction": compaction_steps.QuickenCompaction(),
        "compact": compaction_steps.Compact(),
        "settle-compaction": compaction_steps.SettleCompaction(),
        "await-snapshot": steps.AwaitSnapshot(),
        "prove": steps.Prove(),
        "replace": steps.ReplaceNode(),
    }
    observed = staticmethod(reports.observed)
    plan = staticmethod(planned)
    pause = staticmethod(reports.pause)
    page = staticmethod(reports.page)

    def look(self, ports: DowngradePorts, request: DowngradeRequest) -> DowngradeFacts:
        """See `Move`: the cluster, and all of its offsets log."""
        log = ports.copies(request.segments) if request.segments else ports.log
        facts = look_at(ports.views, log, request)
        if not request.jmx:
            return facts
        gauged = tuple(ports.gauges.read(each) for each in request.jmx)
        brokers = ports.views.look().brokers  # anew, for they are to be of one moment
        counts = CountView(
            gauged=gauged,
            listed={
                each.node_id: Counter((group.kind, group.state) for group in each.groups) for each in brokers
            },
            loading=[each.node_id for each in brokers if each.loading],
        )
        return replace(facts, counts=counts)

    def assess(self, request: DowngradeRequest, facts: DowngradeFacts) -> Findings:
        """See `Move`."""
        return ask(facts)

    def obstacles(self, request: DowngradeRequest, facts: DowngradeFacts, findings: Findings) -> Findings:
        """See `Move`: what no step answers."""
        return obstacles(facts, findings)

    def fingerprint(self, facts: DowngradeFacts | None, begun: Collection[str]) -> Aspects:
        """See `Move`: what the plan was made for, until the run itself changes it."""
        return {} if facts is None else aspects(facts)

    def roll_back_plan(self, run: Downgrading, begun: Mapping[str, StepRecord], facts: None, to: str) -> Plan:
        """See `Move`."""
        return rollback(run.there, begun, len(run.rollbacks()) + 1)

    def watch(self, run: Run[DowngradePorts]) -> Checked:
        """See `Move`."""
        return _still_answered(run)

    def closing(self, run: Run[DowngradePorts], state: RunState) -> tuple[str, str]:
        """See `Move`."""
        if state is not RunState.MOVED:
            return "", ""
        about = run.there.about
        return f"the brokers run {about['release']} with the {about['coordinator']} coordinator", ""
