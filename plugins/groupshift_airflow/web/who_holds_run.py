"""Who holds an open run, since when, and what it waits for: from the journal and from Airflow.

Airflow knows whether the run of the DAG that holds it has ended, and at which gate a person is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import select

from groupshift.domain.run import OPEN
from groupshift.engine.status import RunStatus
from groupshift.ports.runs import Event
from groupshift.report.run_history import event_text
from groupshift_airflow.links import airflow_path, required_actions, run_path
from groupshift_airflow.web.rendering import moment

_OVER = frozenset({DagRunState.SUCCESS, DagRunState.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The process that claimed a run last. ``address`` is its page in Airflow, ``gate`` the page where its
    question is answered; both are empty where there is none. ``ended`` says how it ended, empty before."""

    who: str
    since: str
    waits: str
    address: str = ""
    gate: str = ""
    ended: str = ""


def held(now: RunStatus, events: Sequence[Event]) -> Held | None:
    """Return who holds a run; None for one that is over, or that nobody has claimed.

    Where nothing is known that it waits for, it is what was journaled last: the run works on what follows."""
    if not now.holder or now.state not in OPEN:
        return None
    last, said = events[-1], event_text(events[-1])
    step = f"{last.step}: " if last.step else ""
    kind = last.kind.value.replace("_", " ")
    working = f"nobody; last journaled: {step}{kind}{f' ({said})' if said else ''}"
    waits = now.waits_for or (f"an answer at gate {now.question}" if now.question else working)
    ended = "stopped by itself" if now.stopped else ""
    known = Held(who=now.holder, since=moment(now.held_since_ms), waits=waits, ended=ended)
    dag_id, _, run_id = now.holder.partition("/")
    return _in_airflow(known, dag_id, run_id) if run_id else known


def _in_airflow(known: Held, dag_id: str, run_id: str) -> Held:
    """With what Airflow says about this run; unchanged where it does not know it."""
    task = TaskInstance
    query = select(task.task_id, task.map_index, HITLDetail.subject).join(
        HITLDetail, HITLDetail.ti_id == task.id
    )
    query = query.where(task.dag_id == dag_id, task.run_id == run_id, HITLDetail.responded_at.is_(None))
    with create_session() as session:
        state = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        gate = None if state in _OVER else session.execute(query).first()
    if state is None:
        return known
    holder = replace(known, who=f"{dag_id}, run {run_id}", address=airflow_path(run_path(dag_id, run_id)))
    if state in _OVER:
        return replace(holder, ended=str(state), waits="nobody: start a run for it, or roll it back")
    if gate is None:
        return replace(holder, ended="")
    place = airflow_path(required_actions(dag_id, run_id, gate.task_id, gate.map_index))
    return replace(holder, ended="", waits=f"an answer: {gate.subject}", gate=place)
