"""The tasks of the DAG of a move one after the other, on the engine over a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped
from airflow.sdk.timezone import utcnow

from groupshift.bootstrap import moves
from groupshift.errors import Transient
from groupshift_airflow.run_steps import Compare, Steps
from groupshift_airflow.run_tasks import RunTask
from support.driven_moves import Driver

_LOOKS = 200
"""Entries of the tasks of one phase, at the most."""


class Parked(BaseException):
    """A task asks a person."""


@dataclass
class Try:
    """What Airflow keeps of a task; ``states`` are those of all tasks."""

    states: dict[str, str]
    try_number: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    dag_id: str = "dag"
    run_id: str = "run"

    def xcom_push(self, key: str, value: Any) -> None:
        """Keep."""
        self.kept[key] = value

    def xcom_pull(self, *, key: str, **_of: str) -> Any:
        """What was kept, if anything."""
        return self.kept.get(key)

    def get_task_states(self, *, task_ids: list[str], **_of: Any) -> dict[str, dict[str, str]]:
        """As far as the tasks are over."""
        return {"run": {each: self.states[each] for each in task_ids if each in self.states}}


@dataclass
class Story:
    """One Airflow run over one world, ``named`` in Airflow; ``run`` is ours. ``parked`` are the tasks that
    asked, as they were shown."""

    dag: Any
    driver: Driver
    params: dict[str, Any]
    named: str = "run"
    run: str = ""
    parked: list[Any] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    tries: dict[str, Try] = field(default_factory=dict)

    @property
    def holder(self) -> str:
        """Who has the run while this Airflow run goes on with it."""
        return f"{self.dag.dag_id}/{self.named}"

    def again(self, name: str) -> None:
        """From now on it is another Airflow run."""
        self.named, self.run = name, ""
        self.states.clear()
        self.tries.clear()

    def execute(self, name: str, **params: object) -> Any:
        """A task, or all tasks of a group: a new try of each that is not over. Returns what ``plan`` and
        ``verdict`` return, else whether nobody is asked."""
        if name in {"plan", "verdict"}:
            task = self.dag.get_task(name)
            found = task.execute(self._entered(task, params))
            self.run = found if name == "plan" else self.run
            return found
        found = [each for each in self.dag.task_dict if each == name or each.startswith(f"{name}.")]
        assert found, name
        for each in found:
            self.states.pop(each, "")
        return self._to_its_end([self.dag.get_task(each) for each in found], params)

    def _to_its_end(self, tasks: list[Steps], params: Mapping[str, object]) -> bool:
        """Enter tasks in their order, two that take turns in turns."""
        contexts = {each.task_id: self._entered(each, params) for each in tasks}
        for looks in range(_LOOKS):
            left = [each for each in tasks if each.task_id not in self.states]
            if not left:
                return True
            for task in left if left[0].beside else left[:1]:
                contexts[task.task_id]["task_reschedule_count"] = looks
                try:
                    self._poke(task, contexts[task.task_id])
                except Parked:
                    return False
            self.driver.clock.sleep(5.0)
        raise AssertionError(f"{[each.task_id for each in tasks]} never come to an end")

    def _poke(self, task: Steps, context: Any) -> None:
        try:
            if task.poke(context):
                self.states[task.task_id] = "success"
        except AirflowSkipException:
            self.states[task.task_id] = "skipped"
        except DownstreamTasksSkipped:
            self.states[task.task_id] = "success"

    def answer(self, choice: str | None) -> bool:
        """Answer the task that asked last, as alice or as nobody; where more is to be done, its next try goes
        on. Returns whether nobody is asked now."""
        task = self.parked[-1].task
        context = self._entered(task, {}, anew=False)
        event = {
            "chosen_options": [choice] if choice else self.parked[-1].defaults,
            "params_input": {},
            "responded_at": utcnow(),
            "responded_by_user": {"id": "alice", "name": "alice"} if choice else None,
        }
        try:
            task.execute_complete(context, event)
        except Transient:
            name = task.task_id.rpartition(".")[0] if getattr(task, "beside", "") else task.task_id
            return bool(self.execute(name))
        self.states[task.task_id] = "success"
        rest = task.task_id.rpartition(".")[0]
        return bool(self.execute(rest)) if rest else True

    def _entered(self, task: Any, params: Mapping[str, object], *, anew: bool = True) -> Any:
        kept = self.tries.setdefault(task.task_id, Try(states=self.states))
        kept.try_number += anew
        task.run, task.holder, task.answered = self.run, self.holder, ""
        about = SimpleNamespace(dag_id=self.dag.dag_id, run_id=self.named, triggering_user_name="alice")
        return {
            "params": {**self.params, **params},
            "ti": kept,
            "dag_run": about,
            "task_reschedule_count": 0,
        }


def telling(
    dag: Any, params: dict[str, Any], driver_of: Callable[[Any], Driver], patch: pytest.MonkeyPatch
) -> Callable[..., Story]:
    """Stories of worlds, told by the tasks of ``dag``; each has a journal of its own."""

    def of(world: Any) -> Story:
        driver = driver_of(world)
        told = Story(dag=dag, driver=driver, params=params)

        def asks(self: Any, _context: Any) -> None:
            shown = SimpleNamespace(task=self, body=self.body, options=self.options, defaults=self.defaults)
            told.parked.append(shown)
            raise Parked

        @contextmanager
        def opened(*_of: Any) -> Any:
            yield driver.ports

        def submit(_task: Any, _context: Any, job: Any, _settings: Any) -> None:
            driver.comparisons.submit(job)

        patch.setattr(HITLOperator, "execute", asks)
        patch.setattr(moves, "journal", lambda _settings: nullcontext(driver.runs))
        patch.setattr(moves, "opened", opened)
        patch.setattr(moves, "tools_of", lambda _runs, _settings: driver.tools())
        patch.setattr(RunTask, "settings", lambda _task, **_: None)
        patch.setattr(Steps, "submit", submit)
        patch.setattr(Compare, "submit", submit)
        return told

    return of
