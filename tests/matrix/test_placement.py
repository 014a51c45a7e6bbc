"""By which count real brokers coordinate, before and after a careless expansion from 5 to 8 partitions: three
nodes of 3.9.2 with ZooKeeper (OLD). The slice of `make test`, three of 4.3.1: `tests/live/test_placement.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import marked, stop
from groupshift_sandbox.zookeeper import start_zookeeper
from groupshift_sandbox.zookeeper_mode import ZookeeperModeOptions, start_zookeeper_mode
from support.placement_story import BEFORE, Audits, careless
from support.placement_suite import *  # noqa: F403 - the suite's tests are this module's tests

pytestmark = pytest.mark.timeout(900)  # the fixtures count too


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audits]:
    """The whole careless way, audited after each step."""
    home = Home(tmp_path_factory.mktemp("placement")).create()
    five = {"offsets.topic.num.partitions": str(BEFORE)}
    options = ZookeeperModeOptions(nodes=3, heap="256m", properties=five)
    try:
        yield careless(start_zookeeper_mode(home, start_zookeeper(home), options))
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)
