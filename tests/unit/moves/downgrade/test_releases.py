"""Levels of metadata.version, lines of releases, and targets."""

from __future__ import annotations

import pytest

from groupshift.domain.versions import LINES, line_of
from groupshift.errors import Rejected
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.releases import CHANGES, LEVELS, changes_between, name_of, target_of

NEWEST = max(LEVELS)


def test_the_levels_are_those_of_the_specification() -> None:
    """Without a gap, with its marks from 4.0 on (docs/reference/group-coordinator.md §5.5, 4.4's by its
    class)."""
    assert list(LEVELS) == list(range(1, NEWEST + 1))
    named = {8: "3.4-IV0", 11: "3.5-IV2", 14: "3.6-IV2", 19: "3.7-IV4", 20: "3.8-IV0", 21: "3.9-IV0"}
    named |= {22: "4.0-IV0", 25: "4.0-IV3", 27: "4.1-IV1", 29: "4.2-IV1", 30: "4.3-IV0", 33: "4.4-IV2"}
    assert {level: LEVELS[level] for level in named} == named
    assert [level for level in LEVELS if level in CHANGES and level >= 22] == [23, 30, 32, 33]


def test_a_way_crosses_the_changes_above_the_target_up_to_the_current_level() -> None:
    """The target's own level is not crossed; one that nobody knows counts as a change."""
    assert changes_between(25, 29) == ()
    assert changes_between(21, 25) == ("4.0-IV1 (23)",)
    assert changes_between(23, 25) == ()
    assert changes_between(29, 30) == ("4.3-IV0 (30)",)
    assert changes_between(25, 25) == ()
    assert changes_between(NEWEST, NEWEST + 2) == (f"level {NEWEST + 1}", f"level {NEWEST + 2}")
    assert name_of(99) == "level 99"


def test_brokers_are_of_the_line_whose_newest_level_they_support() -> None:
    """The hazard book's table and this one say the same."""
    for line in LINES:
        span = line_of(line.metadata)
        assert span is not None
        assert span.holds(target_of(f"{line.name}.0").version)
        assert span.holds(target_of(line.newest).version)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3.12.0", "no release that groupshift knows: it knows 3.4.0 to 4.4.0"),
        ("2.8.0", "no release that groupshift knows"),
        ("5.0.0", "no release that groupshift knows"),
        ("3.9", "give all its numbers"),
        ("latest", "--to 'latest' is no version"),
        ("7.6.0-ccs", "numbered by a distribution"),
    ],
)
def test_what_is_no_known_release_is_refused(text: str, said: str) -> None:
    """With the value and the remedy."""
    with pytest.raises(Rejected, match=said):
        target_of(text)


def test_a_target_runs_its_releases_usual_coordinator_unless_told() -> None:
    """OLD up to 3.9, NEW from 4.0; one that the release lacks is refused."""
    assert target_of("3.9.2").coordinator is Coordinator.OLD
    assert target_of("4.0.2").coordinator is Coordinator.NEW
    assert str(target_of("3.9.2", Coordinator.NEW)) == "3.9.2 (NEW coordinator)"
    with pytest.raises(Rejected, match="has no new group coordinator"):
        target_of("3.5.2", Coordinator.NEW)
    with pytest.raises(Rejected, match="has no old group coordinator"):
        target_of("4.2.1", Coordinator.OLD)


def test_a_release_newer_than_was_looked_at_is_known_as_such() -> None:
    """Of a known line it is taken, and said (W01)."""
    assert target_of("3.9.2").proven
    assert not target_of("3.9.7").proven
