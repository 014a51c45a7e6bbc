"""A real Airflow over a real sandbox, and what tests ask of its runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupshift.bootstrap.connect import zookeeper_side
from groupshift.bootstrap.moves import journal
from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind
from groupshift.engine.status import RunStatus, status_of
from groupshift.ports.runs import Event, EventKind, Runs
from groupshift.settings import load
from groupshift_sandbox.airflow import PROCESSES
from groupshift_sandbox.airflow_api import AirflowApi, Question
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import is_running, known
from groupshift_sandbox.state import SandboxState
from groupshift_sandbox.up import UpOptions, start_airflow, up

GROUP = "orders-app"
RUN_S = 1500.0
OPEN_S = 8.0
CONF = {"group": GROUP, "execute": True, "soak": 5, "canary_watch": 30}
ACTS = frozenset({"replace_members", "set_mode", "delete_mode_node"})
"""Kinds of steps that change the group."""
LIMITS = "[thresholds]\npatience_s = 60\ncanary_rebalances = 3\n"
"""A member that a busy machine holds up for some seconds is no reason to go back."""
HEARTBEAT = "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT"
"""The variable that says after how many seconds without a word a task is taken for dead."""
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

        A gate is answered when it has been open for `OPEN_S`: where it is answered in the instant in which
        it parks, Airflow counts that try as failed and asks again."""
        self.api.trigger(dag, run, conf)
        states, since = ["queued"], dict[Question, float]()
        for state in self.api.follow(dag, run, self.run_s):
            states.append(state)
            assert self.ended() == []
            tasks = self.api.tasks(dag, run)
            parked = self.api.questions(dag, run) if "awaiting_input" in tasks.values() else []
            now = time.monotonic()
            since = {question: since.get(question, now) for question in parked}
            for question in [each for each in parked if now - since[each] >= OPEN_S]:
                if question.task in answers:
                    self.api.answer(question, answers[question.task])
                    del since[question]
            watch(tasks)
        return states[-1]

    def ended(self) -> list[str]:
        """Processes of Airflow that are gone: nothing more would come of a run."""
        found = [known(self.home, name) for name in PROCESSES]
        return [each.name for each in found if each is not None and not is_running(each)]

    def view(self) -> GroupView:
        """The group now."""
        with zookeeper_side(load(self.home.settings_file)) as side:
            return side.groups.read(GROUP)

    @contextmanager
    def runs(self) -> Iterator[Runs]:
        """The journal of this deployment."""
        with journal(load(self.home.settings_file)) as runs:
            yield runs

    def status(self) -> RunStatus:
        """The latest run as journaled."""
        with self.runs() as runs:
            return status_of(runs, runs.recent(1, previews=False)[0].run)

    def events(self) -> tuple[Event, ...]:
        """The history of the latest run."""
        with self.runs() as runs:
            return runs.events(runs.recent(1, previews=False)[0].run)

    def asked(self, dag: str, run: str) -> list[str]:
        """What the questions of a run showed, whether somebody answered or not."""
        rows = self.api._request("GET", f"/api/v2/dags/{dag}/dagRuns/{run}/hitlDetails")["hitl_details"]
        return [str(row["body"]) for row in rows]

    def attempts(self, dag: str, run: str) -> dict[str, int]:
        """Tries that began, by task id: Airflow counts one more that it could not start."""
        found = {}
        for task in self.api.tasks(dag, run):
            path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/tries"
            tries = self.api._request("GET", path)["task_instances"]
            found[task] = len({row["start_date"] for row in tries} - {None})
        return found

    def said(self, dag: str, run: str, task: str) -> str:
        """Everything the attempts of a task logged."""
        tries = {row["task_id"]: row["try_number"] for row in self.api.task_instances(dag, run)}
        return "\n".join(self.api.logs(dag, run, task, number + 1) for number in range(tries[task]))


@contextmanager
def real_airflow(
    folder: Path,
    variables: Mapping[str, str],
    properties: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[Real]:
    """A sandbox with Airflow, whose processes see these environment variables too; ``properties`` are those
    of members by their kind."""
    home = Home(folder.resolve())
    try:
        up(
            home,
            UpOptions(members=2, partitions=4, airflow=False, properties=properties or {}),
            lambda _: None,
        )
        home.settings_file.write_text(f"{home.settings_file.read_text()}\n{LIMITS}")
        found = SandboxState(home).addresses()
        api = AirflowApi(url=start_airflow(home, found["zookeeper"], found["kafka"], variables))
        assert api.import_errors() == []
        yield Real(home=home, api=api)
    finally:
        down(home)


def first_on_path(folder: Path) -> str:
    """The variable PATH with which Airflow finds what lies in this folder, then what belongs to this
    interpreter."""
    return os.pathsep.join(
        [str(folder), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    )


def kinds_of(view: GroupView) -> list[MemberKind]:
    """What its members are."""
    return [member.kind for member in view.members]


def acts_of(events: tuple[Event, ...]) -> list[str]:
    """The phases whose acts changed the group, in order."""
    found = [each.step.rpartition(" ")[2].partition("/") for each in events if each.kind is EventKind.ACTED]
    return [phase for phase, _, kind in found if kind in ACTS]
