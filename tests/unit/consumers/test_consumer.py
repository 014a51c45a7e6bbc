"""What is made for a member, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.consumers import consumer
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
