"""Connections of an `App` that wait a minute: its settings have no number for it, and machines are slow."""

from __future__ import annotations

import pytest

from groupshift.adapters.kafka.cluster import observer
from groupshift.adapters.zookeeper.session import ZookeeperConnection

WAIT_S = 60.0


def wait_longer(patch: pytest.MonkeyPatch) -> None:
    """What is connected from now on waits so long for an answer, unless it is told otherwise."""
    patch.setitem(observer.keywords, "timeout_s", WAIT_S)
    patch.setitem(ZookeeperConnection.__init__.__kwdefaults__, "timeout_s", WAIT_S)
