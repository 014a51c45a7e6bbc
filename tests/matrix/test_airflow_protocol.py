"""The move ``protocol`` in a real Airflow, on a real broker and real members: every task is killed -9 once,
there and back, and both runs end as runs that nobody disturbed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from groupshift.domain.group_protocol import Kind
from groupshift.domain.modes import MemberKind
from groupshift.domain.run import RunState
from groupshift.ports.runs import EventKind
from support.killed_tasks import Killing, killing_airflow, worked
from support.protocol_fleet import FleetOptions, ProtocolFleet, fleet_at, protocol_cluster
from support.real_airflow import acts_of
from support.warm_spark import warm_spark

pytestmark = pytest.mark.timeout(9000)  # every task runs twice

OPTIONS = FleetOptions(group="orders-app", topic="orders")
PATH = os.environ.get("PATH", os.defpath)
CONF = {"group": OPTIONS.group, "to": "consumer", "execute": True, "soak": 5}
YES = {"approve_plan": "Approve"}
KILL = {
    "GROUPSHIFT_TEST_HOOKS": "1",
    "GROUPSHIFT_CRASH_AT_STEP": "roll/replace_members.after_journal",
    "GROUPSHIFT_CRASH_WHOM": "parent",
}
"""Besides every task's own death: the roll and its supervisor die when the intent was journaled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The fleet that is moved, and the Airflow that moves it."""

    fleet: ProtocolFleet
    killing: Killing

    def run(self, dag: str, run: str, conf: dict[str, object]) -> dict[str, str]:
        """To its end, which is green; the state of each task."""
        real = self.killing.airflow
        assert real.run(dag, run, conf, YES) == "success", real.status().reason
        return real.api.tasks(dag, run)

    def places(self) -> dict[str, tuple[str, int]]:
        """What each place runs, and how often it was filled."""
        told = json.loads(self.fleet.home.supervisor_file.read_text())["places"]
        kinds = {slot.name: slot.kind for slot in self.fleet.driver.slots(self.fleet.options.group)}
        return {name: (kinds[name], place["incarnation"]) for name, place in told.items()}

    def all_are(self, kind: MemberKind, filled: int) -> bool:
        """Whether each place runs this kind and was filled so often."""
        return self.places() == dict.fromkeys(OPTIONS.slots, (kind, filled))


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    """One broker of 4.3.1, three classic members, and an Airflow that dies as it is told; its proofs run in
    one Spark."""
    folder = tmp_path_factory.mktemp("protocol")
    with (
        warm_spark(folder) as submit,
        protocol_cluster(folder) as cluster,
        fleet_at(cluster.bootstrap, folder, OPTIONS) as fleet,
    ):
        fleet.await_written(20)
        file = fleet.settings()
        limits = "[thresholds]\npatience_s = 60\nsettle_s = 180\ncommit_interval_ms = 1000\n"
        file.write_text(f"{file.read_text()}{limits}")
        first = {"PATH": os.pathsep.join((str(submit.parent), str(Path(sys.executable).parent), PATH))}
        with killing_airflow(fleet.home, fleet.bootstrap, KILL | first) as killing:
            yield Moved(fleet=fleet, killing=killing)


def test_online_there_and_back_with_every_task_killed_once(moved: Moved) -> None:
    """Each member is replaced once each way, each act is journaled once, no record is lost."""
    real = moved.killing.airflow
    moved.killing.arm("there")
    there = moved.run("migrate_protocol", "there", CONF)
    assert moved.killing.killed("there") == worked(there)
    found, events = real.status(), real.events()
    assert (found.state, acts_of(events)) == (RunState.MOVED, ["canary", "roll"])
    resumed = [each.step for each in events if each.kind is EventKind.RESUMED]
    assert any(each.endswith("roll/replace_members") for each in resumed), resumed
    assert moved.all_are(MemberKind.NATIVE, 2)
    assert moved.fleet.look().kind is Kind.CONSUMER

    moved.killing.arm("back")
    conf = {"run": found.run, "to": "old_members", "execute": True, "zookeeper_conn_id": None}
    back = moved.run("roll_back", "back", conf)
    assert moved.killing.killed("back") == worked(back)
    acts = ["canary", "roll", "canary"]  # both are undone as one, by the name of the first
    assert (real.status().state, acts_of(real.events())) == (RunState.ROLLED_BACK, acts)
    assert moved.all_are(MemberKind.PLAIN, 3)
    assert moved.fleet.look().kind is Kind.CLASSIC


def test_offline_there_undisturbed(moved: Moved) -> None:
    """All stop, all start, each place is filled once: as the killed runs ended, by the other way."""
    moved.run("migrate_protocol", "offline", {**CONF, "offline": True})
    real = moved.killing.airflow
    assert (real.status().state, acts_of(real.events())) == (RunState.MOVED, ["empty", "fill"])
    assert moved.all_are(MemberKind.NATIVE, 4)
    assert moved.fleet.look().kind is Kind.CONSUMER


def test_no_record_was_lost_and_nobody_was_a_second_owner(moved: Moved) -> None:
    """Over all runs, by the members' own account."""
    found = moved.fleet.settle()
    assert (found.lost, found.repeated_within, found.overlaps) == ({}, {}, [])
    assert found.fatal == []
