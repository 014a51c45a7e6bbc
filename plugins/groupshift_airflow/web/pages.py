"""The pages: migrations, one migration, its reports; each demands a login and the right to read runs."""

import html
from collections.abc import Awaitable, Callable
from pathlib import Path

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from groupshift.application.status import MigrationStatus
from groupshift.errors import GroupshiftError, Rejected
from groupshift.spark.account.document import render, sealed_rows
from groupshift_airflow.hooks import build_reading_app
from groupshift_airflow.web import audit_pages, run_pages, view
from groupshift_airflow.web.rendering import POLICY, rendered, sandboxed

_LISTED = 100
_READS_RUNS = Depends(requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id="migrate_coordination"))
_UNAUTHENTICATED = 401

pages = FastAPI(
    title="groupshift",
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
    dependencies=[Depends(requires_access_view(AccessView.WEBSITE)), _READS_RUNS],
)
pages.include_router(audit_pages.audits)
for _router in run_pages.routers():
    pages.include_router(_router)


@pages.middleware("http")
async def harden(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """No script, no foreign address, no sniffing, framed by Airflow only."""
    answer = await call_next(request)
    answer.headers.setdefault("Content-Security-Policy", f"{POLICY}; frame-ancestors 'self'")
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers["Cache-Control"] = "no-store"
    return answer


@pages.exception_handler(HTTPException)
async def refuse(request: Request, error: HTTPException) -> Response:
    """Send a browser to the login and back; everybody else gets the plain status."""
    if error.status_code == _UNAUTHENTICATED and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(get_auth_manager().get_url_login(next_url=str(request.url)))
    return HTMLResponse(f"<p>{html.escape(str(error.detail))}</p>", status_code=error.status_code)


@pages.exception_handler(GroupshiftError)
async def explain(request: Request, error: GroupshiftError) -> Response:  # noqa: ARG001 - FastAPI's signature
    """One sentence instead of a stack trace."""
    status = 404 if isinstance(error, Rejected) else 503
    return HTMLResponse(rendered("problem.html", sentence=str(error)), status_code=status)


@pages.get("/", response_class=HTMLResponse)
def migrations(user: GetUserDep) -> str:
    """The latest migrations, newest first."""
    return rendered("migrations.html", migrations=_found(None), moment=view.moment, user=user.get_name())


@pages.get(
    "/run",
    response_class=HTMLResponse,
    dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))],  # of the DAG that is asked for
)
def of_run(dag_id: str, run_id: str) -> Response:
    """The migration, downgrade or expansion an Airflow run works on, or the audit it kept (the tab of a
    run)."""
    if dag_id == audit_pages.AUDIT_DAG:
        return audit_pages.of_run(run_id)
    if dag_id in run_pages.DAGS:
        return run_pages.of_run(dag_id, run_id)
    key = f"{dag_id}/{run_id}"
    for found in _found(None):
        if view.made_by(found, key):
            return HTMLResponse(_page(found, base=f"migrations/{found.migration}/"))
    sentence = run_pages.refusal(dag_id, run_id) or "This run has not made or taken over a migration yet."
    return HTMLResponse(rendered("problem.html", sentence=sentence))


@pages.get("/migrations/{migration}", response_class=RedirectResponse)
def with_slash(request: Request, migration: str) -> str:  # noqa: ARG001 - part of the path
    """Reports are relative to the page, so it ends with a slash."""
    return f"{request.url.path}/"


@pages.get("/migrations/{migration}/", response_class=HTMLResponse)
def one(migration: str) -> str:
    """One migration: phase, stages, verdicts, reports, journal."""
    (found,) = _found(migration)
    return _page(found, base="")


@pages.get("/migrations/{migration}/report")
def whole_report(migration: str) -> Response:
    """The report of the whole migration as it stands now, from journal and evidence."""
    with build_reading_app() as app:
        account, pack = app.account(migration), app.pack(migration)
    return sandboxed(render(account, sealed_rows(pack)))


@pages.get("/migrations/{migration}/reports/{stage}/{moment}")
def report(migration: str, stage: str, moment: str) -> Response:
    """A report as the Spark job wrote it, shown without any right to run or fetch anything."""
    (found,) = _found(migration)
    try:
        path = view.report_path(found, stage, moment)
    except ValueError:
        path = None
    if path is None or not Path(path).is_file():
        raise HTTPException(404, "there is no such report")
    return sandboxed(Path(path).read_text(encoding="utf-8"))


def _found(migration: str | None) -> tuple[MigrationStatus, ...]:
    with build_reading_app() as app:
        return app.status(migration)[:_LISTED]


def _page(found: MigrationStatus, base: str) -> str:
    return rendered(
        "migration.html",
        found=found,
        base=base,
        stages=view.stage_rows(found),
        events=view.event_rows(found.events),
        moment=view.moment,
    )
