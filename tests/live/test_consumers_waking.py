"""F9: a real old member that has used up its retries gets its share once it is woken."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.exceptions import NodeExistsError, NoNodeError

from groupshift.consumers import MigratingConsumer
from groupshift.domain import waking_old_members
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.processes import wait_until
from support.group_probe import PATIENCE_S, GroupProbe
from support.reading_member import ReadingMember


@contextlib.contextmanager
def occupied(kazoo, path):
    """Take an owner node the moment it is free, and keep it: nobody who may have it gets it."""
    taken, leave = threading.Event(), threading.Event()

    def occupy():
        while not taken.is_set() and not leave.is_set():
            with contextlib.suppress(NodeExistsError):
                kazoo.create(path, b"somebody-0", ephemeral=True)
                taken.set()

    thread = threading.Thread(target=occupy)
    thread.start()
    try:
        yield taken
    finally:
        leave.set()
        thread.join(20)
        with contextlib.suppress(NoNodeError):
            kazoo.delete(path)


_BEGINS = "begin rebalancing consumer"
_SILENT_S = 10.0
SESSION = {"zookeeper.session.timeout.ms": "30000"}


def given_up(log: Path) -> Callable[[], bool]:
    """A condition: the last of four tries failed, and no rebalance has begun for a while. A change of the
    group that came meanwhile makes the old member try four times more, at once."""
    begun, since = 0, time.monotonic()

    def stuck() -> bool:
        nonlocal begun, since
        text = log.read_text()
        if text.count(_BEGINS) != begun:
            begun, since = text.count(_BEGINS), time.monotonic()
        return text.rfind(_BEGINS) < text.rfind("after 4 retries") and time.monotonic() - since > _SILENT_S

    return stuck


@pytest.mark.parametrize("every_ms", [1000])
def test_a_stuck_scala_member_is_woken(
    cluster, group, kazoo, topic, scala_member, every_ms, monkeypatch: pytest.MonkeyPatch
):
    """Its share was taken away under it for longer than it tries; then it is free, and nobody tells it.

    However slow the machine is, nobody wakes it while it still tries, and once is enough."""
    patience_s = waking_old_members.PATIENCE_S
    monkeypatch.setattr(waking_old_members, "PATIENCE_S", math.inf)
    probe, name = GroupProbe(kazoo, group), topic(4)
    members = []
    for number in (1, 2):
        consumer = MigratingConsumer(
            {
                "group.id": group,
                "consumer.id": f"m{number}",
                "zookeeper.connect": cluster.zookeeper,
                "bootstrap.servers": cluster.bootstrap,
                "wake.old.members.ms": every_ms,
                **SESSION,
            }
        )
        members.append(ReadingMember(consumer).join([name]))
    first, second = members
    try:
        scala = scala_member("1.1.1", "s1", [name], properties=SESSION)
        ids = [first.consumer.consumer_id, second.consumer.consumer_id, scala.member_id]
        probe.await_shares(name, dict(zip(ids, (2, 1, 1), strict=True)))
        with occupied(kazoo, probe.paths.owner_of(TopicPartition(name, 2))) as taken:
            second.close()
            assert taken.wait(PATIENCE_S)
            wait_until(given_up(scala.log_file), 2 * PATIENCE_S, "the old member gave up")
        assert set(probe.owners(name)) == {0, 1}
        monkeypatch.setattr(waking_old_members, "PATIENCE_S", patience_s)
        wait_until(lambda: first.consumer.statistics()["old_members_woken"], PATIENCE_S, "it is woken")
        monkeypatch.setattr(waking_old_members, "PATIENCE_S", math.inf)
        probe.await_shares(name, {first.consumer.consumer_id: 2, scala.member_id: 2})
        assert first.consumer.statistics()["old_members_woken"] == 1
        assert first.consumer.status().mode is Mode.ZOOKEEPER
    finally:
        for member in members:
            member.close()
