"""A real Airflow whose DAGs drive the toy move, and what tests ask of its runs. No cluster runs beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toy_move.target import Target

from groupshift.adapters.spark_submit.java import java_home
from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.ports.runs import Runs
from groupshift_sandbox import airflow
from groupshift_sandbox.airflow_api import AirflowApi, Question
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import Command, free_port, start, wait_until

ENGINE = Path(__file__).parents[1] / "engine"
PROJECT = ENGINE.parents[1]
RUN_S = 1200.0
OPEN_S = 6.0
"""A gate is answered when it has been open for so long: one that is answered in the instant in which it
parks is taken for failed by Airflow, and asks again."""
_NOBODY = "groupshift_kafka_default"
_FINISHED = frozenset({"success", "failed"})
Act = Callable[[], None]


@dataclass
class Story:
    """One run of a DAG: ``answers`` are by task, ``acts`` are done right before an answer is given, and
    ``states`` is every state that a task was seen in."""

    dag: str
    run: str
    conf: Mapping[str, Any]
    answers: dict[str, str] = field(default_factory=dict)
    acts: dict[str, Act] = field(default_factory=dict)
    states: dict[str, set[str]] = field(default_factory=dict)
    bodies: dict[str, str] = field(default_factory=dict)
    end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyAirflow:
    """The Airflow, its journal, and the folder of toys."""

    home: Home
    api: AirflowApi
    runs: Runs

    def toy(self, name: str) -> Target:
        """Return a new toy."""
        target = self.found(name)
        target.make()
        return target

    def found(self, name: str) -> Target:
        """Return a toy that is there."""
        return Target(file=self.home.root / f"{name}.db", folder=self.home.evidence)

    def conf(self, name: str, **more: Any) -> dict[str, Any]:
        """Return a filled form for this toy."""
        return {"name": name, "file": str(self.home.root / f"{name}.db"), "execute": True, **more}

    def tell(self, *stories: Story) -> None:
        """Trigger the runs, answer their gates, and wait until all are over."""
        for story in stories:
            self.api.trigger(story.dag, story.run, story.conf)
        since: dict[Question, float] = {}
        end = time.monotonic() + RUN_S
        while any(not each.end for each in stories):
            assert time.monotonic() < end, [
                (each.run, self.api.tasks(each.dag, each.run)) for each in stories
            ]
            for story in [each for each in stories if not each.end]:
                self._look(story, since)
            time.sleep(1)

    def _look(self, story: Story, since: dict[Question, float]) -> None:
        for task, state in self.api.tasks(story.dag, story.run).items():
            story.states.setdefault(task, set()).add(state)
        now = time.monotonic()
        for question in self.api.questions(story.dag, story.run):
            story.bodies[question.task] = question.body
            if question.task in story.answers and now - since.setdefault(question, now) >= OPEN_S:
                story.acts.get(question.task, lambda: None)()
                self.api.answer(question, story.answers[question.task])
                del since[question]
        state = self.api.run_state(story.dag, story.run)
        story.end = state if state in _FINISHED else ""

    def red(self, story: Story) -> list[str]:
        """Return the tasks of a run that failed by themselves."""
        found = self.api.tasks(story.dag, story.run).items()
        return sorted(task for task, state in found if state == "failed")

    def said(self, story: Story, task: str) -> str:
        """Return everything that the tries of a task logged, from the files: Airflow's API does not
        know the first try of a task that was rescheduled while its scheduler was busy."""
        logs = self.home.root / "airflow" / "logs"
        tries = logs.glob(f"dag_id={story.dag}/run_id={story.run}/task_id={task}/attempt=*.log")
        return "\n".join(file.read_text() for file in sorted(tries))

    def run_of(self, story: Story) -> str:
        """Return the id of the run that a story drives."""
        return str(self.api.xcom(story.dag, story.run, "plan"))


@contextmanager
def toy_airflow(folder: Path, variables: Mapping[str, str]) -> Iterator[ToyAirflow]:
    """An Airflow with the toy's DAGs and our plugin; its processes see these environment variables, too."""
    home = Home(folder.resolve()).create()
    project = home.root / "project"
    project.mkdir()
    (project / "dags").symlink_to(ENGINE / "dags")
    (project / "plugins").symlink_to(PROJECT / "plugins")
    journal = f"sqlite:///{home.root / 'journal.db'}"
    home.settings_file.write_text(
        f'[journal]\nurl = "{journal}"\n[evidence]\nroot = "{home.evidence}"\n[fleet]\ndriver = "manual"\n'
    )
    paths = [str(ENGINE), str(ENGINE / "installed"), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    spec = airflow.AirflowSpec(
        home=home.root / "airflow",
        project=project,
        port=free_port(),
        settings=home.settings_file,
        connections={
            _NOBODY: {"conn_type": "groupshift_kafka", "host": "127.0.0.1:9"},
            "spark_default": {"conn_type": "spark", "host": "local[1]"},
        },
        extra={"PYTHONPATH": os.pathsep.join(paths), "JAVA_HOME": str(java_home()), **variables},
    )
    runs = SqlRuns(journal)
    try:
        airflow.prepare(spec)
        for name in airflow.PROCESSES:
            argv = airflow.command(name)
            start(home, Command(name=name, argv=argv, environment=airflow.environment(spec), complete=True))
            wait_until(AirflowApi(url=spec.url).answers, 300.0, "Airflow's API server answers", every_s=0.5)
        api = airflow.wait_healthy(spec)
        assert api.import_errors() == []
        yield ToyAirflow(home=home, api=api, runs=runs)
    finally:
        down(home)
        runs.close()
