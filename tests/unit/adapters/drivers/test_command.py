"""The driver that asks programs: arguments, answers, and what becomes of a program that fails."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.drivers.command import (
    FIELDS,
    CommandFleet,
    CommandReplacement,
    Programs,
    problems,
    put,
    run_program,
    terms,
)
from groupshift.domain.modes import MemberKind
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.driver import Change, ForPerson, Started
from groupshift.settings import CommandSettings
from groupshift_sandbox.processes import wait_until

CHANGE = Change(
    change_id="m-1:canary", group="orders-app", slots=("m1", "m2"), to=MemberKind.AWARE, fence="m-1", token=3
)
SLOTS = (
    '{"slots": [{"name": "m1", "kind": "old", "state": "running"},'
    ' {"name": "m2", "kind": "old", "state": "down", "trouble": "no host"}]}'
)


def _fleet(
    code: str, *arguments: str, observe: str = f"print({SLOTS!r})", **settings: object
) -> CommandFleet:
    """A driver whose ``start`` and ``undo`` run this Python code."""
    start = (sys.executable, "-c", f"import sys, os, time\n{code}", *arguments)
    undo = (*start, "undo")
    told = CommandSettings(start=start, observe=(sys.executable, "-c", observe), undo=undo, timeout_s=20)
    return CommandFleet(replace(told, **settings))


def test_every_value_of_a_change_can_be_an_argument() -> None:
    """A list alone becomes one argument a value, inside text it is joined by commas."""
    template = ("deploy", "{change_id}", "--of={group}", "{to}", "{token}", "{fence}", "{slots}", "x={slots}")
    argv = ["deploy", "m-1:canary", "--of=orders-app", "aware", "3", "m-1", "m1", "m2", "x=m1,m2"]
    assert put(template, *terms(CHANGE)) == argv
    assert put(("a", "{slots}", "{undoes}"), *terms(replace(CHANGE, slots=()))) == ["a"]


@pytest.mark.parametrize("value", ["m1; rm x", "$(id)", "-rf", "m 1", "m1\nm2", "m`1"])
def test_a_value_that_a_program_could_misread_is_refused(value: str) -> None:
    """Also one that looks like an option."""
    with pytest.raises(Rejected, match="cannot be handed to a program"):
        put(("deploy", "{slots}"), *terms(replace(CHANGE, slots=("m1", value))))


def test_no_shell_reads_the_arguments() -> None:
    """What a shell would expand arrives as it is."""
    argv = [sys.executable, "-c", "import sys; print(sys.argv[1:])", "$HOME", "a;b", "*"]
    seen = run_program(argv, os.environ, 20, key="fleet.command")
    assert seen.output.strip() == "['$HOME', 'a;b', '*']"


@pytest.mark.parametrize(
    ("template", "clause"),
    [
        ((), "is empty"),
        (("run", "{slot}"), "{slot}, which is none of change_id, group"),
        (("{group}",), "name the program itself"),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused_before_anything_runs(
    template: tuple[str, ...], clause: str
) -> None:
    """The sentence names the key of the settings."""
    assert clause in problems("fleet.command.start", template, FIELDS)[0]
    with pytest.raises(Rejected, match=r"fleet\.command\.start"):
        CommandFleet(CommandSettings(start=template, observe=("a",), undo=("b",)))


def test_slots_come_from_the_program_with_what_it_knows() -> None:
    """Order and trouble are its own."""
    slots = _fleet("").slots("orders-app")
    assert [(slot.name, slot.trouble) for slot in slots] == [("m1", ""), ("m2", "no host")]
    status = _fleet("").observe(CHANGE)
    assert not status.done
    assert "m2 is down as old (no host)" in status.detail


def test_a_change_is_started_or_a_person_is_asked() -> None:
    """Both are the program's choice."""
    said = "print('{\"change_id\": \"' + sys.argv[1] + '\"}')"
    assert _fleet(said, "{change_id}").start(CHANGE) == Started(change_id="m-1:canary")
    asks = _fleet('print(\'{"instruction": "push the button"}\')')
    assert asks.start(CHANGE) == ForPerson(change_id="m-1:canary", instruction="push the button")


def test_a_program_that_cannot_know_the_slots_leaves_it_to_the_group() -> None:
    """The members themselves are the places then, and the driver never says done."""
    said = "print('{\"change_id\": \"' + sys.argv[1] + '\"}')"
    fleet = _fleet(said, "{change_id}", observe="print('{\"slots\": []}')")
    assert fleet.slots("orders-app") == ()
    assert fleet.start(CHANGE) == Started(change_id="m-1:canary")
    status = fleet.observe(CHANGE)
    assert (status.done, status.slots) == (False, ())


def test_the_way_back_runs_undo() -> None:
    """With the changes that it takes back."""
    code = "print('{\"instruction\": \"' + ' '.join(sys.argv[1:]) + '\"}')"
    answer = _fleet(code, "{undoes}").start(replace(CHANGE, undoes=("m-1:canary", "m-1:roll")))
    assert answer == ForPerson(change_id="m-1:canary", instruction="m-1:canary m-1:roll undo")


def test_an_unknown_slot_is_refused_before_start_runs(tmp_path: Path) -> None:
    """Nothing was run but ``observe``."""
    mark = tmp_path / "ran"
    with pytest.raises(Rejected, match="'m9' is unknown"):
        _fleet(f"open({str(mark)!r}, 'w')").start(replace(CHANGE, slots=("m1", "m9")))
    assert not mark.exists()


@pytest.mark.parametrize("printed", ["not json", "[1]", "", '{"change_id": "another"}'])
def test_an_answer_that_cannot_be_used_names_program_and_remedy(printed: str) -> None:
    """The sentence says what to print."""
    with pytest.raises(
        Rejected,
        match=r"fleet\.command\.start .* cannot be read .* let it print one JSON object",
    ):
        _fleet(f"print({printed!r})").start(CHANGE)


@pytest.mark.parametrize(
    ("slots", "wrong"),
    [
        ('{"slots": [{"name": "m1"}]}', "missing"),
        ('{"slots": 1}', ""),
        ('{"slots": [{"kind": "x"}]}', "'name' is missing"),
        ('{"x": 1}', "'slots' is missing"),
    ],
)
def test_slots_that_cannot_be_read_name_the_program(slots: str, wrong: str) -> None:
    """A kind or state that does not exist, or one that is missing."""
    with pytest.raises(Rejected, match=rf"fleet\.command\.observe .* what cannot be read .*{wrong}"):
        _fleet("", observe=f"print({slots!r})").slots("orders-app")


@pytest.mark.parametrize(("code", "family"), [(2, Rejected), (3, Conflict), (1, Transient), (4, Transient)])
def test_the_exit_code_says_what_kind_of_failure_it_is(code: int, family: type[Exception]) -> None:
    """The end of the standard error is in the sentence."""
    with pytest.raises(family, match="no room / give it up"):
        _fleet(f"print('no room\\n\\ngive it up', file=sys.stderr); sys.exit({code})").start(CHANGE)


def test_a_program_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    """Transient names the program and what it said last; its child is gone too."""
    child = tmp_path / "child"
    code = (
        f"import subprocess\np = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(child)!r}, 'w').write(str(p.pid))\nprint('waiting', file=sys.stderr, flush=True)\n"
        "time.sleep(600)"
    )
    said = ""
    for timeout_s in (10, 100):
        if "waiting" not in said:  # on a busy machine it may not even have begun
            with pytest.raises(Transient, match="did not end in time") as caught:
                _fleet(code, timeout_s=timeout_s).start(CHANGE)
            said = str(caught.value)
    assert "did not end in time: waiting" in said
    stat = Path(f"/proc/{child.read_text()}/stat")
    wait_until(lambda: _ended(stat), 60, "the child is gone")


def _ended(stat: Path) -> bool:
    try:
        return " Z " in stat.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_program_that_is_not_there_is_named() -> None:
    """With the key to correct."""
    commands = CommandSettings(start=("a",), observe=("no-such-program-here",), undo=("b",))
    with pytest.raises(Rejected, match="'no-such-program-here' cannot be run"):
        CommandFleet(commands).slots("orders-app")


def test_a_program_gets_the_named_secrets_only_and_they_are_in_no_sentence() -> None:
    """What else this process knows is not handed on."""
    environment = {**os.environ, "DEPLOY_TOKEN": "hush-hush", "JOURNAL_URL": "db://secret"}
    code = "print(os.environ['DEPLOY_TOKEN'], os.environ.get('JOURNAL_URL'), file=sys.stderr); sys.exit(1)"
    commands = CommandSettings(
        start=(sys.executable, "-c", f"import sys, os\n{code}"),
        observe=(sys.executable, "-c", f"print({SLOTS!r})"),
        undo=("u",),
        environment=("DEPLOY_TOKEN",),
    )
    with pytest.raises(Transient) as caught:
        CommandFleet(commands, environment).start(CHANGE)
    assert "*** None" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_what_a_program_says_to_people_holds_no_secret_and_what_goes_back_to_it_is_left_alone() -> None:
    """Trouble of slots, instructions, and what cannot be read; a name with such a text stays a name."""
    slots = [{"name": "hush-1", "kind": "old", "state": "running", "trouble": "no hush-hush, no hush"}]
    environment = {**os.environ, "DEPLOY_TOKEN": "hush-hush", "SHORT": "hush"}

    def fleet(observed: object) -> CommandFleet:
        told = json.dumps({"instruction": "curl -H hush-hush, then go"})
        commands = CommandSettings(
            start=(sys.executable, "-c", f"print({told!r})"),
            observe=(sys.executable, "-c", f"print({json.dumps(observed)!r})"),
            undo=("u",),
            environment=("SHORT", "DEPLOY_TOKEN"),
        )
        return CommandFleet(commands, environment)

    (slot,) = fleet({"slots": slots}).slots("orders-app")
    assert (slot.name, slot.trouble) == ("hush-1", "no ***, no ***")
    asked = fleet({"slots": [{**slots[0], "name": name} for name in CHANGE.slots]}).start(CHANGE)
    assert asked == ForPerson(change_id=CHANGE.change_id, instruction="curl -H ***, then go")
    with pytest.raises(Rejected, match="cannot be read") as caught:
        fleet({"slots": [{**slots[0], "state": "hush-hush"}]}).slots("orders-app")
    assert "hush" not in str(caught.value)


RUNS_BY_CANARY = '"slots": [{"name": "m1", "kind": "old", "state": "running", "change_id": "m-1:canary"}]'


@pytest.mark.parametrize(
    ("printed", "taken"),
    [
        ('{"slots": []}', False),
        ('{"slots": [], "taken_up": true}', True),
        ('{"slots": [{"name": "m1", "kind": "old", "state": "running", "change_id": "other"}]}', False),
        ('{"slots": [{"name": "m1", "kind": "old", "state": "changing", "change_id": "m-1:canary"}]}', True),
        (
            f'{{"taken_up": false, {RUNS_BY_CANARY}}}',
            False,
        ),
    ],
)
def test_a_program_says_whether_it_took_a_change_up_or_its_slots_do(printed: str, *, taken: bool) -> None:
    """What it says itself counts first."""
    assert _fleet("", observe=f"print({printed!r})").took_up(CHANGE) is taken


@pytest.mark.parametrize("answer", ["[" * 100_000, '{"slots": [], "slots": []}', '{"slots": [], "x": 1e999}'])
def test_s13_an_answer_that_no_reader_takes_is_one_sentence(answer: str, tmp_path: Path) -> None:
    """Deep, said twice, without end."""
    (tmp_path / "answer").write_text(answer)
    fleet = _fleet("", observe=f"print(open({str(tmp_path / 'answer')!r}).read())")
    with pytest.raises(Rejected, match=r"fleet\.command\.observe .* printed") as refused:
        fleet.slots("orders-app")
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("name", ["member_id", "change_id"])
@pytest.mark.parametrize("value", [["x"], {"x": 1}, 5, True])
def test_s13_an_id_that_is_no_text_is_one_sentence(name: str, value: object) -> None:
    """Whoever looks it up would fail at it."""
    slot = {"name": "m1", "kind": "old", "state": "running", name: value}
    fleet = _fleet("", observe=f"print({json.dumps({'slots': [slot]})!r})")
    with pytest.raises(Rejected, match=r"what cannot be read .*is no text"):
        fleet.slots("orders-app")


def test_what_a_program_prints_loosely_is_taken() -> None:
    """Null says nothing, a number is a name, and the name of a file of snapshots has zeros before it."""
    slot = {
        "name": 1,
        "kind": "old",
        "state": "running",
        "member_id": None,
        "change_id": None,
        "trouble": None,
    }
    printed = json.dumps({"slots": [slot], "taken_up": None})
    (place,) = _fleet("", observe=f"print({printed!r})").slots("orders-app")
    assert (place.name, place.trouble, place.change_id) == ("1", "", None)
    node = {
        "state": "running",
        "release": 3.9,
        "change_id": None,
        "trouble": None,
        "snapshot": "00000000000000001234",
    }
    programs = Programs(start=("a",), observe=(sys.executable, "-c", f"print({json.dumps(node)!r})"))
    status = CommandReplacement(programs).observe(4)
    assert (status.release, status.change_id, status.snapshot, status.trouble) == ("3.9", "", 1234, "")
