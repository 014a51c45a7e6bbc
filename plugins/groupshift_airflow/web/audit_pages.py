"""The pages about audits of committed offsets: all that are kept, one, and that of a run."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy import select

from groupshift.audit.report import render
from groupshift.bootstrap.connect import audit_store
from groupshift.errors import GroupshiftError, Rejected
from groupshift_airflow.hooks import evidence_root
from groupshift_airflow.web.rendering import framed, rendered, sandboxed, slashed

AUDIT_DAG = "audit_offsets"
_LISTED = 100
_NO_AUDIT = "This run has kept no audit: its task 'audit' has not ended yet, or its log says why it failed."
_FOLDER_TIME = "%Y%m%dT%H%M%S"
"""As the filter ``ts_nodash`` of `groupshift_airflow.audits.Audit` writes it."""

audits = APIRouter(
    dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id=AUDIT_DAG))]
)


@audits.get("/audits/", response_class=HTMLResponse)
def listed(request: Request) -> Response:
    """Show the latest audits, newest first: name and counts of each; of one that cannot be read the sentence
    that says why."""
    root = _root()
    names = audit_store().names(root)
    summaries: list[dict[str, Any]] = []
    for name in names[::-1][:_LISTED]:
        try:
            summaries.append({"name": name, **audit_store().summary(f"{root}/{name}")})
        except GroupshiftError as broken:
            summaries.append({"name": name, "broken": str(broken)})
    return rendered(request, "audits.html", audits=summaries, left=len(names) - len(summaries))


@audits.get("/audits/{folder}", response_class=RedirectResponse)
def with_slash(request: Request, folder: str) -> str:
    """As its own address is written."""
    return slashed(request, folder)


@audits.get("/audits/{folder}/")
def one(request: Request, folder: str) -> Response:
    """Show one audit, from its rows as they are kept; altered ones are not shown.

    Raises:
        Rejected: it is none of those that are listed; so no path comes from a person.
    """
    if folder not in audit_store().names(_root()):
        raise Rejected(f"there is no audit {folder} in this deployment's evidence")
    return _document(request, folder)


def of_run(request: Request, run_id: str) -> Response:
    """Show the last audit that this run of ``audit_offsets`` kept."""
    with create_session() as session:
        wanted = select(DagRun.run_after).where(DagRun.dag_id == AUDIT_DAG, DagRun.run_id == run_id)
        due = session.scalar(wanted)
    start = "" if due is None else f"{due.strftime(_FOLDER_TIME)}-"
    tries = [name for name in audit_store().names(_root()) if start and name.startswith(start)]
    if not tries:
        return rendered(request, "problem.html", sentence=_NO_AUDIT)
    return _document(request, max(tries, key=lambda name: (len(name), name)))


def _root() -> str:
    """Where this deployment's audits are kept."""
    return f"{evidence_root()}/audits"


def _document(request: Request, folder: str) -> Response:
    """The report of one audit, or the page around it where it is asked for in the look of Airflow."""
    if around := framed(request):
        return around
    return sandboxed(request, render(audit_store().read(f"{_root()}/{folder}")))
