"""The verbs of installed moves: found, made from the request, refused where they cannot be."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import EntryPoint, EntryPoints
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import groupshift.moves
from groupshift.cli import verbs
from groupshift.cli.main import main
from groupshift.cli.moves import add_moves, verbs_of
from groupshift.domain.requests import options_of
from groupshift.engine.installed_moves import GROUP
from groupshift.engine.move import Move
from groupshift.errors import Rejected
from support.toy_bench import PATHS, ToyBench, toy_bench

SCREEN = 60
"""Lines of a help that is read without scrolling far."""


def built(**entries: list[str]) -> typer.Typer:
    """A command line with these entry points of moves."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("own")(lambda: None)
    points = [EntryPoint(name, each, GROUP) for name, values in entries.items() for each in values]
    add_moves(app, "Moves", EntryPoints(points))
    return app


def test_a_move_that_is_installed_has_its_verbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the options of its request and those of every verb."""
    for path in PATHS:
        monkeypatch.syspath_prepend(path)
    app = built(toy=["toy_move.move:ToyMove"])
    shown = CliRunner().invoke(app, ["toy", "--help"]).output
    for verb in ("assess", "plan", "run"):
        assert verb in shown
    shown = CliRunner().invoke(app, ["toy", "run", "--help"], env={"COLUMNS": "200"}).output
    for flag in (
        "--colour",
        "--execute",
        "--yes",
        "--patience",
        "--settings",
        "--state",
        "--nodes",
        "--json",
    ):
        assert flag in shown
    assert "Wanted colour. Default: green." in shown


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["nobody.move:Move"], "cannot be loaded"),
        (["toy_move.move:ToyRequest"], "lacks scope"),
        (["toy_move.move:ToyMove", "toy_move.move:ToyMove"], "installed twice"),
    ],
)
def test_a_move_that_cannot_be_used_takes_no_other_verb_with_it(
    values: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says why when it is called."""
    for path in PATHS:
        monkeypatch.syspath_prepend(path)
    app = built(toy=values)
    assert CliRunner().invoke(app, ["own"]).exit_code == 0
    ended = CliRunner().invoke(app, ["toy", "run", "--colour", "green"])
    assert isinstance(ended.exception, Rejected)
    assert says in str(ended.exception)


def ours() -> list[type[Move[Any]]]:
    """The moves below `groupshift.moves`, installed or not yet."""
    found = []
    for package in pkgutil.iter_modules(groupshift.moves.__path__):
        if find_spec(f"groupshift.moves.{package.name}.move") is None:
            continue
        module = importlib.import_module(f"groupshift.moves.{package.name}.move")
        classes = [each for each in vars(module).values() if isinstance(each, type)]
        own = [each for each in classes if each.__module__ == module.__name__ and Move in each.__mro__]
        found += [each for each in own if "to" not in signature(each).parameters]  # that of scans is no verb
    return found


@pytest.mark.parametrize("move", ours(), ids=lambda each: str(each.name))
def test_each_move_of_ours_can_be_asked_for_on_the_command_line(move: type[Move[Any]]) -> None:
    """Its request has only options that the command line has, each with help, and none of every verb's."""
    app = typer.Typer()
    app.add_typer(verbs_of(move()), name=move.name)
    app.command("own")(lambda: None)
    shown = {
        verb: CliRunner().invoke(app, [move.name, verb, "--help"], env={"COLUMNS": "200"})
        for verb in ("assess", "run")
    }
    assert {each.exit_code for each in shown.values()} == {0}
    for each in options_of(move.request):
        assert each.flag in shown["assess"].output
        assert (each.flag in shown["run"].output) is not each.assesses
        assert each.help, f"{each.name} has no help"


def test_only_moves_that_are_installed_have_verbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its own; another one is no command."""
    from groupshift.cli import moves

    point = EntryPoint("downgrade", "groupshift.moves.downgrade.move:DowngradeMove", GROUP)
    monkeypatch.setattr(moves, "entry_points", lambda group: EntryPoints([point]).select(group=group))
    app = verbs.built()
    shown = CliRunner().invoke(app, ["downgrade", "--help"]).output
    assert all(verb in shown for verb in ("assess", "plan", "run"))
    assert CliRunner().invoke(app, ["expansion", "--help"]).exit_code == 2


def test_the_help_shows_the_lifecycle_on_one_screen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Moves first, then what is done with their runs."""
    bench: ToyBench = toy_bench(monkeypatch, tmp_path)
    monkeypatch.setattr(verbs, "app", verbs.built())
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= SCREEN, len(lines)
    assert bench.target.acts() == []
    text = "\n".join(lines)
    order = [text.index(each) for each in (verbs.MOVES, " toy ", verbs.RUNS, " status ", " continue ")]
    assert order == sorted(order)
    assert text.index(" roll-back ") < text.index(verbs.FLEET) < text.index(verbs.OTHERS)


def test_the_version_is_told_and_completion_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As an option of its own, wherever it stands before a verb."""
    # which shell started the tests is no matter: typer would look for it among the processes above
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert main(["--version"]) == 0
    alone = capsys.readouterr().out
    assert main(["--version", "status"]) == 0
    assert capsys.readouterr().out == alone
    assert main(["--show-completion", "bash"]) == 0
    assert "_GROUPSHIFT_COMPLETE=complete_bash" in capsys.readouterr().out


def test_a_shell_completes_verbs_choices_and_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs of the journal that the environment names; nothing where it names none."""
    bench: ToyBench = toy_bench(monkeypatch, tmp_path)
    bench.call("toy", "plan", *bench.request(), "--execute")
    capsys.readouterr()

    def completed(line: str) -> list[str]:
        monkeypatch.setenv("_GROUPSHIFT_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        assert main([]) == 0
        return capsys.readouterr().out.split()

    assert completed("groupshift toy ") == ["assess", "plan", "run"]
    assert "--colour" in completed("groupshift toy run --c")
    monkeypatch.setenv("GROUPSHIFT_SETTINGS", str(bench.settings))
    assert completed("groupshift continue toy-") == [bench.run]
    monkeypatch.delenv("GROUPSHIFT_SETTINGS")
    monkeypatch.setenv("GROUPSHIFT_HOME", str(tmp_path / "nowhere"))
    assert completed("groupshift continue toy-") == []
