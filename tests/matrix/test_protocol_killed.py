"""The move ``protocol``, killed with SIGKILL at every point of every act, and its approval."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from groupshift.bootstrap import App, build
from groupshift.domain.group_protocol import Kind, Protocol, Way
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Answer, Choice, Gate, Phase, StageName
from groupshift.errors import Conflict
from groupshift.ports.clock import CrashPoint
from groupshift.settings import load
from groupshift_sandbox.kraft import KraftCluster
from support.protocol_fleet import FleetOptions, ProtocolFleet, fleet_at, protocol_cluster
from support.protocol_move import ProtocolBench, bench_of
from support.warm_spark import warm_spark

ONLINE = ((StageName.CANARY, StageName.ROLL), (StageName.UNDO_MEMBERS,))
OFFLINE = ((StageName.EMPTY, StageName.FILL), (StageName.UNDO_FILL, StageName.UNDO_EMPTY))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftCluster]:
    """One broker for the module."""
    with protocol_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def submit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One Spark for the module."""
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


@contextmanager
def commands(fleet: ProtocolFleet, submit: Path) -> Iterator[Killed]:
    """The command line at this fleet, and the use cases over the same journal."""
    file = settings_file(fleet, submit)
    with build(load(file)) as app:
        yield Killed(fleet, app, file)


class Killed:
    """Runs the command line in processes of its own."""

    def __init__(self, fleet: ProtocolFleet, app: App, settings: Path) -> None:
        self.fleet, self.app, self.settings = fleet, app, settings
        self.log = fleet.home.logs / "run.log"

    def groupshift(self, arguments: Sequence[str], crash: str = "") -> int:
        """The return code of one command, negative when it was killed."""
        hooks = {"GROUPSHIFT_TEST_HOOKS": "1", "GROUPSHIFT_CRASH_AT": crash} if crash else {}
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

    def everywhere(self, stages: Sequence[StageName], *arguments: str) -> None:
        """Repeat the same command, killed at each point of each of these acts, then left alone."""
        for stage in stages:
            for point in CrashPoint:
                code = self.groupshift(arguments, f"{stage}.{point}")
                assert code == -signal.SIGKILL, f"{stage}.{point} was never reached ({code})\n{self.tail()}"
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
@pytest.mark.parametrize(("way", "stages"), [(Way.ONLINE, ONLINE), (Way.OFFLINE, OFFLINE)], ids=list(Way))
def test_killed_at_every_point_of_every_act_it_reaches_the_same_end(
    way: Way,
    stages: tuple[tuple[StageName, ...], tuple[StageName, ...]],
    cluster: KraftCluster,
    group: str,
    tmp_path: Path,
    submit: Path,
) -> None:
    """There and back: each member is replaced once each way, and no record is lost."""
    there, back = stages
    options = FleetOptions(group=group, topic=f"killed-{group}")
    with fleet_at(cluster.bootstrap, tmp_path, options) as fleet, commands(fleet, submit) as cli:
        fleet.await_written(20)
        bench = ProtocolBench(fleet=fleet, app=cli.app)
        request = bench.request(Protocol.CONSUMER, way)
        bench.await_ready(request)
        migration = cli.app.plan(request).migration
        assert cli.places() == dict.fromkeys(options.slots, (MemberKind.PLAIN, 1))

        cli.everywhere(there, "run", "--migration", migration, "--execute", "--yes")
        assert cli.app.status(migration)[0].phase is Phase.MOVED
        assert cli.places() == dict.fromkeys(options.slots, (MemberKind.NATIVE, 2))
        assert fleet.look().kind is Kind.CONSUMER

        cli.everywhere(back, "roll-back", migration, "--execute", "--yes")
        assert cli.app.status(migration)[0].phase is Phase.ROLLED_BACK
        assert cli.places() == dict.fromkeys(options.slots, (MemberKind.PLAIN, 3))
        assert fleet.look().kind is Kind.CLASSIC
        found = fleet.settle()
    assert (found.lost, found.repeated_within, found.overlaps) == ({}, {}, [])
    assert found.fatal == []


def test_an_approval_is_void_when_a_member_joins(cluster: KraftCluster, group: str, tmp_path: Path) -> None:
    """Between the gate and the act a fourth member comes: the act names it and changes nothing."""
    options = FleetOptions(group=group, topic=f"void-{group}")
    stranger = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "client.id": "stranger",
            "partition.assignment.strategy": "range,roundrobin",
        }
    )
    with fleet_at(cluster.bootstrap, tmp_path, options) as fleet, bench_of(fleet, tmp_path) as bench:
        fleet.await_written(20)
        request = bench.request(Protocol.CONSUMER)
        bench.await_ready(request)
        migration = bench.app.plan(request).migration
        shown = bench.app.brief(migration, Gate.PLAN)
        approval = Answer(choice=Choice.APPROVE, who="test", fingerprint=shown.fingerprint)
        bench.app.answer(migration, Gate.PLAN, approval)
        try:
            stranger.subscribe([options.topic])

            def joined(found) -> bool:
                stranger.poll(0.1)
                return len(found.members) == 4 and found.state == "Stable"

            fleet.await_group(joined, "has a fourth member")
            token = bench.app.claim(migration, "test")
            with pytest.raises(Conflict, match=r"approval void.*stranger"):
                bench.app.act(migration, StageName.CANARY, token)
        finally:
            stranger.close()
        assert {slot.kind for slot in fleet.driver.slots(group)} == {MemberKind.PLAIN}
        assert bench.app.status(migration)[0].phase is Phase.APPROVED
