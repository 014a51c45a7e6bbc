"""`groupshift protocol`: what it refuses before a broker is asked, and exit codes."""

from __future__ import annotations

import pytest

from groupshift.cli.main import main

ASSESS = ["protocol", "assess", "--group", "g"]
SERVERS = ["--bootstrap-servers", "b:1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*ASSESS, "--to", "consumer", "--client", "kafkajs=2", *SERVERS], "--client kafkajs=2 is not known"),
        ([*ASSESS, "--to", "consumer", "--bootstrap-servers", "nowhere"], "is no host:port"),
        (
            [*ASSESS, "--to", "consumer", "--bootstrap-servers", "b:1", "--settings", "s"],
            "both name a cluster",
        ),
        (
            [*ASSESS, "--to", "consumer", "--bootstrap-servers", "b:1", "--timeout", "0"],
            "greater than or equal to 0.1",
        ),
        ([*ASSESS, "--to", "share", "--bootstrap-servers", "b:1"], "'share' is not one of"),
        (["protocol", "assess", "--to", "consumer", *SERVERS], "group is missing; give it with --group"),
    ],
)
def test_input_that_cannot_be_used_ends_with_2_and_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is opened."""
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_brokers_that_do_not_answer_end_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    """A port that nobody listens at: nothing is said about the group."""
    arguments = [*ASSESS, "--to", "classic", "--bootstrap-servers", "127.0.0.1:1", "--timeout", "0.3"]
    assert main(arguments) == 4
    told = capsys.readouterr()
    assert (told.out, "127.0.0.1:1" in told.err) == ("", True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--for", "-1"], "'--for'"),
        (["--within", "-1"], "'--within'"),
        (["--every", "0"], "'--every'"),
        (["--bootstrap-servers", "b:1", "--settings", "s"], "both name a cluster"),
    ],
)
def test_a_watch_that_cannot_be_kept_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is opened."""
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["watch", "protocol-g-1", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_counts_are_asked_of_addresses_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any broker is asked."""
    monkeypatch.delenv("GROUPSHIFT_SETTINGS", raising=False)
    asked = ["downgrade", "assess", "--to", "3.9.2", "--jmx", "nowhere", "--bootstrap-servers", "b:1"]
    assert main(asked) == 2
    assert "--jmx" in capsys.readouterr().err
