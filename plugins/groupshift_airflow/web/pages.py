"""The pages: runs, one run, its reports; each demands a login and the right to read runs."""

import html
from collections.abc import Awaitable, Callable

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from groupshift.domain.foreign_text_quoting import visible
from groupshift.errors import GroupshiftError, Rejected
from groupshift_airflow.links import page_url
from groupshift_airflow.web import audit_pages, run_pages
from groupshift_airflow.web.rendering import POLICY, rendered

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
pages.include_router(run_pages.runs_of_moves)


@pages.middleware("http")
async def harden(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Let an answer run no script but that of a page in Airflow's look, and fetch nothing from elsewhere.

    No browser guesses its type, none keeps it, and it is framed by Airflow only."""
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
    """Show one sentence instead of a stack trace: 404 for what there is not, 503 for what does not answer."""
    status = 404 if isinstance(error, Rejected) else 503
    return rendered(request, "problem.html", status=status, sentence=str(error))


pages.get("/", response_class=HTMLResponse)(run_pages.listed)


@pages.get(
    "/run",
    response_class=HTMLResponse,
    dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))],  # of the DAG that is asked for
)
def of_run(request: Request, dag_id: str, run_id: str) -> Response:
    """Show the run that an Airflow run works on, or the audit that it kept: the tab of a run of a DAG."""
    if dag_id == audit_pages.AUDIT_DAG:
        return audit_pages.of_run(request, run_id)
    return run_pages.of_run(request, dag_id, run_id)


def _address(request: Request) -> str:
    """This page as a browser asks for it: a proxy may have changed the name of the host."""
    path = request.url.path.removeprefix(str(request.scope.get("root_path", "")))
    address = page_url(path)
    if address.startswith("/"):
        return str(request.url)
    return f"{address}?{request.url.query}" if request.url.query else address
