"""A small client of Airflow's REST API: what the demo and the end-to-end tests need, no more.

Source: Airflow 3.3 public API (``/api/v2``) and simple auth manager (``/auth/token``).
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from groupshift.errors import Conflict, Rejected, Transient

_AGAIN_S = 0.5
_FINISHED = frozenset({"success", "failed"})
_HTTP_CLIENT_ERROR = 400
_HTTP_CONFLICT = 409
_HTTP_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One open human-in-the-loop question: Markdown ``body``, the ``options`` to choose from."""

    dag: str
    run: str
    task: str
    map_index: int
    subject: str
    body: str
    options: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class AirflowApi:
    """Talks to one Airflow; ``url`` without a trailing slash. Logs in on first use.

    Raises `Transient` when the server does not answer, `Rejected` when it refuses the request
    (the sentence carries its answer), `Conflict` on 409. What only reads, and what has its effect once
    however often it is asked for, is asked again for ``patience_s`` while the server does not answer or
    fails (its SQLite is locked, or the machine is busy).
    """

    url: str
    user: str = "admin"
    password: str = field(default="admin", repr=False)
    timeout: float = 30.0
    patience_s: float = 60.0
    _token: str = field(default="", repr=False)

    def answers(self) -> bool:
        """True when the API server answers at all, whatever the other processes do."""
        try:
            self._ask("GET", "/api/v2/version", login=False)
        except (Transient, Rejected):
            return False
        return True

    def healthy(self) -> bool:
        """True when the database, the scheduler and the dag-processor all report healthy."""
        try:
            answer = self._ask("GET", "/api/v2/monitor/health", login=False)
        except (Transient, Rejected):
            return False
        parts = ("metadatabase", "scheduler", "dag_processor")
        return all((answer.get(part) or {}).get("status") == "healthy" for part in parts)

    def knows(self, dag: str) -> bool:
        """True once the DAG was parsed and can be triggered."""
        try:
            self._request("GET", f"/api/v2/dags/{dag}")
        except Rejected:
            return False
        return True

    def trigger(self, dag: str, run: str, conf: Mapping[str, Any]) -> str:
        """Start a run with this id and configuration; returns the run id. Raises `Conflict` when there is one
        already; one that an unanswered request of this call has made counts as started."""
        body = {"logical_date": None, "dag_run_id": run, "conf": dict(conf)}
        self._once("POST", f"/api/v2/dags/{dag}/dagRuns", body, done=lambda: True)
        return run

    def run_state(self, dag: str, run: str) -> str:
        """``queued``, ``running``, ``success`` or ``failed``."""
        return str(self._request("GET", self._run_path(dag, run))["state"])

    def tasks(self, dag: str, run: str) -> dict[str, str]:
        """State of every task instance by task id (``none`` when not scheduled yet)."""
        return {row["task_id"]: row["state"] or "none" for row in self.task_instances(dag, run)}

    def task_instances(self, dag: str, run: str) -> list[dict[str, Any]]:
        """All task instances of a run as the API describes them."""
        answer = self._request("GET", f"{self._run_path(dag, run)}/taskInstances?limit=500")
        return list(answer["task_instances"])

    def xcom(self, dag: str, run: str, task: str, key: str = "return_value") -> Any:
        """One XCom value."""
        path = f"{self._run_path(dag, run)}/taskInstances/{quote(task)}/xcomEntries/{quote(key)}"
        return self._request("GET", path)["value"]

    def logs(self, dag: str, run: str, task: str, attempt: int = 1) -> str:
        """The log of one attempt, one event a line."""
        path = f"{self._run_path(dag, run)}/taskInstances/{quote(task)}/logs/{attempt}?full_content=true"
        content = self._request("GET", path).get("content", [])
        return "\n".join(_log_line(entry) for entry in content)

    def questions(self, dag: str = "~", run: str = "~") -> list[Question]:
        """Questions that wait for a person now."""
        path = f"/api/v2/dags/{dag}/dagRuns/{quote(run, safe='~')}/hitlDetails?response_received=false"
        rows = self._request("GET", path)["hitl_details"]
        return [_question(row) for row in rows if row["task_instance"]["state"] == "awaiting_input"]

    def answer(self, question: Question, choice: str) -> None:
        """Answer a question as this user. Raises `Conflict` when somebody answered before."""
        path = (
            f"{self._run_path(question.dag, question.run)}/taskInstances/{quote(question.task)}"
            f"/{question.map_index}/hitlDetails"
        )
        body = {"chosen_options": [choice], "params_input": {}}
        self._once("PATCH", path, body, done=lambda: self._request("GET", path)["chosen_options"] == [choice])

    def clear(self, dag: str, run: str, tasks: list[str]) -> None:
        """Clear tasks and what follows them, so that the run continues from there."""
        body = {"dry_run": False, "dag_run_id": run, "task_ids": tasks, "include_downstream": True}
        self._request("POST", f"/api/v2/dags/{dag}/clearTaskInstances", body | {"only_failed": False})

    def import_errors(self) -> list[str]:
        """Errors of DAG files and of plugins."""
        dags = self._request("GET", "/api/v2/importErrors")["import_errors"]
        plugins = self._request("GET", "/api/v2/plugins/importErrors")["import_errors"]
        return [str(row.get("stack_trace") or row) for row in dags] + [str(row) for row in plugins]

    def follow(self, dag: str, run: str, deadline_s: float, every_s: float = 1.0) -> Iterator[str]:
        """Yield the run's state until it is finished. Raises `Transient` after ``deadline_s``."""
        end = time.monotonic() + deadline_s
        while True:
            state = self.run_state(dag, run)
            yield state
            if state in _FINISHED:
                return
            if time.monotonic() > end:
                raise Transient(
                    f"run {run} of {dag} is still {state} after {deadline_s:.0f} s; look at {self.url}."
                )
            time.sleep(every_s)

    def wait(
        self, dag: str, run: str, deadline_s: float, on_question: Callable[[Question], str | None]
    ) -> str:
        """Wait for the end of a run, answering its questions; returns the final state.

        ``on_question`` gets each open question until it returns a choice; None leaves it open.
        """
        state = "queued"
        for state in self.follow(dag, run, deadline_s):
            for question in () if state in _FINISHED else self.questions(dag, run):
                choice = on_question(question)
                if choice is not None:
                    self.answer(question, choice)
        return state

    def _run_path(self, dag: str, run: str) -> str:
        return f"/api/v2/dags/{dag}/dagRuns/{quote(run)}"

    def _login(self) -> str:
        body = {"username": self.user, "password": self.password}
        return str(self._once("POST", "/auth/token", body, login=False)["access_token"])

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask; what only reads is asked again while there is no answer."""
        return self._once(method, path, body) if method == "GET" else self._ask(method, path, body)

    def _once(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        login: bool = True,
        done: Callable[[], bool] = lambda: False,
    ) -> dict[str, Any]:
        """Ask until there is an answer. A 409 to a request that was asked again is no `Conflict` when
        ``done`` says that an earlier one, though it was not answered, had its effect."""
        end, again = time.monotonic() + self.patience_s, False
        while True:
            try:
                return self._ask(method, path, body, login=login)
            except Conflict:
                if again and done():
                    return {}
                raise
            except Transient:
                if time.monotonic() > end:
                    raise
            again = True
            time.sleep(_AGAIN_S)

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, login: bool = True
    ) -> dict[str, Any]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if login:
            self._token = self._token or self._login()
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=headers, method=method)  # noqa: S310 - our own loopback URL
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:  # noqa: S310
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise _refusal(error, method, path) from error
        except OSError as error:
            raise Transient(f"Airflow at {self.url} does not answer ({error}); is it up?") from error
        return dict(json.loads(text)) if text else {}


def _refusal(error: urllib.error.HTTPError, method: str, path: str) -> Exception:
    detail = error.read().decode(errors="replace")[:500]
    sentence = f"Airflow answered {error.code} to {method} {path}: {detail}"
    if error.code == _HTTP_CONFLICT:
        return Conflict(sentence)
    if _HTTP_CLIENT_ERROR <= error.code < _HTTP_SERVER_ERROR:
        return Rejected(sentence)
    return Transient(sentence)


def _question(row: Mapping[str, Any]) -> Question:
    task = row["task_instance"]
    return Question(
        dag=task["dag_id"],
        run=task["dag_run_id"],
        task=task["task_id"],
        map_index=task["map_index"],
        subject=row["subject"],
        body=row.get("body") or "",
        options=tuple(row["options"]),
    )


def _log_line(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    detail = entry.get("error_detail") or []
    errors = [f"{error.get('exc_type')}: {error.get('exc_value')}" for error in detail]
    return " ".join([str(entry.get("event", "")), *errors])
