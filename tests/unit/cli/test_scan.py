"""``groupshift scan`` and ``groupshift brake``: what they print, what they refuse, and the exit codes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from groupshift.cli import scan as verb
from groupshift.cli.main import main
from groupshift.domain.modes import MemberKind
from support.simulated_fleet import Fleet, make_fleet


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """An old, an aware and a dead group behind the command line."""
    made = make_fleet(tmp_path)
    made.add("bills", MemberKind.ZOOKEEPER)
    made.add("orders")
    for occupant in made.add("gone", MemberKind.ZOOKEEPER).places.values():
        occupant.running = False
    monkeypatch.setattr(verb, "settings", lambda _path: None)
    monkeypatch.setattr(verb, "build_scans", lambda _settings: nullcontext(made.scans()))
    monkeypatch.setenv("COLUMNS", "200")
    yield made
    made.history.close()


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The JSON document on standard output."""
    return dict(json.loads(capsys.readouterr().out))


def test_a_scan_shows_groups_differences_and_what_to_do_next(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table for people; the first scan has nothing to compare with, the second names what changed."""
    assert main(["scan"]) == 0
    shown = capsys.readouterr().out
    for text in ("bills", "2 old", "canary: ready", "dead", "the first scan", "3 groups"):
        assert text in shown
    assert shown.rstrip().endswith("next: groupshift scan --toggle")
    fleet.add("bills", MemberKind.AWARE)
    assert main(["scan"]) == 0
    shown = capsys.readouterr().out
    assert "different from scan 1" in shown
    assert "2 old" in shown
    assert "2 aware" in shown


def test_one_group_is_shown_rule_by_rule(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """What passed, and what did not with reason and hint."""
    main(["scan"])
    capsys.readouterr()
    assert main(["scan", "--last", "--group", "bil*"]) == 0
    shown = capsys.readouterr().out
    assert "group bills, rule by rule" in shown
    assert "C13" in shown
    assert "group orders" not in shown


def test_what_a_pattern_does_not_match_is_said(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """A table without rows is left out; a name that was mistyped must not look like a group without fault."""
    main(["scan"])
    capsys.readouterr()
    assert main(["scan", "--last", "--group", "bilsl"]) == 0
    assert "no group has such a name" in capsys.readouterr().out
    assert main(["scan", "--last", "--group", "gone"]) == 0
    assert "group gone: it has no phase left" in capsys.readouterr().out
    fleet.ensemble.worlds.clear()
    assert main(["scan"]) == 0
    assert "there is no group" in capsys.readouterr().out


def test_json_holds_everything_in_one_document(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """Groups with their rule trace, differences, and the waves that were planned."""
    assert main(["scan", "--toggle", "--json"]) == 0
    found = document(capsys)
    groups = {each["group"]: each for each in found["groups"]}
    assert groups["gone"]["life"] == "dead"
    assert groups["bills"]["members"] == {"old": 2, "aware": 0, "plain": 0}
    assert {"C02", "C05"} <= set(groups["bills"]["readiness"][0]["passed"])
    assert found["former"] is None
    assert found["waves"]["execute"] is False
    assert [each["group"] for each in found["waves"]["toggles"]] == ["orders"]
    assert fleet.ensemble.worlds["orders"].mode_writes == 0


def test_execute_toggles_and_back_takes_it_back(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --execute the command that would do it is printed."""
    assert main(["scan", "--toggle"]) == 0
    assert "groupshift scan --toggle --execute" in capsys.readouterr().out
    assert main(["scan", "--toggle", "--execute"]) == 0
    captured = capsys.readouterr()
    assert "wave 1 orders → kafka: done" in captured.err
    assert fleet.ensemble.worlds["orders"].mode.data == b"kafka"
    assert main(["scan", "--take-back", "--group", "orders", "--execute"]) == 0
    assert fleet.ensemble.worlds["orders"].mode.data == b"zookeeper"


def test_a_pulled_brake_ends_with_one_and_is_released_by_its_verb(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its reason is shown wherever it stops something."""
    assert main(["brake", "--pull", "broker is down"]) == 0
    assert "groupshift brake --release" in capsys.readouterr().out
    assert main(["scan", "--toggle", "--execute"]) == 1
    captured = capsys.readouterr()
    assert "broker is down" in captured.out
    assert fleet.ensemble.worlds["orders"].mode_writes == 0
    assert main(["brake", "--release", "--execute", "--json"]) == 0
    assert document(capsys) == {"pulled": False, "reason": ""}


def test_u03_a_brake_is_released_with_execute_only(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """Pulling stops at once; what lets others act again is asked for in full."""
    assert main(["brake", "--pull", "broker is down"]) == 0
    assert main(["brake", "--release", "--json"]) == 0
    assert '"pulled": true' in capsys.readouterr().out
    assert main(["brake", "--release", "--execute"]) == 0
    assert "the brake is released" in capsys.readouterr().out


def test_u03_the_command_that_acts_on_planned_waves_acts_on_no_more(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """It repeats what the waves were planned with, names of groups too, so that it can be pasted."""
    limits = ["--wave", "1", "--error-budget", "1", "--stable-for", "0", "--at-most", "1"]
    assert main(["scan", "--toggle", *limits]) == 0
    said = capsys.readouterr().out.rpartition("next: ")[2].strip()
    assert said == f"groupshift scan --toggle {' '.join(limits)} --execute"
    assert main(["scan", "--toggle", "--execute"]) == 0
    capsys.readouterr()
    assert main(["scan", "--take-back", "--group", "ord*", "--group", "orders"]) == 0
    said = capsys.readouterr().out.rpartition("next: ")[2].strip()
    assert said == "groupshift scan --take-back --group 'ord*' --group orders --execute"
    assert main(shlex.split(said)[1:]) == 0
    assert fleet.ensemble.worlds["orders"].mode.data == b"zookeeper"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["scan", "--toggle", "--take-back", "--group", "g"], "opposite ways"),
        (["scan", "--take-back"], "--take-back needs --group"),
        (["scan", "--take-back", "--group", "nobody"], "'nobody' names no group"),
        (["scan", "--toggle", "--wave", "0"], "wave size 0"),
        (["scan", "--last"], "never scanned"),
        (["brake", "--pull", "x", "--release"], "exclude each other"),
    ],
)
def test_bad_input_is_one_sentence_and_code_two(
    fleet: Fleet, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, before anything was changed."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err
