"""What the journal tells of one expansion."""

from __future__ import annotations

from collections.abc import Mapping

from groupshift.application.run_account import RunAccount, Stretch, account, result_of, stretches_of
from groupshift.domain.cluster_run.progress import Stand
from groupshift.domain.cluster_run.steps import RunAct
from groupshift.domain.expansion.run_plan import ExpansionPlan, from_json, way_back
from groupshift.ports.cluster_runs import ClusterRun, RunStepRecord

ExpansionAccount = RunAccount[ExpansionPlan]


def account_of(run: ClusterRun, records: Mapping[str, RunStepRecord]) -> ExpansionAccount:
    """From the journal alone. Raises `ValueError` for a plan of another version."""
    return account(run, records, from_json(run.plan), way_back)


def stretches(account: ExpansionAccount) -> tuple[Stretch, ...]:
    """The count by which each broker coordinates, from the plan to what was journaled last; the one that is
    restarted first is the first."""
    plan = account.plan
    return stretches_of(account, RunAct.RESTART, str(plan.before), lambda _step: str(plan.to))


def closed(account: ExpansionAccount) -> bool:
    """Whether there is only the way forward: partitions were to be made, or a broker to be restarted."""
    acts = (*account.of_act(RunAct.CREATE_PARTITIONS), *account.of_act(RunAct.RESTART))
    return any(each.stand is not Stand.UNTOUCHED for each in acts)


def restored(account: ExpansionAccount) -> int | None:
    """How many offsets were committed again and read back as they were, or on the way back; None while none
    were."""
    found = [each for each in account.steps if each.step.act is RunAct.RESTORE and result_of(each)]
    return int(result_of(found[-1])["equal"]) if found else None


def away_ms(account: ExpansionAccount) -> tuple[int, int] | None:
    """From when to when (epoch ms) no client was allowed: from the drain to the last audit, or so far; None
    while there was no drain."""
    since = next((each.at_ms for each in account.of_act(RunAct.DRAIN) if each.at_ms), 0)
    return (since, account.ended_ms) if since else None
