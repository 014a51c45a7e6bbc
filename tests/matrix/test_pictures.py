"""The pictures of Airflow and of reports in the README and the runbooks, taken of real runs: set
GROUPSHIFT_SCREENSHOTS to ``docs/images`` to write them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.group_changes import commit_rows
from groupshift.cli.main import main
from groupshift.domain.run import RunState
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.up import write_settings
from support.chromium import LOOK_MS, keep
from support.downgrade_story import cluster_of
from support.expansion_story import BEFORE, GROUPS, PARTITIONS, TOPIC, committed, rows
from support.killed_tasks import killing_airflow
from support.protocol_fleet import FleetOptions, fleet_at, protocol_cluster
from support.real_airflow import CONF, HEARTBEAT, Real, first_on_path, real_airflow
from support.warm_spark import warm_spark

pytestmark = pytest.mark.timeout(1800)

RUN, WIDTH, REPORT_WIDTH = "moved", 1500, 1180
PATIENT = {HEARTBEAT: "120"}
SNAPSHOTS = {"metadata.log.max.snapshot.interval.ms": "5000", "broker.session.timeout.ms": "12000"}
GRAPH_FIRST = "window.localStorage.setItem('default_dag_view', '\"graph\"')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Camera:
    """The pages of a real Airflow, logged in as admin, and the runs of one of its DAGs."""

    page: Page
    real: Real
    dag: str
    folder: Path
    taken: list[str] = field(default_factory=list)

    @property
    def of_run(self) -> str:
        """The address of the run."""
        return f"{self.real.api.url}/dags/{self.dag}/runs/{RUN}"

    def keep(self, name: str, height: int, width: int = WIDTH) -> None:
        """Take the picture of what is shown."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.wait_for_load_state("networkidle")
        keep(self.page, name, self.folder)
        self.taken.append(name)

    def move(self, conf: Mapping[str, Any], gate: str, look: Callable[[str], None] = lambda _: None) -> str:
        """Move to the end; the gate of the plan is pictured under this name, ``look`` is told of each later
        gate. Every answer is yes."""
        answers = dict[str, str]()

        def watch(tasks: dict[str, str]) -> None:
            for task, state in tasks.items():
                if state != "awaiting_input" or task in answers:
                    continue
                if task == "approve_plan":
                    self.page.goto(f"{self.of_run}/tasks/{task}/required_actions")
                    self.page.get_by_role("button", name="Approve").first.wait_for()
                    self.keep(gate, 1200)
                else:
                    look(task)
                answers[task] = "Approve"

        assert self.real.run(self.dag, RUN, dict(conf), answers, watch) == "success", self.real.status()
        assert self.real.status().state in {RunState.MOVED, RunState.FINALISED}
        return self.real.status().run

    def graph(self, name: str, height: int, width: int) -> None:
        """The tasks of the run as a graph, without the panel beside it."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.evaluate(GRAPH_FIRST)
        self.page.goto(self.of_run)
        self.page.get_by_label("Collapse Details Panel").click()
        self.page.get_by_text("verdict", exact=True).first.wait_for()
        self.page.locator(".react-flow__controls-fitview").click()
        self.keep(name, height, width)

    def report(self, run: str, name: str, height: int) -> None:
        """The report of a run, as the command line writes it."""
        file = self.folder / f"{name}.html"
        settings = str(self.real.home.settings_file)
        assert main(["report", run, "--output", str(file), "--settings", settings]) == 0
        self.page.goto(file.as_uri())
        self.keep(name, height, REPORT_WIDTH)


@contextmanager
def camera(browser: Browser, real: Real, dag: str, folder: Path) -> Iterator[Camera]:
    """A light context of its own."""
    context = browser.new_context(viewport={"width": WIDTH, "height": 1000}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(LOOK_MS)
    page.goto(f"{real.api.url}/")
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", "admin")
    page.click("button[type=submit]")
    page.wait_for_url(lambda at: "/auth/" not in at)
    yield Camera(page=page, real=real, dag=dag, folder=folder)
    context.close()


@contextmanager
def over_nodes(folder: Path, submit: Path, cluster: Cluster) -> Iterator[Real]:
    """An Airflow whose runs replace and restart the nodes of this cluster."""
    home = Home(folder / "tool").create()
    try:
        write_settings(home, "127.0.0.1:1", cluster.bootstrap)
        nodes = folder / "nodes.toml"
        place = f'home = "{cluster.home.root}"\ncluster = "{cluster.options.name}"\n'
        nodes.write_text(f'driver = "sandbox"\n[sandbox]\n{place}')
        variables = {**PATIENT, "GROUPSHIFT_NODES": str(nodes), "PATH": first_on_path(submit.parent)}
        with killing_airflow(home, cluster.bootstrap, variables) as undisturbed:
            yield undisturbed.airflow
    finally:
        down(home)


def test_a_move_from_zookeeper_to_kafka(
    browser: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The plan's gate, the run while its toggle is asked for, its graph, and the proof after the toggle."""
    with (
        warm_spark(tmp_path_factory.mktemp("spark")) as submit,
        real_airflow(
            tmp_path_factory.mktemp("sandbox"), {**PATIENT, "PATH": first_on_path(submit.parent)}
        ) as real,
        camera(browser, real, "migrate_coordination", tmp_path) as seen,
    ):

        def look(task: str) -> None:
            assert task == "approve_toggle"
            seen.page.goto(seen.of_run)
            seen.page.get_by_role("link", name="Groupshift", exact=True).click()
            seen.page.frame_locator("iframe").get_by_text("Held by").wait_for()
            seen.keep("airflow-run-page", 1000)

        seen.move(CONF, "airflow-gate", look)
        seen.graph("airflow-run-graph", 600, 2750)
        job = real.api.xcom(seen.dag, RUN, "toggle.compare_after", "spark_job")
        seen.page.goto((Path(job["output"]) / "report.html").as_uri())
        seen.keep("validation-report", 1000)
        assert seen.taken == ["airflow-gate", "airflow-run-page", "airflow-run-graph", "validation-report"]


def test_a_move_to_the_consumer_protocol(
    browser: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its gate, its graph, and the report of the run."""
    folder, options = tmp_path_factory.mktemp("protocol"), FleetOptions(group="orders-app", topic="orders")
    with (
        warm_spark(folder) as submit,
        protocol_cluster(folder) as cluster,
        fleet_at(cluster.bootstrap, folder, options) as fleet,
    ):
        fleet.await_written(20)
        file = fleet.settings()
        file.write_text(f"{file.read_text()}[thresholds]\npatience_s = 60\nsettle_s = 180\n")
        variables = {**PATIENT, "PATH": first_on_path(submit.parent)}
        with (
            killing_airflow(fleet.home, fleet.bootstrap, variables) as undisturbed,
            camera(browser, undisturbed.airflow, "migrate_protocol", tmp_path) as seen,
        ):
            conf = {"group": options.group, "to": "consumer", "execute": True, "soak": 5}
            run = seen.move(conf, "protocol-gate")
            seen.graph("protocol-graph", 560, 2500)
            seen.report(run, "protocol-report", 1000)
            assert seen.taken == ["protocol-gate", "protocol-graph", "protocol-report"]


@contextmanager
def three_nodes(
    browser: Browser,
    folders: pytest.TempPathFactory,
    dag: str,
    options: KraftOptions,
    fill: Callable[[Cluster], None],
) -> Iterator[Camera]:
    """The pages of an Airflow that moves a cluster which holds what ``fill`` writes."""
    folder = folders.mktemp("nodes")
    with warm_spark(folder) as submit, cluster_of(folder, options) as cluster:
        fill(cluster)
        with (
            over_nodes(folder, submit, cluster) as real,
            camera(browser, real, dag, folders.mktemp("pictures")) as seen,
        ):
            yield seen


def commits_of_a_dozen_groups(cluster: Cluster) -> None:
    """Offsets of a topic, committed by groups without members."""
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
    with closing(KafkaCluster(cluster.bootstrap, timeout_s=60.0)) as raw:
        assert commit_rows(raw, rows(GROUPS[:12])) == {}


def test_a_downgrade_of_three_nodes(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its gate, its graph, and the report of the run."""
    options = KraftOptions(
        nodes=3, heap="320m", format_arguments=("--release-version", "3.9"), properties=SNAPSHOTS
    )
    dag, fill = "downgrade_coordinator", commits_of_a_dozen_groups
    with three_nodes(browser, tmp_path_factory, dag, options, fill) as seen:
        run = seen.move({"to": "3.9.2", "from": "4.3.1", "execute": True}, "downgrade-gate")
        seen.graph("downgrade-graph", 480, 2300)
        seen.report(run, "downgrade-report", 1010)
        assert seen.taken == ["downgrade-gate", "downgrade-graph", "downgrade-report"]


def test_an_expansion_on_three_brokers(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The report of the run."""
    options = KraftOptions(nodes=3, heap="320m", properties={"offsets.topic.num.partitions": str(BEFORE)})
    with three_nodes(browser, tmp_path_factory, "expand_offsets_topic", options, committed) as seen:
        run = seen.move({"to": 8, "execute": True}, "expansion-gate")
        seen.report(run, "expansion-report", 1560)
        assert seen.taken == ["expansion-gate", "expansion-report"]
