"""The pages about runs of any move: the latest ones, one with its steps, its report, and what its Spark jobs
reported.

All is from the journal and the evidence of this deployment; no cluster is asked. A user sees the runs that a
DAG began whose runs the user may read, and those of the command line."""

# No future annotations: FastAPI reads the types of dependencies where the functions are made.
import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.adapters.sqlalchemy.scans import SqlScans
from groupshift.bootstrap.moves import evidence_of, page_of
from groupshift.engine.status import status_of
from groupshift.errors import Rejected
from groupshift.ports.runs import RunRecord, Runs
from groupshift.report.kept_evidence import kept_of
from groupshift.report.run_history import QUIET
from groupshift.scan.toggles import ORIGIN
from groupshift.settings import Settings, parse
from groupshift_airflow.hooks import SETTINGS_VARIABLE, base_settings
from groupshift_airflow.run_tasks import PLAN, REFUSED
from groupshift_airflow.scans import ENSEMBLE, SCAN
from groupshift_airflow.web.rendering import POLICY, REFRESH_S, framed, rendered, sandboxed, slashed
from groupshift_airflow.web.who_holds_run import held

_LISTED = 100
"""How many of the latest runs are looked at."""
_FORBIDDEN = 403
_JOB_REPORT = "report.html"
"""The file that a Spark job leaves for people."""
_SCAN, _WATCH = "scan_fleet", "watch_offsets_topic"
_NOTHING = "This run has begun no run of a move: its task 'plan' has not ended yet, or it only planned."
_WATCHES = "This run begins no run of a move: its task 'watch' judges one that is over, and its log says how."
_NO_SCAN = "This run has not scanned yet: its task 'scan' has not ended, or its log says why it failed."
runs_of_moves = APIRouter(prefix="/runs")


def listed(request: Request, user: GetUserDep) -> Response:
    """Show the runs that this user may read: open ones first, then the latest others, newest first."""
    with _journal() as runs:
        open_runs = runs.recent(_LISTED, open_only=True)
        latest = runs.recent(_LISTED + len(open_runs))
        others = [each for each in latest if not each.state.is_open][:_LISTED]
        records = [each for each in (*open_runs, *others) if _may_read(user, each)]
        rows = [{"run": each, "now": status_of(runs, each.run)} for each in records]
    return rendered(request, "runs.html", runs=rows, user=user.get_name())


@runs_of_moves.get("/{run}", response_class=RedirectResponse)
def with_slash(request: Request, run: str) -> str:
    """As its own address is written: reports are relative to the page."""
    return slashed(request, run)


@runs_of_moves.get("/{run}/", response_class=HTMLResponse)
def one(request: Request, run: str, user: GetUserDep) -> Response:
    """Show one run as it stands now, from the journal. Raises `Rejected` for one that is not known."""
    with _readable(run, user) as (runs, record):
        return _page(request, runs, record, base="")


@runs_of_moves.get("/{run}/report")
def whole_report(request: Request, run: str, user: GetUserDep) -> Response:
    """Show the report of a run as it stands now, from journal and evidence."""
    with _readable(run, user) as (runs, record):
        if around := framed(request, refresh=record.state.is_open):
            return around
        text, _ = page_of(runs, _settings(), record.run)
    return sandboxed(request, text)


@runs_of_moves.get("/{run}/reports/{job}")
def job_report(request: Request, run: str, job: str, user: GetUserDep, shown: str = "") -> Response:
    """Show a report as a Spark job wrote it, without any right to run or fetch anything.

    One that is not the one that was journaled is shown below a banner, in a frame that cannot cover it
    (``shown=as-it-is``). Raises `Rejected` where there is none."""
    with _readable(run, user) as (runs, record):
        if around := framed(request):
            return around
        if job not in _jobs(runs, record.run).values():
            raise Rejected(f"run {run} has no report {job}")
        evidence = evidence_of(_settings())
        text = evidence.read_text(record.run, job, _JOB_REPORT)
        if text is None:
            raise Rejected(f"the report {job} of run {run} is gone from its evidence")
        kept = kept_of(evidence, runs, record.run, below=f"{job}/")
        sound = kept.relied_on(f"{job}/{_JOB_REPORT}")
    if sound or shown == "as-it-is":
        return sandboxed(request, text)
    answer = rendered(
        request, "altered.html", sentence="; ".join(kept.troubles).removesuffix("; it is not shown")
    )
    answer.headers["Content-Security-Policy"] = f"{POLICY}; frame-src 'self'; frame-ancestors 'self'"
    return answer


def of_run(request: Request, dag_id: str, run_id: str) -> Response:
    """Show what a run of a DAG works on, or why it was refused. Who asks may read runs of that DAG, whose
    plan shows the run."""
    if dag_id == _SCAN:
        return _scan_of(request, run_id)
    with _journal() as runs:
        named = _pushed(dag_id, run_id, "return_value")
        record = runs.of_origin(f"{dag_id}/{run_id}")
        with suppress(Rejected):
            record = runs.find(named) if isinstance(named, str) else record
        if record is not None:
            return _page(request, runs, record, base=f"runs/{record.run}/")
    refused = _pushed(dag_id, run_id, REFUSED, (PLAN, "assess"))
    nothing = _WATCHES if dag_id == _WATCH else _NOTHING
    why = f"This run was refused, and nothing was changed: {refused}" if refused else nothing
    return rendered(request, "problem.html", sentence=why)


def _scan_of(request: Request, run_id: str) -> Response:
    """What a run of ``scan_fleet`` found different, and what it toggled."""
    number, ensemble = (_pushed(_SCAN, run_id, key, (SCAN,)) for key in ("return_value", ENSEMBLE))
    if number is None or ensemble is None:
        return rendered(request, "problem.html", sentence=_NO_SCAN)
    with closing(SqlScans(_journal_url())) as scans:
        scan = scans.latest(ensemble, int(number) + 1)
        changes = list(islice(scans.changes(ensemble, int(number)), _LISTED + 1))
        more, toggles = len(changes) > _LISTED, scans.toggles(ensemble, int(number))
        about = {"scan": scan, "number": number, "changes": changes[:_LISTED], "more": more}
        return rendered(request, "scan.html", **about, toggles=toggles)


def _pushed(dag_id: str, run_id: str, key: str, tasks: tuple[str, ...] = (PLAN,)) -> Any:
    """What one of these tasks of a run pushed under a key, None where none did."""
    with create_session() as session:
        wanted = XComModel.get_many(run_id=run_id, key=key, task_ids=list(tasks), dag_ids=dag_id, limit=1)
        xcom = session.scalars(wanted).first()
        return None if xcom is None else XComModel.deserialize_value(xcom)


def _page(request: Request, runs: Runs, record: RunRecord, base: str) -> Response:
    """The page of a run, with its addresses relative to ``base``."""
    now, events, jobs = status_of(runs, record.run), runs.events(record.run), _jobs(runs, record.run)
    about = {"run": record, "now": now, "asked": json.loads(record.request), "base": base, "jobs": jobs}
    shown = [each for each in events if each.kind not in QUIET]
    refresh = REFRESH_S if record.state.is_open else 0
    return rendered(request, "run.html", **about, held=held(now, events), events=shown, refresh=refresh)


def _jobs(runs: Runs, run: str) -> dict[str, str]:
    """The folder of what the Spark job of each step left, where it left a report; by the key of the step."""
    return {
        key: str(each.result["spark_job"]["output"]).rstrip("/").rpartition("/")[2]
        for key, each in runs.steps(run).items()
        if "spark_job" in each.result and _JOB_REPORT in each.result.get("outcome", {})
    }


def _may_read(user: Any, run: RunRecord) -> bool:
    """Whether a user may read runs of the DAG that began this one, of a wave those of scans; a run of the
    command line has none."""
    dag_id, _, begun = run.origin.partition("/")
    if not begun:
        return True
    if dag_id.startswith(ORIGIN):
        dag_id = _SCAN
    details, entity = DagDetails(id=dag_id), DagAccessEntity.RUN
    manager = get_auth_manager()
    return bool(manager.is_authorized_dag(method="GET", access_entity=entity, details=details, user=user))


@contextmanager
def _readable(run: str, user: Any) -> Iterator[tuple[Runs, RunRecord]]:
    """The journal and a run that this user may read. `Rejected` for one that is not known."""
    with _journal() as runs:
        record = runs.find(run)
        if not _may_read(user, record):
            raise HTTPException(_FORBIDDEN, "you may not read runs of the DAG that began this one")
        yield runs, record


def _journal_url() -> str:
    url = base_settings().get("journal", {}).get("url", "")
    if not url:
        raise Rejected("the settings of this deployment name no journal: add journal.url")
    return str(url)


@contextmanager
def _journal() -> Iterator[Runs]:
    """Of this deployment. Raises `Rejected` where its settings name none that can be used."""
    with closing(SqlRuns(_journal_url())) as runs:
        yield runs


def _settings() -> Settings:
    """Of this deployment; no cluster is asked for anything."""
    sections = base_settings()
    sections.setdefault("kafka", {"bootstrap_servers": "unused:9092"})
    return parse(sections, source=os.environ.get(SETTINGS_VARIABLE, "defaults"))
