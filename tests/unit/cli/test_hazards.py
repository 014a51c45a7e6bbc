"""``groupshift hazards``: what it prints, what it refuses, and its exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groupshift.cli.main import main


def _asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["hazards", *arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def _by_rule(document: dict[str, Any]) -> dict[str, Any]:
    return {each["rule"]: each for each in document["findings"]}


@pytest.mark.parametrize(
    ("arguments", "rule", "code"),
    [
        (("--broker", "4.0.1"), "H12", 1),
        (("--broker", "4.0.2"), "H12", 0),
        (("--broker", "3.9.2", "--client", "confluent-kafka=2.16.1"), "H24", 1),
        (("--broker", "3.9.2", "--client", "confluent-kafka=2.8.0"), "H24", 0),
        (("--move", "downgrade", "--broker", "4.3.1", "--target", "3.4.0"), "H02", 1),
        (("--move", "downgrade", "--broker", "4.3.1", "--target", "3.4.1"), "H02", 0),
        (("--move", "coordination", "--broker", "4.0.0"), "H31", 1),
        (("--move", "coordination", "--broker", "3.9.2", "--without", "kraft"), "H31", 0),
    ],
)  # fmt: skip
def test_the_exit_code_says_whether_something_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], rule: str, code: int
) -> None:
    """1 on the affected side of a border and 0 on the other; the document says the same."""
    clients = () if "--client" in arguments else ("--client", "none")
    given, document = _asked(capsys, *arguments, *clients)
    assert given == code
    assert (document["refused"] > 0) == (code == 1)
    assert _by_rule(document)[rule]["does"] == ("refuse" if code else "-")


def test_nothing_named_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a version the brokers and the clients are asked for; nothing is refused."""
    code, document = _asked(capsys)
    assert code == 0
    questions = [each for each in document["findings"] if each["rule"] == "H00"]
    assert [each["does"] for each in questions] == ["ask", "ask", "ask"]
    assert {each["hint"] for each in questions} == {
        "say it, such as --broker 4.3.1",
        "say it, such as --client confluent-kafka=2.16.1",
        "say it, such as --client kafka-clients=4.3.1",
    }


def test_a_line_of_releases_is_asked_about_where_the_border_cuts_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of 4.0 some releases fail to load and some do not; 4.2 is fine whatever the last number."""
    for line, does in (("4.0", "ask"), ("4.2", "-")):
        _, document = _asked(capsys, "--broker", line, "--client", "none")
        assert _by_rule(document)["H12"]["does"] == does


def test_a_condition_decides(capsys: pytest.CaptureFixture[str]) -> None:
    """cooperative-sticky while members stay is refused, without it nothing is said, unknown it is asked."""
    known = ("--broker", "4.3.1", "--client", "confluent-kafka=2.16.1", "--with", "online")
    said = {
        asked: _by_rule(_asked(capsys, *known, *asked)[1])["H23"]["does"]
        for asked in (("--with", "cooperative-sticky"), ("--without", "cooperative-sticky"), ())
    }
    assert list(said.values()) == ["refuse", "-", "ask"]


def test_the_table_shows_what_is_met_with_its_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused hazard is a row with its remedy; one that is not met is shown with --all only."""
    monkeypatch.setenv("COLUMNS", "300")
    known = ["hazards", "--broker", "4.0.1", "--client", "none"]
    assert main(known) == 1
    shown = capsys.readouterr().out
    assert "H12" in shown
    assert "go to 4.0.2, 4.1.2 or 4.2.0 first" in shown
    assert "H24" not in shown
    assert main([*known, "--all"]) == 1
    assert "H24" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--broker", "newest"), "--broker 'newest' is no version"),
        (("--broker", "7.6.0-ccs"), "--broker '7.6.0-ccs' is numbered by a distribution"),
        (("--client", "java=4.0.0"), "--client java=4.0.0 is not known"),
        (("--target", "3.9.2"), "--target 3.9.2 is for --move downgrade only"),
        (("--with", "online", "--without", "online"), "online is named by --with and by --without"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_its_value(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    """Exit code 2 and one sentence that names the value and the remedy."""
    assert main(["hazards", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert sentence in said.err
