"""The one journal on a real PostgreSQL: `runs_suite`, and what only a server can do."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.errors import Conflict
from groupshift.ports.runs import Runs
from support.postgres_server import Postgres, postgres
from support.runs_suite import *  # noqa: F403 - the suite's tests are this module's tests
from support.runs_suite import CLUSTER, GROUP, run_record


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server for this module."""
    with postgres() as running:
        yield running


@pytest.fixture
def url(server: Postgres) -> str:
    """The URL of an empty database."""
    return server.url(server.new_database())


@pytest.fixture
def runs(url: str) -> Iterator[Runs]:
    """An empty journal of runs."""
    made = SqlRuns(url)
    yield made
    made.close()


def test_of_many_that_begin_at_once_one_begins(url: str) -> None:
    """Of a cluster and its group; the tables are made by one of them, too."""
    start, made = threading.Barrier(6), []

    def begins(number: int) -> None:
        runs = SqlRuns(url)
        start.wait()
        try:
            runs.create(run_record(str(number), target=CLUSTER if number % 2 else GROUP))
            made.append(number)
        except Conflict:
            pass
        finally:
            runs.close()

    threads = [threading.Thread(target=begins, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(made) == 1
