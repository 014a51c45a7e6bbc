"""The pages about downgrades: all runs that are journaled, the report of one, and that of an Airflow run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from groupshift.application.downgrade_account import account_of
from groupshift.bootstrap.downgrade import cluster_runs
from groupshift.errors import Rejected
from groupshift.ports.cluster_runs import ClusterRun, ClusterRuns
from groupshift.spark.downgrade_report.document import render
from groupshift.spark.downgrade_report.headline import headline
from groupshift_airflow.hooks import base_settings
from groupshift_airflow.operators import PLAN, UNKNOWN
from groupshift_airflow.web import view
from groupshift_airflow.web.rendering import rendered, sandboxed

DOWNGRADE_DAG = "downgrade_coordinator"
_LISTED = 100

downgrades = APIRouter(
    dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id=DOWNGRADE_DAG))]
)


@downgrades.get("/downgrades/", response_class=HTMLResponse)
def listed() -> str:
    """The latest runs, newest first."""
    with _journal() as runs:
        rows = [_row(runs, run) for run in runs.recent(_LISTED, move="downgrade")]
    return rendered("downgrades.html", runs=rows, moment=view.moment)


@downgrades.get("/downgrades/{run}", response_class=RedirectResponse)
def with_slash(request: Request, run: str) -> str:  # noqa: ARG001 - part of the path
    """As its own address is written."""
    return f"{request.url.path}/"


@downgrades.get("/downgrades/{run}/")
def one(run: str) -> Response:
    """The report of one run as it stands now, from the journal. `Rejected` for one that is not known."""
    with _journal() as runs:
        return _document(runs, runs.find(run))


def of_run(run_id: str) -> Response:
    """The report of the downgrade that this run of ``downgrade_coordinator`` works on."""
    with create_session() as session:
        wanted = XComModel.get_many(
            run_id=run_id, key="return_value", task_ids=PLAN, dag_ids=DOWNGRADE_DAG, limit=1
        )
        found = session.scalars(wanted).first()
        named = None if found is None else XComModel.deserialize_value(found)
    if named in {None, UNKNOWN}:
        sentence = "This run has begun no downgrade: its task 'plan' has not ended yet, or only planned."
        return HTMLResponse(rendered("problem.html", sentence=sentence))
    return one(str(named))


@contextmanager
def _journal() -> Iterator[ClusterRuns]:
    """Of this deployment. Raises `Rejected` where its settings name none that can be used."""
    url = base_settings().get("journal", {}).get("url", "")
    if not url:
        raise Rejected("the settings of this deployment name no journal: add journal.url")
    with closing(cluster_runs(str(url))) as runs:
        yield runs


def _document(runs: ClusterRuns, run: ClusterRun) -> Response:
    return sandboxed(render(account_of(run, runs.steps(run.run))))


def _row(runs: ClusterRuns, run: ClusterRun) -> dict[str, Any]:
    account = account_of(run, runs.steps(run.run))
    top = headline(account)
    return {"run": run, "plan": account.plan, "verdict": top.verdict.value, "word": top.word}
