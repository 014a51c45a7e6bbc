"""The terminal: the one way in which verbs print, ask and show progress.

Strings are printed as they are: no markup, no emoji codes, no colours by guess, and what has no shape is
made visible (`groupshift.domain.foreign_text_quoting`). Style comes from `Text` only, which `styled` makes.
So what a stranger named can do nothing to a terminal, and no verb has to remember to escape.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import IO, Any

import rich.console
import rich.table
from rich.console import ConsoleOptions, JustifyMethod, RenderResult
from rich.measure import measure_renderables
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.prompt import Prompt
from rich.text import Text

from groupshift.domain.foreign_text_quoting import visible

Part = str | Text
Rows = Iterable[Sequence[Part]]
_NAMES = frozenset(
    {"group", "run", "cluster", "member", "client id", "instance id", "host"}
    | {"topic-partition", "file", "report", "slot"}
)
"""Columns with what a person copies."""
_DURATION = re.compile(r"\b\d+(\.\d+)? ?(ms|s|min|h)\b")
"""A duration, which alone is no news."""
PAUSE_S = 30.0
"""Seconds after which something that goes on is told again."""
_EDGES = 3
"""Characters that a column of a table needs beside its text: a border and a blank on each side."""


def styled(text: str, style: str) -> Text:
    """Return ``text`` as it is, in a style of ours, such as ``red`` or ``bold``."""
    return Text(_visible(text), style=style)


def joined(*parts: Part) -> Text:
    """Return one line of strings and `styled` texts."""
    return Text.assemble(*(part if isinstance(part, Text) else _visible(part) for part in parts))


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
        """Return ``text`` without any meaning of its own."""
        return Text(_visible(text), style=style, justify=justify, overflow=overflow)

    def line(self, *parts: Part) -> None:  # type: ignore[override]  # rich's prints empty lines
        """Print one line: strings and `styled` texts in a row."""
        self.print(joined(*parts))

    def on_broken_pipe(self) -> None:
        """End the caller, for nobody reads any more, and not with the exit code of a verdict.

        Raises:
            BrokenPipeError: always.
        """
        raise BrokenPipeError

    def heading(self, text: str) -> None:
        """Print a line across the terminal with ``text`` in it."""
        self.rule(Text(_visible(text)))

    def markdown(self, text: str) -> None:
        """Print our own Markdown, in which `foreign_text.markdown` and `code` escaped what is not ours."""
        from rich.markdown import Markdown  # slow to import, and most runs show none

        self.print(Markdown("\n".join(map(_visible, text.split("\n"))), hyperlinks=False), soft_wrap=False)


class Table:
    """Rows below a title. Words are never broken, names and ids (`_NAMES`) not even at blanks; where that
    does not fit the terminal, each row is printed as a list of its cells."""

    def __init__(
        self, title: str, columns: Iterable[str], rows: Rows = (), *, numbers: Iterable[str] = ()
    ) -> None:
        """``rows`` have one cell a column; ``numbers`` are the columns that go to the right."""
        self.title = title
        self.columns = tuple(columns)
        self.numbers = frozenset(numbers)
        self._rows: list[tuple[Text, ...]] = []
        for row in rows:
            self.add_row(*row)

    def add_row(self, *cells: Part) -> None:
        """Add a row with one cell a column. Raises `ValueError` for another number of cells."""
        made = []
        for name, each in zip(self.columns, cells, strict=True):
            plain = each if isinstance(each, Text) else visible(each) if name in _NAMES else _visible(each)
            made.append(plain if isinstance(plain, Text) else Text(plain))
        self._rows.append(tuple(made))

    def __bool__(self) -> bool:
        """Return True where there is a row."""
        return bool(self._rows)

    def __rich_console__(self, console: rich.console.Console, options: ConsoleOptions) -> RenderResult:
        """Yield a table, or lists where a table would break words (rich's protocol)."""
        widths = self._widths(console, options)
        title = Text(_visible(self.title), style="table.title")
        if widths is None:
            yield title
            yield from self._lists(console, options.max_width)
            return
        table = rich.table.Table(title=title, title_justify="left")
        for name, width in zip(self.columns, widths, strict=True):
            justify: JustifyMethod = "right" if name in self.numbers else "left"
            table.add_column(name, width=width, justify=justify, no_wrap=name in _NAMES, overflow="crop")
        for row in self._rows:
            table.add_row(*row)
        yield table

    def _widths(self, console: rich.console.Console, options: ConsoleOptions) -> list[int] | None:
        """How wide each column is; None where the words do not fit. What is left is shared so that the narrow
        columns get all they want."""
        least, wanted = [], []
        for at, name in enumerate(self.columns):
            cells = [Text(name), *(row[at] for row in self._rows)]
            cells_take = measure_renderables(console, options, cells)
            least.append(cells_take.maximum if name in _NAMES else cells_take.minimum)
            wanted.append(cells_take.maximum - least[-1])
        left = options.max_width - 1 - sum(each + _EDGES for each in least)
        if left < 0:
            return None
        for number, at in enumerate(sorted(range(len(least)), key=wanted.__getitem__)):
            more = min(wanted[at], left // (len(least) - number))
            least[at] += more
            left -= more
        return least

    def _lists(self, console: rich.console.Console, width: int) -> Iterator[Text]:
        """Each row as a list of its cells, one below the other. A line has whole words; one that is longer
        than the terminal has a line of its own."""
        wide = max(map(len, self.columns)) + 2
        for row in self._rows:
            for number, (name, cell) in enumerate(zip(self.columns, row, strict=True)):
                head = Text(("- " if number == 0 else "  ") + name.ljust(wide), style="bold")
                whole = cell.copy()
                whole.overflow = "ignore"
                lines = whole.wrap(console, width - wide - 2, no_wrap=name in _NAMES)
                for at, line in enumerate(lines):
                    line.rstrip()
                    yield Text.assemble(head if at == 0 else " " * (wide + 2), line)


def _visible(text: str) -> str:
    """`visible`, but nothing stays nothing."""
    return visible(text) if text else ""


def choose(console: Console, question: str, choices: Sequence[str], default: str) -> str:
    """Ask a person to choose one of ``choices``, and return it; Enter alone chooses ``default``.

    Raises:
        EOFError: nobody is there to choose.
    """
    return Prompt.ask(joined(question), choices=list(choices), default=default, console=console)


@dataclass(slots=True)
class Changes:
    """Which of many lines about something that goes on are worth one where none can be written over: those
    that say something else than the last one, durations aside, and one each `PAUSE_S`."""

    _last: str = ""
    _at: float = -math.inf

    def worth(self, text: str, now_s: float) -> bool:
        """Return True where this text is worth a line now (seconds of a clock that only goes forward)."""
        said = _DURATION.sub("", text)
        if said == self._last and now_s - self._at < PAUSE_S:
            return False
        self._last, self._at = said, now_s
        return True


@contextmanager
def progress_bar(console: Console, what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Yield what is told of progress: what is done now, how much of it is done, and how much there is.

    A terminal shows it as a bar, which begins with ``what``; elsewhere nothing is shown."""
    column = TextColumn("{task.description}", markup=False)
    columns = (column, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(_visible(what), total=None)

    def progress(what: str, done: int, total: int) -> None:
        """Show what is done now, and how much of it."""
        bar.update(task, description=_visible(what), completed=done, total=total)

    with bar if console.is_terminal else nullcontext():  # rich before 14.3 ends one that is off with a line
        yield progress
