"""What the journal tells of one expansion."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.application.expansion_plan import ExpansionPlan, from_json, way_back
from groupshift.application.expansion_work import COUNTED
from groupshift.application.node_intervals import intervals_of
from groupshift.application.run_account import RunAccount, account, result_of
from groupshift.domain.step import RunAct, Stand
from groupshift.ports.journal import ClusterRun, RunStepRecord
from groupshift.report.runs import NodeInterval

ExpansionAccount = RunAccount[ExpansionPlan]
UNKNOWN = "not asked yet"


def account_of(run: ClusterRun, records: Mapping[str, RunStepRecord]) -> ExpansionAccount:
    """From the journal alone. Raises `Rejected` for a plan of another version."""
    return account(run, records, from_json(run.plan), way_back)


def intervals(account: ExpansionAccount) -> tuple[NodeInterval, ...]:
    """The count by which each broker coordinates, from the plan to what was journaled last; the one that is
    restarted first is the first. What a broker counts after its restart is known when each was asked
    (`UNKNOWN` before)."""
    plan, asked = account.plan, account.of_act(RunAct.PLACE)
    after = str(counted(account)) if all(each.stand is Stand.DONE for each in asked) else UNKNOWN
    return intervals_of(account, RunAct.RESTART, str(plan.before), lambda _step: after)


def counted(account: ExpansionAccount) -> int:
    """How many partitions brokers are to count: the plan's number, or that of somebody else."""
    return made_by_another(account) or account.plan.to


def made_by_another(account: ExpansionAccount) -> int:
    """How many partitions somebody else gave the topic, where that was accepted, or groups were committed
    again by it on the way back; else 0."""
    asked = (each for each in account.steps if each.step.act in {RunAct.PLACE, RunAct.RESTORE})
    return next((int(found) for each in asked if (found := result_of(each).get(COUNTED))), 0)


def closed(account: ExpansionAccount) -> bool:
    """Whether there is only the way forward, as far as the journal can tell: this run made partitions, or a
    broker was to be restarted. Where they were only to be made, the cluster alone can tell."""
    made = any(each.stand in {Stand.ACTED, Stand.DONE} for each in account.of_act(RunAct.CREATE_PARTITIONS))
    restarting = any(each.stand is not Stand.UNTOUCHED for each in account.of_act(RunAct.RESTART))
    return restarting or (made and account.plan.partitions != account.plan.to)


def deleted(account: ExpansionAccount) -> bool:
    """Whether groups were deleted, or were to be."""
    return any(each.stand is not Stand.UNTOUCHED for each in account.of_act(RunAct.DELETE_GROUPS))


def restored(account: ExpansionAccount) -> int | None:
    """How many offsets were committed again and read back as they were, or on the way back; None while none
    were."""
    found = [each for each in account.steps if each.step.act is RunAct.RESTORE and "equal" in result_of(each)]
    return int(result_of(found[-1])["equal"]) if found else None


def expiring(account: ExpansionAccount) -> int:
    """How many offsets of groups that move had an expiry of their own, which a new commit has not."""
    return sum(result_of(each).get("expiring", 0) for each in account.of_act(RunAct.AGREE))


def away_ms(account: ExpansionAccount) -> tuple[int, int] | None:
    """From when to when (epoch ms) no client was allowed: from the drain to the last audit, or so far; None
    while there was no drain."""
    since = next((each.at_ms for each in account.of_act(RunAct.DRAIN) if each.stand is Stand.DONE), 0)
    return (since, account.ended_ms) if since else None
