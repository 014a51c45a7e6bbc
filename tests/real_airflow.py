"""A real Airflow over a real sandbox, and what tests ask of its runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupshift.application.status import MigrationStatus
from groupshift.bootstrap import build
from groupshift.domain.coordination import MemberKind
from groupshift.domain.group import GroupView
from groupshift.domain.moves import MoveRequest
from groupshift.ports.journal import EventKind
from groupshift.sandbox.airflow_api import AirflowApi, Question
from groupshift.sandbox.down import down
from groupshift.sandbox.home import Home
from groupshift.sandbox.state import SandboxState
from groupshift.sandbox.up import UpOptions, up
from groupshift.settings import load

GROUP = "orders-app"
RUN_S = 1500.0
CONF = {"group": GROUP, "execute": True, "soak_s": 5, "canary_watch_s": 20}
Watch = Callable[[dict[str, str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """The sandbox and its Airflow; a run may take ``run_s`` seconds."""

    home: Home
    api: AirflowApi
    run_s: float = RUN_S

    def run(
        self, dag: str, run: str, conf: dict[str, Any], answers: dict[str, str], watch: Watch = lambda _: None
    ) -> str:
        """Trigger and wait; gates get the answer for their task id, a gate without one is left alone.

        A gate is answered when it was open at the look before, too: where it is answered in the instant in
        which it parks, Airflow counts that try as failed and asks again."""
        self.api.trigger(dag, run, conf)
        states, parked = ["queued"], list[Question]()
        for state in self.api.follow(dag, run, self.run_s):
            states.append(state)
            before, parked = parked, self.api.questions(dag, run)
            for question in parked:
                if question in before and question.task in answers:
                    self.api.answer(question, answers[question.task])
            watch(self.api.tasks(dag, run))
        return states[-1]

    def view(self) -> GroupView:
        """The group now."""
        with build(load(self.home.settings_file)) as app:
            return app.assess(MoveRequest(group=GROUP)).view

    def migration(self) -> MigrationStatus:
        """The latest migration as journaled."""
        with build(load(self.home.settings_file)) as app:
            return app.status()[0]

    def asked(self, dag: str, run: str) -> list[str]:
        """What the questions of a run showed, whether somebody answered or not."""
        rows = self.api._request("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/hitlDetails")["hitl_details"]
        return [str(row["body"]) for row in rows]

    def attempts(self, dag: str, run: str) -> dict[str, int]:
        """Tries by task id."""
        return {row["task_id"]: row["try_number"] for row in self.api.task_instances(dag, run)}

    def said(self, dag: str, run: str, task: str) -> str:
        """Everything the attempts of a task logged."""
        attempts = self.attempts(dag, run)[task]
        return "\n".join(self.api.logs(dag, run, task, number + 1) for number in range(attempts))


@contextmanager
def real_airflow(folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[Real]:
    """A sandbox with Airflow, whose processes see these environment variables too."""
    home = Home(folder.resolve())
    kept = dict(os.environ)
    os.environ.update(variables or {})
    try:
        up(home, UpOptions(members=2, partitions=4), lambda _: None)
        api = AirflowApi(url=SandboxState(home).addresses()["airflow"])
        assert api.import_errors() == []
        yield Real(home=home, api=api)
    finally:
        os.environ.clear()
        os.environ.update(kept)
        down(home)


def kinds_of(view: GroupView) -> list[MemberKind]:
    """What its members are."""
    return [member.kind for member in view.members]


def acts_of(found: MigrationStatus) -> list[str]:
    """The stages that acted, in order."""
    return [str(event.stage) for event in found.events if event.kind is EventKind.ACTED]
