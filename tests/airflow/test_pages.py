"""The pages: nobody without a login and a role, nothing unescaped, no path from a person."""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import delete

from groupshift.audit.offsets import Audit, Looked, Mismatch
from groupshift.audit.report import render
from groupshift.bootstrap.connect import audit_store
from groupshift.ports.runs import Runs
from support.audit_rules import BY_NUMBER
from support.kept_runs import held_run, kept_processes
from support.named_pipe import named_pipe

AUDITS = "/groupshift/audits/"
ADDRESSES = ("/groupshift/", "/groupshift/runs/RUN/", "/groupshift/run?dag_id=d&run_id=r")
ONE = "/groupshift/runs/RUN/"
JOB = f"{ONE}reports/JOB"
HOLDER = "migrate_coordination/run-1"
EVIL = "<script>alert(1)</script>"
DIVERGE = BY_NUMBER["A33"]
DIFFERENCE = Mismatch(
    group=EVIL,
    topic="orders",
    partition=0,
    kind=DIVERGE.kind,
    weight=DIVERGE.weight,
    rule=DIVERGE.number,
    reason=DIVERGE.reason,
    remedy=DIVERGE.remedy,
    answered=7,
    logged=7,
    zookeeper=5,
    mode="kafka",
    log_partition=1,
    log_offset=9,
    foreign_partition=None,
    foreign_offset=None,
    log_end=8,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Headers of a logged-in viewer, a run that is being rolled back, and what a comparison of it left."""

    headers: dict[str, str]
    runs: Runs
    run: str
    job: str
    evidence: Path

    def at(self, address: str) -> str:
        """The address with the names of this run."""
        return address.replace("RUN", self.run).replace("JOB", self.job)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Runs, str]]:
    """A journal and evidence with one run, whose requester has a hostile name."""
    home = tmp_path_factory.mktemp("deployment")
    found = kept_processes(home / "groupshift")
    run = held_run(found, HOLDER, requester=EVIL)
    yield home, found.runs, run
    found.runs.close()


@pytest.fixture
def shown(
    viewing: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    deployment: tuple[Path, Runs, str],
) -> Shown:
    """The pages read a copy of the evidence that is this test's own."""
    home, runs, run = deployment
    shutil.copytree(home, tmp_path / "home")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    evidence = tmp_path / "home" / "groupshift" / "evidence" / run
    jobs = {
        key: str(each.result["spark_job"]["output"]).rpartition("/")[2]
        for key, each in runs.steps(run).items()
        if "spark_job" in each.result
    }
    job = next(found for key, found in jobs.items() if "canary/compare after" in key)
    return Shown(headers=viewing, runs=runs, run=run, job=job, evidence=evidence)


@pytest.fixture
def viewer(shown: Shown) -> dict[str, str]:
    """Headers of a logged-in viewer of a deployment with one run."""
    return shown.headers


@pytest.mark.parametrize("address", [*ADDRESSES, JOB, f"{ONE}report", AUDITS, f"{AUDITS}x/"])
def test_a_page_without_a_login_is_refused(server: Any, shown: Shown, address: str) -> None:
    """FastAPI apps of plugins are open unless they demand a user."""
    assert server.get(shown.at(address), headers={"Accept": "application/json"}).status_code == 401


def test_a_browser_without_a_login_is_sent_to_it(server: Any, viewer: Any) -> None:
    """And back to the page afterwards."""
    answer = server.get("/groupshift/", headers={"Accept": "text/html"}, follow_redirects=False)
    assert answer.status_code == 307
    assert "login" in answer.headers["location"]
    assert "groupshift" in answer.headers["location"]


def test_a_user_without_a_role_is_refused(
    server: Any, viewer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login alone is not enough: the right to read runs is demanded."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", lambda *_, **__: False)
    assert server.get("/groupshift/", headers=viewer).status_code == 403


@pytest.mark.parametrize("address", ADDRESSES)
def test_pages_show_what_the_journal_holds_escaped(server: Any, shown: Shown, address: str) -> None:
    """No text from outside becomes markup, and no unknown key of an event is shown."""
    answer = server.get(shown.at(address), headers=shown.headers)
    assert answer.status_code == 200
    assert "<script" not in answer.text
    assert "fingerprint" not in answer.text
    assert "script-src" not in answer.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_run_shows_its_steps_verdicts_and_reports(server: Any, shown: Shown) -> None:
    """What is done next, what was judged, where the report is, who approved, and what to type."""
    text = server.get(shown.at(ONE), headers=shown.headers).text
    for part in ("undo_members", "rolling back", "approve by bob", f"groupshift status {shown.run} --watch"):
        assert part in text
    assert f'href="reports/{shown.job}"' in text
    assert "&lt;script&gt;alert(1)" in text
    listed = server.get("/groupshift/", headers=shown.headers).text
    assert f'href="runs/{shown.run}/"' in listed
    assert "rolling back" in listed


def test_the_tab_of_a_run_finds_what_it_works_on(server: Any, shown: Shown, airflow_run: str) -> None:
    """By what its task ``plan`` told; another run has begun nothing yet."""
    address = "/groupshift/run?dag_id=migrate_coordination&run_id="
    found = server.get(f"{address}{airflow_run}", headers=shown.headers).text
    assert f'href="runs/{shown.run}/report"' in found
    assert "has begun no run" in server.get(f"{address}run-2", headers=shown.headers).text


@pytest.fixture
def airflow_run(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run of a DAG whose task ``plan`` pushed the id of the run."""
    from groupshift_airflow.web import run_pages

    def pushed(_dag_id: str, run_id: str, key: str, *_tasks: object) -> str | None:
        return shown.run if (run_id, key) == ("run-1", "return_value") else None

    monkeypatch.setattr(run_pages, "_pushed", pushed)
    return "run-1"


def test_a_report_is_shown_without_the_right_to_run_anything(server: Any, shown: Shown) -> None:
    """As written by the job, sandboxed."""
    answer = server.get(shown.at(JOB), headers=shown.headers)
    assert (answer.status_code, answer.text) == (200, "<!doctype html><title>report</title>")
    assert answer.headers["content-security-policy"].endswith("sandbox")


def test_the_whole_report_is_made_when_it_is_asked_for(server: Any, shown: Shown) -> None:
    """From journal and evidence as they are now, sandboxed, nothing in it is markup."""
    page = server.get(shown.at(ONE), headers=shown.headers).text
    assert 'href="report"' in page
    answer = server.get(shown.at(f"{ONE}report"), headers=shown.headers)
    assert answer.status_code == 200
    assert "being rolled back, and that is not proven yet" in answer.text
    assert "Evidence:" not in answer.text
    assert "<script" not in answer.text
    assert answer.headers["content-security-policy"].endswith("sandbox")
    assert server.get("/groupshift/runs/orders-2/report", headers=shown.headers).status_code == 404


def test_s08_an_altered_report_is_below_a_banner_that_it_cannot_cover(server: Any, shown: Shown) -> None:
    """The digest that was journaled when it was judged counts, before any sealing; the file is framed."""
    address, path = shown.at(JOB), shown.evidence / shown.job / "report.html"
    judged = path.read_text()
    assert server.get(address, headers=shown.headers).text == judged
    path.write_text("<h1>all is well</h1>")
    answer = server.get(address, headers=shown.headers)
    assert answer.status_code == 200
    assert "is not the report that was judged" in answer.text
    assert "it is not shown" not in answer.text
    assert "all is well" not in answer.text
    assert "frame-src 'self'" in answer.headers["content-security-policy"]
    framed = server.get(f"{address}?shown=as-it-is", headers=shown.headers)
    assert framed.text == "<h1>all is well</h1>"
    assert framed.headers["content-security-policy"].endswith("sandbox")


@pytest.mark.parametrize("way", ["file", "folder", "pipe", "loop", "gone"])
def test_s08_no_link_leads_out_of_the_evidence(server: Any, shown: Shown, way: str, tmp_path: Path) -> None:
    """Neither the file nor its folder may be a link; a pipe is not waited for."""
    address, path = shown.at(JOB), shown.evidence / shown.job / "report.html"
    secret = tmp_path / "environ"
    secret.mkdir()
    (secret / "report.html").write_text("PASSWORD=hush")
    path.unlink()
    if way == "file":
        path.symlink_to(secret / "report.html")
    elif way == "folder":
        path.parent.rename(tmp_path / "away")
        path.parent.symlink_to(secret)
    elif way == "pipe":
        named_pipe(path)
    elif way == "loop":
        path.symlink_to(path)
    answer = server.get(address, headers=shown.headers)
    assert answer.status_code == (404 if way == "gone" else 503)
    assert "hush" not in answer.text
    said = {"pipe": "a named pipe", "gone": "is gone from its evidence"}.get(
        way, "a symbolic link is in its place"
    )
    assert said in answer.text


@pytest.mark.parametrize(
    "address", ["/groupshift/runs/orders-2/", f"{ONE}reports/none", f"{ONE}reports/..%2f..%2fjournal.db"]
)
def test_what_the_journal_does_not_know_is_not_found(server: Any, shown: Shown, address: str) -> None:
    """Paths come from the journal only."""
    assert server.get(shown.at(address), headers=shown.headers).status_code == 404


def test_the_plugin_loads_without_errors(server: Any, viewer: dict[str, str]) -> None:
    """Airflow lists it, its menu entry and its tab, and no import error."""
    token = server.post("/auth/token", json={"username": "admin", "password": "admin"}).json()["access_token"]
    admin = {"Authorization": f"Bearer {token}"}
    assert server.get("/api/v2/plugins/importErrors", headers=admin).json()["import_errors"] == []
    plugins = server.get("/api/v2/plugins", headers=admin).json()["plugins"]
    ours = next(plugin for plugin in plugins if plugin["name"] == "groupshift")
    assert [each["destination"] for each in ours["external_views"]] == ["nav", "dag_run"]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The audits of a deployment of this test's own, none yet."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    return tmp_path / "groupshift" / "evidence" / "audits"


def _keep(folder: Path, *rows: Mismatch) -> None:
    looked = Looked(keys=4, mismatches=rows)
    found = Audit(began_ms=0, ended_ms=1, cluster_id="c", zookeeper=True, retention_ms=None, looked=looked)
    audit_store().write(str(folder), found, render(found))


def test_audits_are_listed_and_shown_as_they_are_kept(
    server: Any, viewer: dict[str, str], kept: Path
) -> None:
    """The newest first, each with its result; one is a document without any right; an altered one is told."""
    assert "There is none yet" in server.get(AUDITS, headers=viewer).text
    _keep(kept / "20260101T000000-1")
    _keep(kept / "20260102T000000-1", DIFFERENCE)
    text = server.get(AUDITS, headers=viewer).text
    assert text.index(">differs<") < text.index(">clean<")
    assert 'href="20260102T000000-1/"' in text
    assert f'href="{AUDITS.removeprefix("/groupshift/")}"' in server.get("/groupshift/", headers=viewer).text
    one = server.get(f"{AUDITS}20260102T000000-1/", headers=viewer)
    assert one.headers["content-security-policy"].endswith("sandbox")
    assert "stores diverge" in one.text
    assert "<script" not in one.text
    assert server.get(f"{AUDITS}20260103T000000-1/", headers=viewer).status_code == 404
    (kept / "20260102T000000-1" / "differences.parquet").write_bytes(b"")
    altered = server.get(f"{AUDITS}20260102T000000-1/", headers=viewer)
    assert (altered.status_code, "no longer what was written" in altered.text) == (503, True)


@pytest.fixture
def audit_run(server: Any) -> Iterator[str]:
    """A run of ``audit_offsets`` that was due at 02:03:04."""
    due = datetime(2026, 3, 1, 2, 3, 4, tzinfo=UTC)
    with create_session() as session:
        session.add(DagRun(dag_id="audit_offsets", run_id="r1", run_after=due, run_type="manual"))
    yield "r1"
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.run_id == "r1"))


def test_the_tab_of_a_run_shows_the_audit_of_its_last_try(
    server: Any, viewer: dict[str, str], kept: Path, audit_run: str
) -> None:
    """By the time at which the run was due; without one it says where to look."""
    address = "/groupshift/run?dag_id=audit_offsets&run_id="
    assert "has kept no audit" in server.get(f"{address}{audit_run}", headers=viewer).text
    _keep(kept / "20260301T020304-1", DIFFERENCE)
    _keep(kept / "20260301T020304-10")
    _keep(kept / "20260301T020304-9", DIFFERENCE)
    found = server.get(f"{address}{audit_run}", headers=viewer)
    assert "No offset differs" in found.text
    assert found.headers["content-security-policy"].endswith("sandbox")
    assert "has kept no audit" in server.get(f"{address}r2", headers=viewer).text


@pytest.mark.parametrize(
    ("base", "page", "path"),
    [
        (
            "http://host/team/airflow",
            "http://host/team/airflow/groupshift/audits/",
            "/team/airflow/groupshift/",
        ),
        (
            "http://host/team/airflow/",
            "http://host/team/airflow/groupshift/audits/",
            "/team/airflow/groupshift/",
        ),
        ("https://host:8443/a", "https://host:8443/a/groupshift/audits/", "/a/groupshift/"),
        ("http://host:8080", "http://host:8080/groupshift/audits/", "/groupshift/"),
        ("", "/groupshift/audits/", "/groupshift/"),
    ],
)
def test_f08_every_link_is_below_the_path_of_airflow(
    monkeypatch: pytest.MonkeyPatch, base: str, page: str, path: str
) -> None:
    """Pages, gates and tasks, with and without a path, a port or a slash at the end."""
    from groupshift_airflow import links

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    task = SimpleNamespace(run="orders 1/x")
    link = links.RunLink().get_link(task, ti_key=None)  # type: ignore[arg-type]
    below = page.removesuffix("audits/")
    assert (links.page_url("audits/"), links.page_path()) == (page, path)
    assert link.startswith(f"{below}runs/orders%201%2Fx/")
    task.run = "{{ unknown }}"
    assert links.RunLink().get_link(task, ti_key=None).partition("?")[0] == below  # type: ignore[arg-type]
    assert links.run_page("r/1") == f"{path}runs/r%2F1/"


@pytest.mark.parametrize(("theme", "said"), [("dark", "@media all"), ("light", "@media not all")])
def test_u07_a_document_is_served_in_a_theme_and_else_as_the_browser_is(
    server: Any, viewer: dict[str, str], kept: Path, theme: str, said: str
) -> None:
    """Only its stylesheet is touched, and it may run nothing; another word is no theme."""
    _keep(kept / "20260102T000000-1", DIFFERENCE)
    one = f"{AUDITS}20260102T000000-1/"
    plain = server.get(one, headers=viewer).text
    found = server.get(f"{one}?theme={theme}", headers=viewer)
    assert said in found.text
    assert f'<meta name="color-scheme" content="{theme}">' in found.text
    assert found.text.partition("</style>")[2] == plain.partition("</style>")[2]
    assert found.headers["content-security-policy"].endswith("sandbox")
    assert server.get(f"{one}?theme=<script>", headers=viewer).text == plain


@pytest.mark.parametrize(
    "address",
    [*ADDRESSES[:2], f"{ONE}report", JOB, "/groupshift/runs/none/"],
)
def test_u07_in_the_look_of_airflow_one_script_follows_it_and_no_other_may_run(
    server: Any, shown: Shown, address: str
) -> None:
    """Known by its hash; pages of documents and of errors have it too, and nothing of a person is markup."""
    found = server.get(f"{shown.at(address)}?look=airflow", headers=shown.headers)
    policy = found.headers["content-security-policy"]
    script = found.text.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert found.text.count("<script") == 1
    assert "unsafe-inline" not in policy.partition("script-src")[2]


def test_an_open_run_says_who_holds_it_and_is_read_again(server: Any, shown: Shown) -> None:
    """A run that Airflow does not know is only named; the page refreshes itself while something may come."""
    text = server.get(shown.at(ONE), headers=shown.headers).text
    assert 'http-equiv="refresh"' in text
    assert HOLDER in text.partition("Held by")[2]
    assert "since 2023-11-14" in text


@pytest.mark.parametrize(
    ("state", "said"), [("failed", "that run has ended (failed)"), ("running", "nobody;")]
)
def test_the_holder_of_a_run_is_a_link_to_its_run_of_a_dag(
    server: Any, shown: Shown, state: str, said: str
) -> None:
    """Whether it still works on it is said, too."""
    due = datetime(2026, 3, 1, 2, 3, 4, tzinfo=UTC)
    with create_session() as session:
        given = {"dag_id": "migrate_coordination", "run_id": "run-1", "state": state}
        session.add(DagRun(**given, run_after=due, run_type="manual"))
    try:
        text = server.get(shown.at(ONE), headers=shown.headers).text
    finally:
        with create_session() as session:
            session.execute(delete(DagRun).where(DagRun.run_id == "run-1"))
    assert '<a href="/dags/migrate_coordination/runs/run-1" data-airflow' in text
    assert said in text
