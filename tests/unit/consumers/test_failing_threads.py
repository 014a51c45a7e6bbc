"""Errors that nobody thought of: the fetcher's thread goes on, a failed member leaves and says so."""

from __future__ import annotations

import pytest

from groupshift.consumers.fetcher import Feed
from groupshift_sandbox.processes import wait_until

DEADLINE_S = 60


def test_the_fetchers_thread_goes_on_after_an_error(bench) -> None:
    """A hand-over needs it while nobody reads."""
    member = bench.join(1)
    served, poll = [], member.fetch.poll

    def failing(limit, timeout):
        served.append(limit)
        if len(served) == 1:
            raise ZeroDivisionError("not foreseen")
        return poll(limit, min(timeout, 0.01))

    member.fetch.poll = failing
    feed = Feed("m1", member.fetch, member.delivery, lambda _partition: None)
    feed.start()
    wait_until(lambda: len(served) > 3, DEADLINE_S, "asked again")
    member.delivery.close()
    feed.join(DEADLINE_S)
    assert not feed._thread.is_alive()


def test_a_member_leaves_whatever_fails_on_the_way(bench, monkeypatch) -> None:
    """Registration gone, readers told: else its partitions stay unread."""
    member = bench.join(1)
    bench.settle()
    assert member.name in bench.zookeeper.ids

    def release() -> None:
        raise ZeroDivisionError("not foreseen")

    monkeypatch.setattr(member.reconciler._owned, "give_up_all", release)
    member.reconciler._leave()
    assert member.name not in bench.zookeeper.ids
    with pytest.raises(RuntimeError, match="closed"):
        member.delivery.take(None, 1, 0)


def test_a_reconciler_that_fails_leaves_and_poll_raises(bench, monkeypatch) -> None:
    """Nothing is held in silence."""
    member = bench.join(1)
    bench.settle()
    assert bench.zookeeper.owners

    def failing() -> bool:
        raise ZeroDivisionError("not foreseen")

    monkeypatch.setattr(member.reconciler, "_pass", failing)
    member.reconciler._run()
    assert not bench.zookeeper.owners
    with pytest.raises(RuntimeError, match="closed"):
        member.delivery.take(None, 1, 0)
