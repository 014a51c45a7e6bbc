"""Links from tasks to the migration's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/groupshift"
"""Where the pages are mounted."""


class MigrationLink(BaseOperatorLink):
    """The page of the migration a task works on; computed in the worker after the task has run."""

    name = "Migration"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Path of the page; of all migrations while the id is not known."""
        migration = getattr(operator, "migration", "")
        known = migration and "{" not in migration and migration != "None"
        return f"{PREFIX}/migrations/{quote(migration)}" if known else f"{PREFIX}/"
