"""The pages about runs of the engine, of any move: the latest ones, and one with its steps and decisions."""

# No future annotations: FastAPI reads the types of dependencies where the functions are made.
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.adapters.system import SystemClock
from groupshift.domain.run import RunState
from groupshift.engine.move import Run, Section, Tools
from groupshift.engine.registry import moves
from groupshift.engine.status import report_of, status_of
from groupshift.errors import Rejected
from groupshift.ports.runs import RunRecord, Runs
from groupshift_airflow.hooks import base_settings
from groupshift_airflow.web import view
from groupshift_airflow.web.rendering import REFRESH_S, rendered, slashed

_LISTED = 100
_FORBIDDEN = 403
runs_of_engine = APIRouter(prefix="/runs")


@runs_of_engine.get("/", response_class=HTMLResponse)
def listed(request: Request, user: GetUserDep) -> Response:
    """The latest runs that this user may read, newest first."""
    with _journal() as runs:
        rows = [each for each in runs.recent(_LISTED) if _may_read(user, each)]
    return rendered(request, "engine_runs.html", runs=rows, moment=view.moment)


@runs_of_engine.get("/{run}", response_class=RedirectResponse)
def with_slash(request: Request, run: str) -> str:
    """As its own address is written."""
    return slashed(request, run)


@runs_of_engine.get("/{run}/", response_class=HTMLResponse)
def one(request: Request, run: str, user: GetUserDep) -> Response:
    """One run as it stands now, from the journal. `Rejected` for one that is not known."""
    with _journal() as runs:
        record = runs.find(run)
        if not _may_read(user, record):
            raise HTTPException(_FORBIDDEN, "you may not read runs of the DAG that began this one")
        return _page(request, runs, record)


def of_run(request: Request, pushed: Any) -> Response | None:
    """The page of what a run of a DAG works on (``pushed`` by its plan); None where that is no run of the
    engine. Who asks may read runs of that DAG, whose plan shows the run."""
    if not isinstance(pushed, str):
        return None
    with _journal() as runs:
        try:
            record = runs.find(pushed)
        except Rejected:
            return None
        return _page(request, runs, record)


def _page(request: Request, runs: Runs, record: RunRecord) -> Response:
    status = status_of(runs, record.run)
    sections: tuple[Section, ...] = ()
    move = moves().get(record.move)
    if move is not None:
        sections = report_of(Run.reader(move, Tools(runs=runs, clock=SystemClock()), None, record.run))
    return rendered(
        request,
        "engine_run.html",
        run=record,
        now=status,
        sections=sections,
        asked=json.loads(record.request),
        moment=view.moment,
        refresh=REFRESH_S if record.state.is_open else 0,
        verdict=_VERDICTS.get(record.state, "inconclusive"),
    )


_VERDICTS = {
    RunState.MOVED: "pass",
    RunState.FINALISED: "pass",
    RunState.PREVIEW: "pass",
    RunState.ROLLED_BACK: "error",
    RunState.REJECTED: "error",
}


def _may_read(user: Any, run: RunRecord) -> bool:
    """Whether a user may read runs of the DAG that began this one; one of the command line has none."""
    dag_id, _, begun = run.origin.partition("/")
    if not begun:
        return True
    details, entity = DagDetails(id=dag_id), DagAccessEntity.RUN
    manager = get_auth_manager()
    return bool(manager.is_authorized_dag(method="GET", access_entity=entity, details=details, user=user))


@contextmanager
def _journal() -> Iterator[Runs]:
    """Of this deployment. Raises `Rejected` where its settings name none that can be used."""
    url = base_settings().get("journal", {}).get("url", "")
    if not url:
        raise Rejected("the settings of this deployment name no journal: add journal.url")
    runs = SqlRuns(str(url))
    try:
        yield runs
    finally:
        runs.close()
