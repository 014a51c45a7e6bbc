"""What the journal tells of one downgrade."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.application.downgrade_plan import RunPlan, from_json, way_back
from groupshift.application.node_intervals import intervals_of
from groupshift.application.run_account import RunAccount, account
from groupshift.domain.step import RunAct, RunStep
from groupshift.ports.journal import ClusterRun, RunStepRecord
from groupshift.report.runs import NodeInterval

DowngradeAccount = RunAccount[RunPlan]


def account_of(run: ClusterRun, records: Mapping[str, RunStepRecord]) -> DowngradeAccount:
    """From the journal alone. Raises `Rejected` for a plan of another version."""
    return account(run, records, from_json(run.plan), way_back)


def intervals(account: DowngradeAccount) -> tuple[NodeInterval, ...]:
    """The release of each node, from the plan to what was journaled last; nodes in the order of the plan."""
    plan = account.plan

    def ran(step: RunStep) -> str:
        return plan.now if step.args.get("back") else plan.release

    return intervals_of(account, RunAct.REPLACE, plan.now, ran)
