"""What must hold before a process goes on with a run that lies in the journal. Whatever the move."""

from __future__ import annotations

from groupshift.application.run_work import STOPPED, RunTools
from groupshift.domain.modes import taken_over
from groupshift.errors import Conflict, Fenced, Rejected, Transient
from groupshift.ports.journal import ClusterRun, ClusterRuns, RunState


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


def lost_to(runs: ClusterRuns, run: str, holder: str) -> str:
    """Who took the run over from ``holder``, as a sentence; empty while ``holder`` has it, or may have it: a
    process that stopped by itself, waiting for somebody, holds it no longer."""
    claim = runs.held(run)
    if claim is None or claim.holder == holder:
        return ""
    stopped = runs.steps(run).get(STOPPED)
    if stopped is not None and stopped.token == claim.token:
        return ""
    return taken_over("run", claim.holder, claim.at_ms)


def demand_held(runs: ClusterRuns, run: str, holder: str) -> None:
    """Raises `Fenced` when another run than ``holder`` drives this one: it may neither change nor ask. Of a
    closed one nothing is changed or asked by anybody."""
    lost = lost_to(runs, run, holder)
    if lost and runs.find(run).open:
        raise Fenced(f"{lost}; run {run} is driven from there, and nothing more is done or asked here")
