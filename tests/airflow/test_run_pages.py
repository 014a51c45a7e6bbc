"""The pages about runs that change a cluster: by login and role, from the journal, nothing unescaped, no path
of a person."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import select

from groupshift.application import downgrade_run, expansion_run, run_engine
from groupshift.application.downgrade import DowngradeRequest
from groupshift.application.run_work import RunTerms, RunTools
from groupshift.bootstrap.clusters import cluster_runs
from groupshift.domain.versions import Version
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.releases import target_of
from groupshift.ports.journal import ClusterRun
from groupshift_airflow import downgrades, expansions
from support import simulated_downgrade, simulated_expansion
from support.simulated_downgrade import yes

EVIL = "<script>alert(1)</script>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A move: the DAG and its module, what a run of it is asked for, its pages, a sentence of its report, its
    tools over a simulated cluster, and how a run of it begins."""

    move: Any
    dag: str
    module: ModuleType
    conf: dict[str, object]
    said: str
    tools: Callable[[], RunTools]
    begun: Callable[[Any], ClusterRun]

    @property
    def all(self) -> str:
        """The address of the list."""
        return f"/groupshift/{self.move.name}s/"


def downgrade_begun(tools: Any) -> ClusterRun:
    """From 4.3.1 to 3.9.2."""
    request = DowngradeRequest(target=target_of("3.9.2"), said=Version.parse("4.3.1"))
    return downgrade_run.begin(tools, downgrade_run.plan_run(tools, request))


CASES = (
    Case(
        move=downgrade_run.MOVE,
        dag="downgrade_coordinator",
        module=downgrades,
        conf={"from": "4.3.1", "to": "3.9.2"},
        said="run 3.9.2 now, from 4.3.1",
        tools=lambda: simulated_downgrade.tools_of(simulated_downgrade.two_of_43()),
        begun=downgrade_begun,
    ),
    Case(
        move=expansion_run.MOVE,
        dag="expand_offsets_topic",
        module=expansions,
        conf={"to": 8},
        said="has 8 partitions now, from 5",
        tools=lambda: simulated_expansion.tools_of(simulated_expansion.committed(Coordinator.OLD)),
        begun=lambda tools: expansion_run.begin(tools, expansion_run.plan_run(tools, 8)),
    ),
)
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: case.move.name)


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The journal of a deployment of this test's own, with no run yet."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    (tmp_path / "groupshift").mkdir()
    return f"sqlite:///{tmp_path / 'groupshift' / 'journal.db'}"


def driven(case: Case, journal: str, terms: RunTerms) -> str:
    """A run in a simulated cluster, driven as far as these terms go and journaled there; its id."""
    with closing(cluster_runs(journal)) as runs:
        tools = replace(case.tools(), runs=runs)
        run = case.begun(tools)
        run_engine.go_on(case.move, tools, terms, run)
        return run.run


@EACH
def test_a_page_without_a_login_is_refused(server: Any, journal: str, case: Case) -> None:
    """As every page."""
    for address in (case.all, f"{case.all}x/", f"/groupshift/run?dag_id={case.dag}&run_id=r"):
        assert server.get(address, headers={"Accept": "application/json"}).status_code == 401


@EACH
def test_a_user_who_may_not_read_runs_of_the_dag_is_refused(
    server: Any, viewing: dict[str, str], journal: str, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    """Also one who may read those of all others; the tab of a run is no way around."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    def others(*_: object, details: Any = None, **__: object) -> bool:
        return details is None or details.id != case.dag

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", others)
    for address in (case.all, f"{case.all}x/", f"/groupshift/run?dag_id={case.dag}&run_id=r"):
        assert server.get(address, headers=viewing).status_code == 403
    assert server.get("/groupshift/", headers=viewing).status_code == 200


@EACH
def test_runs_are_listed_and_each_has_its_report(
    server: Any, viewing: dict[str, str], journal: str, case: Case
) -> None:
    """With how it stands; the page is a document without any right, and names of people are no markup."""
    assert "There is none yet" in server.get(case.all, headers=viewing).text
    run = driven(case, journal, yes(who=EVIL))
    text = server.get(case.all, headers=viewing).text
    assert f'href="{run}/"' in text
    assert ">done<" in text
    one = server.get(f"{case.all}{run}/", headers=viewing)
    assert one.status_code == 200
    assert case.said in one.text
    assert "<script" not in one.text
    assert "&lt;script&gt;" in one.text
    assert one.headers["content-security-policy"].endswith("sandbox")
    assert server.get(f"{case.all}{run}", headers=viewing, follow_redirects=False).status_code == 307


@EACH
def test_what_the_journal_does_not_know_is_not_found(
    server: Any, viewing: dict[str, str], journal: str, case: Case
) -> None:
    """No path comes from a person."""
    run = driven(case, journal, yes())
    for tail in (f"{case.move.name}-x/", "..%2f..%2fjournal.db/"):
        assert server.get(f"{case.all}{tail}", headers=viewing).status_code == 404
    other = next(each for each in CASES if each is not case)
    assert server.get(f"{other.all}{run}/", headers=viewing).status_code == 404


def latest_run(dag: str) -> str:
    """The id of the last run of the DAG in Airflow's database."""
    with create_session() as session:
        return str(
            session.scalar(select(DagRun.run_id).where(DagRun.dag_id == dag).order_by(DagRun.id.desc()))
        )


@EACH
@pytest.mark.timeout(600)
def test_the_tab_of_a_run_shows_what_it_works_on(
    server: Any,
    viewing: dict[str, str],
    journal: str,
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
    case: Case,
) -> None:
    """By what its task `plan` has told; a run that only planned has none, nor has one that is not known."""
    address = f"/groupshift/run?dag_id={case.dag}&run_id="
    with closing(cluster_runs(journal)) as runs:
        tools = replace(case.tools(), runs=runs)
        monkeypatch.setattr(case.module, "opened", lambda _id: nullcontext(tools))
        assert run(case.dag, case.conf)[0] == "success"
        assert (
            f"has begun no {case.move.name}"
            in server.get(f"{address}{quote(latest_run(case.dag))}", headers=viewing).text
        )
        assert run(case.dag, {**case.conf, "execute": True})[0] == "success"
    found = server.get(f"{address}{quote(latest_run(case.dag))}", headers=viewing)
    assert case.said in found.text
    assert found.headers["content-security-policy"].endswith("sandbox")
    assert f"has begun no {case.move.name}" in server.get(f"{address}r2", headers=viewing).text
