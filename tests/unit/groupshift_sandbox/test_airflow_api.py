"""What is asked again when Airflow fails or is silent, and that its effect comes once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from groupshift.errors import Conflict, Transient
from groupshift_sandbox.airflow_api import AirflowApi, Question
from groupshift_sandbox.processes import free_port

QUESTION = Question(dag="d", run="r", task="gate", map_index=-1, subject="?", body="", options=("Yes", "No"))
LOCKED = 500


class Airflow(ThreadingHTTPServer):
    """Answers as Airflow does, over a socket: it starts a run once and takes an answer once. ``fails`` says
    by method and end of the path how often it fails, and ``after`` that it does so only after the effect."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.fails: dict[tuple[str, str], int] = {}
        self.after = False
        self.runs: list[str] = []
        self.chosen: list[str] | None = None
        self.asked: list[tuple[str, str]] = []

    def fail(self, asked: tuple[str, str]) -> bool:
        """Whether this one fails; counts it."""
        left = self.fails.get(asked, 0)
        self.fails[asked] = left - 1
        return left > 0

    def effect(self, method: str, name: str, body: dict[str, Any]) -> int:
        """Do it; the status of the answer."""
        if (method, name) == ("POST", "dagRuns"):
            if body["dag_run_id"] in self.runs:
                return 409
            self.runs.append(body["dag_run_id"])
        if (method, name) == ("PATCH", "hitlDetails"):
            if self.chosen:
                return 409
            self.chosen = body["chosen_options"]
        return 200


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Airflow

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        server, asked = self.server, (self.command, self.path.split("?")[0].rpartition("/")[2])
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server.asked.append(asked)
        failing = server.fail(asked)
        status = LOCKED
        if not failing or server.after:
            status = server.effect(*asked, json.loads(text or b"{}"))
        found = {"access_token": "t", "chosen_options": server.chosen, "state": "running"}
        self.send_response(LOCKED if failing else status)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    do_GET = do_POST = do_PATCH = _serve  # noqa: N815 - the names that the base class calls


@pytest.fixture
def airflow() -> Iterator[Airflow]:
    """A server on a port of its own."""
    server = Airflow()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def client(airflow: Airflow, patience_s: float = 60.0) -> AirflowApi:
    """Asks this server."""
    return AirflowApi(url=f"http://127.0.0.1:{airflow.server_port}", patience_s=patience_s)


@pytest.mark.parametrize("after", [False, True])
def test_a_run_is_started_once_however_often_it_is_asked_for(airflow: Airflow, *, after: bool) -> None:
    """The login and the trigger fail once each, before or after their effect."""
    airflow.fails, airflow.after = {("POST", "token"): 1, ("POST", "dagRuns"): 1}, after
    assert client(airflow).trigger("d", "r", {}) == "r"
    assert airflow.runs == ["r"]
    assert airflow.asked.count(("POST", "dagRuns")) == 2


def test_a_run_that_was_there_before_is_a_conflict(airflow: Airflow) -> None:
    """Nothing was asked twice, so it is not ours."""
    airflow.runs = ["r"]
    with pytest.raises(Conflict):
        client(airflow).trigger("d", "r", {})


@pytest.mark.parametrize("after", [False, True])
def test_an_answer_is_given_once(airflow: Airflow, *, after: bool) -> None:
    """Also where the first request had its effect and no answer."""
    airflow.fails, airflow.after = {("PATCH", "hitlDetails"): 1}, after
    client(airflow).answer(QUESTION, "Yes")
    assert airflow.chosen == ["Yes"]


@pytest.mark.parametrize("failures", [0, 1])
def test_what_somebody_else_has_answered_is_a_conflict(airflow: Airflow, failures: int) -> None:
    """Another choice than ours is there, at the first or at the second request."""
    airflow.fails, airflow.chosen = {("PATCH", "hitlDetails"): failures}, ["No"]
    with pytest.raises(Conflict):
        client(airflow).answer(QUESTION, "Yes")


def test_a_read_is_repeated_and_a_clearing_is_not(airflow: Airflow) -> None:
    """Clearing twice would end what has begun again."""
    airflow.fails = {("GET", "r"): 2, ("POST", "clearTaskInstances"): 1}
    api = client(airflow)
    assert api.run_state("d", "r") == "running"
    with pytest.raises(Transient):
        api.clear("d", "r", ["t"])
    assert airflow.asked.count(("POST", "clearTaskInstances")) == 1


def test_a_server_answers_as_soon_as_it_does_so_without_an_error(airflow: Airflow) -> None:
    """No login and no patience: whoever waits asks again."""
    airflow.fails = {("GET", "version"): 1}
    api = client(airflow)
    assert (api.answers(), api.answers()) == (False, True)
    assert airflow.asked == [("GET", "version")] * 2
    assert not AirflowApi(url=f"http://127.0.0.1:{free_port()}").answers()


def test_patience_ends(airflow: Airflow) -> None:
    """A server that goes on failing is told of."""
    airflow.fails = {("GET", "r"): 10_000}
    with pytest.raises(Transient, match="Airflow answered 500"):
        client(airflow, patience_s=0.0).run_state("d", "r")
