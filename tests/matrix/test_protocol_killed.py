"""The move ``protocol``, killed with SIGKILL at every point of every act, and its approval."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from groupshift.bootstrap.moves import journal
from groupshift.domain.group_protocol import Kind, Protocol, Way
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import PhaseName
from groupshift.domain.run import RunState
from groupshift.engine.progress import Paused, Stopped
from groupshift.engine.questions_and_approvers import Question
from groupshift.engine.run import drive
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind
from groupshift.settings import load
from groupshift_sandbox.layout import Cluster
from support.protocol_fleet import FleetOptions, ProtocolFleet, fleet_at, protocol_cluster
from support.protocol_move import bench_of
from support.warm_spark import warm_spark

ONLINE = ((PhaseName.CANARY, PhaseName.ROLL), (PhaseName.CANARY,))
OFFLINE = ((PhaseName.EMPTY, PhaseName.FILL), (PhaseName.FILL, PhaseName.EMPTY))
"""Phases whose acts are killed there, and back: an act of a rollback has the key of what it undoes."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One broker for the module."""
    with protocol_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def submit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Hands its jobs to the Spark of this run."""
    with warm_spark(tmp_path_factory.mktemp("spark")) as command:
        yield command


@pytest.fixture
def group() -> str:
    """A group name of this test's own."""
    return f"group-{uuid.uuid4().hex[:8]}"


def settings_file(fleet: ProtocolFleet, submit: Path) -> Path:
    """What the command line reads."""
    file = fleet.settings()
    text = file.read_text().replace("[spark]", f'[spark]\nsubmit = "{submit}"')
    file.write_text(f"{text}[thresholds]\npatience_s = 60\nsettle_s = 180\ncommit_interval_ms = 1000\n")
    return file


class Killed:
    """Runs the command line in processes of its own."""

    def __init__(self, fleet: ProtocolFleet, settings: Path) -> None:
        self.fleet, self.settings = fleet, settings
        self.log = fleet.home.logs / "run.log"

    def groupshift(self, arguments: Sequence[str], crash: str = "") -> int:
        """The return code of one command, negative when it was killed."""
        hooks = {"GROUPSHIFT_TEST_HOOKS": "1", "GROUPSHIFT_CRASH_AT_STEP": crash} if crash else {}
        with self.log.open("ab") as log:
            done = subprocess.run(
                [sys.executable, "-m", "groupshift.cli.main", *arguments],
                env={**os.environ, "GROUPSHIFT_SETTINGS": str(self.settings), **hooks},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=300,
                check=False,
            )
        return done.returncode

    def everywhere(self, phases: Sequence[PhaseName], *arguments: str) -> None:
        """Repeat the same command, killed at each point of each of these acts, then left alone."""
        for phase in phases:
            for point in CrashPoint:
                code = self.groupshift(arguments, f"{phase}/replace_members.{point}")
                assert code == -signal.SIGKILL, f"{phase}.{point} was never reached ({code})\n{self.tail()}"
        assert self.groupshift(arguments) == 0, self.tail()

    def tail(self) -> str:
        """What the commands said last."""
        return self.log.read_text()[-3000:]

    def places(self) -> dict[str, tuple[str, int]]:
        """What each place runs, and how often it was filled."""
        told = json.loads(self.fleet.home.supervisor_file.read_text())["places"]
        kinds = {slot.name: slot.kind for slot in self.fleet.driver.slots(self.fleet.options.group)}
        return {name: (kinds[name], place["incarnation"]) for name, place in told.items()}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("way", "phases"), [(Way.ONLINE, ONLINE), (Way.OFFLINE, OFFLINE)], ids=list(Way))
def test_killed_at_every_point_of_every_act_it_reaches_the_same_end(
    way: Way,
    phases: tuple[tuple[PhaseName, ...], tuple[PhaseName, ...]],
    cluster: Cluster,
    group: str,
    tmp_path: Path,
    submit: Path,
) -> None:
    """There and back: each member is replaced once each way, and no record is lost."""
    there, back = phases
    options = FleetOptions(group=group, topic=f"killed-{group}")
    with fleet_at(cluster.bootstrap, tmp_path, options) as fleet, bench_of(fleet, tmp_path) as bench:
        file = settings_file(fleet, submit)
        with journal(load(file)) as runs:
            bench.tools = replace(bench.tools, runs=runs)
            cli = Killed(fleet, file)
            fleet.await_written(20)
            run = bench.run(Protocol.CONSUMER, way).name
            assert cli.places() == dict.fromkeys(options.slots, (MemberKind.PLAIN, 1))

            usual = (run, "--take-over", "--execute", "--yes")
            cli.everywhere(there, "continue", *usual)
            assert runs.find(run).state is RunState.MOVED
            assert cli.places() == dict.fromkeys(options.slots, (MemberKind.NATIVE, 2))
            assert fleet.look().kind is Kind.CONSUMER

            cli.everywhere(back, "roll-back", *usual)
            assert runs.find(run).state is RunState.ROLLED_BACK
            assert cli.places() == dict.fromkeys(options.slots, (MemberKind.PLAIN, 3))
        assert fleet.look().kind is Kind.CLASSIC
        found = fleet.settle()
    assert (found.lost, found.repeated_within, found.overlaps) == ({}, {}, [])
    assert found.fatal == []


def test_an_approval_is_void_when_a_member_joins(cluster: Cluster, group: str, tmp_path: Path) -> None:
    """Between the gate and the act a fourth member comes: the plan is asked about again, naming it, and
    nothing is changed."""
    options = FleetOptions(group=group, topic=f"void-{group}")
    stranger = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "client.id": "stranger",
            "partition.assignment.strategy": "range,roundrobin",
        }
    )
    asked: list[Question] = []
    with fleet_at(cluster.bootstrap, tmp_path, options) as fleet, bench_of(fleet, tmp_path) as bench:
        fleet.await_written(20)
        run = bench.run(Protocol.CONSUMER).name
        assert isinstance(drive(bench.claim(run, "test", phases=frozenset({"plan"}))), Paused)
        try:
            stranger.subscribe([options.topic])

            def joined(found) -> bool:
                stranger.poll(0.1)
                return len(found.members) == 4 and found.state == "Stable"

            fleet.await_group(joined, "has a fourth member")
            stopped = drive(bench.claim(run, "test", decide=asked.append))
        finally:
            stranger.close()
        assert isinstance(stopped, Stopped)
        assert stopped.waits
        assert any("stranger" in each for each in asked[-1].changes), asked
        assert {slot.kind for slot in fleet.driver.slots(group)} == {MemberKind.PLAIN}
        intended = [each.step for each in bench.tools.runs.events(run) if each.kind is EventKind.INTENDED]
        assert not [each for each in intended if "replace_members" in each]
