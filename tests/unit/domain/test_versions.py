"""Versions are in their order, and ranges know what lies in them."""

from __future__ import annotations

import itertools

import pytest

from groupshift.domain.versions import Span, Version, version_in
from groupshift.errors import Rejected

ORDERED = (
    "0.9.0.1", "0.10.0.0", "0.10.2.2", "1.1.1", "2.16.1.dev1", "2.16.1a2", "2.16.1b1", "2.16.1rc1",
    "2.16.1rc2", "2.16.1", "3.4.0", "3.4.1", "3.10.0", "4.0.0-SNAPSHOT", "4.0.0-rc0", "4.0.0-rc1", "4.0.0",
    "4.0.1",
)  # fmt: skip


@pytest.mark.parametrize(("older", "newer"), list(itertools.combinations(ORDERED, 2)))
def test_versions_are_ordered_by_number_then_by_what_they_are(older: str, newer: str) -> None:
    """Each version of the list is older than each that comes after it."""
    assert Version.parse(older) < Version.parse(newer)
    assert not Version.parse(newer) <= Version.parse(older)


def test_versions_that_mean_the_same_are_equal() -> None:
    """A leading v, and a last zero that was left out, do not matter."""
    assert Version.parse("v3.9.2") == Version.parse("3.9.2.0")
    assert len({Version.parse("3.9.2"), Version.parse("v3.9.2")}) == 1


@pytest.mark.parametrize("text", ["", "newest", "4", "3.9", "7.6.0-ccs", "4.0.0-rc1-extra", "1.2.3.4.5"])
def test_what_is_no_version_is_refused_with_the_value(text: str) -> None:
    """Words, half versions and numbers of distributions are refused, each by its value."""
    with pytest.raises(Rejected, match="version") as refused:
        Version.parse(text)
    assert repr(text) in str(refused.value)


def _span(since: str, before: str) -> Span:
    return Span(
        since=Version.parse(since) if since else None, before=Version.parse(before) if before else None
    )


@pytest.mark.parametrize(
    ("said", "touch"),
    [
        ("4.0.0", True), ("4.0.0-rc1", True), ("4.0.1", True), ("4.0.2-rc0", True),
        ("4.0.2", False), ("3.9.2", False), ("4.0", None), ("3.9", False),
        ("4.1", False), ("unknown", None), ("?", None),
    ],
)  # fmt: skip
def test_a_range_holds_its_first_version_and_not_its_border(said: str, *, touch: bool | None) -> None:
    """Candidates count as affected on both sides; a line that is cut and an unknown version are a perhaps."""
    assert _span("4.0.0", "4.0.2").touch(version_in(said)) is touch


@pytest.mark.parametrize(("since", "before"), [("", "4.1.0"), ("4.0.0", ""), ("", ""), ("3.9.0", "4.1.0")])
def test_a_line_is_in_a_range_that_covers_all_of_it(since: str, before: str) -> None:
    """The line 4.0 lies in open ranges and in wider ones."""
    assert _span(since, before).touch(version_in("4.0")) is True
