"""The pages about runs that change a cluster: all of a move that are journaled, the report of one, and that
of an Airflow run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from groupshift.application.run_accounts import account_of
from groupshift.application.run_reports import headline_of, page_of
from groupshift.bootstrap.clusters import cluster_runs
from groupshift.errors import Rejected
from groupshift.ports.journal import NEXT, ClusterRun, ClusterRuns
from groupshift_airflow.hooks import base_settings
from groupshift_airflow.run_tasks import PLAN, REFUSED, UNKNOWN
from groupshift_airflow.web import view
from groupshift_airflow.web.rendering import framed, rendered, sandboxed, slashed

_LISTED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePages:
    """What the pages of a move are called: ``title`` of the list, the DAG's name in Airflow (``trigger``);
    ``ends`` tells from what to what a plan leads."""

    move: str
    title: str
    trigger: str
    ends: Callable[[Any], tuple[object, object]]


_BY_DAG: Mapping[str, MovePages] = {
    "downgrade_coordinator": MovePages(
        move="downgrade",
        title="Downgrades of brokers",
        trigger="Downgrade brokers",
        ends=lambda plan: (plan.now, plan.release),
    ),
    "expand_offsets_topic": MovePages(
        move="expansion",
        title="Expansions of the offsets topic",
        trigger="Expand the offsets topic",
        ends=lambda plan: (f"{plan.before} partitions", plan.to),
    ),
}
DAGS = frozenset(_BY_DAG)
"""The DAGs that drive such runs."""


def routers() -> Iterator[APIRouter]:
    """The pages of each move, for those who may read runs of its DAG."""
    for dag_id, pages in _BY_DAG.items():
        yield _router(dag_id, pages)


def _router(dag_id: str, pages: MovePages) -> APIRouter:
    reads = Depends(requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id=dag_id))
    found = APIRouter(prefix=f"/{pages.move}s", dependencies=[reads])

    @found.get("/", response_class=HTMLResponse)
    def listed(request: Request) -> Response:
        """The latest runs, newest first."""
        with _journal() as runs:
            rows = [_row(pages, runs, run) for run in runs.recent(_LISTED, move=pages.move)]
        return rendered(request, "runs.html", pages=pages, runs=rows, moment=view.moment)

    @found.get("/{run}", response_class=RedirectResponse)
    def with_slash(request: Request, run: str) -> str:
        """As its own address is written."""
        return slashed(request, run)

    @found.get("/{run}/")
    def one(request: Request, run: str) -> Response:
        """The report of one run as it stands now, from the journal. `Rejected` for one that is not known."""
        return _page(request, pages.move, run)

    return found


def of_run(request: Request, dag_id: str, run_id: str) -> Response:
    """The report of what this run of a DAG works on."""
    move = _BY_DAG[dag_id].move
    named = _pushed(dag_id, run_id, "return_value")
    if named in {None, UNKNOWN}:
        only = f"This run has begun no {move}: its task 'plan' has not ended yet, or only planned."
        sentence = refusal(dag_id, run_id) or only
        return rendered(request, "problem.html", sentence=sentence)
    return _page(request, move, str(named))


def pushed_by(dag_id: str, run_id: str) -> Any:
    """Return what the plan of a run of a DAG pushed: an id; None where it has not ended."""
    return _pushed(dag_id, run_id, "return_value")


def refusal(dag_id: str, run_id: str) -> str:
    """Why a run of a DAG was refused before it made anything; empty where it was not."""
    why = _pushed(dag_id, run_id, REFUSED, (PLAN, "assess"))
    return f"This run was refused, and nothing was changed: {why}" if why else ""


def _pushed(dag_id: str, run_id: str, key: str, tasks: tuple[str, ...] = (PLAN,)) -> Any:
    """What one of these tasks of a run pushed under a key, None where none did."""
    with create_session() as session:
        wanted = XComModel.get_many(run_id=run_id, key=key, task_ids=list(tasks), dag_ids=dag_id, limit=1)
        found = session.scalars(wanted).first()
        return None if found is None else XComModel.deserialize_value(found)


def _page(request: Request, move: str, run: str) -> Response:
    with _journal() as runs:
        found = runs.find(run)
        if found.move != move:
            raise Rejected(f"run {run} is a run of {found.move}, not of {move}")
        if around := framed(request, refresh=bool(NEXT[found.state])):
            return around
        return sandboxed(request, page_of(found, runs.steps(run)))


@contextmanager
def _journal() -> Iterator[ClusterRuns]:
    """Of this deployment. Raises `Rejected` where its settings name none that can be used."""
    url = base_settings().get("journal", {}).get("url", "")
    if not url:
        raise Rejected("the settings of this deployment name no journal: add journal.url")
    with closing(cluster_runs(str(url))) as runs:
        yield runs


def _row(pages: MovePages, runs: ClusterRuns, run: ClusterRun) -> dict[str, Any]:
    """One whose plan is of another release is listed all the same."""
    try:
        steps = runs.steps(run.run)
        top, ends = headline_of(run, steps), pages.ends(account_of(run, steps).plan)
    except ValueError:
        return {"run": run, "ends": ("-", "-"), "verdict": "error", "word": "of another release"}
    return {"run": run, "ends": ends, "verdict": top.verdict.value, "word": top.word}
