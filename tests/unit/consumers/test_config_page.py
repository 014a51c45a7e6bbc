"""The table of keys, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.consumers.config import KEYS, PREFIX, Use, parse
from groupshift.consumers.metrics import ConsumerStatus, Counters, prometheus, statistics
from groupshift.errors import Rejected

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "service-teams" / "configuration.md").read_text()
GOOD = {"group.id": "g", "zookeeper.connect": "z:2181", "bootstrap.servers": "k:9092"}


@pytest.mark.parametrize("key", list(KEYS))
def test_the_page_says_what_the_code_does(key: str) -> None:
    """One row a key, with the same use and the same words."""
    assert f"| `{key}` | {KEYS[key].use.value} | {KEYS[key].why} |" in PAGE


@pytest.mark.parametrize("key", [key for key, known in KEYS.items() if known.use is Use.IGNORED])
def test_ignored_keys_reach_no_client(key: str) -> None:
    """Whatever their value."""
    config = parse({**GOOD, key: "5"}, migrating=True)
    assert key.removeprefix(PREFIX) not in {**config.fetcher(), **config.embedded()}


@pytest.mark.parametrize("key", [key for key, known in KEYS.items() if known.use is Use.REFUSED])
def test_refused_keys_are_refused_with_the_reason(key: str) -> None:
    """In both kinds of consumer."""
    for migrating in (True, False):
        with pytest.raises(Rejected) as caught:
            parse({**GOOD, key: "x"}, migrating=migrating)
        assert KEYS[key].why in str(caught.value)


def test_the_page_lists_every_metric() -> None:
    """Of the dictionary and of the text."""
    status = ConsumerStatus(mode=None, owned=frozenset(), lag={}, alarms=())
    names = {"client_id": "c", "group_id": "g", "consumer_id": "i"}
    stats = statistics(names, status, Counters(), assigned=0, queued=0)
    for name in stats:
        assert f"`{name}`" in PAGE
    for line in prometheus(stats).splitlines():
        if line.startswith("# TYPE"):
            assert line.split()[2].removeprefix("groupshift_consumer") in PAGE
