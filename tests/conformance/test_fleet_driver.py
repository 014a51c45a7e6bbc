"""The fleet driver port: every driver passes `fleet_suite`; what is particular to one follows below.

The drivers `process` and `command` run over a real supervisor with real processes as members, `kubernetes`
over an API server in this process that is held against the published OpenAPI (a real one: tests/matrix).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.adapters.drivers.command import CommandFleet
from groupshift.adapters.drivers.manual import ManualFleet
from groupshift.adapters.drivers.process import ProcessFleet, ask
from groupshift.adapters.system import SystemClock
from groupshift.domain.facts import SlotState
from groupshift.domain.modes import MemberKind
from groupshift.errors import Conflict, Transient
from groupshift.ports.driver import ForPerson
from groupshift.settings import CommandSettings
from groupshift_sandbox.client_members.commands import CLIENTS
from groupshift_sandbox.down import down
from groupshift_sandbox.fleet import FleetDefinition, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import Command, marked, start, stop, wait_until
from groupshift_sandbox.state import write_document
from groupshift_testing.world import MemoryFleet, World
from k8s.fleet import kubernetes_fleet
from k8s.server import fake_server
from support.fleet_suite import *  # noqa: F403 - the suite's tests are this module's tests
from support.fleet_suite import FENCE, GROUP, Fleet, change

SUPERVISOR = """
import sys
from groupshift_sandbox import supervisor
from groupshift_sandbox.processes import Command
MEMBER = '''
import json, os, sys, time
with open(sys.argv[1] + ".draft", "w") as out:
    json.dump({"pid": os.getpid(), "state": "running"}, out)
os.replace(sys.argv[1] + ".draft", sys.argv[1])
time.sleep(600)
'''
def command(home, definition, place):
    state = str(home.members / f"{place.occupant}.json")
    return Command(name=place.occupant, argv=[sys.executable, "-c", MEMBER, state])
supervisor.member_command = command
sys.exit(supervisor.main(sys.argv[1:]))
"""
"""The real supervisor with real processes as members, which need no servers."""
DEPLOYER = Path(__file__).resolve().parents[1] / "support" / "deployer.py"


def _reached(home: Home) -> ProcessFleet:
    """The driver once the supervisor answers."""
    driver = ProcessFleet(home.supervisor_socket)

    def answers() -> bool:
        with contextlib.suppress(Transient):
            driver.slots(GROUP)
            return True
        return False

    wait_until(answers, 60, "supervisor answers")
    return driver


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Home]:
    """Three slots behind a real supervisor, all running."""
    home = Home(tmp_path / "home").create()
    slots = tuple(SlotDefinition(name=f"m{n}", release="1.1.1", client=CLIENTS[0]) for n in (1, 2, 3))
    definition = FleetDefinition(
        group=GROUP, topics=("orders",), zookeeper="127.0.0.1:1", bootstrap="127.0.0.1:1", slots=slots
    )
    write_document(home.fleet_file, definition.to_json())
    try:
        argv = [sys.executable, "-c", SUPERVISOR, "--home", str(home.root)]
        start(home, Command(name="supervisor", argv=argv))
        driver = _reached(home)
        wait_until(
            lambda: all(slot.state is SlotState.RUNNING for slot in driver.slots(GROUP)), 60, "slots run"
        )
        yield home
    finally:
        down(home)


def _over_supervisor(home: Home, kind: str) -> Fleet:
    path = home.supervisor_socket
    argv = (sys.executable, str(DEPLOYER), str(path))
    told = ("{change_id}", "{group}", "{to}", "{fence}", "{token}", "{slots}")
    commands = CommandSettings(
        start=(*argv, "start", *told),
        observe=(*argv, "observe", "{group}", "{change_id}"),
        undo=(*argv, "undo", *told),
    )
    return Fleet(
        reopen=lambda: ProcessFleet(path) if kind == "process" else CommandFleet(commands),
        hold=lambda slot: _hold(path, slot),
        release=lambda slot: _release(path, slot),
    )


def _hold(path: Path, slot: str) -> None:
    """The slot's member is killed and not started again."""
    ask(path, {"verb": "hold", "slot": slot})
    ask(path, {"verb": "signal", "slot": slot, "signal": "KILL"})


def _release(path: Path, slot: str) -> None:
    ask(path, {"verb": "release", "slot": slot})


def _in_memory() -> Fleet:
    world = World.of(SystemClock())
    driver = MemoryFleet(world)

    def hold(slot: str) -> None:
        world.places[slot].held = True

    def release(slot: str) -> None:
        world.places[slot].held = False
        driver.deploy([slot], MemberKind.AWARE)

    return Fleet(reopen=lambda: driver, hold=hold, release=release)


@pytest.fixture(params=["memory", "process", "command", "statefulset", "deployments"])
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Each driver over three running old members."""
    if request.param == "memory":
        yield _in_memory()
    elif request.param in {"process", "command"}:
        yield _over_supervisor(request.getfixturevalue("supervised"), request.param)
    else:
        with fake_server() as server:
            with kubernetes_fleet(server.reached, request.param) as (made, _node):
                yield made
            assert server.unpublished == []


def test_a_fence_outlives_the_supervisor(supervised: Home) -> None:
    """The next supervisor refuses the same late run: tokens are in its file."""
    fleet = _over_supervisor(supervised, "process")
    fleet.driver.start(change("roll_back:2", token=2))
    running = next(each for each in marked(supervised, "supervisor"))
    stop(running)
    argv = [sys.executable, "-c", SUPERVISOR, "--home", str(supervised.root)]
    start(supervised, Command(name="supervisor", argv=argv))
    with pytest.raises(Conflict, match="token 1 of"):
        _reached(supervised).start(change("canary", "m1", token=1))


def test_the_driver_that_tells_a_person_changes_nothing_and_claims_nothing() -> None:
    """The same instruction however often it is asked for, and never done as far as the driver knows. A fenced
    run's instruction reaches nobody, since the journal refuses its next line (tests/unit/application)."""
    first = ManualFleet().start(change("canary", "m1"))
    assert isinstance(first, ForPerson)
    assert ManualFleet().start(change("canary", "m1", token=2)) == first
    assert not ManualFleet().observe(change("canary", "m1")).done
    assert not ManualFleet().took_up(change("canary", "m1"))
    assert ManualFleet().slots(GROUP) == ()
    assert FENCE not in first.instruction


def test_a_driver_that_cannot_be_reached_is_transient(tmp_path):
    """The sentence names the socket, and no method hangs; a long path is no problem."""
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    for path in (tmp_path / "none.sock", deep / "none.sock"):
        with pytest.raises(Transient, match=r"none\.sock did not answer"):
            ProcessFleet(path).slots(GROUP)


def test_a_supervisor_in_a_deep_folder_is_reached(tmp_path, monkeypatch):
    """The kernel's limit of 107 bytes for a socket's path does not limit the home folder."""
    home = Home(tmp_path / ("d" * 90) / "home").create()
    definition = FleetDefinition(group=GROUP, topics=("t",), zookeeper="z:1", bootstrap="b:1", slots=())
    write_document(home.fleet_file, definition.to_json())
    try:
        argv = [sys.executable, "-c", SUPERVISOR, "--home", str(home.root)]
        start(home, Command(name="supervisor", argv=argv))
        assert _reached(home).slots(GROUP) == ()
    finally:
        down(home)
