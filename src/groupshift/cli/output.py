"""What commands print and write: tables for people, JSON for programs, reports, and the next command.

Where a verb was told to look is told again in the command that comes next: a person pastes it, and without
the options that named the cluster it would ask another one, or none.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main
from rich.text import Text

from groupshift.cli.terminal import Console, Table, styled
from groupshift.domain.foreign_text import json_text, shell
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

_told: ContextVar[tuple[dict[str, str], typer.Typer] | None] = ContextVar("place", default=None)


def plain(value: object) -> Any:
    """Dataclasses, enums, tuples, sets and bytes as what JSON knows."""
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
    """One JSON document on standard output; what comes ``next`` is asked of the same place."""
    if isinstance(data.get("next"), str):
        data = {**data, "next": again(data["next"])}
    print(json_text(json.dumps(plain(data), indent=2, ensure_ascii=False)))


def next_command(console: Console, command: str) -> None:
    """What to do next, at the same place."""
    console.line(styled("next:", "dim"), " ", styled(again(command), "bold"))


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


def tell(data: Mapping[str, Any], parts: Iterable[Shown], following: str = "", *, as_json: bool) -> None:
    """Print ``data`` for a program or ``parts`` for a person, and what comes next (empty: nothing)."""
    if as_json:
        print_json({**data, "next": following} if following else data)
        return
    console = Console()
    for part in parts:
        console.print(part)
    if following:
        next_command(console, following)


def verdict_text(verdict: Verdict | None) -> Text:
    """A verdict in its colour; a dash for none."""
    return styled("-", "") if verdict is None else styled(verdict, COLOUR[verdict])


def number(value: int | None) -> str:
    """A number with commas; a dash for none."""
    return "-" if value is None else f"{value:,}"


def findings_table(findings: Iterable[Finding], title: str) -> Table:
    """One row a finding, passed ones included."""
    table = Table(title, ("rule", "verdict", "reason", "hint"))
    for finding in findings:
        verdict = verdict_text(finding.verdict) if finding.asked else NOT_ASKED
        table.add_row(finding.rule, verdict, finding.reason, finding.hint)
    return table


def write_page(path: Path, text: str) -> None:
    """Write beside the target, then rename onto it. Raises `Rejected` or `Transient` where that cannot be."""
    from groupshift.adapters.parquet.store import unwritable
    from groupshift.foreign_files import made_anew

    try:
        part = path.with_name(f"{path.name}.part")
        made_anew(part)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise unwritable(f"--output {path}", error) from error
    except ValueError as error:
        raise Rejected(f"--output {path} cannot be written ({error}): name a file") from error
