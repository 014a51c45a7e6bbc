"""In which order things are brought up, and what is waited for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.errors import Transient
from groupshift_sandbox import up
from groupshift_sandbox.fleet import FleetDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import Broker
from groupshift_sandbox.processes import Command, Running, start_ticks
from groupshift_sandbox.state import SandboxState, read_document


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A sandbox with nothing in it."""
    return Home(tmp_path).create()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is started and asked, in order, instead of an Airflow that answers at the third look."""
    done: list[str] = []
    ticks = start_ticks(os.getpid())
    assert ticks is not None

    def start(_home: Home, command: Command) -> Running:
        done.append(command.name)
        return Running(name=command.name, pid=os.getpid(), ticks=ticks)

    def answers(_api: Any) -> bool:
        done.append("asked")
        return done.count("asked") > 2

    monkeypatch.setattr(up, "start", start)
    monkeypatch.setattr(up.AirflowApi, "answers", answers)
    monkeypatch.setattr(up.airflow, "prepare", lambda _spec: None)
    monkeypatch.setattr(up.airflow, "wait_healthy", lambda _spec, demand: demand())
    return done


@pytest.mark.airflow
def test_nothing_is_scheduled_before_the_api_server_answers(home: Home, begun: list[str]) -> None:
    """A task that it cannot tell of itself in time is lost."""
    url = up.start_airflow(home, "127.0.0.1:1", "127.0.0.1:2")
    assert begun[:5] == ["airflow-api-server", "asked", "asked", "asked", "airflow-scheduler"]
    assert [name for name in begun if name != "asked"] == [*up.airflow.PROCESSES]
    assert SandboxState(home).addresses()["airflow"] == url


@pytest.mark.airflow
def test_a_process_of_airflow_that_has_ended_is_not_waited_for(
    home: Home, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names it and its log."""
    monkeypatch.setattr(up, "is_running", lambda _process: False)
    with pytest.raises(Transient, match=r"airflow-api-server ended .*logs/airflow-api-server\.log"):
        up.start_airflow(home, "127.0.0.1:1", "127.0.0.1:2")
    assert begun == ["airflow-api-server"]


def test_a_fleet_is_waited_for_although_one_answer_came_late(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one says that all run."""
    answers: list[Any] = [
        Transient("did not answer"),
        {"slots": [{"state": "changing"}]},
        {"slots": [{"state": "running"}]},
    ]

    def ask(_path: Path, _request: dict[str, str]) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Transient):
            raise answer
        return answer

    monkeypatch.setattr(up, "ask", ask)
    up.await_fleet(home, up.UpOptions(members=1, kind=MemberKind.PLAIN), "127.0.0.1:1")
    assert answers == []


def test_members_get_the_properties_of_their_kind(home: Home) -> None:
    """Beside those that the sandbox gives them."""
    options = up.UpOptions(
        properties={kind: {"a": kind.value} for kind in (MemberKind.ZOOKEEPER, MemberKind.AWARE)}
    )
    up.write_fleet(home, options, "127.0.0.1:1", Broker(address="127.0.0.1:2"))
    found = FleetDefinition.from_json(read_document(home.fleet_file)).properties
    assert found["old"] == {"a": "old"}
    assert found["aware"].items() > {"a": "aware"}.items()
