"""What must hold before a process goes on with a run that lies in the journal. Whatever the move."""

from __future__ import annotations

from groupshift.application.run_work import RunTools
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.cluster_runs import ClusterRun, RunState


def demand_cluster(tools: RunTools, run: ClusterRun) -> None:
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
    """Raises `Conflict` for a run that is being taken back, or was: who wants it to go on is not who turned
    it, and what he approves is over."""
    if run.state is RunState.TAKEN_BACK:
        raise Conflict(f"run {run.run} was taken back, and nothing was changed now; plan a new one")
    if run.state is RunState.GOING_BACK:
        raise Conflict(
            f"run {run.run} is being taken back; go on with that: groupshift {run.move} back --execute"
        )


def demand_move(run: ClusterRun, name: str) -> None:
    """A cluster does one thing at a time. Raises `Conflict` when its open run is of another move."""
    if run.move != name:
        raise Conflict(
            f"run {run.run} of this cluster is open: end it first, with groupshift {run.move} run --execute "
            f"or groupshift {run.move} back --execute; nothing was changed"
        )
