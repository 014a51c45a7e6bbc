"""A whole sandbox: up, listening, consuming, supervised, down."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from groupshift.adapters.drivers.process import ProcessFleet, ask
from groupshift.domain.facts import Slot, SlotState
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected, Transient
from groupshift.ports.driver import Change, Started
from groupshift_sandbox import ledger as ledgers
from groupshift_sandbox import legacy
from groupshift_sandbox.down import down
from groupshift_sandbox.faults import kill
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions
from groupshift_sandbox.processes import Running, is_running, known, marked, start_ticks, wait_until
from groupshift_sandbox.state import read_document
from groupshift_sandbox.status import status
from groupshift_sandbox.up import UpOptions, start_supervisor, up
from support.group_log import GroupLog
from support.listening import listening_sockets

GROUP = "orders-app"
OPTIONS = UpOptions(airflow=False, kafka=KafkaOptions(initial_rebalance_delay_ms=0))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A sandbox without Airflow, up for the tests of this module."""
    made = Home(tmp_path_factory.mktemp("up") / "home")
    try:
        up(made, OPTIONS, print)
        yield made
    finally:
        down(made)


@pytest.fixture
def fleet(home: Home) -> ProcessFleet:
    """The driver of the sandbox's supervisor, which is started again when a test killed it."""
    supervisor = known(home, "supervisor")
    if supervisor is None or not is_running(supervisor):
        start_supervisor(home)
    driver = ProcessFleet(home.supervisor_socket)
    _await_running(driver)
    return driver


def _slot(fleet: ProcessFleet, name: str) -> Slot:
    return next(slot for slot in fleet.slots(GROUP) if slot.name == name)


def _await_running(fleet: ProcessFleet) -> None:
    wait_until(
        lambda: all(slot.state is SlotState.RUNNING for slot in fleet.slots(GROUP)),
        90,
        "every slot runs",
        every_s=0.1,
    )


def _process(home: Home, name: str) -> Running:
    slot = next(
        slot for slot in ask(home.supervisor_socket, {"verb": "slots"})["slots"] if slot["name"] == name
    )
    ticks = start_ticks(slot["pid"])
    assert ticks is not None
    return Running(name=name, pid=slot["pid"], ticks=ticks)


def test_everything_listens_on_loopback_only(home):
    """ZooKeeper and Kafka listen, and nothing of the sandbox can be reached from outside."""
    sockets = listening_sockets({process.pid for process in marked(home)})
    open_to_others = [one for one in sockets if not one.loopback_only]
    assert open_to_others == []
    told = {address.rpartition(":")[2] for address in status(home).addresses.values()}
    assert told <= {str(one.port) for one in sockets}


def test_the_scala_fleet_is_delivered_everything_once(home, fleet):
    """Three members of both releases share the partitions and miss nothing."""
    ends = {TopicPartition("orders", number): 40 for number in range(OPTIONS.partitions)}
    wait_until(
        lambda: not ledgers.lost(ledgers.read_ledgers(home.ledgers), ends), 90, "40 records each", every_s=0.2
    )
    members = {f"{GROUP}_m{number}-1" for number in (1, 2, 3)}
    wait_until(
        lambda: {one.member for one in ledgers.read_ledgers(home.ledgers)} == members, 90, "all are delivered"
    )
    log, found = GroupLog(home.zookeeper, GROUP), ledgers.read_ledgers(home.ledgers)
    log.assert_no_overlap(found, old=members)
    log.assert_fenced(found, ends, old=members)
    used = [slot["release"] for slot in read_document(home.fleet_file)["slots"]]
    assert set(used) == set(legacy.RELEASES)


def _command_line(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GROUPSHIFT_HOME": str(home.root), "COLUMNS": "200"}
    argv = [sys.executable, "-m", "groupshift.cli.main", "sandbox", *arguments]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_status_tells_people_and_programs_what_runs(home, fleet):
    """A table with every member and the next command, or one JSON object; exit code 0 while all runs."""
    shown, told = _command_line(home, "status"), _command_line(home, "status", "--json")
    assert (shown.returncode, told.returncode) == (0, 0)
    for part in ("zookeeper", "kafka", "producer", f"{GROUP}_m1-1", "Next: export GROUPSHIFT_SETTINGS="):
        assert part in shown.stdout
    document = json.loads(told.stdout)
    assert document["up"]
    assert document["addresses"].keys() == {"zookeeper", "kafka"}
    assert [slot["name"] for slot in document["slots"]] == ["m1", "m2", "m3"]


def test_status_of_no_sandbox_says_what_to_do(tmp_path):
    """Exit code 1, and nothing is created."""
    shown = _command_line(Home(tmp_path / "none"), "status")
    assert shown.returncode == 1
    assert "Next: groupshift sandbox up" in shown.stdout
    assert not (tmp_path / "none").exists()


def test_a_second_up_in_the_same_home_is_refused(home):
    """Nothing is touched while a sandbox is up."""
    with pytest.raises(Rejected, match="a sandbox is up in"):
        up(home, OPTIONS, print)
    assert status(home).up


def test_a_killed_member_is_restarted_unless_its_slot_is_held(home, fleet):
    """A held slot stays down until it is released; its next member is a new incarnation."""
    before = _slot(fleet, "m3").member_id
    ask(home.supervisor_socket, {"verb": "hold", "slot": "m3"})
    kill(_process(home, "m3"))
    wait_until(lambda: _slot(fleet, "m3").state is SlotState.DOWN, 90, "m3 down")
    ask(home.supervisor_socket, {"verb": "release", "slot": "m3"})
    _await_running(fleet)
    assert _slot(fleet, "m3").member_id != before


def test_members_outlive_a_killed_supervisor_and_are_adopted_again(home, fleet):
    """Kill -9 of the daemon: same members under the next one, which restarts them as before."""
    before = fleet.slots(GROUP)
    pids = {name: _process(home, name).pid for name in ("m1", "m2", "m3")}
    kill(known(home, "supervisor"))
    with pytest.raises(Transient, match="did not answer"):
        fleet.slots(GROUP)
    start_supervisor(home)
    _await_running(fleet)
    assert fleet.slots(GROUP) == before
    assert {name: _process(home, name).pid for name in pids} == pids
    kill(_process(home, "m1"))
    wait_until(lambda: _slot(fleet, "m1").member_id != before[0].member_id, 90, "m1 restarted")


def test_a_second_supervisor_is_refused(home, fleet):
    """Two of them would start members twice."""
    argv = [sys.executable, "-m", "groupshift_sandbox.supervisor", "--home", str(home.root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == Rejected.exit_code
    assert "another supervisor already serves" in done.stderr


def test_a_change_is_carried_out_once_whoever_repeats_it(home, fleet):
    """One new incarnation of each slot, one after the other, also when the supervisor dies in between."""
    change = Change(change_id="roll-1", group=GROUP, slots=("m1", "m2"), to=MemberKind.AWARE)
    before = {slot.name: slot.member_id for slot in fleet.slots(GROUP)}
    assert not fleet.observe(change).done
    assert fleet.start(change) == Started(change_id="roll-1")
    wait_until(lambda: _slot(fleet, "m1").member_id != before["m1"], 90, "m1 replaced")
    kill(known(home, "supervisor"))
    start_supervisor(home)
    assert fleet.start(change) == Started(change_id="roll-1")
    wait_until(lambda: fleet.observe(change).done, 90, "change done", every_s=0.1)
    after = {slot.name: slot.member_id for slot in fleet.slots(GROUP)}
    assert fleet.start(change) == Started(change_id="roll-1")
    assert {slot.name: slot.member_id for slot in fleet.slots(GROUP)} == after
    assert [_incarnation(after[name]) - _incarnation(before[name]) for name in ("m1", "m2", "m3")] == [
        1,
        1,
        0,
    ]
    assert [slot.kind for slot in fleet.slots(GROUP)] == [
        MemberKind.AWARE,
        MemberKind.AWARE,
        MemberKind.ZOOKEEPER,
    ]


def _incarnation(member_id: str) -> int:
    return int(member_id.rpartition("-")[2])


def test_a_change_of_an_unknown_slot_or_group_is_refused(fleet):
    """The sentences name what is known."""
    with pytest.raises(Rejected, match="slot 'm7' is unknown; this fleet has m1, m2, m3"):
        fleet.start(Change(change_id="x1", group=GROUP, slots=("m7",), to=MemberKind.AWARE))
    with pytest.raises(Rejected, match="runs group 'orders-app', not 'other'"):
        fleet.start(Change(change_id="x2", group="other", slots=("m1",), to=MemberKind.AWARE))
    assert fleet.slots("other") == ()


@pytest.mark.parametrize("request_line", ['{"verb":"dance"}', "[]", "{", '{"verb":"change"}'])
def test_a_bad_request_gets_a_sentence_and_changes_nothing(home, fleet, request_line):
    """The supervisor lives on."""
    before = fleet.slots(GROUP)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(home.supervisor_socket))
        connection.sendall(request_line.encode() + b"\n")
        answer = json.loads(connection.makefile().readline())
    assert answer["family"] == "rejected"
    assert answer["error"]
    assert fleet.slots(GROUP) == before


def test_down_leaves_nothing_and_can_be_repeated(home):
    """Also with a dead supervisor, whose members it finds by itself."""
    supervisor = known(home, "supervisor")
    assert supervisor is not None
    kill(supervisor)
    running = marked(home)
    assert {process.name for process in running} >= {"zookeeper", "kafka", "producer"}
    assert down(home) >= len(running)
    assert marked(home) == []
    assert [process for process in running if is_running(process)] == []
    assert down(home) == 0
    assert not status(home).up


def _up_in_background(home: Home) -> subprocess.Popen[bytes]:
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # '&' had it ignored
    code = f"{heed}; from groupshift_sandbox.cli import app; app(['up', '--no-airflow'])"
    environment = {**os.environ, "GROUPSHIFT_HOME": str(home.root)}
    log = home.root.with_suffix(".log").open("wb")
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=log, stderr=log)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_up_leaves_nothing(tmp_path, number):
    """Ctrl-C and SIGTERM clean up by themselves; after kill -9 `down` does."""
    home = Home(tmp_path / "home")
    starter = _up_in_background(home)
    try:
        wait_until(lambda: "kafka" in {process.name for process in marked(home)}, 90, "Kafka started")
        starter.send_signal(number)
        starter.wait(60)
        assert number is not signal.SIGKILL or marked(home)
        if number is signal.SIGKILL:
            down(home)
        assert marked(home) == []
    finally:
        starter.kill()
        starter.wait(10)
        down(home)


def test_a_folder_with_other_files_is_not_taken_for_a_home(tmp_path):
    """Nothing of somebody else's is removed."""
    (tmp_path / "logs").mkdir()
    with pytest.raises(Rejected, match="holds other files"):
        up(Home(tmp_path), OPTIONS, print)
    assert (tmp_path / "logs").is_dir()
