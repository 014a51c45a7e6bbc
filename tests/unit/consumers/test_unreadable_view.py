"""A view that cannot be read ends no member: it keeps what it owns, takes nothing, and looks again."""

from __future__ import annotations

import logging

import pytest

from groupshift.consumers import group_state
from groupshift_sandbox.processes import wait_until

DEADLINE_S = 30


@pytest.mark.parametrize(
    "error", [RecursionError("deep"), ValueError("digits"), MemoryError(), KeyError("host")]
)
def test_s03_an_unforeseen_error_of_observing_is_retried(bench, caplog, error: Exception) -> None:
    """Owners, delivery and commits go on; the alarm is there as long as the error, and logged once."""
    member = bench.join(1)
    bench.settle()
    owned, observe = dict(bench.zookeeper.owners), member.link.observe

    def broken(_known, _topics):
        raise error

    member.link.observe = broken
    member.reconciler.view_changed()
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            member.step()
    (alarm,) = member.reconciler.alarms
    assert type(error).__name__ in alarm
    assert "keeps what it owns, takes nothing and tries again" in alarm
    assert dict(bench.zookeeper.owners) == owned
    assert member.name in bench.zookeeper.ids
    assert len([each for each in caplog.records if each.exc_info]) == 1
    member.link.observe = observe
    bench.settle()
    assert member.reconciler.alarms == ()
    assert dict(bench.zookeeper.owners) == owned


def test_s03_an_unforeseen_error_of_deciding_is_retried(bench, monkeypatch) -> None:
    """Nothing is done yet when it is raised."""
    member = bench.join(1)
    bench.settle()
    owned = dict(bench.zookeeper.owners)

    def broken(_situation):
        raise ZeroDivisionError("not foreseen")

    with monkeypatch.context() as patched:
        patched.setattr(group_state, "decide", broken)
        member.step()
        assert "ZeroDivisionError" in member.reconciler.alarms[0]
        assert dict(bench.zookeeper.owners) == owned
    bench.settle()
    assert member.reconciler.alarms == ()


@pytest.mark.parametrize("data", [b"[" * 1200, b'{"subscription":{"t":30000000},"pattern":"static"}'])
def test_s03_a_hostile_registration_ends_no_member(bench, data: bytes) -> None:
    """Its real thread runs on, and takes the others' share of nothing."""
    member = bench.join(1)
    bench.settle()
    owned = dict(bench.zookeeper.owners)
    bench.zookeeper.ids["g_evil"] = (99, data)
    member.reconciler.start()
    try:
        member.reconciler.view_changed()
        wait_until(lambda: member.reconciler.alarms, DEADLINE_S, "an alarm", every_s=0.01)
        assert dict(bench.zookeeper.owners) == owned
        del bench.zookeeper.ids["g_evil"]
        wait_until(lambda: not member.reconciler.alarms, DEADLINE_S, "no alarm any more", every_s=0.01)
        assert member.reconciler._thread.is_alive()
        assert dict(bench.zookeeper.owners) == owned
    finally:
        assert member.reconciler.close(DEADLINE_S)


def test_positions_are_committed_while_the_view_cannot_be_read(bench) -> None:
    """What is held goes on: else a long outage of one node costs everything read meanwhile."""
    member = bench.join(1)
    bench.settle()
    for _ in range(3):
        member.pump()
        member.read()
    committed: list[object] = []
    member.reconciler._commit_when_due = lambda: committed.append(True)
    member.link.observe = lambda _known, _topics: 1 / 0
    member.reconciler.view_changed()
    member.step()
    assert committed
