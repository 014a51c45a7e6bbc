"""What commands print and write: tables for people, JSON for programs, reports, and the next command.

Where a verb was told to look is repeated in the command that comes next: a person pastes it, and without
the options that named the cluster it would ask another one, or none.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main
from rich.text import Text

from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.foreign_text_quoting import json_text, shell
from groupshift.domain.verdict import NOT_ASKED, Finding, Verdict
from groupshift.errors import Rejected

Shown = Table | Text | str
"""What is printed for a person: a table, a line."""
COLOUR = {
    Verdict.PASS: "green",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.ERROR: "magenta",
    Verdict.FAIL: "red",
}


_NAMED = ("--settings", "--bootstrap-servers", "--zookeeper", "--state", "--nodes")
_COMMAND = re.compile(r"""(?:^|(?<=: ))groupshift (?:'[^']*'|"[^"]*"|[^'",;]|,(?!\s))+(?=[,;]\s|$)""")
"""It begins the text or follows a colon, and ends before what is said after a comma or semicolon."""

_place: ContextVar[tuple[dict[str, str], typer.Typer] | None] = ContextVar("place", default=None)


def plain(value: object) -> Any:
    """Return dataclasses, enums, tuples, sets and bytes as what JSON knows; bytes that are no UTF-8 are
    escaped."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(plain(each) for each in value)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON document on standard output; what comes ``next`` is asked of the same place."""
    if isinstance(data.get("next"), str):
        data = {**data, "next": again(data["next"])}
    print(json_text(json.dumps(plain(data), indent=2, ensure_ascii=False)))


def next_command(console: Console, command: str) -> None:
    """Print what to do next, at the same place."""
    console.line(styled("next:", "dim"), " ", styled(again(command), "bold"))


@contextmanager
def repeating(arguments: Sequence[str], app: typer.Typer) -> Iterator[None]:
    """Remember that these are the arguments of ``app`` that runs now: `again` repeats the place they name."""
    kept = _place.set((_named(arguments), app))
    try:
        yield
    finally:
        _place.reset(kept)


def again(text: str) -> str:
    """Return ``text`` with the options that named the place behind each command of ours in it.

    A command gets those that its verb takes and that it does not name itself. What stands around a command
    stays as it is, and so does one that is quoted in a way of another shell."""
    known = _place.get()
    if known is None:
        return text
    named, app = known

    def whole(match: re.Match[str]) -> str:
        """One command with the options that it lacks."""
        try:
            words = shlex.split(match.group())
        except ValueError:
            return match.group()
        verb = typer.main.get_command(app)
        for word in words[1:]:
            inner = getattr(verb, "commands", {}).get(word)
            if inner is None:
                break
            verb = inner
        taken = {option for parameter in verb.params for option in parameter.opts} - _named(words).keys()
        missing = [f"{name} {shell(value)}" for name, value in named.items() if name in taken]
        return " ".join([match.group(), *missing])

    return _COMMAND.sub(whole, text)


def _named(words: Sequence[str]) -> dict[str, str]:
    """The options of the place that stand there, with their values."""
    options = {}
    for word, value in zip(words, [*words[1:], ""], strict=False):
        name, equals, joined = word.partition("=")
        if name in _NAMED:
            options[name] = joined if equals else value
    return options


def tell(data: Mapping[str, Any], parts: Iterable[Shown], following: str = "", *, as_json: bool) -> None:
    """Print ``data`` for a program or ``parts`` for a person, but tables without rows, and what comes next
    (empty: nothing).

    ``data`` may hold dataclasses and enums (`plain`); for a program what comes next is its key ``next``."""
    if as_json:
        print_json({**data, "next": following} if following else data)
        return
    console = Console()
    for part in parts:
        if part or not isinstance(part, Table):
            console.print(part)
    if following:
        next_command(console, following)


def verdict_text(verdict: Verdict | None) -> Text:
    """Return a verdict in its colour; a dash for none."""
    return styled("-", "") if verdict is None else styled(verdict, COLOUR[verdict])


def number(value: int | None) -> str:
    """Return a number with commas; a dash for none."""
    return "-" if value is None else f"{value:,}"


def findings_table(findings: Iterable[Finding], title: str) -> Table:
    """Return a table with one row a finding, passed ones included."""
    table = Table(title, ("rule", "verdict", "reason", "hint"))
    for each in findings:
        verdict = verdict_text(each.verdict) if each.applies else NOT_ASKED
        table.add_row(each.rule, verdict, each.reason, each.hint)
    return table


def write_page(path: Path, text: str) -> None:
    """Write a page beside its target, then rename it onto the target.

    Raises:
        Rejected: the path cannot be that of a file, or may not be written.
        Transient: the disk is full, or does not answer.
    """
    from groupshift.adapters.parquet.store import unwritable
    from groupshift.foreign_files import put_whole

    try:
        with put_whole(path) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(f"--output {path}", error) from error
    except ValueError as error:
        raise Rejected(f"--output {path} cannot be written ({error}): name a file") from error
