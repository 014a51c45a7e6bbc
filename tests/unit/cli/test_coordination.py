"""The move ``coordination`` on the command line: what it refuses, what it prints, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from groupshift.cli import run_place, runs
from groupshift.cli.main import main
from groupshift.cli.run_driving import Teller
from groupshift.domain.modes import MemberKind
from groupshift.domain.plan import Until
from groupshift.domain.run import RunState, SparkJob, Step
from groupshift.engine.move import Move, Tools
from groupshift.ports.runs import Runs
from groupshift.settings import Settings
from support.coordination_runs import CoordinationProcesses, make_coordination
from support.disk_evidence import DiskEvidence, DiskProof

GROUP = ("--group", "orders-app")
SETTINGS = (
    '[kafka]\nbootstrap_servers = "b:9092"\n[zookeeper]\nhosts = "z"\n[fleet]\ndriver = "manual"\n'
    '[journal]\nurl = "sqlite://"\n'
)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CoordinationProcesses:
    """The command line over the simulated group; its clock does not really wait."""
    made = make_coordination()
    made.seals = False
    made.evidence = DiskEvidence(tmp_path / "evidence")  # type: ignore[assignment]
    made.proof = DiskProof(made.evidence)
    file = tmp_path / "settings.toml"
    file.write_text(f'{SETTINGS}[evidence]\nroot = "{tmp_path / "evidence"}"\n')
    monkeypatch.setenv("GROUPSHIFT_SETTINGS", str(file))

    @contextmanager
    def journal(_settings: Settings) -> Iterator[Runs]:
        yield made.runs

    @contextmanager
    def opened(_move: Move[Any], _place: object, _request: object) -> Iterator[Any]:
        yield made.ports()

    def tools(_runs: Runs, _settings: Settings) -> Tools:
        return made.tools()

    def submit(_session: object, job: SparkJob) -> None:
        made.submit(job)

    monkeypatch.setattr(run_place, "journal", journal)
    monkeypatch.setattr(run_place, "opened", opened)
    monkeypatch.setattr(run_place, "tools_of", tools)
    monkeypatch.setattr(run_place.JournalSession, "submit", submit)
    return made


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The JSON document on standard output."""
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said on both streams, in one line."""
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def test_assess_says_ready_and_what_to_do_next(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 and the next command; 1 when it is not ready."""
    assert main(["coordination", "assess", *GROUP]) == 0
    assert "next: groupshift coordination run --group orders-app" in shown(capsys)
    group.world.znode.clear()
    assert main(["coordination", "assess", *GROUP, "--json"]) == 1
    document = printed(capsys)
    assert document["ready"] is False
    assert {"C05", "C11"} <= {finding["rule"] for finding in document["findings"]}


def test_without_execute_run_only_plans(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is changed and nothing is locked."""
    assert main(["coordination", "run", *GROUP, "--json"]) == 0
    document = printed(capsys)
    phases = list(dict.fromkeys(step["phase"] for step in document["steps"]))
    assert phases == ["plan", "canary", "roll", "toggle", "soak"]
    assert document["next"].endswith("--execute")
    assert document["state"] == RunState.PREVIEW
    assert group.kinds() == [MemberKind.ZOOKEEPER] * 3
    assert not group.runs.recent(9, open_only=True)


def test_a_canary_is_chosen_by_share_and_watched(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan says what it holds; what is typed next repeats the options; a minute by default."""
    asked = [*GROUP, "--canary-share", "0.5", "--canary-watch", "30", "--json"]
    assert main(["coordination", "plan", *asked]) == 0
    document = printed(capsys)
    assert document["about"]["canary"] == {"watch_s": 30, "held": 4, "partitions": 6}
    canary = next(step for step in document["steps"] if step["kind"] == "replace_members")
    assert canary["args"]["slots"] == ["m1", "m2"]
    assert "--canary-share 0.5 --canary-watch 30" in document["next"]
    assert main(["coordination", "plan", *GROUP]) == 0
    assert "The canary holds 2 of 6 partitions (33 %); it is watched for 60 s." in shown(capsys)
    assert main(["coordination", "run", *asked, "--canary", "2"]) == 2
    assert "choose one" in capsys.readouterr().err


def test_run_moves_and_roll_back_takes_back(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """There and back on the command line, with the progress on standard error."""
    asked = [*GROUP, "--execute", "--yes", "--soak", "2", "--canary-watch", "0", "--json"]
    assert main(["coordination", "run", *asked]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["state"] == RunState.MOVED
    assert "toggle/set_mode" in captured.err
    run = str(document["run"])
    for verb in (["status"], ["status", run], ["report", run]):
        assert main(verb) == 0
        assert "next: groupshift" in shown(capsys)
    assert main(["roll-back", run, "--execute", "--yes"]) == 0
    assert group.kinds() == [MemberKind.ZOOKEEPER] * 3
    assert group.state(run) is RunState.ROLLED_BACK


def test_a_failed_run_ends_with_one_and_the_reason(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plant is named, with the step that it turned red."""
    group.world.places["m3"].held = True
    assert main(["coordination", "run", *GROUP, "--execute", "--yes", "--canary-watch", "0"]) == 1
    said = shown(capsys)
    assert "roll/judge after" in said
    assert "m3" in said


def test_a_gate_without_a_terminal_waits_for_a_person(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 6, nothing changed, and the run can be continued by a person or with --yes."""
    assert main(["coordination", "run", *GROUP, "--execute", "--canary-watch", "0"]) == 6
    (record,) = group.runs.recent(9)
    assert record.state is RunState.PLANNED
    assert f"next: groupshift continue {record.run} --execute" in shown(capsys)
    assert main(["continue", record.run, "--execute", "--yes"]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["coordination", "run"], 2, "group"),
        (["status", "nothing"], 2, "'nothing' is not in the journal"),
        (["coordination", "assess", "--group", "a/b"], 2, "group 'a/b'"),
        (["coordination", "run", "--group", "nobody", "--execute", "--yes"], 2, "known neither"),
        (["no-such-verb"], 2, "no-such-verb"),
        (["coordination", "no-such-verb"], 2, "no-such-verb"),
        (["coordination", "run", "--group", "g", "--until", "moon"], 2, "moon"),
    ],
)
def test_bad_input_is_one_sentence_and_code_two(
    group: CoordinationProcesses,
    arguments: list[str],
    code: int,
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On standard error, without a traceback."""
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err


def test_a_second_request_and_a_preview_are_refused(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the name of the open run; a preview is never gone on with."""
    run = group.begin(until=Until.CANARY)
    assert main(["coordination", "run", *GROUP, "--execute", "--yes"]) == 2
    assert f"run {run} of group orders-app is open and was asked for otherwise" in capsys.readouterr().err
    preview = group.begin(execute=False)
    assert main(["continue", preview, "--execute", "--yes"]) == 2
    assert "groupshift coordination run --group orders-app" in capsys.readouterr().err


def test_an_open_run_that_was_asked_for_alike_is_gone_on_with(group: CoordinationProcesses) -> None:
    """The same command, typed again after a process ended, begins no second run."""
    asked = ["coordination", "run", *GROUP, "--canary-watch", "0", "--execute"]
    assert main(asked) == 6
    assert main([*asked, "--yes"]) == 0
    assert [each.state for each in group.runs.recent(9)] == [RunState.MOVED]


def test_somebody_elses_write_makes_the_approval_void(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mode node was changed between the approval of the toggle and its act: it is asked again, and
    what changed is said."""
    tell = Teller.tell
    meddled: list[str] = []

    def meddle(self: Teller, step: Step, text: str) -> None:
        tell(self, step, text)
        if step.name.startswith("toggle/judge before") and not meddled:
            meddled.append(step.key)
            group.world.write_mode(b"zookeeper")

    monkeypatch.setattr(Teller, "tell", meddle)
    run = group.begin()
    assert main(["continue", run, "--execute", "--yes"]) == 0
    assert meddled
    assert "mode" in shown(capsys)
    voided = [each for each in group.runs.events(run) if each.kind == "voided"]
    assert [any("mode" in text for text in each.body["changes"]) for each in voided] == [True]


def test_watch_judges_again_what_a_run_left(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 while it holds, 1 when it does not, with the command that takes it back."""
    assert main(["coordination", "run", *GROUP, "--canary-watch", "0", "--execute", "--yes"]) == 0
    (record,) = group.runs.recent(1)
    capsys.readouterr()
    assert main(["watch", record.run, "--json"]) == 0
    assert printed(capsys)["outcome"] == "pass"
    group.world.write_mode(b"zookeeper")
    assert main(["watch", record.run, "--json"]) == 1
    assert printed(capsys)["next"] == f"groupshift roll-back {record.run}"


def test_no_settings_at_all_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the two ways to get some."""
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    monkeypatch.setenv("GROUPSHIFT_HOME", str(tmp_path))
    assert main(["status"]) == 2
    assert "groupshift sandbox up" in capsys.readouterr().err


@dataclass(frozen=True)
class Everything:
    """Journal, claims, evidence and group."""

    events: object
    held: object
    state: RunState
    evidence: tuple[str, ...]
    kinds: list[MemberKind]
    mode: object


def everything(group: CoordinationProcesses, run: str) -> Everything:
    """What nothing may change that only shows."""
    return Everything(
        events=group.runs.events(run),
        held=group.runs.held(run),
        state=group.state(run),
        evidence=group.evidence.files(run),
        kinds=group.kinds(),
        mode=group.world.mode.data,
    )


@pytest.mark.parametrize("yes", [[], ["--yes"], ["--yes", "--json"]])
def test_u03_continue_does_nothing_without_execute(
    group: CoordinationProcesses, yes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is agreed to beforehand: what is left is shown, with the command that does it."""
    run = group.begin()
    before = everything(group, run)
    assert main(["continue", run, *yes]) == 0
    assert everything(group, run) == before
    assert f"groupshift continue {run} --execute" in shown(capsys)


@pytest.mark.parametrize("yes", [[], ["--yes"], ["--yes", "--json"]])
@pytest.mark.parametrize("to", ["old_members", "zookeeper_mode"])
def test_u03_roll_back_does_nothing_without_execute(
    group: CoordinationProcesses, yes: list[str], to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The steps that would undo what was done are shown, and the command that undoes it."""
    run = group.begin()
    group.drive(run)
    before = everything(group, run)
    assert main(["roll-back", run, "--to", to, *yes]) == 0
    assert everything(group, run) == before
    said = shown(capsys)
    assert "undo_toggle" in said
    assert ("undo_members" in said) is (to == "old_members")
    assert f"groupshift roll-back {run} --to {to} --execute" in said
    assert main(["roll-back", run, "--to", to, "--execute", "--yes"]) == 0


def test_u03_roll_back_of_what_never_acted_says_so(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing to undo: rolling back ends the run, and its group is free."""
    run = group.begin()
    before = everything(group, run)
    assert main(["roll-back", run]) == 0
    assert everything(group, run) == before
    assert "nothing was changed: rolling back ends the run" in shown(capsys)
    assert main(["roll-back", run, "--execute"]) == 0
    assert group.state(run) is RunState.REJECTED


def test_u03_every_next_command_that_acts_names_execute(
    group: CoordinationProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is pasted does what it says, in every state of an open run."""
    assert main(["coordination", "plan", *GROUP, "--execute"]) == 0
    assert shown(capsys).rpartition("next:")[2].endswith("--execute")
    (record,) = group.runs.recent(1)
    for verb in (["status", record.run], ["continue", record.run], ["roll-back", record.run]):
        assert main(verb) == 0
        assert shown(capsys).rpartition("next:")[2].endswith("--execute"), verb


def _verbs_with(option: str) -> dict[str, set[str]]:
    """Every verb that has this option, with all of its options."""
    import typer

    from groupshift.cli.verbs import app

    found: dict[str, set[str]] = {}

    def walk(name: str, command: object) -> None:
        for each, sub in getattr(command, "commands", {}).items():
            walk(f"{name} {each}".strip(), sub)
        options = {text for each in getattr(command, "params", ()) for text in each.opts}
        if option in options:
            found[name] = options

    walk("", typer.main.get_command(app))
    return found


def test_u03_every_verb_that_can_be_agreed_to_beforehand_needs_execute() -> None:
    """``--yes`` answers questions; it never is the order to act."""
    verbs = _verbs_with("--yes")
    moves = ("coordination", "downgrade", "expansion", "protocol")
    wanted = {*(f"{move} run" for move in moves), "continue", "roll-back", "finalise"}
    assert wanted <= set(verbs)
    assert [name for name, options in verbs.items() if "--execute" not in options] == []


def test_the_verbs_on_runs_are_those_of_the_grammar() -> None:
    """Each once, for runs of every move."""
    assert list(runs.VERBS) == ["status", "continue", "roll-back", "finalise", "report", "watch"]
