"""A self-contained HTML page: no script, no font, no address outside the file; light, dark and print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files

from groupshift.domain.foreign_text import visible
from groupshift.domain.verdict import NOT_ASKED, Finding, Verdict

POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'\">"
)
"""What a page of its own may do, in its head: show itself. Files are served by nobody who could say so."""


class Markup(str):
    """Text that is HTML already; everything else is escaped when it is put into a page."""

    __slots__ = ()


def safe(value: object) -> Markup:
    """`value` as HTML text, every character seen; None becomes a dash."""
    if isinstance(value, Markup):
        return value
    return Markup("-" if value is None else _seen(value))


def _seen(value: object) -> str:
    """Escaped, and on one line: what has no shape is made visible, and nothing stays nothing."""
    text = str(value)
    return escape(visible(text)) if text else ""


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """``<name attributes>content</name>``; ``class_`` stands for ``class``, ``_`` for ``-``."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_seen(value)}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>{''.join(safe(item) for item in content)}</{name}>")


def join(parts: Iterable[object]) -> Markup:
    """All parts one after the other."""
    return Markup("".join(safe(part) for part in parts))


def badge(verdict: Verdict, text: str = "") -> Markup:
    """A word in the colour of the verdict: `text`, else the verdict itself."""
    return tag("span", text or str(verdict), class_=f"badge {verdict}")


def verdict_badge(finding: Finding) -> Markup:
    """The badge of a finding; a rule that was not asked has none, for it proves nothing."""
    return badge(finding.verdict) if finding.asked else tag("span", NOT_ASKED, class_="note")


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numeric: Sequence[str] = (),
    caption: str = "",
) -> Markup:
    """A table; columns named in `numeric` are aligned to the right, a `caption` is for those who listen."""
    kinds = ["number" if heading in numeric else "text" for heading in headings]
    head = tag(
        "tr",
        *(
            tag("th", name, class_=kind, scope="col") if name else tag("td", class_=kind)
            for name, kind in zip(headings, kinds, strict=True)
        ),
    )
    body = [
        tag("tr", *(tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)))
        for row in rows
    ]
    said = tag("caption", caption) if caption else ""
    return tag("div", tag("table", said, tag("thead", head), tag("tbody", *body)), class_="scroll")


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """A list of names and values."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs))


def section(title: str, *content: object) -> Markup:
    """A headed part of the page."""
    return tag("section", tag("h2", title), *content)


def moment_utc(epoch_ms: int) -> str:
    """Epoch milliseconds as ``2026-11-21 15:30:00.123 UTC``."""
    text = datetime.fromtimestamp(epoch_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{epoch_ms % 1000:03d} UTC"


def duration(milliseconds: int | None) -> str:
    """Milliseconds for people: ``340 ms``, ``2.41 s``, ``3 min 20 s``."""
    if milliseconds is None:
        return "-"
    if milliseconds < 1000:  # noqa: PLR2004 - one second
        return f"{milliseconds} ms"
    if milliseconds < 60_000:  # noqa: PLR2004 - one minute
        return f"{milliseconds / 1000:.2f} s"
    return f"{milliseconds // 60_000} min {milliseconds % 60_000 // 1000} s"


def page(title: str, verdict: Verdict, lead: object, sections: Iterable[Markup], *, word: str = "") -> str:
    """The whole document; `word` is said in the colour of the verdict instead of the verdict itself."""
    style = files("groupshift.spark").joinpath("report.css").read_text(encoding="utf-8")
    head = (
        f'<meta charset="utf-8">{POLICY}<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark">'
        f"<title>{_seen(title)}: {_seen(word or verdict)}</title>"
        f"<style>{style}</style>"
    )
    header = tag("header", tag("h1", title, badge(verdict, word)), tag("p", lead, class_="lead"))
    body = tag("main", header, *sections)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'
