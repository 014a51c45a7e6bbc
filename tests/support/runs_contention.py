"""What a journal's database promises to several processes at once, as tests for every database: a module
imports them all and gives a fixture ``url``, the URL of an empty database."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from groupshift.adapters.sqlalchemy.database import Database
from groupshift.adapters.sqlalchemy.runs import VERSION, SqlRuns
from groupshift.adapters.sqlalchemy.scans import SqlScans
from groupshift.errors import Conflict, Fenced
from groupshift.ports.runs import EventKind, NewEvent
from support.runs_suite import CLUSTER, GROUP, entry, run_record

DEADLINE_S = 60
NOTED = NewEvent(kind=EventKind.NOTED, step="1")


def at_once(works: list[Callable[[], None]]) -> None:
    """Run all of them in threads that begin in the same moment."""
    barrier = threading.Barrier(len(works))
    failed: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        barrier.wait(10)
        try:
            work()
        except Exception as error:  # noqa: BLE001 - said below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert not any(thread.is_alive() for thread in threads)
    assert failed == []


def test_many_writers_lose_nothing(url: str) -> None:
    """Threads with connections of their own: every event has its own number, one claim each."""
    SqlRuns(url).create(run_record())
    tokens: list[int] = []

    def write(name: str) -> None:
        own = SqlRuns(url)
        tokens.extend(own.claim("r", name, 1, anew=True, take_over=True) for _ in range(3))
        own.close()

    at_once([lambda name=f"t{n}": write(name) for n in range(4)])  # type: ignore[misc]
    assert sorted(tokens) == list(range(1, 13))
    assert [event.seq for event in SqlRuns(url).events("r")] == list(range(1, 14))


def test_of_many_that_begin_at_once_one_begins(url: str) -> None:
    """The database decides, not a look before, of a cluster and its group, too; who lost wrote nothing. The
    tables are made by one of them."""
    outcomes: dict[str, str] = {}

    def begins(number: int) -> None:
        own, name = SqlRuns(url), f"r-{number}"
        try:
            own.create(run_record(name, target=CLUSTER if number % 2 else GROUP))
            outcomes[name] = "won"
        except Conflict:
            outcomes[name] = "lost"
        own.close()

    at_once([lambda number=n: begins(number) for n in range(6)])  # type: ignore[misc]
    assert Counter(outcomes.values()) == {"won": 1, "lost": 5}
    (kept,) = SqlRuns(url).recent(9)
    assert outcomes[kept.run] == "won"


def test_a_fenced_process_writes_nothing_after_its_token_is_void(url: str) -> None:
    """Processes take the run over from each other while all of them write: behind a claim nothing of a lower
    token is written."""
    SqlRuns(url).create(run_record())
    fenced: list[str] = []

    def act(name: str) -> None:
        own = SqlRuns(url)
        for _ in range(4):
            token = own.claim("r", name, 1, anew=True, take_over=True)
            for _ in range(3):
                try:
                    own.append(entry(token=token, events=(NOTED,)))
                except Fenced:
                    fenced.append(name)
                    break
        own.close()

    at_once([lambda name=f"p-{n}": act(name) for n in range(3)])  # type: ignore[misc]
    events = SqlRuns(url).events("r")
    tokens = [event.token for event in events]
    assert tokens == sorted(tokens)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    noted = sum(1 for event in events if event.kind is EventKind.NOTED)
    assert noted + len(fenced) <= 36
    assert noted >= 3


def test_scans_that_begin_at_once_get_numbers_of_their_own(url: str) -> None:
    """None is refused."""
    numbers: list[int] = []

    def begin() -> None:
        own = SqlScans(url)
        numbers.append(own.begin("zk:2181", 1).number)
        own.close()

    at_once([begin] * 4)
    assert sorted(numbers) == [1, 2, 3, 4]


def test_of_many_that_open_an_empty_database_one_makes_its_tables(url: str) -> None:
    """The others wait and use it; the version is written down once."""
    found: list[int] = []

    def read() -> None:
        own = SqlRuns(url)
        found.append(len(own.recent(5)))
        own.close()

    at_once([read] * 5)
    assert found == [0] * 5
    database = Database(url, "runs", versions="run_schema", version=VERSION)
    assert [row["version"] for row in database.rows("latest_schema")] == [VERSION]
    database.close()
