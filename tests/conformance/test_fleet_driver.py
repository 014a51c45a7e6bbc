"""The fleet driver port: replaces members once, whoever repeats it; over a supervisor and in memory."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.adapters.clock import SystemClock
from groupshift.adapters.fleet.process import ProcessFleet
from groupshift.adapters.memory.ports import MemoryFleet
from groupshift.adapters.memory.world import World
from groupshift.domain.coordination import MemberKind
from groupshift.errors import Rejected, Transient
from groupshift.ports.fleet import Change, FleetDriver, SlotState, Started
from groupshift.sandbox.down import down
from groupshift.sandbox.fleet import FleetDefinition, SlotDefinition
from groupshift.sandbox.home import Home
from groupshift.sandbox.processes import Command, start, wait_until
from groupshift.sandbox.state import write_document

GROUP = "orders-app"
SUPERVISOR = """
import sys
from groupshift.sandbox import supervisor
from groupshift.sandbox.processes import Command
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
def process_driver(tmp_path: Path) -> Iterator[FleetDriver]:
    """Three slots behind a real supervisor."""
    home = Home(tmp_path / "home").create()
    slots = tuple(SlotDefinition(name=f"m{n}", release="1.1.1") for n in (1, 2, 3))
    definition = FleetDefinition(
        group=GROUP, topics=("orders",), zookeeper="127.0.0.1:1", bootstrap="127.0.0.1:1", slots=slots
    )
    write_document(home.fleet_file, definition.to_json())
    try:
        argv = [sys.executable, "-c", SUPERVISOR, "--home", str(home.root)]
        start(home, Command(name="supervisor", argv=argv))
        yield _reached(home)
    finally:
        down(home)


@pytest.fixture(params=["memory", "process"])
def driver(request: pytest.FixtureRequest) -> FleetDriver:
    """Each driver over three running old members."""
    if request.param == "memory":
        return MemoryFleet(World.of(SystemClock()))
    made: FleetDriver = request.getfixturevalue("process_driver")
    wait_until(
        lambda: all(slot.state is SlotState.RUNNING for slot in made.slots(GROUP)),
        60,
        "slots run",
        every_s=0.1,
    )
    return made


def _change(change_id: str, *slots: str, to: MemberKind = MemberKind.AWARE) -> Change:
    return Change(change_id=change_id, group=GROUP, slots=slots, to=to)


def _carry_out(driver: FleetDriver, change: Change) -> None:
    assert driver.start(change) == Started(change_id=change.change_id)
    wait_until(lambda: driver.observe(change).done, 60, f"{change.change_id} done", every_s=0.05)


def test_all_slots_are_listed_by_name_with_their_member(driver):
    """Sorted, running, with a member id of this group; another group has none."""
    slots = driver.slots(GROUP)
    assert [slot.name for slot in slots] == ["m1", "m2", "m3"]
    assert [slot.kind for slot in slots] == [MemberKind.OLD] * 3
    assert [slot.member_id for slot in slots] == [f"{GROUP}_m{n}-1" for n in (1, 2, 3)]
    assert driver.slots("another-group") == ()


def test_a_change_replaces_the_named_slots_only(driver):
    """New members of the wanted kind there, the same members elsewhere."""
    before = {slot.name: slot.member_id for slot in driver.slots(GROUP)}
    _carry_out(driver, _change("c1", "m1", "m3"))
    after = {slot.name: slot for slot in driver.slots(GROUP)}
    assert [after[name].kind for name in ("m1", "m2", "m3")] == [
        MemberKind.AWARE,
        MemberKind.OLD,
        MemberKind.AWARE,
    ]
    assert after["m2"].member_id == before["m2"]
    assert after["m1"].member_id != before["m1"]


def test_a_repeated_change_is_not_applied_twice(driver):
    """Not right away, and not after it was done."""
    change = _change("c1", "m1")
    driver.start(change)
    _carry_out(driver, change)
    member = driver.slots(GROUP)[0].member_id
    assert driver.start(change) == Started(change_id="c1")
    assert driver.slots(GROUP)[0].member_id == member
    assert driver.observe(change).done


def test_a_change_that_was_never_started_is_not_done(driver):
    """Even though its slots would run the kind already."""
    assert not driver.observe(_change("never", "m1")).done
    assert not driver.observe(_change("never", "m1", to=MemberKind.OLD)).done


def test_a_change_can_be_taken_back(driver):
    """The way back is a change of its own."""
    _carry_out(driver, _change("c1", "m2"))
    _carry_out(driver, _change("c2", "m2", to=MemberKind.OLD))
    assert {slot.kind for slot in driver.slots(GROUP)} == {MemberKind.OLD}


def test_an_unknown_slot_is_refused_and_nothing_changes(driver):
    """Rejected names the slot; the other named slot keeps its member."""
    before = driver.slots(GROUP)
    with pytest.raises(Rejected, match="m9"):
        driver.start(_change("c1", "m1", "m9"))
    assert driver.slots(GROUP) == before


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
