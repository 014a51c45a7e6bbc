"""Drivers that replace nodes: `replacement_suite` over real programs, what programs may answer, the driver of
people, and the file that chooses one. The driver of the sandbox is in ``tests/live``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from groupshift.adapters.drivers.command import CommandReplacement, Programs
from groupshift.adapters.drivers.manual import ManualReplacement
from groupshift.bootstrap.member_and_broker_drivers import driver_of, nodes_file, replacement
from groupshift.errors import Rejected, Transient
from groupshift.ports.driver import ClientFence, ForPerson, NodeState, Replacement, Started
from groupshift_sandbox.replacement import SandboxReplacement
from support.replacement_suite import *  # noqa: F403 - the suite's tests are this module's tests
from support.replacement_suite import Driven, change

DEPLOYER = """
import json, pathlib, sys
file, verb, *given = sys.argv[1:]
path = pathlib.Path(file)
state = json.loads(path.read_text())
if verb == "start":
    change, node, release, coordinator, fence, token, *without = given
else:
    node, = given
if node != "1":
    sys.exit(print(f"node {node} is not ours", file=sys.stderr) or 2)
if verb == "start":
    assert coordinator in {"old", "new"} and without == ["group.consumer.assignors"]
    highest = state["tokens"].get(fence, 0)
    if int(token) < highest:
        sys.exit(print(f"token {token} is below {highest}", file=sys.stderr) or 3)
    state["tokens"][fence] = int(token)
    if state.get("change_id") != change:
        up = release != "3.4.0"
        trouble = "" if up else "Can't read version 4"
        state |= {"change_id": change, "release": release, "starts": state["starts"] + 1,
                  "state": "running" if up else "down", "trouble": trouble}
    path.write_text(json.dumps(state))
    print(json.dumps({"change_id": change}))
else:
    print(json.dumps({**state, "snapshot": 42}))
"""
"""A deployer that keeps one node in a file."""


def programs(*argv: str, **changes: object) -> Programs:
    """Both templates over one program."""
    fields = ("{change_id}", "{node}", "{release}", "{coordinator}", "{fence}", "{token}", "{without}")
    values = {"start": (*argv, "start", *fields), "observe": (*argv, "observe", "{node}")}
    return Programs(**values | changes)  # type: ignore[arg-type]


@pytest.fixture
def driven(tmp_path: Path) -> Driven:
    """The driver `command` over the deployer."""
    script, state = tmp_path / "deployer.py", tmp_path / "state.json"
    script.write_text(DEPLOYER)
    state.write_text(json.dumps({"tokens": {}, "starts": 0, "state": "running", "release": "4.3.1"}))
    return Driven(
        driver=CommandReplacement(programs(sys.executable, str(script), str(state))),
        now="3.9.2",
        starts=lambda: json.loads(state.read_text())["starts"],
        fails="3.4.0",
        words="Can't read version 4",
    )


def test_a_program_tells_the_metadata_snapshot_that_only_it_can_see(driven: Driven) -> None:
    """The offset of the newest one."""
    assert driven.driver.observe(1).snapshot == 42


def saying(code: str, **changes: object) -> CommandReplacement:
    """A driver over a program of one line."""
    argv = (sys.executable, "-c", code)
    return CommandReplacement(programs(*argv, **changes), environment={"PATH": "", "TOKEN": "s3cret"})


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        ("print('no')", Rejected, "is not JSON"),
        ("print('[]')", Rejected, "is not a JSON object"),
        ("print(dict())", Rejected, "what cannot be read"),
        ("import json; print(json.dumps(dict(state='fine')))", Rejected, "what cannot be read"),
        ("import sys; sys.exit(9)", Transient, "ended with 9: nothing on its standard error"),
        ("import os, sys; sys.exit(os.environ['TOKEN'])", Transient, "ended with 1: \\*\\*\\*"),
        ("import time; time.sleep(60)", Transient, "did not end in time"),
    ],
)
def test_what_a_program_does_wrong_is_said_in_one_sentence(code: str, error: type, said: str) -> None:
    """Without what its environment keeps secret."""
    with pytest.raises(error, match=said) as raised:
        saying(code, environment=("TOKEN",), timeout_s=1.0 if "sleep" in code else 30.0).observe(1)
    assert "s3cret" not in str(raised.value)


def test_a_program_may_hand_the_work_to_a_person_and_must_name_the_change() -> None:
    """An instruction is passed on; another change id than the one asked for is refused."""
    told = saying('print(\'{"instruction": "call Ada"}\')').start(change(1, "3.9.2"))
    assert told == ForPerson(change_id="run/01_replace_1", instruction="call Ada")
    with pytest.raises(Rejected, match="change_id 'x' instead of 'run/01_replace_1'"):
        saying('print(\'{"change_id": "x"}\')').start(change(1, "3.9.2"))
    with pytest.raises(Rejected, match=r"cannot be run.*correct command\.observe"):
        CommandReplacement(programs("/nowhere/deployer")).observe(1)


def test_what_a_program_says_to_people_holds_no_secret() -> None:
    """Its instruction, the trouble of a node, and an answer that cannot be used."""
    told = saying('print(\'{"instruction": "curl -H s3cret"}\')', environment=("TOKEN",))
    assert told.start(change(1, "3.9.2")) == ForPerson(
        change_id="run/01_replace_1", instruction="curl -H ***"
    )
    down = saying('print(\'{"state": "down", "trouble": "s3cret was refused"}\')', environment=("TOKEN",))
    assert down.observe(1).trouble == "*** was refused"
    for answer, said in (
        ('{"change_id": "s3cret"}', "instead of"),
        ('{"state": "s3cret"}', "cannot be read"),
    ):
        wrong = saying(f"print({answer!r})", environment=("TOKEN",))
        with pytest.raises(Rejected, match=said) as raised:
            wrong.start(change(1, "3.9.2")) if "change_id" in answer else wrong.observe(1)
        assert "s3cret" not in str(raised.value)


def test_a_person_is_told_everything_and_the_cluster_decides() -> None:
    """Node, release, coordinator and what to leave out; nothing is claimed to be known."""
    driver = ManualReplacement()
    told = driver.start(change(1, "3.9.2")).instruction
    assert all(word in told for word in ("node 1", "3.9.2", "old group coordinator", "assignors"))
    assert driver.observe(1).state is NodeState.UNKNOWN


def test_the_file_chooses_the_driver(tmp_path: Path) -> None:
    """Without one a person replaces the nodes."""
    path = tmp_path / "nodes.toml"
    path.write_text(
        'driver = "command"\n[command]\nstart = ["a", "{node}"]\nobserve = ["b"]\ntimeout_s = 5\n'
    )
    assert isinstance(replacement(nodes_file(path)), CommandReplacement)
    assert isinstance(replacement(nodes_file(None)), ManualReplacement)
    path.write_text('driver = "sandbox"\n[sandbox]\nhome = "here"\n')
    assert nodes_file(path).table == {"home": "here"}


def test_an_installed_driver_gets_its_table(tmp_path: Path) -> None:
    """That of the sandbox works in the home that the table names."""
    path = tmp_path / "nodes.toml"
    path.write_text(f'driver = "sandbox"\n[sandbox]\nhome = "{tmp_path}"\ncluster = "kraft"\n')
    driver = driver_of(path)
    assert isinstance(driver, SandboxReplacement)
    assert driver._home.root == tmp_path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("driver =", "cannot be read"),
        ('driver = "ansible"', "driver 'ansible' is none of manual, command, sandbox"),
        ('driver = "command"\ncommand = 3', "command must be a table"),
        ('driver = "command"', r"command\.start is empty"),
        ('driver = "command"\n[command]\nstart = "a"', r"command\.start is no list"),
        ('driver = "command"\n[command]\nstart = ["a", "{group}"]\nobserve = ["b"]', r"\{group\}"),
        ('driver = "command"\n[command]\nstart = ["a"]\nobserve = ["b"]\ntimeout_s = 0', "above 0"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(text: str, said: str, tmp_path: Path) -> None:
    """In one sentence that names what is wrong."""
    path = tmp_path / "nodes.toml"
    path.write_text(text)
    with pytest.raises(Rejected, match=said):
        replacement(nodes_file(path))
    with pytest.raises(Rejected, match="cannot be read"):
        nodes_file(tmp_path / "none")


RESTART = Replacement(
    change_id="expansion/09_restart_1",
    node_id=1,
    properties={"offsets.topic.num.partitions": "8", "auto.create.topics.enable": "false"},
)


def test_a_person_is_told_to_restart_a_node_as_it_is() -> None:
    """Without a release: what to set, and nothing about jars."""
    told = ManualReplacement().start(RESTART)
    assert isinstance(told, ForPerson)
    assert told.instruction == (
        "Set `auto.create.topics.enable=false`, `offsets.topic.num.partitions=8` in the file of node 1, then "
        "stop it cleanly (SIGTERM) and start it again. Then run this again."
    )
    bare = ManualReplacement().start(replace(RESTART, properties={}))
    assert bare.instruction.startswith("Stop node 1 cleanly (SIGTERM)")  # type: ignore[union-attr]


def test_a_program_is_handed_the_properties_one_by_one(tmp_path: Path) -> None:
    """And an empty release and coordinator: the node is restarted as it is."""
    seen = tmp_path / "seen.json"
    code = (
        f"import json, sys; json.dump(sys.argv[1:], open({str(seen)!r}, 'w')); "
        "print(json.dumps({'change_id': sys.argv[1]}))"
    )
    program = [sys.executable, "-c", code]
    driver = CommandReplacement(
        Programs(
            start=(*program, "{change_id}", "release={release}", "by={coordinator}", "{properties}"),
            observe=(*program, "{node}"),
        )
    )
    assert driver.start(RESTART) == Started(change_id=RESTART.change_id)
    assert json.loads(seen.read_text()) == [
        "expansion/09_restart_1",
        "release=",
        "by=",
        "auto.create.topics.enable=false",
        "offsets.topic.num.partitions=8",
    ]


FENCE = """
import pathlib, sys
file, verb, run = sys.argv[1:]
path = pathlib.Path(file)
if run == "refused":
    sys.exit(print("run refused is not known: hunter2", file=sys.stderr) or 2)
if run == "broken":
    sys.exit(1)
path.write_text(path.read_text() + f"{verb} {run}\\n")
"""


def _fenced(folder: Path, *, driver: str = "manual") -> ClientFence:
    """A driver whose file has a fence."""
    script, told, file = folder / "fence.py", folder / "told", folder / "nodes.toml"
    script.write_text(FENCE)
    told.write_text("")
    argv = json.dumps([sys.executable, str(script), str(told)])[:-1]
    file.write_text(
        f'driver = "{driver}"\n[fence]\nkeep_out = {argv}, "out", "{{run}}"]\n'
        f'let_in = {argv}, "in", "{{run}}"]\nenvironment = ["FENCE_TOKEN"]\n'
    )
    found = nodes_file(file)
    driver_with = replacement(found)
    assert isinstance(driver_with, ClientFence)
    return driver_with


def test_a_fence_is_two_programs_beside_any_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told of the run; what they say is shown without secrets."""
    monkeypatch.setenv("FENCE_TOKEN", "hunter2")
    found = _fenced(tmp_path)
    found.keep_out("r1")
    found.let_in("r1")
    assert (tmp_path / "told").read_text() == "out r1\nin r1\n"
    with pytest.raises(Rejected, match=r"fence\.keep_out .* ended with 2: run refused") as refused:
        found.keep_out("refused")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(Transient, match=r"fence\.let_in .* ended with 1"):
        found.let_in("broken")


def test_a_driver_without_a_fence_keeps_nobody_out() -> None:
    """The file of one has no such table."""
    found = nodes_file(None)
    assert not isinstance(replacement(found), ClientFence)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("keep_out = []\nlet_in = ['x']", "fence.keep_out"),
        ("keep_out = ['x', '{node}']\nlet_in = ['x']", "node"),
        ("keep_out = 'x'\nlet_in = ['x']", "fence.keep_out is no list of texts"),
        ("keep_out = ['x']\nlet_in = ['x']\ntimeout_s = 0", "fence.timeout_s 0 is no number"),
    ],
)
def test_a_fence_that_cannot_be_used_is_refused(tmp_path: Path, table: str, said: str) -> None:
    """Before anything is changed, with the field."""
    file = tmp_path / "nodes.toml"
    file.write_text(f'driver = "manual"\n[fence]\n{table}\n')
    found = nodes_file(file)
    with pytest.raises(Rejected, match=said):
        replacement(found)
