"""Waking old members, driven by the reconciler."""

from __future__ import annotations

import time

import pytest

from groupshift.domain.partitions import TopicPartition
from groupshift.domain.registration import Registration, encode_registration


@pytest.mark.parametrize(("every_s", "woken"), [(0.0, False), (1.0, True)])
def test_a_stuck_old_member_is_woken_when_that_is_switched_on(bench, monkeypatch, every_s, woken) -> None:
    """Ten seconds without an owner; the aware member keeps what it has."""
    stuck = encode_registration(Registration(subscription=(("t", 1),)))
    bench.zookeeper.ids["g_a"] = (99, stuck)
    member = bench.join(1, wake_every_s=every_s)
    bench.settle()
    held = member.reconciler.held()
    assert held == {TopicPartition("t", 2), TopicPartition("t", 3)}
    begun = time.monotonic()
    for seconds in (3, 6, 9, 12, 15, 20, 24, 31):
        monkeypatch.setattr(time, "monotonic", lambda seconds=seconds: begun + seconds)
        member.step()
    assert (member.parts.counters.woken > 0) is woken
    assert "old members do not take them" in " ".join(member.reconciler.alarms)
    assert member.reconciler.held() == held
