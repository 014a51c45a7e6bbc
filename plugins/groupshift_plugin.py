"""Registers groupshift with Airflow: pages and their places in the UI. Airflow executes this file only."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from groupshift_airflow.links import AIRFLOW_LOOK, PREFIX, RunLink, page_path
from groupshift_airflow.web import LazyPages


class GroupshiftPlugin(AirflowPlugin):
    """Pages below ``/groupshift``, a menu entry, a tab on runs, a link on tasks.

    The pages are imported when the first one is asked for: every process of Airflow executes this file."""

    name = "groupshift"
    fastapi_apps: ClassVar[list[Any]] = [{"app": LazyPages(), "url_prefix": PREFIX, "name": "groupshift"}]
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Groupshift",
            "href": page_path(f"?look={AIRFLOW_LOOK}"),
            "destination": "nav",
            "category": "browse",
            "url_route": "groupshift-moves",
        },
        {
            "name": "Groupshift",
            "href": page_path(f"run?dag_id={{DAG_ID}}&run_id={{RUN_ID}}&look={AIRFLOW_LOOK}"),
            "destination": "dag_run",
            "url_route": "groupshift-run",
        },
    ]
    operator_extra_links: ClassVar[list[Any]] = [RunLink()]
