"""Pages and pictures: safe, self-contained, and telling what they must."""

from __future__ import annotations

import pytest

from groupshift.domain.verdict import Finding, Verdict
from groupshift.spark import picture, timeline
from groupshift.spark.checks import Offence, Ruled, ruled
from groupshift.spark.html import badge, duration, moment_utc, page, table, tag
from groupshift.spark.validation import refusal, refused, rules_section

HOSTILE = "<script>alert('x')</script>"


def test_text_is_escaped_wherever_it_comes_from() -> None:
    """A member id or a metadata string that looks like HTML stays text, in cells and in attributes."""
    cells = table(["who"], [(HOSTILE,)])
    titled = tag("p", "x", title='" onload="y')
    assert "<script>" not in cells
    assert "&lt;script&gt;" in cells
    assert 'onload="y"' not in titled


def test_a_page_needs_nothing_else() -> None:
    """Style is inside, for light, dark and paper; there is no script and no address."""
    text = page("Title", Verdict.PASS, "lead", [tag("p", "x")])
    assert all(
        part in text for part in ("prefers-color-scheme: dark", "@media print", "<style>", 'lang="en"')
    )
    assert all(part not in text for part in ("<script", "src=", "href=", "://", "@import", "url("))


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


def test_a_cell_without_owner_and_one_with_two_are_told() -> None:
    """No owner is a frame of its own, two owners share the cell, a changed owner is marked."""
    before = {("orders", 0): ("a",), ("orders", 1): ("b",)}
    after = {("orders", 0): ("a", "b")}
    svg = picture.ownership("orders", [0, 1], {"before": before, "after": after}, picture.palette(["a", "b"]))
    assert "orders-1 after: no owner" in svg
    assert "orders-0 after: a and b" in svg
    assert svg.count('class="none"') == 1
    assert svg.count('class="moved"') == 2


def test_members_have_colours_of_their_own_and_none_is_red() -> None:
    """A dozen members differ in hue; red is left to trouble."""
    colours = picture.palette([f"m{number}" for number in range(12)])
    hues = [int(colour.removeprefix("hsl(").split()[0]) for colour in colours.values()]
    assert len(set(hues)) == 12
    assert all(20 <= hue <= 340 for hue in hues)


def tenure(member: str, start: int, end: int, gap: int | None, kind: str = "aware") -> dict[str, object]:
    """One row of the view ``hand_overs``."""
    return {
        "topic": "orders", "partition": 0, "member": member, "kind": kind, "giver_kind": kind,
        "known_by": "owner node",
        "start_ms": start, "end_ms": end, "records": 1, "unowned_ms": gap, "released_ms": start - (gap or 0),
    }  # fmt: skip


def test_time_without_owner_is_marked() -> None:
    """A gap between owners is red, one next to a plain consumer pale, a seamless hand-over has no mark."""
    scale = timeline.Scale(from_ms=0, to_ms=1000)
    colours = picture.palette(["a", "b", "p"])
    rows = [
        tenure("a", 0, 300, None),
        tenure("b", 350, 600, 50),
        tenure("a", 600, 700, 0),
        tenure("p", 900, 990, 200, "plain"),
    ]
    svg = timeline.owners_over_time(rows, [(500, "kafka")], scale, colours)
    assert (svg.count('class="unowned"'), svg.count('class="silent"')) == (1, 1)
    assert "orders-0 had no owner for 50 ms" in svg
    assert "mode: kafka" in svg


def test_what_failed_comes_first_and_with_its_hint() -> None:
    """Findings that did not pass are shown above the table, worst first."""
    good = ruled("V01", "fine", ())
    bad = ruled("V02", "x", [Offence(topic="t", partition=3, reason="is off")], hint="do this")
    text = rules_section([good, bad, Ruled(finding=Finding(rule="V03", verdict=Verdict.ERROR, reason="dim"))])
    assert text.index("V02") < text.index("V03") < text.index("V01")
    assert "t-3: is off" in text
    assert "do this" in text
    assert badge(Verdict.FAIL) in text


def test_many_rows_are_named_by_the_first_three() -> None:
    """A sentence stays a sentence: three are named, the rest is counted."""
    found = [Offence(topic="t", partition=number, reason="r") for number in range(5)]
    assert ruled("V02", "x", found).finding.reason == "t-0: r; t-1: r; t-2: r; and 2 more"


def test_a_refusal_says_what_was_wrong() -> None:
    """The page of altered evidence names the file and says that nothing was compared."""
    text = refused(refusal("toggle", "after", "mig-1", f"file {HOSTILE} was changed"))
    assert "nothing was compared" in text
    assert "&lt;script&gt;" in text
    assert "<script>" not in text
