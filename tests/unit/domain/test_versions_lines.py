"""A broker's line of releases is told by the newest metadata.version that it supports."""

from __future__ import annotations

import pytest

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.hazards import Action, Facts, Met, Role, look
from groupshift.domain.versions import Version, line_of


@pytest.mark.parametrize(
    ("level", "release"),
    [
        (8, "3.4.1"), (11, "3.5.2"), (19, "3.7.2"), (21, "3.9.2"),
        (25, "4.0.2"), (27, "4.1.2"), (30, "4.3.1"), (33, "4.4.0"),
    ],
)  # fmt: skip
def test_the_level_of_a_release_leads_to_its_line(level: int, release: str) -> None:
    """The levels that these releases' own classes name."""
    line = line_of(level)
    assert line is not None
    assert line.touch(Version.parse(release)) is True


@pytest.mark.parametrize("level", [0, 7, 12, 22, 24, 31, 34])
def test_a_level_between_lines_is_unknown(level: int) -> None:
    """Levels of unfinished or newer releases lead to no line, and so to a question."""
    assert line_of(level) is None


def test_a_line_that_a_fix_cuts_is_asked_about() -> None:
    """Of 4.0 some releases have KAFKA-19862 and some do not; of 4.2 none has, of 3.9 H14 speaks."""
    said = {}
    for level in (25, 29):
        broker = (Met(where="broker 1", version=line_of(level)),)
        facts = Facts(versions={Role.BROKER: broker, Role.LIBRDKAFKA: (), Role.KAFKA_CLIENTS: ()})
        judged = {each.hazard.number: each for each in look(Comparison.PROTOCOL, facts)}
        said[level] = judged["H12"].does
    assert said == {25: Action.ASK, 29: None}
