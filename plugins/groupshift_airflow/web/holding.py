"""Who holds an open migration, since when, and what it waits for: from the journal and from Airflow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import select

from groupshift.application.event_text import event_text
from groupshift.domain.plan import OPEN
from groupshift.ports.journal import EventKind
from groupshift_airflow.links import airflow_path, required_actions, run_path
from groupshift_airflow.web.view import moment

if TYPE_CHECKING:
    from groupshift.application.status import MigrationStatus
    from groupshift.ports.journal import Event

_OVER = frozenset({DagRunState.SUCCESS, DagRunState.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The run that claimed a migration last. ``address`` is its page in Airflow, ``gate`` the page where its
    question is answered; both are empty where there is none. ``ended`` says how it ended, empty before."""

    who: str
    since: str
    waits: str
    address: str = ""
    gate: str = ""
    ended: str = ""


def held(found: MigrationStatus) -> Held | None:
    """None for a migration that is closed, or that nobody has claimed."""
    claim = next((event for event in reversed(found.events) if event.kind is EventKind.CLAIMED), None)
    if claim is None or found.phase not in OPEN:
        return None
    name = str(claim.body.get("run", ""))
    known = Held(who=name, since=moment(claim.at_ms), waits=_last(found.events))
    dag_id, _, run_id = name.partition("/")
    return _in_airflow(known, dag_id, run_id) if run_id else known


def _in_airflow(known: Held, dag_id: str, run_id: str) -> Held:
    """With what Airflow says about this run; unchanged where it does not know it."""
    asked = (
        select(TaskInstance.task_id, TaskInstance.map_index, HITLDetail.subject)
        .join(HITLDetail, HITLDetail.ti_id == TaskInstance.id)
        .where(
            TaskInstance.dag_id == dag_id,
            TaskInstance.run_id == run_id,
            HITLDetail.responded_at.is_(None),
        )
    )
    with create_session() as session:
        state = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        gate = None if state in _OVER else session.execute(asked).first()
    if state is None:
        return known
    found = replace(known, who=f"{dag_id}, run {run_id}", address=airflow_path(run_path(dag_id, run_id)))
    if state in _OVER:
        return replace(found, ended=str(state), waits="nobody: start a run for it, or roll it back")
    if gate is None:
        return found
    place = required_actions(dag_id, run_id, gate.task_id, gate.map_index)
    return replace(found, waits=f"an answer: {gate.subject}", gate=airflow_path(place))


def _last(events: tuple[Event, ...]) -> str:
    """What is journaled last: the run works on what follows it."""
    last = events[-1]
    stage = f"{last.stage}: " if last.stage else ""
    said = event_text(last)
    return f"nobody; last journaled: {stage}{last.kind.value.replace('_', ' ')}{f' ({said})' if said else ''}"
