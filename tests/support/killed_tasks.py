"""An Airflow over a home of its own, in which every task of a chosen run is killed -9 once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from groupshift_sandbox.airflow_api import AirflowApi
from groupshift_sandbox.home import Home
from groupshift_sandbox.up import start_airflow
from support.real_airflow import Real

POLICY = '''"""A cluster policy: each task of an armed run dies once, at the worst moment."""
import os
import signal
from pathlib import Path

ARMED = Path({armed!r})


def _die_once(context, result=None):
    """All is done, and Airflow was told nothing of it."""
    ti = context["ti"]
    run = ARMED / ti.run_id
    if run.is_dir():
        try:
            (run / ti.task_id).touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def _crash_at_first(context):
    """Only its first attempt is asked to die at a point of a step, however often that one is entered."""
    ti = context["ti"]
    asked = ARMED / (ti.run_id + "." + ti.task_id)
    if asked.is_file() and ti.try_number == 1:
        os.environ["GROUPSHIFT_CRASH_AT_STEP"] = asked.read_text()


def task_policy(task):
    """Of every task, in its own process."""
    task._pre_execute_hook = _crash_at_first
    task._post_execute_hook = _die_once
'''

RUN_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Killing:
    """``airflow`` runs the tasks; a file in ``armed`` by run and task says that it was killed."""

    airflow: Real
    armed: Path

    def arm(self, run: str) -> None:
        """Every task of this run dies once, after it did its work and before Airflow hears of it."""
        (self.armed / run).mkdir()

    def arm_step(self, run: str, task: str, at: str) -> None:
        """The first attempt of this task dies at ``<text>.<point>`` of a step too (`adapters.crash`)."""
        (self.armed / f"{run}.{task}").write_text(at)

    def killed(self, run: str) -> set[str]:
        """The tasks that were."""
        return {each.name for each in (self.armed / run).iterdir()}

    def deaths(self, task: str) -> int:
        """How many attempts of a task ended by SIGKILL, by their logs."""
        logs = (self.airflow.home.root / "airflow" / "logs").glob(f"**/task_id={task}/attempt=*.log")
        return sum('"signal":-9' in each.read_text() for each in logs)


@contextmanager
def killing_airflow(home: Home, bootstrap: str, variables: Mapping[str, str]) -> Iterator[Killing]:
    """An Airflow whose processes see these environment variables too, by the settings file of this home.
    Whoever made the home ends its processes."""
    folder, armed = home.root / "airflow", home.root / "armed"
    armed.mkdir()
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "airflow_local_settings.py").write_text(POLICY.format(armed=str(armed)))
    address = start_airflow(home, "127.0.0.1:1", bootstrap, variables)
    api = AirflowApi(url=address)
    assert api.import_errors() == []
    yield Killing(airflow=Real(home=home, api=api, run_s=RUN_S), armed=armed)


def worked(tasks: Mapping[str, str]) -> set[str]:
    """The tasks of a green run in which a process did anything, by their states: no other one can be killed.
    ``planned`` is an empty operator, which the scheduler passes by itself."""
    assert set(tasks.values()) <= {"success", "skipped"}, tasks
    return {task for task, state in tasks.items() if state == "success"} - {"planned"}
