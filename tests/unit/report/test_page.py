"""A page: every text is shown as it is, it needs nothing besides itself, what is left out leaves nothing."""

from __future__ import annotations

import pytest

from groupshift.domain.verdict import Verdict
from groupshift.report.page import (
    Alarm,
    Details,
    Facts,
    Headline,
    Key,
    Legend,
    Page,
    Part,
    Table,
    Word,
    badge,
    code,
    duration,
    moment_utc,
    refused,
    render,
    section,
    table,
)
from groupshift.report.svg_and_time_axis import element
from support.page_parts import html_of

HOSTILE = "<script>alert('x')</script>\"onload="
TOP = Headline(verdict=Verdict.PASS)

PARTS: dict[str, Part] = {
    "note": HOSTILE,
    "word": code(HOSTILE),
    "facts": Facts([(HOSTILE, HOSTILE), ("b", badge(Verdict.FAIL, HOSTILE))]),
    "table": Table(heads=[HOSTILE, ""], rows=[(HOSTILE, code(HOSTILE))], caption=HOSTILE),
    "alarm": Alarm(lead=HOSTILE, text=HOSTILE, items=(HOSTILE,), hint=HOSTILE),
    "details": Details(HOSTILE, [HOSTILE]),
    "legend": Legend({HOSTILE: "#123"}, {HOSTILE: HOSTILE}),
    "key": Key([("act", HOSTILE), ("✓", HOSTILE)]),
    "picture": element("rect", element("title", HOSTILE), aria_label=HOSTILE),
}


@pytest.mark.parametrize("kind", PARTS)
def test_text_is_escaped_wherever_it_comes_from(kind: str) -> None:
    """A member id or a metadata string that looks like HTML stays text, in every part and in attributes."""
    text = html_of(PARTS[kind])
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert '"onload=' not in text


def test_the_frame_of_a_page_escapes_too() -> None:
    """Title, lead, badge, sentence, commands, alarms, heads of sections."""
    top = Headline(verdict=Verdict.FAIL, word=HOSTILE, sentence=HOSTILE, now=[(HOSTILE, HOSTILE, HOSTILE)])
    parts = {"title": HOSTILE, "lead": HOSTILE, "alarms": [Alarm(text=HOSTILE)]}
    text = render(Page(top=top, sections=[section(HOSTILE)], **parts))  # type: ignore[arg-type]
    assert "<script" not in text
    assert '"onload=' not in text
    assert text.count("&lt;script&gt;") == 11


def test_a_page_needs_nothing_else() -> None:
    """Style is inside, for light, dark and paper; there is no script and no address."""
    text = render(Page(title="Title", top=TOP, lead="lead", sections=[section("s", "x")]))
    assert all(
        part in text for part in ("prefers-color-scheme: dark", "@media print", "<style>", 'lang="en"')
    )
    assert all(part not in text for part in ("<script", "src=", "href=", "://", "@import", "url("))


def test_what_is_not_there_leaves_nothing() -> None:
    """No banner without a sentence, no section that is None, no part that is None or empty."""
    text = render(Page(title="T", top=TOP, lead="l", sections=[None, section("s", None, "", "kept")]))
    body = text[text.index("<main>") :]
    assert (body.count("<section"), body.count("<p"), "banner" in body) == (1, 2, False)


def test_a_table_has_a_column_for_each_function() -> None:
    """Numbers to the right, a dash for nothing, a count that should be 0 stands out."""
    text = html_of(table([3, 0], {"n": refused, "": lambda _: None}, numeric={"n"}, caption="c"))
    assert '<th class="number" scope="col">n</th><td class="text"></td>' in text
    assert '<td class="number"><span class="refused">3</span></td><td class="text">-</td>' in text
    assert '<td class="number">0</td>' in text
    assert "<caption>c</caption>" in text


def test_what_to_do_now_has_a_command_and_what_follows() -> None:
    """In the order in which they are done."""
    now = [("Look:", "groupshift status", " now"), (Word("7 of them", tag="strong"), "", ": correct it.")]
    top = Headline(verdict=Verdict.FAIL, sentence="It failed.", now=now)
    text = render(Page(title="t", top=top, lead="", sections=[]))
    assert "<li>Look: <code>groupshift status</code> now</li>" in text
    assert "<li><strong>7 of them</strong>: correct it.</li>" in text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(None, "-"), (0, "0 ms"), (999, "999 ms"), (2410, "2.41 s"), (200_000, "3 min 20 s")],
)
def test_durations_are_for_people(milliseconds: int | None, text: str) -> None:
    """Milliseconds, seconds, minutes, as large as they are."""
    assert duration(milliseconds) == text


def test_times_are_utc_with_milliseconds() -> None:
    """One way to write a time."""
    assert moment_utc(1_763_740_000_007) == "2025-11-21 15:46:40.007 UTC"


def test_only_so_many_rows_are_shown_and_the_rest_is_counted() -> None:
    """The page of a cluster that is wholly wrong stays small; nothing is said where all rows are there."""
    cut = table(range(1200), {"n": str}, most=500, whole="; the file has all")
    assert (len(list(cut.rows)), cut.rest) == (500, "The first 500 of 1,200; the file has all.")
    assert "The first 500 of 1,200; the file has all.</p>" in html_of(cut)
    assert table(range(500), {"n": str}, most=500).rest == ""
