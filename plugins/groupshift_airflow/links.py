"""Addresses of the plugin's pages and of Airflow's, also where Airflow runs behind a path of the host.

`[api] base_url` of Airflow decides: with ``http://host/team/airflow`` everything is below ``/team/airflow``.
Every link that this plugin shows is made here, so none of them points to the root of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/groupshift"
"""Where the pages are mounted, below the path of Airflow itself."""

AIRFLOW_LOOK = "airflow"
"""A page that is asked for with ``look=airflow`` follows Airflow's switch of light and dark."""


def airflow_path(path: str = "") -> str:
    """Path of a page of Airflow's UI on its host, for links inside pages: right for whatever name the host
    is called by."""
    return _joined(urlsplit(_base()).path, path)


def page_url(path: str = "") -> str:
    """Return the absolute address of a page of this plugin, for logs, gates and messages; only its path where
    this process knows no ``[api] base_url``. ``path`` is below ``/groupshift``, as ``audits/``."""
    return _joined(_base(), _joined(PREFIX, path))


def page_path(path: str = "") -> str:
    """Path of a page of this plugin on Airflow's host."""
    return airflow_path(_joined(PREFIX, path))


def run_path(dag_id: str, run_id: str) -> str:
    """Path of the page of a run, below Airflow's own."""
    return f"dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


def required_actions(dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str:
    """Path of the page where the question of this task is answered, below Airflow's own."""
    mapped = f"/mapped/{map_index}" if map_index >= 0 else ""
    return f"{run_path(dag_id, run_id)}/tasks/{quote(task_id, safe='')}{mapped}/required_actions"


def run_page(run: str) -> str:
    """Path of the page of a run on Airflow's host."""
    return page_path(f"runs/{quote(run, safe='')}/")


class RunLink(BaseOperatorLink):
    """The page of the run that a task works on; computed in the worker after the task has run."""

    name = "Run"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Address of the page; of all runs while the id is not known."""
        run = getattr(operator, "run", "")
        known = run and "{" not in run and run != "None"
        address = f"{page_url('runs/')}{quote(run, safe='')}/" if known else page_url()
        return f"{address}?look={AIRFLOW_LOOK}"


def _base() -> str:
    """Airflow's own address, as its configuration has it; empty where it has none."""
    return str(conf.get("api", "base_url", fallback="") or "").strip()


def _joined(base: str, path: str) -> str:
    """Both with one slash between them."""
    return f"{base.rstrip('/')}/{path.lstrip('/')}"
