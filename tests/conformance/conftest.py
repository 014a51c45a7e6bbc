"""A real ZooKeeper for the ports that need one: started once a session, ended by process id."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.zookeeper import start_zookeeper


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of a ZooKeeper of this session's own."""
    home = Home(tmp_path_factory.mktemp("zookeeper")).create()
    try:
        yield start_zookeeper(home)
    finally:
        for process in reversed(marked(home)):
            stop(process, 10.0)
