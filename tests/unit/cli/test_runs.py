"""The verbs of a move and of its runs, on the toy move: what is shown, asked, done, and typed next."""

from __future__ import annotations

import shlex
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from groupshift.cli import options, run_driving, run_place
from groupshift.cli.run_output import status_data, tell_progress
from groupshift.domain.run import IRREVERSIBLE, RunState, Step, StepRecord, StepState, make_plan
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.handlers import Judge
from groupshift.engine.installed_moves import move_named
from groupshift.engine.move import Run, Tools
from groupshift.engine.progress import Paused
from groupshift.engine.status import RunStatus, StepStatus
from groupshift.errors import Transient
from groupshift.ports.runs import EventKind
from support.toy_bench import ToyBench, document, toy_bench, words

BURN = "15 go/approve burn"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyBench:
    """The command line over a toy."""
    return toy_bench(monkeypatch, tmp_path)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A person at a terminal: types the words of this list, one a question; then nobody is there."""
    typed: list[str] = []

    def choose(_console: Any, _question: str, choices: Any, default: str) -> str:
        if not typed:
            raise EOFError
        word = typed.pop(0) or default
        assert word in choices
        return word

    monkeypatch.setattr(run_driving, "answerable", lambda _console: True)
    monkeypatch.setattr(run_driving, "choose", choose)
    return typed


def next_of(text: str) -> str:
    """The command of the last line."""
    last = text.strip().splitlines()[-1]
    assert last.startswith("next: groupshift "), text
    return last.removeprefix("next: ")


def typed_again(bench: ToyBench, command: str) -> int:
    """Type a command that was said; it names the place by itself."""
    assert f"--settings {bench.settings}" in command
    from groupshift.cli.main import main

    return main(shlex.split(command)[1:])


def test_assess_says_each_rule_and_what_to_do_next(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 and the plan as the next command; 1 when it is not ready, or a run is in the way."""
    assert bench.call("toy", "assess", *bench.request("--colour", "blue")) == 0
    text = capsys.readouterr().out
    assert "1 of 1 checks passed" in text
    assert "toy: a run may begin" in text
    assert next_of(text).startswith("groupshift toy run --colour blue --file ")
    bench.target.write("burned", "yes")
    assert bench.call("toy", "assess", *bench.request(), "--json") == 1
    found = document(capsys.readouterr().out)
    assert (found["ready"], found["verdict"], found["findings"][0]["rule"]) == (False, "fail", "T00")
    assert found["next"].startswith("groupshift toy assess --file ")
    bench.target.write("burned", "no")
    assert bench.call("toy", "plan", *bench.request(), "--execute") == 0
    run = bench.run
    capsys.readouterr()
    assert bench.call("toy", "assess", *bench.request(), "--json") == 1
    found = document(capsys.readouterr().out)
    assert (found["in_the_way"], found["ready"]) == ([run], False)
    assert found["next"].startswith(f"groupshift status {run}")


def test_u03_nothing_acts_without_execute(bench: ToyBench, capsys: pytest.CaptureFixture[str]) -> None:
    """Each verb shows what it would do, changes nothing, and says the command that does it."""
    assert bench.call("toy", "run", *bench.request(), "--yes") == 0
    text = capsys.readouterr().out
    assert "prepare/set colour" in text
    assert "irreversible" in text
    command = next_of(text)
    assert command.startswith(f"groupshift toy run --file {bench.target.file} --execute")
    preview = bench.run
    assert bench.records()[0].state is RunState.PREVIEW
    assert bench.call("continue", preview, "--execute") == 2
    assert f"begin one with: groupshift toy run --file {bench.target.file} --execute" in words(
        capsys.readouterr().err
    )
    assert bench.call("toy", "plan", *bench.request(), "--execute", "--json") == 0
    run = document(capsys.readouterr().out)["run"]
    for verb in (["continue", run, "--yes"], ["roll-back", run, "--yes"], ["toy", "run", *bench.request()]):
        assert bench.call(*verb) == 0
        assert "--execute" in next_of(capsys.readouterr().out)
    assert bench.call("finalise", run) == 2
    assert "has nothing to finalise" in capsys.readouterr().err
    assert bench.target.acts() == []
    assert bench.records()[0].state is RunState.PLANNED


def test_the_whole_way_there_asks_tells_and_ends_green(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pipe with --yes: gates, the instruction, the settling, all on standard error; the end as JSON."""
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes", "--json") == 0
    captured = capsys.readouterr()
    found = document(captured.out)
    assert (found["state"], found["verdict"], found["ended"]) == ("finalised", "pass", True)
    assert "the toy is green" in found["reason"]
    assert found["next"].startswith(f"groupshift watch {found['run']} --settings")
    said = captured.err
    assert "--yes: approved" in said
    assert "write yes into plugged" in said
    assert "No answer is needed" in said
    assert "it starts" in said
    assert "2 of 2 checks passed" in said, "the gate before it is burned shows what was judged"
    assert said.count("\n  it starts") == 1, "each change once"
    assert bench.call("watch", found["run"]) == 0
    assert next_of(capsys.readouterr().out).startswith(f"groupshift report {found['run']}")
    assert bench.call("report", found["run"]) == 0
    report = capsys.readouterr().out
    assert "Decisions" in report
    assert next_of(report).startswith(f"groupshift verify-evidence {found['run']}")
    assert bench.call("report", found["run"], "--json") == 0
    titles = [each["title"] for each in document(capsys.readouterr().out)["sections"]]
    assert titles == ["What became of it", "Steps", "Decisions", "Colour"]
    assert bench.call("toy", "run", *bench.request(), "--execute") == 2
    assert "every rule: groupshift toy assess" in words(capsys.readouterr().err)


def test_a_gate_in_a_pipe_waits_for_a_person(bench: ToyBench, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 6, nothing changed; the question is shown, and the next command answers it."""
    assert bench.call("toy", "run", *bench.request(), "--execute") == 6
    captured = capsys.readouterr()
    assert "If you approve" in captured.err
    assert "Enter alone is Reject" in words(captured.err)
    assert bench.target.acts() == []
    run = bench.run
    assert f"run {run} waits at step 01 ask/approve plan, planned" in captured.out
    command = next_of(captured.out)
    assert command.startswith(f"groupshift continue {run} --execute")
    assert typed_again(bench, f"{command} --yes") == 0
    assert bench.records()[0].state is RunState.FINALISED


def test_u09_a_person_answers_with_the_words_of_the_buttons(
    bench: ToyBench, terminal: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Enter alone rejects: nothing was changed and the target is free."""
    terminal[:] = [""]
    assert bench.call("toy", "run", *bench.request(), "--execute") == 1
    text = capsys.readouterr().out
    assert "rejected" in text
    assert "nothing was changed" in text
    terminal[:] = ["approve", "reject"]
    assert bench.call("toy", "run", *bench.request(), "--execute") == 1
    assert bench.records()[0].state is RunState.MOVED, "the toy's stop frees it"
    assert bench.target.values()["burned"] == "no"
    run = bench.run
    assert f"groupshift roll-back {run} --execute" in words(capsys.readouterr().err)


def test_a_run_that_asks_for_the_same_goes_on_with_the_open_one(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was asked for otherwise is refused, by what differs."""
    assert bench.call("toy", "run", *bench.request(), "--execute") == 6
    run = bench.run
    assert bench.call("toy", "run", *bench.request("--colour", "blue"), "--execute", "--yes") == 2
    said = words(capsys.readouterr().err)
    assert f"run {run} of group toy is open and was asked for otherwise" in said
    assert "colour: the run has 'green', asked for is 'blue'" in said
    assert f"groupshift continue {run} --settings {bench.settings}" in said, "errors name the place, too"
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes") == 0
    assert [each.run for each in bench.records()] == [run]


def test_u19_a_rollback_is_shown_and_made_and_says_what_comes_next(
    bench: ToyBench, terminal: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a run that moved; asked for it ends green; there is nothing more to take back."""
    terminal[:] = ["approve", "reject"]
    bench.call("toy", "run", *bench.request(), "--execute")
    run = bench.run
    capsys.readouterr()
    assert bench.call("roll-back", run) == 0
    shown = capsys.readouterr().out
    assert "unset" in shown
    assert next_of(shown).startswith(f"groupshift roll-back {run} --to start --execute")
    assert bench.call("roll-back", run, "--to", "nowhere") == 2
    assert "it goes back to start, prepared" in capsys.readouterr().err
    assert bench.call("roll-back", run, "--execute", "--json") == 0
    found = document(capsys.readouterr().out)
    assert (found["state"], found["verdict"]) == ("rolled_back", "pass")
    assert found["next"].startswith(f"groupshift report {run}")
    assert bench.target.values()["colour"] == "red"


def test_rolling_back_what_changed_nothing_ends_the_run(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """And frees its target; exit code 0, for that was asked."""
    bench.call("toy", "plan", *bench.request(), "--execute")
    run = bench.run
    capsys.readouterr()
    assert bench.call("roll-back", run) == 0
    assert "rolling back ends the run, and its target is free" in words(capsys.readouterr().out)
    assert bench.call("roll-back", run, "--execute") == 0
    assert bench.records()[0].state is RunState.REJECTED
    assert bench.call("roll-back", run, "--execute") == 2
    assert "nothing to take back" in capsys.readouterr().err


def test_a_difference_that_was_only_accepted_is_red(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Row 36 of the table: shown first, then accepted by its step; exit code 1 although the run is done."""
    bench.target.write("scratch", "yes")
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes") == 6
    text = capsys.readouterr().out
    run = bench.run
    assert f"groupshift continue {run} --accept '14 go/clean' --execute" in words(text)
    assert bench.call("status", run, "--json") == 0
    found = document(capsys.readouterr().out)
    assert (found["waits_at"], found["driven"]) == ("14 go/clean", False)
    assert bench.call("continue", run, "--accept", "14 go/clean") == 0
    following = next_of(capsys.readouterr().out)
    assert following.startswith(f"groupshift continue {run} --accept '14 go/clean' --execute")
    assert bench.call("continue", run, "--accept", "14 go/clean", "--execute", "--yes") == 1
    assert "a difference was only accepted" in words(capsys.readouterr().out)


def test_a_doubt_is_never_accepted_by_yes_and_asked_in_a_terminal(
    bench: ToyBench, terminal: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A comparison that leaves nothing cannot be measured: roll back, or stop; the person rolls back."""
    monkeypatch.setattr(run_place.JournalSession, "submit", lambda _session, _job: None)
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes") == 6
    assert "In doubt" in capsys.readouterr().err
    terminal[:] = ["roll back"]
    assert bench.call("continue", bench.run, "--execute", "--yes") == 1
    assert bench.records()[0].state is RunState.ROLLED_BACK
    captured = capsys.readouterr()
    assert "Roll back: what the run did is undone" in words(captured.err)
    assert "chose to roll back" in words(captured.out)


def test_u02_a_run_that_somebody_has_is_not_taken_over_unasked(
    bench: ToyBench, terminal: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status says who has it and where to look, not to go on; a word takes it over, or a person does."""
    bench.call("toy", "plan", *bench.request(), "--execute")
    run = bench.run
    runs = bench.runs()
    runs.claim(run, "move_toy/manual__1", 1_700_000_000_000, anew=True)
    capsys.readouterr()
    assert bench.call("status", run) == 0
    text = capsys.readouterr().out
    assert "held by move_toy/manual__1 since 2023-11-14 22:13:20 UTC" in text
    assert next_of(text).startswith(f"groupshift status {run} --watch")
    monkeypatch.setattr(run_driving, "answerable", lambda _console: False)
    for verb in ("continue", "roll-back", "finalise"):
        code = bench.call(verb, run, "--execute", "--yes")
        assert code == (2 if verb == "finalise" else 3)
    assert f"groupshift continue {run} --take-over --execute" in words(capsys.readouterr().err)
    monkeypatch.setattr(run_driving, "answerable", lambda _console: True)
    terminal[:] = ["leave"]
    assert bench.call("continue", run, "--execute") == 3
    assert bench.target.acts() == []
    terminal[:] = ["take over", "approve", "approve"]
    assert bench.call("continue", run, "--execute") == 0
    held = runs.held(run)
    runs.close()
    assert held is not None
    assert held.holder.startswith("cli-run-")


def test_u02_a_process_that_was_refused_holds_the_run_no_longer(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended by itself: the next one goes on without taking it over, and status says why it stopped."""
    bench.plugs = False
    asked = ["toy", "run", *bench.request(), "--execute", "--yes", "--patience", "5"]
    assert bench.call(*asked) == 6
    run = bench.run
    assert bench.records()[0].state is RunState.RUNNING
    assert bench.call("roll-back", run, "--to", "nowhere", "--execute") == 2
    capsys.readouterr()
    assert bench.call("status", run, "--json") == 0
    found = document(capsys.readouterr().out)
    assert (found["driven"], found["stopped"]) == (False, True)
    assert "does not go back to 'nowhere'" in found["waits_for"]
    assert bench.call("continue", run, "--execute", "--yes", "--patience", "5") == 6


def test_u05_a_list_has_open_runs_first_and_no_previews(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a move, of a group, only open ones; how many is an option."""
    for name in ("a", "b"):
        bench.call("toy", "plan", *bench.request("--name", name), "--execute")
    for name in ("c", "d", "e"):
        bench.call("toy", "plan", *bench.request("--name", name))
    bench.call("roll-back", next(r.run for r in bench.records() if r.target.name == "b"), "--execute")
    capsys.readouterr()

    def listed(*more: str) -> list[str]:
        assert bench.call("status", "--limit", "5", "--json", *more) == 0
        return [each["target"] for each in document(capsys.readouterr().out)["runs"]]

    assert listed("--move", "toy") == ["group a", "group b"]
    assert listed("--open") == ["group a"]
    assert listed("--group", "b") == ["group b"]
    assert listed("--move", "other") == []
    assert len(listed("--move", "toy", "--previews")) == 5
    assert bench.call("status", "--open") == 0
    assert "group a" in capsys.readouterr().out


def test_u14_ctrl_c_says_where_the_run_stands_and_how_to_go_on(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 130; nobody has to take the run over."""
    bench.plugs = False

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    bench.clock.on_sleep.append(interrupted)
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes") == 130
    run = bench.run
    said = words(capsys.readouterr().err)
    assert f"interrupted: run {run} of group toy is running" in said
    assert f"to take it back: groupshift roll-back {run}" in said
    assert f"next: groupshift continue {run} --execute --settings {bench.settings}" in said
    bench.clock.on_sleep.remove(interrupted)
    bench.plugs = True
    assert bench.call("continue", run, "--execute", "--yes") == 0


def test_the_place_may_be_named_by_servers_and_a_folder(
    bench: ToyBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The journal and the evidence lie in the folder; the next command names both again."""
    from groupshift.cli.main import main

    place = ["--bootstrap-servers", "127.0.0.1:1", "--state", str(tmp_path / "state")]
    assert main(["toy", "run", *bench.request(), "--execute", *place]) == 6
    command = next_of(capsys.readouterr().out)
    assert command.endswith(f"--bootstrap-servers 127.0.0.1:1 --state {tmp_path / 'state'}")
    assert main([*shlex.split(command)[1:], "--yes"]) == 0
    assert (tmp_path / "state" / "journal.db").exists()
    assert any((tmp_path / "state" / "evidence").iterdir())
    assert main(["status", "--state", str(tmp_path / "state"), "--json"]) == 0
    capsys.readouterr()
    assert main(["toy", "assess", *bench.request(), "--bootstrap-servers", "127.0.0.1:1"]) in {0, 1}
    assert main(["toy", "run", *bench.request(), "--bootstrap-servers", "127.0.0.1:1"]) == 2
    assert "--bootstrap-servers needs --state FOLDER" in capsys.readouterr().err
    assert main(["toy", "run", *bench.request(), "--state", str(tmp_path)]) == 2
    assert main(["toy", "run", *bench.request(), *place, "--settings", str(bench.settings)]) == 2
    assert main(["toy", "run", *bench.request(), "--zookeeper", "z:1"]) == 2


def test_only_who_may_approves(bench: ToyBench, capsys: pytest.CaptureFixture[str]) -> None:
    """--yes is an answer like any other: it has to be of an approver."""
    bench.write_settings('[approval]\napprovers = ["nobody-here"]\n')
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes") == 2
    said = words(capsys.readouterr().err)
    assert "may not approve" in said
    assert "nobody-here" in said
    assert f"next: groupshift status {bench.run}" in said
    assert bench.target.acts() == []
    assert options.account() in said


def test_a_failure_says_what_a_rollback_would_undo(
    bench: ToyBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the move stops at a failure the run stays open, and the rollback is the next command."""
    from toy_move.move import ToyMove

    from groupshift.domain.reactions_to_verdicts import OnFail

    monkeypatch.setattr(ToyMove, "on_fail", OnFail.STOP)
    act = bench.target.__class__.act

    def wrong(target: Any, name: str, value: str, token: int) -> None:
        act(target, name, "grey" if name == "colour" else value, token)

    monkeypatch.setattr(bench.target.__class__, "act", wrong)
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes") == 1
    text = capsys.readouterr().out
    assert "T01: colour is grey, not green" in text
    assert "rollback 1: " in text
    assert next_of(text).startswith(f"groupshift roll-back {bench.run} --execute")
    assert bench.records()[0].state is RunState.RUNNING


def test_watch_is_refused_for_a_run_that_is_open(bench: ToyBench, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what is over is judged again."""
    bench.call("toy", "plan", *bench.request(), "--execute")
    assert bench.call("watch", bench.run) == 2
    assert "only a run of toy that is over is watched" in capsys.readouterr().err
    assert bench.call("status", "toy-none-1") == 2
    assert bench.call("continue", "toy-none-1") == 2
    assert "'toy-none-1' is not in the journal" in capsys.readouterr().err


def test_every_run_has_the_person_at_the_keyboard(bench: ToyBench) -> None:
    """Who asked, and who answered."""
    bench.call("toy", "run", *bench.request(), "--execute", "--yes")
    (record,) = bench.records()
    assert record.requester == options.who()
    runs = bench.runs()
    answers = [e.body["who"] for e in runs.events(record.run) if e.kind is EventKind.GATE_ANSWERED]
    runs.close()
    assert answers == [options.who()] * 2


def test_what_is_optional_is_left_to_finalise(
    bench: ToyBench,
    terminal: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--yes leaves it out and the run ends green; ``finalise`` shows it, asks, and makes it."""
    from toy_move.move import ToyMove

    unset = Step(phase="prepare", kind="unset", args={"name": "colour"})
    colour, burn = {"name": "colour", "value": "green"}, {"name": "burned", "value": "yes"}
    steps = (
        Step(phase="ask", kind="approve", subject="plan"),
        Step(phase="prepare", kind="set", subject="colour", args=colour, undo=unset),
        Step(phase="end", kind="approve", subject="end", optional=True, does="asks whether it is burned"),
        Step(phase="end", kind="burn", args=burn, undo=IRREVERSIBLE, optional=True, gate="end/approve end"),
    )
    monkeypatch.setattr(ToyMove, "plan", lambda _move, _request, _facts: make_plan(steps))
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes") == 0
    captured = capsys.readouterr()
    run = bench.run
    assert "--yes: left out: finalise it with groupshift finalise" in captured.err
    assert bench.records()[0].state is RunState.MOVED
    assert bench.call("finalise", run, "--json") == 0
    found = document(capsys.readouterr().out)
    assert [each["step"] for each in found["steps"]] == ["03 end/approve end", "04 end/burn"]
    assert found["next"].startswith(f"groupshift finalise {run} --execute")
    assert bench.target.values()["burned"] == "no"
    terminal[:] = ["reject"]
    assert bench.call("finalise", run, "--execute") == 0
    assert "left out and the run ends well; the rollback stays open" in words(capsys.readouterr().err)
    assert bench.call("finalise", run, "--execute", "--yes") == 0
    assert bench.records()[0].state is RunState.FINALISED
    assert bench.target.values()["burned"] == "yes"
    assert bench.call("finalise", run, "--execute") == 2
    assert bench.call("roll-back", run) == 2
    assert "there is no rollback any more" in capsys.readouterr().err


def test_a_target_that_does_not_answer_is_shown_its_rollback_from_the_journal(
    bench: ToyBench, terminal: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Row 273 of tests/engine/fits.md: the run is named, and the journal knows what was begun."""
    terminal[:] = ["approve", "reject"]
    bench.call("toy", "run", *bench.request(), "--execute")
    capsys.readouterr()

    def silent(_target: Any) -> dict[str, str]:
        raise Transient("the toy does not answer")

    monkeypatch.setattr(bench.target.__class__, "values", silent)
    assert bench.call("roll-back", bench.run) == 0
    text = words(capsys.readouterr().out)
    assert "the target does not answer, so this is what the journal says: the toy does not answer" in text
    assert "--execute" in text
    assert bench.call("roll-back", bench.run, "--execute") == 4


def test_altered_evidence_ends_with_five(
    bench: ToyBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Row 127: the run goes back by itself, and the exit code says that a promise was broken."""
    from toy_move.move import ToyMove

    altered = Finding(rule="J02", verdict=Verdict.FAIL, reason="values.json is not what was written")
    judge = Judge(lambda _run, _step: (altered,))
    monkeypatch.setattr(ToyMove, "handlers", {**ToyMove.handlers, "judge": judge})
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes") == 5
    text = words(capsys.readouterr().out)
    assert "J02: values.json is not what was written" in text
    assert bench.records()[0].state is RunState.ROLLED_BACK


def test_a_failure_on_the_way_rolls_back_and_a_second_run_does_not_turn_it_round(
    bench: ToyBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows 54, 142 and 163: ``continue`` walks on with the rollback, ``run`` refuses."""
    from toy_move.move import ToyMove

    bad = Finding(rule="T07", verdict=Verdict.FAIL, reason="a member is lost")
    judge = Judge(lambda _run, _step: (bad,))
    monkeypatch.setattr(ToyMove, "handlers", {**ToyMove.handlers, "judge": judge})
    bench.plugs = False
    bench.target.write("plugged", "yes")
    asked = ["toy", "run", *bench.request(), "--execute", "--yes", "--patience", "5"]
    assert bench.call(*asked) == 6, "nobody takes the plug out again"
    assert bench.records()[0].state is RunState.ROLLING_BACK
    run = bench.run
    capsys.readouterr()
    assert bench.call(*asked) == 3
    assert f"run {run} of group toy is being rolled back" in words(capsys.readouterr().err)
    bench.target.write("plugged", "no")
    assert bench.call("continue", run, "--execute") == 1, "it was not asked for"
    assert bench.records()[0].state is RunState.ROLLED_BACK
    assert "T07: a member is lost" in words(capsys.readouterr().out)


def test_s12_the_keys_of_the_store_of_evidence_are_in_no_status() -> None:
    """They are in what was journaled of a step: what submits its Spark job needs them."""
    where = "s3://reader:hush@bucket/run"
    job = {"job": "compare", "arguments": ["--output", where], "inputs": {where: "ab"}, "output": where}
    result = {"spark_job": job, "attempt": 2}
    record = StepRecord(key="01 a/compare", state=StepState.ACTED, token=1, at_ms=1, result=result)
    step = StepStatus(step=Step(phase="a", kind="compare", key=record.key), record=record)
    status = RunStatus(
        run="r",
        move="toy",
        target="toy",
        state="running",
        requester="ann",
        holder="",
        held_since_ms=0,
        stopped=False,
        steps=(step,),
    )
    shown = status_data(status)["steps"][0]["result"]
    where = "s3://***@bucket/run"
    job = {"job": "compare", "arguments": ["--output", where], "inputs": {where: "ab"}, "output": where}
    assert shown == {"spark_job": job, "attempt": 2}


def test_a_process_that_pauses_shows_where_the_run_stands(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its steps, not what it stopped at: it did not stop."""
    assert bench.call("toy", "plan", *bench.request(), "--execute") == 0
    runs: Any = bench.runs()
    ports: Any = None
    with closing(runs):
        run = Run.reader(move_named("toy"), Tools(runs=runs, clock=bench.clock), ports, bench.run)
        capsys.readouterr()
        tell_progress(run, Paused(step=run.plan.steps[0]), as_json=False)
    assert "what is done" in capsys.readouterr().out


def test_a_status_that_is_interrupted_is_no_success(bench: ToyBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who watches ends it so; exit code 0 would say that all runs were listed."""

    def interrupted(*_asked: object, **_more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("groupshift.cli.runs.statuses", interrupted)
    assert bench.call("status") == 130
    assert bench.call("status", "--watch") == 0
