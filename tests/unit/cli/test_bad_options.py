"""Options that cannot be used: one sentence and exit code 2 before anything is asked. Faults of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift.cli.main import main

NOBODY = ("--bootstrap-servers", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("audit", "--all", *NOBODY, "--zookeeper", "/kafka"), "names no server"),
        (("snapshot", "--all", *NOBODY, "--zookeeper", "/", "--read-from", "zookeeper"), "names no server"),
        (("audit", "--all", *NOBODY, "--timeout", "-5"), "equal to 0.1"),
        (("snapshot", "--all", *NOBODY, "--timeout", "0"), "equal to 0.1"),
        (("compare", "a", "b", "--move", "downgrade", "--memory", "lots"), "is no size of a heap"),
        (("compare", "a", "b", "--move", "downgrade", "--memory", "0g"), "is no size of a heap"),
    ],
    ids=lambda value: " ".join(value[:1] + value[-2:]) if isinstance(value, tuple) else "",
)
def test_an_option_that_cannot_be_used_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    """Without a host an audit compared two sources where three were asked for; the others were tracebacks."""
    output = ("--output", str(tmp_path / "out"))
    assert main([*arguments, *output]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert told in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_fault_of_our_own_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 says that differences were found: a program that breaks down has found none."""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("groupshift.cli.snapshot.wanted", fail)
    assert main(["snapshot", "--all", *NOBODY, "--output", "nowhere"]) == 5
    said = capsys.readouterr().err
    assert "no verdict was reached; report it with the lines above (ZeroDivisionError)" in said
    assert "Traceback" in said
