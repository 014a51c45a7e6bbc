"""The journal of runs in memory: that of the product, gone with the process."""

from __future__ import annotations

from groupshift.adapters.sqlalchemy.runs import SqlRuns


class MemoryRuns(SqlRuns):
    """`groupshift.ports.runs.Runs` for tests and trials, in a database in memory that one thread uses."""

    def __init__(self) -> None:
        super().__init__("sqlite://")
