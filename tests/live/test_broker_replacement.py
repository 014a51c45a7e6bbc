"""The sandbox's driver over one real node: `replacement_suite`, and what of the node's properties changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from groupshift.domain.group_protocol import PROTOCOLS
from groupshift.log.releases import Coordinator
from groupshift.ports.driver import Replacement
from groupshift_sandbox.cluster_file import load
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import known, marked, stop
from groupshift_sandbox.replacement import SandboxReplacement
from support.replacement_suite import *  # noqa: F403 - the suite's tests are this module's tests
from support.replacement_suite import Driven, change


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node of 3.9.2, whose metadata 3.4 cannot read."""
    home = Home(tmp_path_factory.mktemp("replaced")).create()
    try:
        yield start_kraft(home, KraftOptions(release="3.9.2", heap="256m"))
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


@pytest.fixture
def driven(node: Cluster) -> Driven:
    """A driver that knows nothing of earlier replacements."""
    document = node.home.root / "kraft.replacements.json"
    document.unlink(missing_ok=True)
    driver = SandboxReplacement(node.home, "kraft")
    return Driven(
        driver=driver,
        now="3.9.2",
        starts=lambda: known(node.home, "kraft-1"),
        fails="3.4.0",
        words="No MetadataVersion with metadata version 21",
    )


def test_the_node_runs_the_coordinator_that_was_asked_for(node: Cluster, driven: Driven) -> None:
    """By its own properties, and its newest metadata snapshot is told."""
    driven.driver.start(replace(change(1, "3.9.2"), coordinator=Coordinator.NEW))
    assert load(node.home, "kraft").node(1).properties[PROTOCOLS] == "classic,consumer"
    assert driven.driver.observe(1).snapshot is not None


def test_a_node_is_restarted_as_it_is_with_a_property_set(node: Cluster, driven: Driven) -> None:
    """Its release, its coordinator and its other properties stay; done once for one change."""
    before = load(node.home, "kraft").node(1)
    wanted = Replacement(
        change_id="expansion/09_restart_1", node_id=1, properties={"offsets.topic.num.partitions": "8"}
    )
    running = driven.starts()
    driven.driver.start(wanted)
    after, restarted = load(node.home, "kraft").node(1), driven.starts()
    assert restarted != running
    assert after.release == before.release
    assert after.properties == {**before.properties, "offsets.topic.num.partitions": "8"}
    driven.driver.start(wanted)
    assert driven.starts() == restarted
