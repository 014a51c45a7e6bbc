"""One part of a page as HTML."""

from groupshift.domain.verdict import Verdict
from groupshift.report.page import Headline, Page, Part, render, section


def html_of(part: Part) -> str:
    """The sections of a page that has this part only."""
    page = Page(title="t", top=Headline(verdict=Verdict.PASS), lead="l", sections=[section("s", part)])
    text = render(page)
    return text[text.index("<section") :]
