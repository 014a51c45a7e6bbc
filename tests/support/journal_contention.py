"""What a journal's database promises to several processes at once, as tests for every database: a module
imports them all and gives a fixture ``journal_url``, the URL of an empty database."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from groupshift.adapters.sqlalchemy.database import Database, versions
from groupshift.adapters.sqlalchemy.journal import SqlJournal
from groupshift.adapters.sqlalchemy.scans import SqlScans
from groupshift.errors import Conflict
from support.journal_suite import entry, record

DEADLINE_S = 60


def at_once(works: list[Callable[[], None]]) -> None:
    """Run all of them in threads that begin in the same moment."""
    barrier = threading.Barrier(len(works))
    failed: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        barrier.wait(10)
        try:
            work()
        except Exception as error:  # noqa: BLE001 - told below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert not any(thread.is_alive() for thread in threads)
    assert failed == []


def test_many_writers_lose_nothing(journal_url: str) -> None:
    """Threads with connections of their own: every event has its own number, one claim each."""
    SqlJournal(journal_url).create(record())
    tokens: list[int] = []

    def write(name: str) -> None:
        own = SqlJournal(journal_url)
        tokens.append(own.claim("m-1", name, 1))
        for _ in range(5):
            own.append(entry())
        own.close()

    at_once([lambda name=f"t{n}": write(name) for n in range(4)])
    assert sorted(tokens) == [1, 2, 3, 4]
    assert [event.seq for event in SqlJournal(journal_url).events("m-1")] == list(range(1, 25))


def test_only_one_of_several_planners_wins(journal_url: str) -> None:
    """The database decides, not a look before; who lost wrote nothing."""
    outcomes: dict[str, str] = {}

    def plan(name: str) -> None:
        own = SqlJournal(journal_url)
        try:
            own.create(record(name))
            outcomes[name] = "won"
        except Conflict:
            outcomes[name] = "lost"
        own.close()

    at_once([lambda name=f"m-{n}": plan(name) for n in range(4)])
    assert Counter(outcomes.values()) == {"won": 1, "lost": 3}
    (kept,) = SqlJournal(journal_url).of_group("g")
    assert outcomes[kept.migration] == "won"


def test_a_fenced_run_writes_nothing_after_its_token_is_void(journal_url: str) -> None:
    """Runs take the migration over from each other while all of them write: behind a claim nothing with a
    lower token is written."""
    SqlJournal(journal_url).create(record())
    fenced: list[str] = []

    def act(name: str) -> None:
        own = SqlJournal(journal_url)
        for _ in range(4):
            token = own.claim("m-1", name, 1)
            for _ in range(3):
                try:
                    own.append(entry(token=token))
                except Conflict:
                    fenced.append(name)
                    break
        own.close()

    at_once([lambda name=f"run-{n}": act(name) for n in range(3)])
    events = SqlJournal(journal_url).events("m-1")
    tokens = [event.token for event in events]
    assert tokens == sorted(tokens)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    acted = sum(1 for event in events if event.kind == "acted")
    assert acted + len(fenced) <= 36
    assert acted >= 3


def test_scans_that_begin_at_once_get_numbers_of_their_own(journal_url: str) -> None:
    """None is refused."""
    numbers: list[int] = []

    def begin() -> None:
        own = SqlScans(journal_url)
        numbers.append(own.begin("zk:2181", 1).number)
        own.close()

    at_once([begin] * 4)
    assert sorted(numbers) == [1, 2, 3, 4]


def test_of_many_that_open_an_empty_database_one_makes_its_tables(journal_url: str) -> None:
    """The others wait and use it; each version is written down once."""
    found: list[int] = []

    def read() -> None:
        own = SqlJournal(journal_url)
        found.append(len(own.recent(5)))
        own.close()

    at_once([read] * 5)
    assert found == [0] * 5
    database = Database(journal_url)
    latest = database.rows("schema/latest_version")
    assert [row["version"] for row in latest] == [versions()[-1]]
    database.close()
