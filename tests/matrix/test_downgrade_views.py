"""What real brokers of every line tell of themselves, and what the verb makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.requests import (
    FeatureChange,
    ask_versions,
    finalised,
    supported,
    update_features,
)
from groupshift.adapters.kafka.wire import BrokerError
from groupshift.domain.cluster import Asked
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.versions import LINES, METADATA, Version
from groupshift.moves.downgrade.releases import changes_between, line_of_version
from groupshift_sandbox.committing import commit
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import to_release
from groupshift_sandbox.processes import known, marked, stop, wait_until
from groupshift_sandbox.readiness import connect_to
from groupshift_sandbox.rolling import replace_node
from groupshift_sandbox.zookeeper import start_zookeeper
from groupshift_sandbox.zookeeper_mode import ZookeeperModeOptions, start_zookeeper_mode
from support.downgrade_story import Assessed, groups_at

pytestmark = pytest.mark.timeout(900)

TOPIC = "orders"
FOUR = Version.parse("4.0.0")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A sandbox of this test's own; whatever runs in it is ended."""
    found = Home(tmp_path / "home").create()
    try:
        yield found
    finally:
        for process in reversed(marked(found)):
            stop(process, 20.0)


@pytest.mark.parametrize("release", [line.newest for line in LINES])
def test_a_broker_tells_its_line_and_the_levels_that_the_table_has(
    release: str, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every feature that it supports, and no other; the same release is no way down."""
    version = Version.parse(release)
    line = line_of_version(version)
    assert line is not None
    cluster = start_kraft(home, KraftOptions(release=release, heap="320m"))
    create_topic(cluster.bootstrap, TOPIC, 1)
    with groups_at(cluster.bootstrap, TOPIC) as groups:
        commit(groups.cluster, {"g": {TopicPartition(TOPIC, 0): (5, "")}})
        view = groups.look()
    (broker,) = view.brokers
    assert broker.line is not None
    assert broker.line.holds(version)
    assert (view.kraft, view.quorum.leader if view.quorum else None, broker.untold) == (True, 1, "")
    told = {name: highest for name, (_, highest) in broker.supported.items() if highest}
    assert told == {METADATA: line.metadata, **line.features}
    assert view.finalised[METADATA] == line.metadata
    listing = Asked.EVERY if version >= Version.parse("4.1.0") else Asked.LISTED
    assert view.configs_asked is (listing if version >= FOUR else Asked.NONE)
    assert [each.group for each in broker.groups] == ["g"]
    same = Assessed(cluster.bootstrap, capsys, release, "--from", release)
    assert (same.code, same.failed) == (1, {"W03"})


@pytest.mark.parametrize("release", ["3.9.2", "4.0.2", "4.2.1", "4.4.0"])
def test_a_controller_lowers_exactly_what_the_table_allows(release: str, home: Home) -> None:
    """metadata.version to every level below, asked for without doing it."""
    cluster = start_kraft(home, KraftOptions(release=release, heap="320m"))
    connection = connect_to(cluster.brokers[0].address)
    try:
        told = connection.ask(ask_versions(connection))
        level, lowest = finalised(told)[METADATA], supported(told)[METADATA][0]
        allowed = [each for each in range(lowest, level) if lowers(connection, each)]
    finally:
        connection.close()
    assert allowed == [each for each in range(lowest, level) if not changes_between(each, level)]


def lowers(connection: BrokerConnection, level: int) -> bool:
    """Whether the controller would."""
    try:
        update_features(
            connection, {METADATA: level}, change=FeatureChange.SAFE_DOWNGRADE, validate_only=True
        )
    except BrokerError:
        return False
    return True


def test_brokers_of_two_releases_and_a_missing_controller_are_named(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the middle of a roll, and with the only controller stopped."""
    cluster = start_kraft(
        home,
        KraftOptions(
            release="4.3.1",
            nodes=2,
            controllers=1,
            heap="320m",
            format_arguments=("--release-version", "3.9"),
            properties={"broker.session.timeout.ms": "12000"},
        ),
    )
    cluster, _ = replace_node(cluster, 2, to_release("3.9.2"))
    mixed = Assessed(cluster.bootstrap, capsys, "3.8.1")
    assert mixed.code == 1
    assert mixed.said("W02") == [
        "the brokers are of several releases: of the line 3.9.0 at broker 2, of the line 4.3.0 at broker 1",
        "the brokers run both group coordinators: NEW at broker 1, OLD at broker 2",
    ]
    controller = known(home, cluster.node(101).name)
    assert controller is not None
    stop(controller, 60.0)
    headless = Assessed(cluster.bootstrap, capsys, "3.8.1", "--timeout", "10")
    assert (headless.code, "W04" in headless.failed) == (1, True)
    assert headless.said("W04")[0].startswith("no controller answers: ")


def test_a_voter_that_stands_still_is_behind(home: Home) -> None:
    """Stopped, while the metadata log goes on; nobody is when all three run."""
    cluster = start_kraft(home, KraftOptions(release="4.3.1", controllers=3, heap="320m"))
    with groups_at(cluster.bootstrap, TOPIC) as groups:

        def behind() -> tuple[int, ...]:
            quorum = groups.look().quorum
            return quorum.behind if quorum is not None else ()

        quorum = groups.look().quorum
        assert quorum is not None
        wait_until(lambda: behind() == (), 60.0, "no voter is behind", every_s=0.2)
        still = next(node for node in quorum.voters if node != quorum.leader)
        process = known(home, cluster.node(still).name)
        assert process is not None
        stop(process, 60.0)
        wait_until(lambda: behind() == (still,), 60.0, f"voter {still} is behind", every_s=0.2)


def test_zookeeper_mode_goes_down_by_what_people_say(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """No features; the inter-broker protocol decides, and the release is told with --from."""
    cluster = start_zookeeper_mode(
        home, start_zookeeper(home), ZookeeperModeOptions(release="3.9.2", heap="320m")
    )
    create_topic(cluster.bootstrap, TOPIC, 1)
    with groups_at(cluster.bootstrap, TOPIC) as groups:
        commit(groups.cluster, {"g": {TopicPartition(TOPIC, 0): (5, "")}})
        view = groups.look()
    assert (view.kraft, view.quorum, view.controller, view.finalised) == (False, None, 1, {})
    opened = Assessed(cluster.bootstrap, capsys, "3.5.2", "--from", "3.9.2")
    assert (opened.code, opened.failed) == (0, set()), opened.document["findings"]
    assert opened.steps[-2:] == [("replace", "1"), ("compare", "C1")]
