"""Help of every verb: it can be asked for, and says what was written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer
from rich.text import Text

from groupshift.cli.main import main
from groupshift.cli.verbs import app


def verbs() -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The words of each verb, and every text of its help: its own and its options'."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), typer.main.get_command(app))]
    while waiting:
        words, command = waiting.pop()
        texts = [getattr(command, "help", None), *(getattr(each, "help", None) for each in command.params)]
        yield words, [text for text in texts if text]
        for name, inner in getattr(command, "commands", {}).items():
            waiting.append(((*words, name), inner))


def ended(*arguments: str) -> object:
    """The exit code, which consume's own parser raises."""
    try:
        return main(arguments)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize("words", [words for words, _ in verbs()], ids=" ".join)
def test_every_verb_tells_its_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 0 and its usage, whatever its options say of themselves."""
    assert ended(*words, "--help") == 0
    assert " ".join(("groupshift", *words)) in " ".join(capsys.readouterr().out.split())


def test_without_words_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """It is what somebody types first."""
    ended()
    said = capsys.readouterr()
    assert "Usage: groupshift" in said.out + said.err
    assert "broken" not in said.err


def test_nothing_of_a_help_text_is_taken_for_markup() -> None:
    """A word in square brackets is a style for the library that prints help: it fails on it, or drops it."""
    for words, texts in verbs():
        for text in texts:
            assert Text.from_markup(text).plain == text, " ".join(words)
