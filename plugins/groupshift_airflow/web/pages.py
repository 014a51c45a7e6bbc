"""The pages: migrations, one migration, its reports; each demands a login and the right to read runs."""

import html
from collections.abc import Awaitable, Callable

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from groupshift.application.group_report import render, sealed_rows
from groupshift.application.status import MigrationStatus
from groupshift.domain.foreign_text import visible
from groupshift.domain.plan import OPEN
from groupshift.errors import GroupshiftError, Rejected
from groupshift_airflow.hooks import build_reading_app
from groupshift_airflow.links import page_url
from groupshift_airflow.web import audit_pages, engine_pages, run_pages, view
from groupshift_airflow.web.holding import held
from groupshift_airflow.web.rendering import POLICY, REFRESH_S, framed, rendered, sandboxed, slashed

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
pages.include_router(engine_pages.runs_of_engine)
for _router in run_pages.routers():
    pages.include_router(_router)


@pages.middleware("http")
async def harden(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """No script but that of a page in Airflow's look, no foreign address, no sniffing, framed by Airflow
    only."""
    answer = await call_next(request)
    answer.headers.setdefault("Content-Security-Policy", f"{POLICY}; frame-ancestors 'self'")
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers["Cache-Control"] = "no-store"
    return answer


@pages.exception_handler(HTTPException)
async def refuse(request: Request, error: HTTPException) -> Response:
    """Send a browser to the login and back; everybody else gets the plain status."""
    if error.status_code == _UNAUTHENTICATED and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(get_auth_manager().get_url_login(next_url=_address(request)))
    return HTMLResponse(f"<p>{html.escape(visible(str(error.detail)))}</p>", status_code=error.status_code)


@pages.exception_handler(GroupshiftError)
async def explain(request: Request, error: GroupshiftError) -> Response:
    """One sentence instead of a stack trace."""
    status = 404 if isinstance(error, Rejected) else 503
    return rendered(request, "problem.html", status=status, sentence=str(error))


@pages.get("/", response_class=HTMLResponse)
def migrations(request: Request, user: GetUserDep) -> Response:
    """The latest migrations, newest first."""
    return rendered(
        request, "migrations.html", migrations=_found(None), moment=view.moment, user=user.get_name()
    )


@pages.get(
    "/run",
    response_class=HTMLResponse,
    dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))],  # of the DAG that is asked for
)
def of_run(request: Request, dag_id: str, run_id: str) -> Response:
    """The migration, downgrade or expansion an Airflow run works on, or the audit it kept (the tab of a
    run)."""
    if dag_id == audit_pages.AUDIT_DAG:
        return audit_pages.of_run(request, run_id)
    if dag_id in run_pages.DAGS:
        return run_pages.of_run(request, dag_id, run_id)
    answer = engine_pages.of_run(request, run_pages.pushed_by(dag_id, run_id))
    if answer is not None:
        return answer
    key = f"{dag_id}/{run_id}"
    for found in _found(None):
        if view.made_by(found, key):
            return _page(request, found, base=f"migrations/{found.migration}/")
    sentence = run_pages.refusal(dag_id, run_id) or "This run has not made or taken over a migration yet."
    return rendered(request, "problem.html", sentence=sentence)


@pages.get("/migrations/{migration}", response_class=RedirectResponse)
def with_slash(request: Request, migration: str) -> str:
    """Reports are relative to the page, so it ends with a slash."""
    return slashed(request, migration)


@pages.get("/migrations/{migration}/", response_class=HTMLResponse)
def one(request: Request, migration: str) -> Response:
    """One migration: phase, who holds it, stages, verdicts, reports, journal."""
    (found,) = _found(migration)
    return _page(request, found, base="")


@pages.get("/migrations/{migration}/report")
def whole_report(request: Request, migration: str) -> Response:
    """The report of the whole migration as it stands now, from journal and evidence."""
    if around := framed(request):
        return around
    with build_reading_app() as app:
        account, pack = app.account(migration), app.pack(migration)
    return sandboxed(request, render(account, sealed_rows(pack)))


@pages.get("/migrations/{migration}/reports/{stage}/{moment}")
def report(request: Request, migration: str, stage: str, moment: str, shown: str = "") -> Response:
    """A report as the Spark job wrote it, shown without any right to run or fetch anything. One that is not
    the one that was judged is shown below a banner, in a frame that cannot cover it (``shown=as-it-is``)."""
    if around := framed(request):
        return around
    with build_reading_app() as app:
        text, why = app.stage_report(migration, stage, moment)
    if not why or shown == "as-it-is":
        return sandboxed(request, text)
    answer = rendered(request, "altered.html", sentence=why)
    answer.headers["Content-Security-Policy"] = f"{POLICY}; frame-src 'self'; frame-ancestors 'self'"
    return answer


def _found(migration: str | None) -> tuple[MigrationStatus, ...]:
    with build_reading_app() as app:
        return app.status(migration)[:_LISTED]


def _page(request: Request, found: MigrationStatus, base: str) -> Response:
    return rendered(
        request,
        "migration.html",
        found=found,
        base=base,
        held=held(found),
        refresh=REFRESH_S if found.phase in OPEN else 0,
        stages=view.stage_rows(found),
        events=view.event_rows(found.events),
        moment=view.moment,
    )


def _address(request: Request) -> str:
    """This page as a browser asks for it: a proxy may have changed the name of the host."""
    path = request.url.path.removeprefix(str(request.scope.get("root_path", "")))
    address = page_url(path)
    if address.startswith("/"):
        return str(request.url)
    return f"{address}?{request.url.query}" if request.url.query else address
