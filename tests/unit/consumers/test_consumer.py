"""What is made for a member, and in which order."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from groupshift.consumers import MigratingConsumer, consumer
from groupshift.consumers.callbacks import Notice
from groupshift.consumers.config import parse
from groupshift.errors import Rejected
from groupshift_sandbox.processes import wait_until

THREADS = Path("/proc/self/task")
CONFIG = {
    "group.id": "g",
    "zookeeper.connect": "127.0.0.1:1",
    "bootstrap.servers": "127.0.0.1:1",
    "log_level": 0,
}


def test_a_member_whose_login_is_refused_leaves_no_client_behind(monkeypatch) -> None:
    """`subscribe` may be tried again, and each try would leave eight threads."""
    monkeypatch.setattr(consumer, "refusal", lambda *_: "the brokers refuse it")
    config = parse(CONFIG, migrating=True)
    before = set(THREADS.iterdir())
    with pytest.raises(Rejected, match="the brokers refuse it"):
        consumer.make_parts(config, None, None, ["t"])
    wait_until(lambda: set(THREADS.iterdir()) <= before, 10.0, "its threads are gone")


class Staying:
    """A reconciler that does not end."""

    def close(self, _timeout):
        """Not yet."""
        return False


def test_callbacks_in_a_row_do_not_keep_a_member_from_ending_in_time() -> None:
    """Each may take as long as it takes, but none is begun after the time of leaving."""
    member, called = MigratingConsumer(CONFIG), []
    for number in range(4):
        member._delivery.notify(Notice(lambda number=number: (called.append(number), time.sleep(0.2))))
    assert not member._leave(Staying(), time.monotonic() + 0.1)
    assert called == [0]
