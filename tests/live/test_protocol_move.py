"""The move ``protocol`` on a real broker: there and back, rolling and all at once, proven by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.domain.group_protocol import Kind, Protocol, Way
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import Outcome
from groupshift.engine.watch import Looks, watch
from groupshift_sandbox.layout import Cluster
from support.protocol_fleet import PATIENCE_S, FleetOptions, fleet_at, patiently
from support.protocol_move import ProtocolBench, bench_of, ended
from support.warm_spark import warm_spark

pytestmark = pytest.mark.timeout(900)  # the fixtures count too
MOVED = "all members speak the consumer protocol; the rollback is open"
ROLLED_BACK = "rolled back to the classic protocol, proven equal"


@pytest.fixture(scope="module")
def submit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Hands its jobs to the Spark of this run."""
    with warm_spark(tmp_path_factory.mktemp("spark")) as command:
        yield str(command)


def _kinds(bench: ProtocolBench) -> set[MemberKind]:
    return {slot.kind for slot in bench.fleet.driver.slots(bench.fleet.options.group)}


def test_a_group_rolls_to_the_consumer_protocol_and_back(kraft: Cluster, group: str, tmp_path: Path) -> None:
    """Canary, roll, soak; then the rollback. No record is lost, and no partition
    has two owners."""
    options = FleetOptions(group=group, topic=f"online-{group}")
    with fleet_at(kraft.bootstrap, tmp_path, options) as fleet, bench_of(fleet, tmp_path) as bench:
        fleet.await_written(20)
        run = bench.run(Protocol.CONSUMER)
        assert ended(run.forward()) == ("moved", "pass", MOVED)
        assert (fleet.look().kind, _kinds(bench)) == (Kind.CONSUMER, {MemberKind.NATIVE})
        left = patiently(
            lambda: watch(bench.move, bench.tools, bench.ports, run.name, looks=Looks(within_s=PATIENCE_S))
        )
        assert left.outcome is Outcome.PASS, left.sentences

        assert ended(run.back()) == ("rolled_back", "pass", ROLLED_BACK)
        assert (fleet.look().kind, _kinds(bench)) == (Kind.CLASSIC, {MemberKind.PLAIN})
        found = fleet.settle()
    assert found.lost == {}
    assert found.overlaps == []
    assert found.fatal == []


def test_a_group_is_emptied_and_filled_again(kraft: Cluster, group: str, tmp_path: Path, submit: str) -> None:
    """Offline: nobody consumes for a while, nothing is lost, and the rollback empties it once more; Spark
    compares the evidence of both ways."""
    options = FleetOptions(group=group, topic=f"offline-{group}")
    with fleet_at(kraft.bootstrap, tmp_path, options) as fleet, bench_of(fleet, tmp_path, submit) as bench:
        fleet.await_written(20)
        run = bench.run(Protocol.CONSUMER, Way.OFFLINE)
        assert ended(run.forward()) == ("moved", "pass", MOVED)
        assert (fleet.look().kind, _kinds(bench)) == (Kind.CONSUMER, {MemberKind.NATIVE})

        assert ended(run.back()) == ("rolled_back", "pass", ROLLED_BACK)
        assert (fleet.look().kind, _kinds(bench)) == (Kind.CLASSIC, {MemberKind.PLAIN})
        found = fleet.settle()
    assert found.lost == {}
    assert found.overlaps == []
    assert len(found.all_unowned_ms) >= 2, "each emptying left all partitions without an owner"
    reports = list((tmp_path / "evidence" / run.name).glob("*-fill-compare-after-*/report.html"))
    assert ["pass" in each.read_text() for each in reports] == [True, True], "of the run, and of its rollback"
