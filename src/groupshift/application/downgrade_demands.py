"""What must hold before a process goes on with the run of a downgrade that lies in the journal."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.application.downgrade_work import DowngradeTools
from groupshift.domain.coordinator_log.releases import Coordinator
from groupshift.domain.downgrade.run_plan import from_json
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.cluster_runs import ClusterRun, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What somebody asks for who may mean a run that is open; what is empty or None was not said."""

    release: str = ""
    now: str = ""
    coordinator: Coordinator | None = None
    live: bool = False
    brokers_only: bool = False


def demand_cluster(tools: DowngradeTools, run: ClusterRun) -> None:
    """Raises `Rejected` when the brokers that answer are another cluster's: one journal may hold runs of
    many. Dead ones cannot tell, and their run may go back."""
    try:
        met = tools.reader.cluster_id()
    except Transient:
        return
    if met != run.cluster_id:
        raise Rejected(
            f"run {run.run} is of cluster {run.cluster_id}, and the brokers that answer are of {met}: name "
            f"those of {run.cluster_id}, or the run of {met}; nothing was changed"
        )


def demand_forward(run: ClusterRun) -> None:
    """Raises `Conflict` for a run that is being taken back: who wants it to go on is not who turned it."""
    if run.state is RunState.GOING_BACK:
        raise Conflict(
            f"run {run.run} is being taken back; go on with that: groupshift downgrade back --execute"
        )


def demand_same(run: ClusterRun, wanted: Wanted) -> None:
    """An open run goes on by its own plan. Raises `Rejected`, naming what differs, where another is asked
    for."""
    plan = from_json(run.plan)
    differs = {
        f"to {wanted.release}": wanted.release not in {"", plan.release},
        f"from {wanted.now}": wanted.now not in {"", plan.now},
        f"with the {wanted.coordinator} coordinator": wanted.coordinator not in {None, plan.coordinator},
        "with live commits": wanted.live and not plan.live,
        "of brokers only": wanted.brokers_only and not plan.brokers_only,
    }
    other = [said for said, differ in differs.items() if differ]
    if other:
        of = " of brokers only" if plan.brokers_only else ""
        raise Rejected(
            f"{' and '.join(other)} was asked for, and run {run.run}{of} from {plan.now} to {plan.release} "
            f"with the {plan.coordinator} coordinator is open: go on with it, or take it back with: "
            "groupshift downgrade back --execute"
        )
