"""The move ``protocol`` on a real broker: there and back, rolling and all at once, proven by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.domain.group_protocol import Kind, Protocol, Way
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Phase
from groupshift.domain.verdict import Verdict
from groupshift_sandbox.kraft import KraftCluster
from support.protocol_fleet import FleetOptions, fleet_at
from support.protocol_move import ProtocolBench, bench_of
from support.warm_spark import warm_spark

pytestmark = pytest.mark.timeout(900)  # the fixtures count too


@pytest.fixture(scope="module")
def submit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One Spark for the module."""
    with warm_spark(tmp_path_factory.mktemp("spark")) as command:
        yield str(command)


def _kinds(bench: ProtocolBench) -> set[MemberKind]:
    return {slot.kind for slot in bench.fleet.driver.slots(bench.fleet.options.group)}


def test_a_group_rolls_to_the_consumer_protocol_and_back(
    kraft: KraftCluster, group: str, tmp_path: Path
) -> None:
    """Canary, roll, soak; then the way back by the same plan inverted. No record is lost, and no partition
    has two owners."""
    options = FleetOptions(group=group, topic=f"online-{group}")
    with fleet_at(kraft.bootstrap, tmp_path, options) as fleet, bench_of(fleet, tmp_path) as bench:
        fleet.await_written(20)
        run = bench.run(Protocol.CONSUMER)
        there = run.forward()
        assert (there.phase, there.verdict) == (Phase.MOVED, Verdict.PASS), there.reason
        assert there.reason == "all members speak the consumer protocol; the way back is open"
        assert (fleet.look().kind, _kinds(bench)) == (Kind.CONSUMER, {MemberKind.NATIVE})

        back = run.back()
        assert (back.phase, back.verdict) == (Phase.ROLLED_BACK, Verdict.PASS), back.reason
        assert (fleet.look().kind, _kinds(bench)) == (Kind.CLASSIC, {MemberKind.PLAIN})
        found = fleet.settle()
    assert found.lost == {}
    assert found.overlaps == []
    assert found.fatal == []


def test_a_group_is_emptied_and_filled_again(
    kraft: KraftCluster, group: str, tmp_path: Path, submit: str
) -> None:
    """Offline: nobody consumes for a while, nothing is lost, and the way back empties it once more; Spark
    compares the evidence of both ways."""
    options = FleetOptions(group=group, topic=f"offline-{group}")
    with fleet_at(kraft.bootstrap, tmp_path, options) as fleet, bench_of(fleet, tmp_path, submit) as bench:
        fleet.await_written(20)
        run = bench.run(Protocol.CONSUMER, Way.OFFLINE)
        there = run.forward()
        assert (there.phase, there.verdict) == (Phase.MOVED, Verdict.PASS), there.reason
        assert (fleet.look().kind, _kinds(bench)) == (Kind.CONSUMER, {MemberKind.NATIVE})

        back = run.back()
        assert (back.phase, back.verdict) == (Phase.ROLLED_BACK, Verdict.PASS), back.reason
        assert (fleet.look().kind, _kinds(bench)) == (Kind.CLASSIC, {MemberKind.PLAIN})
        found = fleet.settle()
    assert found.lost == {}
    assert found.overlaps == []
    assert len(found.all_unowned_ms) >= 2, "each emptying left all partitions without an owner"
    report = tmp_path / "evidence" / run.migration / "fill" / "validation-after" / "report.html"
    assert "pass" in report.read_text()
