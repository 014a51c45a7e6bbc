"""The contract of the drivers that replace nodes, as tests that every one has to pass: a module imports them
all and gives a fixture ``driven``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from groupshift.errors import Conflict, Rejected
from groupshift.log.releases import Coordinator
from groupshift.ports.driver import BrokerReplacement, NodeState, Replacement, Started


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """A driver with node 1 of ``now``: ``starts`` tells something that is another one after each start of the
    node; ``fails`` is a release with which it does not come up, and ``words`` are of the reason."""

    driver: BrokerReplacement
    now: str
    starts: Callable[[], object]
    fails: str
    words: str


def change(number: int, release: str, *, token: int = 1) -> Replacement:
    """A replacement of node 1 by the old coordinator."""
    return Replacement(
        change_id=f"run/{number:02}_replace_1",
        node_id=1,
        release=release,
        coordinator=Coordinator.OLD,
        without=("group.consumer.assignors",),
        fence="run",
        token=token,
    )


def test_a_replacement_is_done_once_and_told(driven: Driven) -> None:
    """Whoever repeats it; the node then runs the release by this change."""
    wanted = change(1, driven.now)
    before = driven.starts()
    assert driven.driver.start(wanted) == Started(change_id=wanted.change_id)
    found, started = driven.driver.observe(1), driven.starts()
    assert (found.state, found.release, found.change_id) == (NodeState.RUNNING, driven.now, wanted.change_id)
    assert (found.trouble, started != before) == ("", True)
    assert driven.driver.start(replace(wanted, token=2)) == Started(change_id=wanted.change_id)
    assert driven.starts() == started


def test_a_run_that_was_overtaken_changes_nothing(driven: Driven) -> None:
    """A lower token of the same run is refused; another run has tokens of its own."""
    driven.driver.start(change(1, driven.now, token=5))
    before = driven.starts()
    with pytest.raises(Conflict, match="5"):
        driven.driver.start(change(2, driven.now, token=4))
    assert driven.starts() == before
    driven.driver.start(replace(change(3, driven.now), fence="later", token=1))
    assert driven.starts() != before


def test_a_node_that_is_not_known_is_refused(driven: Driven) -> None:
    """By both calls."""
    before = driven.starts()
    with pytest.raises(Rejected, match="7"):
        driven.driver.start(replace(change(1, driven.now), node_id=7))
    with pytest.raises(Rejected, match="7"):
        driven.driver.observe(7)
    assert driven.starts() == before


def test_a_node_that_does_not_come_up_is_told_and_can_go_back(driven: Driven) -> None:
    """With words of its own; the next replacement starts it again."""
    driven.driver.start(change(1, driven.fails))
    down = driven.driver.observe(1)
    assert (down.state, driven.words in down.trouble) == (NodeState.DOWN, True)
    back = change(2, driven.now)
    driven.driver.start(back)
    up = driven.driver.observe(1)
    assert (up.state, up.release, up.change_id) == (NodeState.RUNNING, driven.now, back.change_id)
