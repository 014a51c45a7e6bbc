"""Where a verb was told to look, told again in the command that comes next.

A person pastes that command: without the options that named the cluster it would ask another one, or none.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import typer.main

from groupshift.domain.foreign_text import shell

_NAMED = ("--settings", "--bootstrap-servers", "--zookeeper", "--state", "--nodes")
_COMMAND = re.compile(r"""(?:^|(?<=: ))groupshift (?:'[^']*'|"[^"]*"|[^'",;]|,(?!\s))+(?=[,;]\s|$)""")
"""It begins the text or follows a colon, and ends before what is said after a comma or semicolon."""

_told: ContextVar[tuple[dict[str, str], typer.Typer] | None] = ContextVar("place", default=None)


@contextmanager
def told(arguments: Sequence[str], app: typer.Typer) -> Iterator[None]:
    """These are the arguments of ``app`` that runs now; `again` repeats the place that they name."""
    kept = _told.set((_named(arguments), app))
    try:
        yield
    finally:
        _told.reset(kept)


def again(text: str) -> str:
    """``text`` with each command of ours in it told the options that named the place, as far as its verb
    takes them and it names none itself. What stands around a command stays as it is."""
    known = _told.get()
    return _COMMAND.sub(lambda found: _whole(found.group(), *known), text) if known is not None else text


def _whole(command: str, named: dict[str, str], app: typer.Typer) -> str:
    try:
        words = shlex.split(command)
    except ValueError:  # quoted in a way of another shell: left to the reader
        return command
    taken = _options(app, words[1:])
    missing = [name for name in named if name in taken and name not in _named(words)]
    return " ".join([command, *(f"{name} {shell(named[name])}" for name in missing)])


def _options(app: typer.Typer, words: Sequence[str]) -> set[str]:
    """The options of the verb that these words call."""
    verb = typer.main.get_command(app)
    for word in words:
        inner = getattr(verb, "commands", {}).get(word)
        if inner is None:
            break
        verb = inner
    return {option for parameter in verb.params for option in parameter.opts}


def _named(words: Sequence[str]) -> dict[str, str]:
    """The options of the place that stand there, with their values."""
    found = {}
    for word, value in zip(words, [*words[1:], ""], strict=False):
        name, given, joined = word.partition("=")
        if name in _NAMED:
            found[name] = joined if given else value
    return found
