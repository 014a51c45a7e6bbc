"""``scan_fleet``: its options without servers, and its schedule and differences in a real Airflow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooClient

from groupshift.errors import Rejected
from groupshift_sandbox.airflow_api import AirflowApi
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.state import SandboxState
from groupshift_sandbox.up import UpOptions, start_airflow, up
from support.real_airflow import HEARTBEAT

pytestmark = pytest.mark.timeout(1500)  # three runs and the sandbox's start

GROUP = "orders-app"
RUN_S = 400.0


def _context(run_type: str, **params: Any) -> dict[str, Any]:
    """What a task sees of its run."""
    return {"params": params, "dag_run": SimpleNamespace(run_type=run_type)}


def test_a_scheduled_run_takes_its_options_from_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that a person triggers takes the form's; unknown keys are refused with the known ones."""
    from groupshift_airflow import scans

    told = {"toggle": True}
    monkeypatch.setattr(scans.Variable, "get", lambda *_, **__: told)
    form = {"toggle": False, "execute": False}
    assert scans.options(_context("scheduled", **form)) == {"toggle": True, "execute": False}
    assert scans.options(_context("manual", **form)) == form
    told["autotoggle"] = True
    with pytest.raises(Rejected, match=r"autotoggle.*execute, toggle"):
        scans.options(_context("scheduled", **form))


def test_the_schedule_is_the_deployments_and_hourly_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from the environment when the file is parsed: no I/O."""
    from groupshift_airflow import form

    monkeypatch.delenv("GROUPSHIFT_SCAN_SCHEDULE", raising=False)
    assert form.schedule("SCAN", "@hourly") == "@hourly"
    monkeypatch.setenv("GROUPSHIFT_SCAN_SCHEDULE", "*/5 * * * *")
    assert form.schedule("SCAN", "@hourly") == "*/5 * * * *"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A sandbox whose Airflow scans every minute."""

    api: AirflowApi
    zookeeper: str

    def runs(self) -> list[str]:
        """Ids of the scheduled runs that ended well, oldest first."""
        rows = self.api._request("GET", "/api/v2/dags/scan_fleet/dagRuns?order_by=run_after&limit=100")
        kept = [row for row in rows["dag_runs"] if row["run_type"] == "scheduled"]
        failed = [row["dag_run_id"] for row in kept if row["state"] == "failed"]
        assert not failed, self._said(failed[0], "scan")
        return [str(row["dag_run_id"]) for row in kept if row["state"] == "success"]

    def await_run(self, after: int) -> str:
        """The first run that ends well after so many have."""
        wait_until(lambda: len(self.runs()) > after, RUN_S, f"scheduled run {after + 1}", every_s=2.0)
        return self.runs()[after]

    def said(self, run: str, task: str, end: str) -> str:
        """What a task logged, once its log has ``end``: a task may be done before its log is written."""
        wait_until(lambda: end in self._said(run, task), 60.0, f"{task} of {run} says {end!r}", every_s=1.0)
        return self._said(run, task)

    def _said(self, run: str, task: str) -> str:
        """What the last attempt of a task logged: one that Airflow lost before it began has no log."""
        tries = {row["task_id"]: row["try_number"] for row in self.api.task_instances("scan_fleet", run)}
        return self.api.logs("scan_fleet", run, task, tries[task])


def make_group(zookeeper: str, group: str) -> None:
    """A group of ZooKeeper without members."""
    client = KazooClient(hosts=zookeeper)
    client.start(timeout=60)
    try:
        client.create(f"/consumers/{group}/offsets/orders/0", b"1", makepath=True)
    finally:
        client.stop()
        client.close()


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduled]:
    """ZooKeeper, Kafka, one Scala member, a group at rest, and Airflow with a schedule of every minute."""
    home = Home(Path(tmp_path_factory.mktemp("sandbox")).resolve())
    variables = {
        "GROUPSHIFT_SCAN_SCHEDULE": "* * * * *",
        HEARTBEAT: "120",
    }
    value = json.dumps({"toggle": True, "stable_s": 1})
    try:
        up(home, UpOptions(members=1, partitions=2, airflow=False), lambda _: None)
        state = SandboxState(home).addresses()
        make_group(state["zookeeper"], "resting")
        api = AirflowApi(url=start_airflow(home, state["zookeeper"], state["kafka"], variables))
        variable = {"key": "groupshift_scan", "value": value}
        api._once("POST", "/api/v2/variables", variable, done=lambda: True)
        yield Scheduled(api=api, zookeeper=state["zookeeper"])
    finally:
        down(home)


def test_scan_fleet_runs_on_schedule_and_shows_what_one_group_changed(scheduled: Scheduled) -> None:
    """Nobody triggers it; the run after a group changed names exactly that group, and no group at rest. The
    live one is left out: its member may have had to join again meanwhile."""
    first = scheduled.await_run(0)
    assert "groups 2" in scheduled.said(first, "scan", "groups 2")
    make_group(scheduled.zookeeper, "newcomer")
    done = len(scheduled.runs())
    texts: list[str] = []
    for number in (done, done + 1):  # the first of them may have begun before
        run = scheduled.await_run(number)
        texts.append(scheduled.said(run, "report", "fit to be toggled: "))
        if "newcomer" in texts[-1]:
            break
    changed = [line for line in texts[-1].splitlines() if "changed: " in line and f": {GROUP}," not in line]
    assert len(changed) == 1, texts
    assert "changed: newcomer, appeared: - -> dead, none" in changed[0]
    assert "dead group: newcomer" in texts[-1]
    assert scheduled.api.tasks("scan_fleet", run) == {
        "scan": "success",
        "report": "success",
        "waves": "success",
    }
    assert "planned only" in scheduled.said(run, "waves", "planned only")
