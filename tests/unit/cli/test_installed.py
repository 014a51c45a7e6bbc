"""Commands of other distributions: found by entry point, and a sentence where they are not installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest
import typer
from typer.testing import CliRunner

from groupshift.cli import moves
from groupshift.cli.moves import COMMANDS, ELSEWHERE, add_installed
from groupshift.errors import Rejected
from groupshift_sandbox import cli
from groupshift_sandbox.demo_moves import DEMOS


def _app(monkeypatch: pytest.MonkeyPatch, *found: tuple[str, str]) -> typer.Typer:
    points = EntryPoints(EntryPoint(name, value, COMMANDS) for name, value in found)
    monkeypatch.setattr(moves, "entry_points", lambda group: points.select(group=group))
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("own")(lambda: None)
    add_installed(app)
    return app


def test_a_group_of_verbs_and_a_verb_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the names of their entry points."""
    app = _app(
        monkeypatch, ("demo", "groupshift_sandbox.cli:demo"), ("sandbox", "groupshift_sandbox.cli:app")
    )
    shown = CliRunner().invoke(app, ["--help"]).output
    assert "demo" in shown
    assert "sandbox" in shown
    assert "status" in CliRunner().invoke(app, ["sandbox", "--help"]).output


@pytest.mark.parametrize("arguments", [["demo"], ["demo", "--help"], ["sandbox", "up", "--no-airflow"]])
def test_a_command_that_is_not_installed_says_which_distribution_has_it(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not listed either."""
    app = _app(monkeypatch)
    ended = CliRunner().invoke(app, arguments)
    assert isinstance(ended.exception, Rejected)
    assert str(ended.exception).endswith(f"pip install {ELSEWHERE[arguments[0]]}")
    assert arguments[0] not in CliRunner().invoke(app, ["--help"]).output


def test_a_command_that_cannot_be_imported_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says which distribution to look at."""
    app = _app(monkeypatch, ("other", "groupshift_of_nobody.cli:app"))
    assert CliRunner().invoke(app, ["own"]).exit_code == 0
    ended = CliRunner().invoke(app, ["other"])
    assert isinstance(ended.exception, Rejected)
    assert "groupshift_of_nobody.cli:app" in str(ended.exception)


def test_a_call_loads_nothing_that_only_the_demo_needs() -> None:
    """Each call of `groupshift` loads the commands that are installed, each task of Airflow one, too."""
    code = "import sys, groupshift.cli.verbs; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "groupshift_sandbox.cli" in loaded
    assert not {"groupshift_sandbox.demo_moves", "groupshift_sandbox.up", "kio", "pyspark"} & loaded


def test_every_move_that_the_demo_offers_has_one() -> None:
    """The names stand where nothing is imported for them."""
    assert set(cli.MOVES) == {cli.MOVE, *DEMOS}
