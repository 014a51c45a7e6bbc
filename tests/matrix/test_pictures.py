"""The pictures of Airflow in the README and the runbooks, taken of real runs: set GROUPSHIFT_SCREENSHOTS to
``docs/images`` to write them there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from groupshift.domain.run import RunState
from support.chromium import LOOK_MS, keep
from support.killed_tasks import killing_airflow
from support.protocol_fleet import FleetOptions, fleet_at, protocol_cluster
from support.real_airflow import CONF, HEARTBEAT, Real, first_on_path, real_airflow
from support.warm_spark import warm_spark

pytestmark = pytest.mark.timeout(1800)

RUN, WIDTH = "moved", 1500
PATIENT = {HEARTBEAT: "120"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Camera:
    """Airflow's UI of a deployment, logged in as admin."""

    page: Page
    url: str
    folder: Path
    taken: list[str] = field(default_factory=list)

    def keep(self, name: str, height: int, width: int = WIDTH) -> None:
        """Take the picture of what is shown."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.wait_for_load_state("networkidle")
        keep(self.page, name, self.folder)
        self.taken.append(name)

    def of_run(self, dag: str, tab: str = "") -> None:
        """Go to a run, or to one of its tabs."""
        self.page.goto(f"{self.url}/dags/{dag}/runs/{RUN}")
        if tab:
            self.page.get_by_role("link", name=tab, exact=True).click()

    def of_gate(self, dag: str, task: str, name: str, height: int) -> None:
        """The question of a gate, with plan and findings."""
        self.page.goto(f"{self.url}/dags/{dag}/runs/{RUN}/tasks/{task}/required_actions")
        self.page.get_by_role("button", name="Approve").first.wait_for()
        self.keep(name, height)

    def of_graph(self, dag: str, name: str, width: int) -> None:
        """The tasks of a run as a graph, without the panel beside it."""
        self.of_run(dag)
        self.page.get_by_label("Graph", exact=True).click()
        self.page.get_by_label("Collapse details panel").click()
        self.page.get_by_text("verdict", exact=True).first.wait_for()
        self.keep(name, 600, width)


@contextmanager
def camera(browser: Browser, url: str, folder: Path) -> Iterator[Camera]:
    """A context of its own, light."""
    context = browser.new_context(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(LOOK_MS)
    page.goto(f"{url}/")
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", "admin")
    page.click("button[type=submit]")
    page.wait_for_url(lambda at: "/auth/" not in at)
    yield Camera(page=page, url=url, folder=folder)
    context.close()


def report_of(real: Real, dag: str, task: str) -> str:
    """The address of the report that a comparison left."""
    return (Path(real.api.xcom(dag, RUN, task, "spark_job")["output"]) / "report.html").as_uri()


def test_a_move_from_zookeeper_to_kafka(
    browser: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The plan's gate, the run while its toggle is asked for, its graph, and the proof after the toggle."""
    dag, answers = "migrate_coordination", dict[str, str]()
    with (
        warm_spark(tmp_path_factory.mktemp("spark")) as submit,
        real_airflow(
            tmp_path_factory.mktemp("sandbox"), {**PATIENT, "PATH": first_on_path(submit.parent)}
        ) as real,
        camera(browser, real.api.url, tmp_path) as seen,
    ):

        def look(tasks: dict[str, str]) -> None:
            if tasks.get("approve_plan") == "awaiting_input" and "approve_plan" not in answers:
                seen.of_gate(dag, "approve_plan", "airflow-gate", 1400)
                answers["approve_plan"] = "Approve"
            if tasks.get("approve_toggle") == "awaiting_input" and "approve_toggle" not in answers:
                seen.of_run(dag, "Groupshift")
                seen.page.frame_locator("iframe").get_by_text("Held by").wait_for()
                seen.keep("airflow-run-page", 1000)
                answers["approve_toggle"] = "Approve"

        assert real.run(dag, RUN, CONF, answers, look) == "success", real.status()
        assert real.status().state is RunState.MOVED
        seen.of_graph(dag, "airflow-run-graph", 2750)
        seen.page.goto(report_of(real, dag, "toggle.compare_after"))
        seen.keep("validation-report", 1000)
        assert seen.taken == ["airflow-gate", "airflow-run-page", "airflow-run-graph", "validation-report"]


def test_a_move_to_the_consumer_protocol(
    browser: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its gate, its graph, and the report of the run."""
    dag, answers = "migrate_protocol", dict[str, str]()
    folder, options = tmp_path_factory.mktemp("protocol"), FleetOptions(group="orders-app", topic="orders")
    with (
        warm_spark(folder) as submit,
        protocol_cluster(folder) as cluster,
        fleet_at(cluster.bootstrap, folder, options) as fleet,
    ):
        fleet.await_written(20)
        file = fleet.settings()
        file.write_text(f"{file.read_text()}[thresholds]\npatience_s = 60\nsettle_s = 180\n")
        path = os.pathsep.join((str(submit.parent), str(Path(sys.executable).parent), os.environ["PATH"]))
        with (
            killing_airflow(fleet.home, fleet.bootstrap, {**PATIENT, "PATH": path}) as undisturbed,
            camera(browser, undisturbed.airflow.api.url, tmp_path) as seen,
        ):
            real = undisturbed.airflow

            def look(tasks: dict[str, str]) -> None:
                if tasks.get("approve_plan") == "awaiting_input" and not answers:
                    seen.of_gate(dag, "approve_plan", "protocol-gate", 1400)
                    answers["approve_plan"] = "Approve"

            conf = {"group": options.group, "to": "consumer", "execute": True, "soak": 5}
            assert real.run(dag, RUN, conf, answers, look) == "success", real.status()
            seen.of_graph(dag, "protocol-graph", 2500)
            assert seen.taken == ["protocol-gate", "protocol-graph"]
