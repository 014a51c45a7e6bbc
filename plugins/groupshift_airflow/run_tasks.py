"""What every task of a run has: which run it is, over which connections, and who holds it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from groupshift.errors import GroupshiftError
from groupshift_airflow.hooks import cluster_settings, find_connection
from groupshift_airflow.links import RunLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from groupshift.bootstrap.moves import Place
    from groupshift.domain.run import Step
    from groupshift.engine.move import Move, Run, RunOptions, Tools
    from groupshift.ports.runs import RunRecord
    from groupshift.settings import Settings

NODES_VARIABLE = "GROUPSHIFT_NODES"
"""Environment variable that names the file of who replaces or restarts nodes
(docs/reference/node-drivers.md); without it a person does."""
TIMEOUT_S = 30.0
PLAN = "plan"
"""Task that makes a run or names it; it returns the run's id."""
REFUSED = "refused"
"""XCom key of the sentence with which a run was refused."""
UNKNOWN = "None"
"""What an id renders to when the task that makes it failed."""
NOBODY = "nobody (expired)"


def named(user: str) -> str:
    """Return a user of Airflow. An account of the operating system is told in round brackets: a name that
    looks like one is not taken for one."""
    return user.replace("(uid", "[uid")


def requester_of(run: Any) -> str:
    """Return who triggered this run of a DAG, as `named` tells it; ``airflow`` where nobody did."""
    return named(getattr(run, "triggering_user_name", None) or "airflow")


def person(user: Mapping[str, Any] | None) -> str:
    """Return who answered, by Airflow's word."""
    return named(str((user.get("name") or user.get("id")) if user else NOBODY))


def require_execute(context: Context) -> None:
    """Skip this task, and with it what it guards, unless the run was triggered with ``execute``."""
    if not context["params"]["execute"]:
        raise AirflowSkipException("planned only: trigger again with 'execute' to act")


def uses_zookeeper(move: Move[Any], conn_id: str) -> bool:
    """Whether the ports of a move need ZooKeeper. What a move that opens its own ports needs, it alone knows:
    it gets the connection where there is one."""
    from groupshift.ports.group import ZookeeperSide

    if hasattr(move.ports, "opened"):
        return conn_id not in {"", UNKNOWN} and find_connection(conn_id) is not None
    return ZookeeperSide in get_type_hints(move.ports).values()


@contextmanager
def telling(context: Context) -> Iterator[None]:
    """Keep why the beginning of a run was refused, for the tab of the Airflow run: there is no run to show.
    The error is raised again."""
    try:
        yield
    except GroupshiftError as why:
        context["ti"].xcom_push(key=REFUSED, value=str(why))
        raise


def run_place(settings: Settings) -> Place:
    """Return where runs of the engine work, of these settings."""
    from groupshift.bootstrap.moves import Place

    file = os.environ.get(NODES_VARIABLE)
    return Place(settings=settings, nodes=Path(file) if file else None, timeout_s=TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A run with all that it works with."""

    record: RunRecord
    move: Move[Any]
    tools: Tools
    ports: Any
    settings: Settings

    def reader(self) -> Run[Any]:
        """Return the run for reading."""
        from groupshift.engine.move import Run

        return Run.reader(self.move, self.tools, self.ports, self.record.run)

    def claim(self, options: RunOptions, *, anew: bool = True, take_over: bool = False) -> Run[Any]:
        """Claim the run. Raises as `groupshift.engine.begin.claim`."""
        from groupshift.engine.begin import claim

        return claim(self.move, self.tools, self.ports, self.record, options, anew=anew, take_over=take_over)


class ClusterTask(BaseOperator):
    """Base: over which connections, as the form of the run names them."""

    template_fields: Sequence[str] = ("kafka_conn_id", "zookeeper_conn_id")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = "{{ params.kafka_conn_id }}"
        self.zookeeper_conn_id = "{{ params.get('zookeeper_conn_id') or '' }}"

    def settings(self, *, zookeeper: bool = True) -> Settings:
        """Return the deployment's settings with these connections, or with that of Kafka alone.

        Raises:
            Rejected: a connection or a setting is missing or wrong.
        """
        return cluster_settings(self.kafka_conn_id, self.zookeeper_conn_id if zookeeper else "")


class RunTask(ClusterTask):
    """Base: which run, over which connections, for which holder."""

    template_fields: Sequence[str] = ("run", "holder", *ClusterTask.template_fields)
    operator_extra_links = (RunLink(),)

    def __init__(self, *, run: str = "{{ ti.xcom_pull(task_ids='plan') }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run, self.holder = run, "{{ dag.dag_id }}/{{ run_id }}"

    @contextmanager
    def opened(self) -> Iterator[Opened]:
        """Open the journal, and the ports of the run's move: a move without ZooKeeper needs no connection to
        it.

        Raises:
            Rejected: the run is not in the journal, its move is not installed, or a connection is wrong.
        """
        from groupshift.bootstrap.moves import journal, opened, tools_of
        from groupshift.engine.installed_moves import move_named

        with journal(self.settings(zookeeper=False)) as runs:
            record = runs.find(self.run)
            move = move_named(record.move)
            settings = self.settings(zookeeper=uses_zookeeper(move, self.zookeeper_conn_id))
            request = move.request_from(json.loads(record.request))
            with opened(move, run_place(settings), request) as ports:
                yield Opened(
                    record=record, move=move, tools=tools_of(runs, settings), ports=ports, settings=settings
                )

    def options_of(self, context: Context, **more: Any) -> RunOptions:
        """Return how this task goes on: ``more`` replaces the usual."""
        from groupshift.engine.move import RunOptions

        requester = requester_of(context.get("dag_run"))
        usual = RunOptions(who=requester, holder=self.holder, requester=requester, tell=self.tell)
        return replace(usual, **more)

    def tell(self, step: Step, detail: str) -> None:
        """Write what is said of a step into the task's log."""
        self.log.info("%s: %s", step.key, detail)
