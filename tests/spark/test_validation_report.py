"""The page of a comparison: what failed comes first, and a refusal says what was wrong."""

from __future__ import annotations

from groupshift.domain.verdict import Finding, Verdict
from groupshift.report.page import Headline, Page, render
from groupshift.spark.checks import Offence, Ruled, ruled
from groupshift.spark.validation import refusal
from groupshift.spark.validation_report import refused, rules_section

HOSTILE = "<script>alert('x')</script>"


def test_what_failed_comes_first_and_with_its_hint() -> None:
    """Findings that did not pass are shown above the table, worst first."""
    good = ruled("V01", "fine", ())
    bad = ruled("V02", "x", [Offence(topic="t", partition=3, reason="is off")], hint="do this")
    found = rules_section(
        [good, bad, Ruled(finding=Finding(rule="V03", verdict=Verdict.ERROR, reason="dim"))]
    )
    text = render(Page(title="t", top=Headline(verdict=Verdict.FAIL), lead="", sections=[found]))
    assert text.index("V02") < text.index("V03") < text.index("V01")
    assert "t-3: is off" in text
    assert "do this" in text
    assert '<span class="badge fail">fail</span>' in text


def test_many_rows_are_named_by_the_first_three() -> None:
    """A sentence stays a sentence: three are named, the rest is counted."""
    found = [Offence(topic="t", partition=number, reason="r") for number in range(5)]
    assert ruled("V02", "x", found).finding.reason == "t-0: r; t-1: r; t-2: r; and 2 more"


def test_a_refusal_says_what_was_wrong() -> None:
    """The page of altered evidence names the file and says that nothing was compared."""
    text = refused(refusal("toggle", "after", "run-1", f"file {HOSTILE} was changed"))
    assert "nothing was compared" in text
    assert "&lt;script&gt;" in text
    assert "<script>" not in text
