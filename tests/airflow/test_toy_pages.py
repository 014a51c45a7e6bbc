"""The pages about runs of the engine: by login and right, from the journal, nothing unescaped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

ENGINE = Path(__file__).parents[1] / "engine"
if str(ENGINE) not in sys.path:
    sys.path.insert(0, str(ENGINE))

from toy_move.move import ToyRequest  # noqa: E402
from toy_world import World  # noqa: E402

from groupshift.adapters.sqlalchemy.runs import SqlRuns  # noqa: E402 - the path comes first
from groupshift.adapters.sqlalchemy.scans import SqlScans  # noqa: E402
from groupshift.domain.modes import Mode  # noqa: E402
from groupshift.scan.group_state import Aspect, GroupChange  # noqa: E402
from groupshift.scan.ports import ToggleRecord, ToggleState  # noqa: E402

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    """A toy whose runs are in the journal of a deployment."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    monkeypatch.syspath_prepend(str(ENGINE / "installed"))
    (tmp_path / "groupshift").mkdir()
    runs = SqlRuns(f"sqlite:///{tmp_path / 'groupshift' / 'journal.db'}")
    yield World(folder=tmp_path, runs=runs)
    runs.close()


def test_a_run_is_shown_with_its_steps_and_who_decided(
    server: Any, viewing: dict[str, str], world: World
) -> None:
    """A run of any installed move; what strangers named is text."""
    run = world.begin(request=ToyRequest(name=EVIL)).run
    world.drive(run)
    listed = server.get("/groupshift/", headers=viewing)
    assert (listed.status_code, run in listed.text) == (200, True)
    page = server.get(f"/groupshift/runs/{quote(run)}/", headers=viewing)
    assert page.status_code == 200
    assert "04 prepare/set colour" in page.text
    assert "bob" in page.text
    assert "finalised" in page.text
    assert EVIL not in page.text
    assert EVIL not in listed.text
    report = server.get(f"/groupshift/runs/{quote(run)}/report", headers=viewing)
    assert (report.status_code, EVIL in report.text) == (200, False)
    assert "Steps there" in report.text
    assert server.get("/groupshift/runs/none/", headers=viewing).status_code == 404


def test_a_page_without_a_login_is_refused(server: Any, world: World) -> None:
    """As every page."""
    run = world.begin().run
    for address in ("/groupshift/", f"/groupshift/runs/{run}/", f"/groupshift/runs/{run}/report"):
        assert server.get(address, headers={"Accept": "application/json"}).status_code == 401


def test_a_run_of_a_dag_that_a_user_may_not_read_is_not_shown(
    server: Any, viewing: dict[str, str], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The DAG that began the run decides."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    run = world.begin(origin="secret/1").run
    usual = SimpleAuthManager.is_authorized_dag

    def only_others(self: Any, *, details: Any = None, **more: Any) -> bool:
        return getattr(details, "id", None) != "secret" and usual(self, details=details, **more)

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", only_others)
    assert server.get(f"/groupshift/runs/{run}/", headers=viewing).status_code == 403
    assert server.get(f"/groupshift/runs/{run}/report", headers=viewing).status_code == 403
    listed = server.get("/groupshift/", headers=viewing)
    assert (listed.status_code, run in listed.text) == (200, False)


def test_u05_an_open_run_is_listed_however_many_are_newer(
    server: Any, viewing: dict[str, str], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open ones come first; the number that is shown counts the others."""
    from groupshift_airflow.web import run_pages

    monkeypatch.setattr(run_pages, "_LISTED", 1)
    waits = world.begin().run
    for _ in range(2):
        world.clock.sleep(1)
        previewed = world.begin(execute=False).run
    text = server.get("/groupshift/", headers=viewing).text
    assert 0 < text.index(f"runs/{waits}/") < text.index(f"runs/{previewed}/")
    assert text.count('class="name"') == 2


def test_u13_the_tab_of_a_scan_shows_what_it_found(
    server: Any, viewing: dict[str, str], world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its changes and toggles, from the journal's database; strangers' names are text."""
    from groupshift_airflow.web import run_pages

    scans = SqlScans(f"sqlite:///{tmp_path / 'groupshift' / 'journal.db'}")
    record = scans.begin("zk:2181", 1_700_000_000_000)
    scans.put(record, (), [GroupChange(group=EVIL, aspect=Aspect.MEMBERS, before="3 old", after="none")])
    failed = ToggleRecord(
        group="orders-app",
        to=Mode.KAFKA,
        wave=1,
        state=ToggleState.FAILED,
        at_ms=1,
        reason="no answer",
        run="r-1",
    )
    scans.put_toggle(record, failed)
    scans.end(replace(record, ended_at_ms=1_700_000_001_000, totals={"groups": 2}))
    scans.close()
    pushed: dict[str, object] = {}
    monkeypatch.setattr(run_pages, "_pushed", lambda _dag, _run, key, _tasks: pushed.get(key))
    address = "/groupshift/run?dag_id=scan_fleet&run_id=a"
    assert "has not scanned yet" in server.get(address, headers=viewing).text
    pushed |= {"return_value": record.number, "ensemble": "zk:2181"}
    page = server.get(address, headers=viewing)
    assert (page.status_code, EVIL in page.text) == (200, False)
    for words in ("Scan 1", "groups 2", "3 old", "no answer", 'href="runs/r-1/"'):
        assert words in page.text


def test_u13_the_tab_of_a_watch_says_that_it_begins_no_run(
    server: Any, viewing: dict[str, str], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that its task ``plan`` has not ended: it has none."""
    from groupshift_airflow.web import run_pages

    monkeypatch.setattr(run_pages, "_pushed", lambda *_: None)
    text = server.get("/groupshift/run?dag_id=watch_offsets_topic&run_id=a", headers=viewing).text
    assert "judges one that is over" in text
