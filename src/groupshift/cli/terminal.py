"""The terminal: the one way in which verbs print, ask and show progress.

Strings are printed as they are: no markup, no emoji codes, no colours by guess, and what has no shape is
made visible (`groupshift.domain.foreign_text`). Style comes from `Text` only, which `styled` makes. So what a
stranger named can do nothing to a terminal, and no verb has to remember to escape.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, Any

import rich.console
import rich.table
from rich.console import ConsoleOptions, JustifyMethod, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.prompt import Prompt
from rich.text import Text

from groupshift.domain.foreign_text import visible

Part = str | Text
_NAMES = frozenset(
    {"group", "migration", "run", "cluster", "member", "client id", "instance id", "host"}
    | {"topic-partition", "file", "report", "slot"}
)
"""Columns with what a person copies."""
_WORD = re.compile(r"\S+\s*")
_DURATION = re.compile(r"\b\d+(\.\d+)? ?(ms|s|min|h)\b")
PAUSE_S = 30.0
"""Seconds after which something that goes on is told again."""
_EDGES = 3
"""Characters that a column of a table needs beside its text: a border and a blank on each side."""


def styled(text: str, style: str) -> Text:
    """``text`` as it is, in a style of ours."""
    return Text(_seen(text), style=style)


def joined(*parts: Part) -> Text:
    """One line of strings and styled texts."""
    return Text.assemble(*(part if isinstance(part, Text) else _seen(part) for part in parts))


class Console(rich.console.Console):
    """A console that prints strings as they are, and lets the terminal wrap: no id is broken by us."""

    def __init__(
        self, *, stderr: bool = False, file: IO[str] | None = None, width: int | None = None
    ) -> None:
        own: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
        super().__init__(stderr=stderr, file=file, width=width, **own)

    def render_str(  # every string that rich shows comes by here, cells and titles of tables too
        self, text: str, *, style: Any = "", justify: Any = None, overflow: Any = None, **_: Any
    ) -> Text:
        """``text`` without any meaning of its own."""
        return Text(_seen(text), style=style, justify=justify, overflow=overflow)

    def line(self, *parts: Part) -> None:  # type: ignore[override]  # rich's prints empty lines
        """One line; strings and `styled` texts in a row."""
        self.print(joined(*parts))

    def on_broken_pipe(self) -> None:
        """Nobody reads any more: the caller ends, and not with the exit code of a verdict."""
        raise BrokenPipeError

    def heading(self, text: str) -> None:
        """A line across the terminal with ``text`` in it."""
        self.rule(Text(_seen(text)))

    def markdown(self, text: str) -> None:
        """Our own Markdown, in which `foreign_text.markdown` and `code` have escaped what is not ours."""
        from rich.markdown import Markdown  # slow to import, and most runs show none

        self.print(Markdown("\n".join(map(_seen, text.split("\n"))), hyperlinks=False), soft_wrap=False)


class Table:
    """Rows below a title. Words are never broken, names and ids (`_NAMES`) not even at blanks; where that
    does not fit the terminal, each row is printed as a list of its cells."""

    def __init__(self, title: str, columns: Iterable[str], *, numbers: Iterable[str] = ()) -> None:
        """``numbers`` are the columns that go to the right."""
        self.title = title
        self.columns = tuple(columns)
        self.numbers = frozenset(numbers)
        self._rows: list[tuple[Text, ...]] = []

    def add_row(self, *cells: Part) -> None:
        """One cell a column."""
        pairs = zip(self.columns, cells, strict=True)
        self._rows.append(tuple(self._cell(name, cell) for name, cell in pairs))

    def _cell(self, name: str, cell: Part) -> Text:
        if isinstance(cell, Text):
            return cell
        return Text(visible(cell) if name in _NAMES else _seen(cell))

    def __rich_console__(self, console: rich.console.Console, options: ConsoleOptions) -> RenderResult:
        """Rich's protocol: a table, or lists where a table would break words."""
        widths = self._widths(options.max_width)
        if widths is None:
            yield from self._lists(options.max_width)
            return
        table = rich.table.Table(title=Text(_seen(self.title), style="table.title"), title_justify="left")
        for name, width in zip(self.columns, widths, strict=True):
            justify: JustifyMethod = "right" if name in self.numbers else "left"
            table.add_column(name, width=width, justify=justify, no_wrap=name in _NAMES, overflow="crop")
        for row in self._rows:
            table.add_row(*row)
        yield table

    def _widths(self, width: int) -> list[int] | None:
        """How wide each column is; None where the words do not fit."""
        columns = [[Text(name), *(row[at] for row in self._rows)] for at, name in enumerate(self.columns)]
        named = zip(self.columns, columns, strict=True)
        found = [max(_longest(cell, whole=name in _NAMES) for cell in cells) for name, cells in named]
        left = width - 1 - sum(each + _EDGES for each in found)
        if left < 0:
            return None
        most = (max(cell.cell_len for cell in cells) for cells in columns)
        wanted = [each - least for each, least in zip(most, found, strict=True)]
        for number, at in enumerate(sorted(range(len(found)), key=wanted.__getitem__)):
            more = min(wanted[at], left // (len(found) - number))  # the narrow ones get all they want
            found[at] += more
            left -= more
        return found

    def _lists(self, width: int) -> Iterator[Text]:
        yield Text(_seen(self.title), style="table.title")
        wide = max(map(len, self.columns)) + 2
        for row in self._rows:
            for number, (name, cell) in enumerate(zip(self.columns, row, strict=True)):
                head = Text(("- " if number == 0 else "  ") + name.ljust(wide), style="bold")
                whole = name in _NAMES
                lines = [cell] if whole else _wrapped(cell, width - wide - 2)
                for at, line in enumerate(lines):
                    line.rstrip()
                    yield Text.assemble(head if at == 0 else " " * (wide + 2), line)


def _longest(cell: Text, *, whole: bool) -> int:
    words = [cell.plain] if whole else cell.plain.split() or [""]
    return max(Text(word).cell_len for word in words)


def _wrapped(cell: Text, width: int) -> list[Text]:
    """Lines of whole words; one that is longer than ``width`` has a line of its own."""
    breaks, used = [], 0
    for found in _WORD.finditer(cell.plain):
        if used and used + Text(found[0].rstrip()).cell_len > width:
            breaks.append(found.start())
            used = 0
        used += Text(found[0]).cell_len
    return list(cell.divide(breaks))


def _seen(text: str) -> str:
    """`visible`, but nothing stays nothing."""
    return visible(text) if text else ""


def choose(console: Console, question: str, choices: Sequence[str], default: str) -> str:
    """What a person chooses."""
    return Prompt.ask(joined(question), choices=list(choices), default=default, console=console)


@dataclass(slots=True)
class Changes:
    """Which of many lines about something that goes on are worth one where none can be written over: those
    that say something else than the last one, durations aside, and one each `PAUSE_S`."""

    _last: str = ""
    _at: float = -math.inf

    def worth(self, text: str, now_s: float) -> bool:
        """Whether this one is."""
        said = _DURATION.sub("", text)
        if said == self._last and now_s - self._at < PAUSE_S:
            return False
        self._last, self._at = said, now_s
        return True


class ProgressBar:
    """A bar on a terminal, and nothing where there is none."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task = bar, task

    def __call__(self, what: str, done: int, total: int) -> None:
        """What is done now, and how much of it."""
        self._bar.update(self._task, description=_seen(what), completed=done, total=total)


@contextmanager
def progress_bar(console: Console, what: str) -> Iterator[ProgressBar]:
    """Something to be told of progress, which a terminal shows as a bar; it begins with ``what``."""
    told = TextColumn("{task.description}", markup=False)
    columns = (told, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with bar if console.is_terminal else nullcontext():  # rich before 14.3 ends one that is off with a line
        yield ProgressBar(bar, bar.add_task(_seen(what), total=None))
