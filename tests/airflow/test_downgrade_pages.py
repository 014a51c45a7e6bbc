"""The pages about downgrades: by login and role, from the journal, nothing unescaped, no path of a person."""

from __future__ import annotations

from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import select

from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.downgrade_run import begin, go_on, plan_run
from groupshift.application.run_work import RunTerms
from groupshift.bootstrap.downgrade import cluster_runs
from groupshift.domain.downgrade.releases import target_of
from groupshift.domain.hazards.versions import Version
from groupshift_airflow import downgrades
from simulated_downgrade import tools_of, two_of_43, yes

EVIL = "<script>alert(1)</script>"
ALL = "/groupshift/downgrades/"
DAG = "downgrade_coordinator"


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The journal of a deployment of this test's own, with no run yet."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    (tmp_path / "groupshift").mkdir()
    return f"sqlite:///{tmp_path / 'groupshift' / 'journal.db'}"


def downgraded(journal: str, terms: RunTerms) -> str:
    """A run in a simulated cluster, driven as far as these terms go and journaled there; its id."""
    request = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    with closing(cluster_runs(journal)) as runs:
        tools = replace(tools_of(two_of_43()), runs=runs)
        run = begin(tools, plan_run(tools, request))
        go_on(tools, terms, run)
        return run.run


@pytest.mark.parametrize("address", [ALL, f"{ALL}x/", f"/groupshift/run?dag_id={DAG}&run_id=r"])
def test_a_page_without_a_login_is_refused(server: Any, journal: str, address: str) -> None:
    """As every page."""
    assert server.get(address, headers={"Accept": "application/json"}).status_code == 401


def test_a_user_without_a_role_is_refused(
    server: Any, viewing: dict[str, str], journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right to read runs of the DAG is demanded."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", lambda *_, **__: False)
    assert server.get(ALL, headers=viewing).status_code == 403


def test_runs_are_listed_and_each_has_its_report(server: Any, viewing: dict[str, str], journal: str) -> None:
    """With how it stands; the page is a document without any right, and names of people are no markup."""
    assert "There is none yet" in server.get(ALL, headers=viewing).text
    run = downgraded(journal, yes(who=EVIL))
    text = server.get(ALL, headers=viewing).text
    assert f'href="{run}/"' in text
    assert ">done<" in text
    one = server.get(f"{ALL}{run}/", headers=viewing)
    assert one.status_code == 200
    assert "run 3.9.2 now, from 4.3.1" in one.text
    assert "<script" not in one.text
    assert "&lt;script&gt;" in one.text
    assert one.headers["content-security-policy"].endswith("sandbox")
    assert server.get(f"{ALL}{run}", headers=viewing, follow_redirects=False).status_code == 307


@pytest.mark.parametrize("tail", ["downgrade-x/", "..%2f..%2fjournal.db/"])
def test_what_the_journal_does_not_know_is_not_found(
    server: Any, viewing: dict[str, str], journal: str, tail: str
) -> None:
    """No path comes from a person."""
    downgraded(journal, yes())
    assert server.get(f"{ALL}{tail}", headers=viewing).status_code == 404


def latest_run() -> str:
    """The id of the last run of the DAG in Airflow's database."""
    with create_session() as session:
        return str(
            session.scalar(select(DagRun.run_id).where(DagRun.dag_id == DAG).order_by(DagRun.id.desc()))
        )


@pytest.mark.timeout(120)
def test_the_tab_of_a_run_shows_its_downgrade(
    server: Any, viewing: dict[str, str], journal: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what its task `plan` has told; a run that only planned has none, nor has one that is not known."""
    address = f"/groupshift/run?dag_id={DAG}&run_id="
    conf = {"from": "4.3.1", "to": "3.9.2"}
    with closing(cluster_runs(journal)) as runs:
        tools = replace(tools_of(two_of_43()), runs=runs)
        monkeypatch.setattr(downgrades, "opened", lambda _id: nullcontext(tools))
        assert run(DAG, conf)[0] == "success"
        assert "has begun no downgrade" in server.get(f"{address}{quote(latest_run())}", headers=viewing).text
        assert run(DAG, {**conf, "execute": True})[0] == "success"
    found = server.get(f"{address}{quote(latest_run())}", headers=viewing)
    assert "run 3.9.2 now, from 4.3.1" in found.text
    assert found.headers["content-security-policy"].endswith("sandbox")
    assert "has begun no downgrade" in server.get(f"{address}r2", headers=viewing).text
