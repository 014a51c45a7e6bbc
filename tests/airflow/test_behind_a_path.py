"""Airflow's API server behind a path of the host, in Chromium: menu, tab, links and light and dark.

The proxy keeps the path, as Airflow's documentation asks for, but not the name of its host, and there is
nothing else on that host: a link that forgets the path, or asks Airflow for the name, ends there."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

import pytest
from playwright.sync_api import Browser, Frame, Page

from groupshift.audit.offsets import Audit, Looked
from groupshift.audit.report import render
from groupshift.bootstrap.connect import audit_store
from groupshift.domain.run import SparkJob
from groupshift.domain.verdict import Verdict
from groupshift.report import page as pages
from groupshift_sandbox.airflow_api import AirflowApi
from groupshift_sandbox.processes import free_port, wait_until
from support.chromium import keep
from support.disk_evidence import FullProof
from support.kept_runs import held_run, kept_processes

PATH = "/team/airflow"
RUN, AUDIT_RUN = "behind-1", "behind-2"
DUE = datetime(2026, 4, 1, 2, 3, 4, tzinfo=UTC)
QUESTION = "Approve the plan of orders?"
STARTED_S, LOOK_MS = 120.0, 60_000
DARK, LIGHT = "rgb(20, 24, 31)", "rgb(255, 255, 255)"
REPORT_DARK, REPORT_LIGHT = "rgb(13, 17, 23)", "rgb(255, 255, 255)"
REPORT = pages.render(
    pages.Page(
        title="After canary",
        top=pages.Headline(verdict=Verdict.PASS),
        lead="Nothing is lost.",
        sections=[pages.section("What was compared")],
    )
)
pytestmark = pytest.mark.timeout(420)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """An Airflow behind a path, and the run of a move that its run works on; ``strayed`` is what the host was
    asked for outside of the path."""

    url: str
    run: str
    strayed: list[str]


@pytest.fixture(scope="module")
def behind(database: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    """The API server as a process of its own over the database of these tests, and a proxy before it."""
    home = tmp_path_factory.mktemp("behind")
    run = _kept(home)
    _runs()
    with _proxy() as (port, strayed, backend):
        url = f"http://127.0.0.1:{port}{PATH}"
        variables = {
            "AIRFLOW__API__BASE_URL": url,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(backend),
            "AIRFLOW__API__WORKERS": "1",
            "GROUPSHIFT_SETTINGS": str(home / "settings.toml"),
        }
        command = [str(Path(sys.executable).with_name("airflow")), "api-server"]
        with (home / "api-server.log").open("w") as log:
            server = subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log)
        try:
            wait_until(AirflowApi(url=url).answers, STARTED_S, f"Airflow answers at {url}", every_s=0.5)
            strayed.clear()
            yield Behind(url=url, run=run, strayed=strayed)
        finally:
            server.terminate()
            server.wait(60)


class Reporting(FullProof):
    """A comparison that leaves the report of this test."""

    def run(self, request: SparkJob) -> None:
        """See `FullProof`."""
        super().run(request)
        (Path(request.output) / "report.html").write_text(REPORT)


def _kept(home: Path) -> str:
    """A journal with a run in its rollback that `RUN` holds, reports of it, and an audit."""
    journal, evidence = f"sqlite:///{home / 'journal.db'}", home / "evidence"
    sections = f'[journal]\nurl = "{journal}"\n[evidence]\nroot = "{evidence}"\n[fleet]\ndriver = "manual"\n'
    (home / "settings.toml").write_text(sections)
    found_runs = kept_processes(home)
    with closing(found_runs.runs):
        found_runs.proof = Reporting(found_runs.evidence)
        holder = f"migrate_coordination/{RUN}"
        run = held_run(found_runs, holder, origin=holder)
    found = Audit(
        began_ms=0,
        ended_ms=1,
        cluster_id="c",
        zookeeper=True,
        retention_ms=None,
        looked=Looked(keys=1, mismatches=()),
    )
    kept_as = evidence / "audits" / f"{DUE:%Y%m%dT%H%M%S}-1"
    audit_store().write(str(kept_as), found, render(found))
    return run


def _runs() -> None:
    """A run of the DAG that waits at its first gate, and one of the audit."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.hitl import HITLDetail
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, TaskInstanceState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    manager = DagBundlesManager()
    manager.sync_bundles_to_db()
    (bundle,) = manager.get_all_dag_bundles()
    bundle.initialize()
    bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
    sync_bag_to_db(bag, bundle.name, bundle.version)
    for dag_id, run_id in (("migrate_coordination", RUN), ("audit_offsets", AUDIT_RUN)):
        with create_session() as session:
            dag = SerializedDagModel.get(dag_id, session=session).dag
            run = dag.create_dagrun(
                run_id=run_id,
                run_after=DUE,
                conf={"group": "orders"} if dag_id == "migrate_coordination" else {},
                run_type=DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType.TEST,
                state=DagRunState.RUNNING,
                session=session,
            )
            for each in run.get_task_instances(session=session):
                if each.task_id == "approve_plan":
                    each.state = TaskInstanceState.AWAITING_INPUT
                    session.add(HITLDetail(ti_id=each.id, options=["Approve", "Reject"], subject=QUESTION))


@contextmanager
def _proxy() -> Iterator[tuple[int, list[str], int]]:
    """A host whose `PATH` is Airflow's and where nothing else is: its port, what was asked of it outside of
    the path, and the port where it looks for Airflow."""
    backend, strayed = free_port(), list[str]()

    class Host(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(f"{PATH}/"):
                strayed.append(self.path)
                self.send_error(404)
                return
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            with closing(http.client.HTTPConnection("127.0.0.1", backend, timeout=60)) as asked:
                try:
                    kept = {name: each for name, each in self.headers.items() if name.lower() != "host"}
                    asked.request(self.command, self.path, body, kept)
                    answer = asked.getresponse()
                    said = answer.read()
                except OSError:
                    self.send_error(502)
                    return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            with suppress(BrokenPipeError):
                self.wfile.write(said)

        do_POST = do_PATCH = do_GET  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None: ...

    served = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    try:
        yield served.server_port, strayed, backend
    finally:
        served.shutdown()
        served.server_close()
        thread.join(10)


@pytest.fixture
def ui(browser: Browser, behind: Behind, tmp_path: Path) -> Iterator[Page]:
    """Airflow's UI, logged in, on a desktop that is light, without any complaint of the pages' policy."""
    context = browser.new_context(viewport={"width": 1300, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(LOOK_MS)
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if "Content Security" in said.text else None)
    page.goto(f"{behind.url}/")
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", "admin")
    page.click("button[type=submit]")
    page.wait_for_url(lambda url: "/auth/" not in url)
    behind.strayed.clear()
    yield page
    keep(page, "last", tmp_path)
    context.close()
    assert (behind.strayed, complaints) == ([], [])


def _shown(page: Page, text: str) -> Frame:
    """The frame that shows this text."""
    end = time.monotonic() + LOOK_MS / 1000
    while time.monotonic() < end:
        for frame in page.frames[1:]:
            if frame.get_by_text(text).count():
                return frame
        page.wait_for_timeout(100)
    raise AssertionError(f"no frame of {page.url} shows {text!r}: {[each.url for each in page.frames]}")


def _ground(page: Page, text: str, colour: str) -> None:
    """Wait until the frame with this text has this ground."""
    end = time.monotonic() + LOOK_MS / 1000
    while time.monotonic() < end:
        try:
            found = _shown(page, text).evaluate("getComputedStyle(document.body).backgroundColor")
        except Exception:  # noqa: BLE001 - the frame is loading again
            found = "loading"
        if found == colour:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"the ground of {text!r} is {found}, not {colour}")


def _switch(page: Page, theme: str) -> None:
    """What Airflow's own switch does: keep the theme, name it at the root."""
    page.evaluate(
        """(theme) => {
            localStorage.setItem("theme", theme);
            document.documentElement.className = theme;
            document.documentElement.style.colorScheme = theme;
        }""",
        theme,
    )


def test_f08_the_menu_leads_to_the_pages_behind_the_path(ui: Page, behind: Behind, tmp_path: Path) -> None:
    """Menu, list, run, report, and back: all below the path."""
    ui.get_by_role("button", name="Browse").click()
    ui.get_by_text("Groupshift", exact=True).click()
    listed = _shown(ui, "newest first")
    assert listed.url.startswith(f"{behind.url}/groupshift/")
    keep(ui, "menu", tmp_path)
    listed.get_by_role("link", name=behind.run).click()
    one = _shown(ui, "Plan hash")
    assert one.url.startswith(f"{behind.url}/groupshift/runs/{behind.run}/")
    one.locator("a[href*='reports/']").first.click()
    _shown(ui, "What was compared")
    keep(ui, "menu-report", tmp_path)


def test_u06_the_tab_of_a_run_and_its_gate_are_behind_the_path(
    ui: Page, behind: Behind, tmp_path: Path
) -> None:
    """The tab says who holds it and leads to the question of the run."""
    ui.goto(f"{behind.url}/dags/migrate_coordination/runs/{RUN}")
    ui.get_by_role("link", name="Groupshift", exact=True).click()
    tab = _shown(ui, "Held by")
    assert tab.url.startswith(f"{behind.url}/groupshift/run")
    assert f"run {RUN}" in tab.locator("dl").inner_text()
    assert tab.locator("meta[http-equiv=refresh]").count() == 1
    keep(ui, "tab", tmp_path)
    tab.get_by_role("link", name=QUESTION).click()
    ui.wait_for_url(f"{behind.url}/dags/migrate_coordination/runs/{RUN}/tasks/approve_plan/required_actions")
    ui.get_by_text(QUESTION).first.wait_for()
    keep(ui, "gate", tmp_path)


def test_f08_the_link_of_a_task_is_behind_the_path(ui: Page, behind: Behind) -> None:
    """As the worker makes it, whose configuration names the address."""
    code = (
        "from groupshift_airflow.links import RunLink\n"
        f"task = type('Task', (), {{'run': {behind.run!r}}})\n"
        "print(RunLink().get_link(task(), ti_key=None))"
    )
    plugins = str(Path(__file__).resolve().parents[2] / "plugins")
    variables = {**os.environ, "AIRFLOW__API__BASE_URL": behind.url, "PYTHONPATH": plugins}
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    ui.goto(urljoin(f"{behind.url}/", told.stdout.split()[-1]))
    ui.get_by_text("Plan hash").wait_for()
    assert ui.url.startswith(f"{behind.url}/groupshift/runs/{behind.run}/")


def test_f08_a_browser_comes_back_behind_the_path_after_its_login(browser: Browser, behind: Behind) -> None:
    """The login knows where the page is, whatever the proxy told Airflow about its host."""
    page = browser.new_context().new_page()
    page.set_default_timeout(LOOK_MS)
    page.goto(f"{behind.url}/groupshift/runs/{behind.run}?look=airflow")
    page.fill("input[name=username]", "viewer")
    page.fill("input[name=password]", "viewer")
    page.click("button[type=submit]")
    page.wait_for_url(f"{behind.url}/groupshift/runs/{behind.run}/?look=airflow")
    page.context.close()
    assert behind.strayed == []


@pytest.mark.parametrize(("first", "then"), [("dark", "light"), ("light", "dark")])
def test_u07_pages_and_reports_follow_the_switch_of_airflow(
    ui: Page, behind: Behind, first: str, then: str, tmp_path: Path
) -> None:
    """As they open, and while they are looked at; the desktop is light all the time."""
    grounds = {"dark": (DARK, REPORT_DARK), "light": (LIGHT, REPORT_LIGHT)}
    _switch(ui, first)
    ui.goto(f"{behind.url}/dags/migrate_coordination/runs/{RUN}/plugin/groupshift-run")
    _ground(ui, "Plan hash", grounds[first][0])
    keep(ui, f"tab-{first}", tmp_path)
    _switch(ui, then)
    _ground(ui, "Plan hash", grounds[then][0])
    _shown(ui, "Plan hash").locator("a[href*='reports/']").first.click()
    _ground(ui, "What was compared", grounds[then][1])
    keep(ui, f"report-{then}", tmp_path)
    _switch(ui, first)
    _ground(ui, "What was compared", grounds[first][1])
    keep(ui, f"report-{first}", tmp_path)


def test_u07_a_report_that_is_a_tab_follows_the_switch_and_may_run_nothing(
    ui: Page, behind: Behind, tmp_path: Path
) -> None:
    """The audit of a run; the report of a run opened alone is as the desktop is."""
    _switch(ui, "dark")
    ui.goto(f"{behind.url}/dags/audit_offsets/runs/{quote(AUDIT_RUN)}/plugin/groupshift-run")
    _ground(ui, "No offset differs", REPORT_DARK)
    keep(ui, "audit-dark", tmp_path)
    _switch(ui, "light")
    _ground(ui, "No offset differs", REPORT_LIGHT)
    alone = f"{behind.url}/groupshift/runs/{behind.run}/report"
    answer: Any = ui.goto(alone)
    assert answer.headers["content-security-policy"].endswith("sandbox")
    assert ui.locator("script").count() == 0
