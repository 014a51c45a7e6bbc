"""The tasks of a DAG one after the other, over a simulated cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import pytest
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.timezone import utcnow


@dataclass
class Try:
    """What a task keeps between being asked and being answered."""

    kept: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        """Keep."""
        self.kept[key] = value

    def xcom_pull(self, *, key: str, **_of: str) -> Any:
        """What was kept, if anything."""
        return self.kept.get(key)


@dataclass
class Story:
    """The tasks of the DAG in their order, over one world; ``parked`` are those that asked, ``tries`` what
    each task keeps."""

    tasks: list[Any]
    world: Any
    tools: Any
    parked: list[Any]
    params: dict[str, Any]
    run: str = ""
    tries: dict[str, Try] = field(default_factory=lambda: defaultdict(Try))

    def execute(self, name: str, **params: object) -> Any:
        """One task, as the first try."""
        task = next(each for each in self.tasks if each.task_id == name)
        task.run_id = self.run
        found = task.execute({"params": {**self.params, **params}, "ti": self.tries[name]})
        if name == "plan":
            self.run = found
        return found

    def answer(self, name: str, choice: str | None) -> None:
        """Resume a task that asked, with an answer of alice, or of nobody."""
        task = next(each for each in self.tasks if each.task_id == name)
        task.run_id = self.run
        event = {
            "chosen_options": [choice] if choice else task.defaults,
            "params_input": {},
            "responded_at": utcnow(),
            "responded_by_user": {"id": "alice", "name": "alice"} if choice else None,
        }
        task.execute_complete({"params": self.params, "ti": self.tries[name]}, event)


@dataclass(frozen=True, kw_only=True)
class Told:
    """Which DAG, by which operators, and its parameters."""

    dag: str
    module: ModuleType
    params: dict[str, Any]


def telling(
    told: Told, tools_of: Callable[[Any], Any], dagbag: Any, patch: pytest.MonkeyPatch
) -> Callable[..., Story]:
    """Stories of worlds; gates park in a list."""
    parked: list[Any] = []
    patch.setattr(HITLOperator, "execute", lambda self, context: parked.append(self))  # noqa: ARG005

    def of(world: Any, **changes: Any) -> Story:
        tools = replace(tools_of(world), **changes)
        patch.setattr(told.module, "opened", lambda _id: nullcontext(tools))
        tasks = list(dagbag.dags[told.dag].topological_sort())
        return Story(tasks=tasks, world=world, tools=tools, parked=parked, params=told.params)

    return of
