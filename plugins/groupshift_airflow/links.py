"""Links from tasks to the migration's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

PREFIX = "/groupshift"
"""Where the pages are mounted."""


def migration_links(migration: str) -> tuple[tuple[str, str], ...]:
    """The pages about a migration, by what they are called."""
    page = f"{PREFIX}/migrations/{quote(migration)}"
    return (("Migration", f"{page}/"), ("Report", f"{page}/report"))


def run_links(run: str, move: str) -> tuple[tuple[str, str], ...]:
    """The report of a run that changes a cluster, by what it is called."""
    return (("Report", f"{PREFIX}/{move}s/{quote(run)}/"),)


class MigrationLink(BaseOperatorLink):
    """The page of the migration a task works on; computed in the worker after the task has run."""

    name = "Migration"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        """Path of the page; of all migrations while the id is not known."""
        migration = getattr(operator, "migration", "")
        known = migration and "{" not in migration and migration != "None"
        return f"{PREFIX}/migrations/{quote(migration)}" if known else f"{PREFIX}/"
