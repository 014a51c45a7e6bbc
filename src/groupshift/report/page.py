"""A report as data, and the one template (``templates/page.html``) that makes it HTML.

A report's own module makes a `Page` of `Section`s; their parts are sentences, the classes below, and pictures
(`groupshift.report.pictures`). Every text is shown as it is, whoever chose it: `visible` makes what has no
shape visible, and Jinja escapes the rest. No other module writes HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from markupsafe import Markup

from groupshift.domain.foreign_text_quoting import visible
from groupshift.domain.verdict import NOT_ASKED, Finding, Verdict

T = TypeVar("T")
Cell = object
"""What a table, a list or a sentence shows: text, a number, a `Word`; None becomes a dash."""
Columns = Mapping[str, str | Callable[[T], Cell]]
"""What a table shows of each thing, by head: a field by its name, or what a function says."""

SIGNS = {Verdict.PASS: "✓", Verdict.INCONCLUSIVE: "?", Verdict.ERROR: "!", Verdict.FAIL: "✕"}
"""A verdict without its colour."""


@dataclass(frozen=True, slots=True)
class Word:
    """A text that looks different: ``look`` is a class of ``report.css``, ``tag`` an element."""

    text: Cell
    look: str = ""
    tag: str = "span"


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, as cards: what a reader wants to see before any table."""

    pairs: Iterable[tuple[str, Cell]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows below their heads; columns in ``numeric`` are aligned to the right, a ``caption`` is for those who
    listen, ``rest`` says where the other rows are. `table` makes one."""

    heads: Sequence[str]
    rows: Iterable[Sequence[Cell]]
    numeric: Collection[str] = ()
    caption: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """What must not be overlooked: a ``lead``, the ``text``, a list of ``items``, and what to do
    (``hint``)."""

    lead: str = ""
    text: str = ""
    items: Sequence[str] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """Parts that open at a click on their summary, which says how much there is."""

    summary: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Legend:
    """What colours mean; ``notes`` (kind and the like) stand behind the names."""

    colours: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Key:
    """What the looks of a picture mean: (class of ``report.css`` or signs, what it means)."""

    entries: Sequence[tuple[str, str]]


Part = str | Markup | Word | Facts | Table | Alarm | Details | Legend | Key
"""A text is a note."""


@dataclass(frozen=True, slots=True)
class Section:
    """A headed part of a page; `section` makes one of the parts that there are."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What became of it: ``word`` for the badge (empty: the verdict), ``sentence`` for everybody (empty: no
    banner); ``now`` are (what to do, command or empty, and what follows, if anything)."""

    verdict: Verdict
    word: str = ""
    sentence: str = ""
    now: Sequence[tuple[Cell, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The whole document; ``alarms`` stand in the banner, a section that is None is left out."""

    title: str
    top: Headline
    lead: str
    sections: Iterable[Section | None]
    alarms: Sequence[Alarm] = ()


def section(title: str, *parts: Part | None) -> Section:
    """Return a section of the parts that there are: None and empty texts are left out."""
    return Section(title, [part for part in parts if part is not None and part != ""])


def glance(*pairs: tuple[str, Cell]) -> Section:
    """Return the figures that a reader wants first, as a section; a value of None is a dash."""
    return section("At a glance", Facts(pairs))


def table(
    things: Iterable[T],
    columns: Columns[T],
    *,
    numeric: Collection[str] = (),
    caption: str = "",
    most: int = 0,
    whole: str = "",
) -> Table:
    """Return a table with a row for each of ``things``, which are dataclasses or mappings.

    Of more than ``most`` (0: all) the first are shown; ``whole`` says where all of them are. ``numeric`` are
    the heads of columns with numbers."""
    listed = list(things)
    shown = listed[: most or None]
    return Table(
        heads=[*columns],
        rows=[[_cell(each, show) for show in columns.values()] for each in shown],
        numeric=numeric,
        caption=caption,
        rest=f"The first {len(shown):,} of {len(listed):,}{whole}." if len(shown) < len(listed) else "",
    )


def _cell(of: T, show: str | Callable[[T], Cell]) -> Cell:
    """What a column shows of one thing."""
    if not isinstance(show, str):
        return show(of)
    return of[show] if isinstance(of, Mapping) else getattr(of, show)


def badge(verdict: Verdict, text: str = "") -> Word:
    """Return a word in the colour of the verdict: ``text``, else the verdict itself."""
    return Word(text or str(verdict), f"badge {verdict}")


def spoken(verdict: Verdict) -> Word:
    """Return a verdict with its sign, for those who do not see its colour."""
    return badge(verdict, f"{SIGNS[verdict]} {verdict}")


def verdict_of(finding: Finding) -> Word:
    """Return the badge of a finding; a rule that was not asked has none, for it proves nothing."""
    return badge(finding.verdict) if finding.applies else Word(NOT_ASKED, "note")


def code(text: str, look: str = "") -> Word:
    """Return a command, a path or a key; with the look ``hash`` a hash."""
    return Word(text, look, tag="code")


def name(text: str) -> Word | None:
    """Return a text that may be long or one word, and still leaves room for the columns beside it."""
    return Word(text, "name") if text else None


def refused(count: int) -> Cell:
    """Return a count that should be 0, so that any other is seen."""
    return Word(count, "refused") if count else 0


def moment_utc(epoch_ms: int | None) -> str | None:
    """Return epoch milliseconds as ``2026-11-21 15:30:00.123 UTC``; None where there are none."""
    if epoch_ms is None:
        return None
    text = datetime.fromtimestamp(epoch_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{epoch_ms % 1000:03d} UTC"


def clock(at_ms: int) -> str:
    """Return the time of day in UTC of epoch milliseconds, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%H:%M:%S")


def duration(milliseconds: int | None) -> str:
    """Return milliseconds for people: ``340 ms``, ``2.41 s``, ``3 min 20 s``."""
    if milliseconds is None:
        return "-"
    if milliseconds < 1000:  # noqa: PLR2004 - one second
        return f"{milliseconds} ms"
    if milliseconds < 60_000:  # noqa: PLR2004 - one minute
        return f"{milliseconds / 1000:.2f} s"
    return f"{milliseconds // 60_000} min {milliseconds % 60_000 // 1000} s"


def shown(value: object) -> object:
    """Return what Jinja escapes: text on one line with every character visible; nothing stays nothing, and
    what is HTML already stays as it is."""
    if hasattr(value, "__html__"):
        return value
    text = str(value)
    return visible(text) if text else ""


@cache
def _template() -> Any:
    """The macros of the template, which knows the stylesheet as ``style``."""
    from jinja2 import Environment, StrictUndefined

    made = Environment(
        autoescape=True, finalize=shown, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = {
        each.name: each.read_text("utf-8")
        for each in files("groupshift.report").joinpath("templates").iterdir()
    }
    made.tests["a"] = lambda value, kind: type(value).__name__ == kind
    made.globals["style"] = Markup(text["report.css"])  # noqa: S704 - a file of ours
    return made.from_string(text["page.html"]).module


def render(page: Page) -> str:
    """Return the HTML document of a page.

    It needs nothing besides itself, loads nothing and runs nothing; it reads well in light, in dark and on
    paper (docs/adr/0022-one-page-for-all-reports.md)."""
    return str(_template().document(page))
