"""A supervisor that is killed at any moment of an emptying or a filling: the next one goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupshift.domain.modes import MemberKind
from groupshift.errors import Rejected
from groupshift_sandbox import supervisor
from groupshift_sandbox.client_members.commands import CLIENTS
from groupshift_sandbox.fleet import FleetDefinition, FleetSlot, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import Command, marked, stop, wait_until
from groupshift_sandbox.state import write_document
from groupshift_sandbox.supervisor import Supervisor

NAMES = ["m1", "m2", "m3"]
DEADLINE_S = 60.0
MEMBER = """
import json, os, sys, time
for event in ({"event": "started", "pid": os.getpid()}, {"event": "assigned", "partitions": []}):
    with open(sys.argv[1], "a") as out:
        out.write(json.dumps({"at_ms": 0, "member": "m", **event}) + chr(10))
time.sleep(600)
"""
"""Tells what a client does, and needs no server."""


class Crash(BaseException):
    """Stands for SIGKILL."""


def member(home: Home, _definition: FleetDefinition, place: FleetSlot) -> Command:
    """An occupant."""
    events = str(home.members / f"{place.occupant}.events.jsonl")
    return Command(name=place.occupant, argv=[sys.executable, "-c", MEMBER, events])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """Three places, empty at first; every member is ended afterwards."""
    monkeypatch.setattr(supervisor, "member_command", member)
    made = Home(tmp_path / "home").create()
    slots = tuple(SlotDefinition(name=name, client=CLIENTS[0], kind=MemberKind.VACANT) for name in NAMES)
    definition = FleetDefinition(group="g", topics=("t",), bootstrap="127.0.0.1:1", slots=slots)
    write_document(made.fleet_file, definition.to_json())
    yield made
    for process in marked(made):
        stop(process)


def change(to: MemberKind, number: int) -> dict[str, object]:
    """A request for all places."""
    return {"verb": "change", "change_id": f"c{number}", "slots": NAMES, "to": to.value}


def carry_on(home: Home, change_id: str) -> Supervisor:
    """The next supervisor, until all places carry the change."""
    found = Supervisor(home)

    def done() -> bool:
        found.turn()
        return all(slot["change_id"] == change_id for slot in found.slots())

    wait_until(done, DEADLINE_S, f"{change_id} is done")
    return found


def filled(home: Home) -> Supervisor:
    """All three run as plain members."""
    first = Supervisor(home)
    first.answer(change(MemberKind.PLAIN, 1))
    return carry_on(home, "c1")


def states(found: Supervisor) -> list[tuple[str, str]]:
    """Kind and state of each place."""
    return [(slot["kind"], slot["state"]) for slot in found.slots()]


def test_a_fleet_may_begin_vacant_and_is_filled_at_once(home: Home) -> None:
    """Nobody is started before the change; then each has one member, which is named by its client id."""
    first = Supervisor(home)
    first.turn()
    assert (states(first), marked(home)) == ([("vacant", "down")] * 3, [])
    first.answer(change(MemberKind.PLAIN, 1))
    first.turn()
    assert sorted(each.name for each in marked(home)) == ["m1-1", "m2-1", "m3-1"]
    found = carry_on(home, "c1")
    assert states(found) == [("plain", "running")] * 3
    assert [slot["member_id"] for slot in found.slots()] == ["g_m1-1", "g_m2-1", "g_m3-1"]


@pytest.mark.parametrize("moment", ["accepted", "asked to end", "gone"])
def test_an_emptying_goes_on_after_a_crash(home: Home, moment: str) -> None:
    """Killed after the change was written down, after SIGTERM, or before it noted that a member is gone."""
    found = filled(home)
    found.answer(change(MemberKind.VACANT, 2))
    if moment != "accepted":
        found.turn()
    if moment == "gone":
        wait_until(lambda: not marked(home), DEADLINE_S, "all members are gone")
    assert all(slot["change_id"] == "c1" for slot in found.slots())
    after = carry_on(home, "c2")
    for _ in range(3):
        after.turn()
    assert (states(after), marked(home)) == ([("vacant", "down")] * 3, [])
    assert [slot["member_id"] for slot in after.slots()] == [None] * 3


def test_a_filling_goes_on_after_a_crash_between_two_starts(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """m1 runs and is noted, m2 runs and is not, m3 was never started: each has one member in the end."""
    first, begun = Supervisor(home), []
    first.answer(change(MemberKind.NATIVE, 1))
    spawn = supervisor.spawn

    def dying(command: Command, at: Home, log: Path):
        begun.append(spawn(command, at, log))
        if command.name.startswith("m2"):
            raise Crash
        return begun[-1]

    monkeypatch.setattr(supervisor, "spawn", dying)
    with pytest.raises(Crash):
        first.turn()
    monkeypatch.setattr(supervisor, "spawn", spawn)
    after = carry_on(home, "c1")
    assert states(after) == [("native", "running")] * 3
    assert {each.name for each in marked(home)} == {"m1-1", "m2-1", "m3-1"}
    assert {each.pid for each in begun} < {each.pid for each in marked(home)}


def test_a_member_on_its_way_out_does_not_count_as_running(home: Home) -> None:
    """An emptying that is taken back at once: not done before every place has a member that stays."""
    found = filled(home)
    before = {each.pid for each in marked(home)}
    found.answer(change(MemberKind.VACANT, 2))
    found.turn()
    found.answer(change(MemberKind.PLAIN, 3))
    assert ("plain", "running") not in states(found)

    def back() -> bool:
        found.turn()
        return states(found) == [("plain", "running")] * 3

    wait_until(back, DEADLINE_S, "plain members run again")
    assert before.isdisjoint(each.pid for each in marked(home))


def test_a_kind_that_no_slot_can_have_changes_nothing(home: Home) -> None:
    """The memory is as it was; so is a supervisor that cannot run what its file says."""
    found = Supervisor(home)
    before = json.dumps(found.memory.to_json())
    with pytest.raises(Rejected, match="slot 'm1' cannot have old members"):
        found.answer(change(MemberKind.ZOOKEEPER, 1))
    assert json.dumps(found.memory.to_json()) == before
    unusable = FleetDefinition(
        group="g", topics=("t",), bootstrap="b:1", slots=(SlotDefinition(name="m1", kind=MemberKind.NATIVE),)
    )
    write_document(home.fleet_file, unusable.to_json())
    with pytest.raises(Rejected, match="slot 'm1' cannot have native members: its client is ''"):
        Supervisor(home)


def test_a_member_that_cannot_be_made_is_tried_again_later(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The daemon goes on with the others and says why in its log."""

    def failing(at: Home, definition: FleetDefinition, place: FleetSlot) -> Command:
        if place.occupant == "m1-1":
            raise Rejected("no such jar")
        return member(at, definition, place)

    monkeypatch.setattr(supervisor, "member_command", failing)
    Supervisor(home).answer(change(MemberKind.PLAIN, 1))
    found = carry_on(home, "c1")
    assert "m1-1 could not be started: no such jar" in capsys.readouterr().err
    assert [slot["member_id"] for slot in found.slots()] == ["g_m1-2", "g_m2-1", "g_m3-1"]
