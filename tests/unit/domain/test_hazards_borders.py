"""The releases that were looked at, written down a second time: a slip in the book shows here."""

from __future__ import annotations

import pytest

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.hazards import BOOK, Facts, Met, Role, Trait, look
from groupshift.domain.versions import Version

REST = {Role.BROKER: "4.4.0", Role.TARGET: "3.4.0", Role.LIBRDKAFKA: "2.16.0", Role.KAFKA_CLIENTS: "3.9.2",
        Role.MIRROR_MAKER: "3.2.3"}  # fmt: skip
"""What the other roles of a hazard are at: a version that has it."""
BEFORE_4 = {**REST, Role.BROKER: "3.9.2"}

AFFECTED = (
    ("H01", Role.TARGET, "3.3.2 3.4.0", "3.4.1 3.5.2 3.9.2"),
    ("H02", Role.BROKER, "4.1.2 4.3.1", "4.0.2 3.9.2"),
    ("H03", Role.TARGET, "3.9.2 3.4.1", "4.0.0 4.0.2"),
    ("H04", Role.TARGET, "3.4.0 3.9.2 4.2.1 4.3.1", "4.4.0"),
    ("H04", Role.BROKER, "3.5.2 3.9.2 4.0.2 4.4.0", "3.4.1"),
    ("H08", Role.BROKER, "4.0.1 4.1.0 4.1.1", "4.0.0 4.0.2 4.1.2 4.2.0 4.3.1 4.4.0"),
    ("H09", Role.BROKER, "4.1.0 4.1.1 4.1.2 4.2.0", "4.0.2 4.2.1 4.3.0 4.4.0"),
    ("H10", Role.BROKER, "3.8.1 3.9.2 4.0.2 4.1.2 4.2.1 4.3.1 4.4.0", "3.6.2"),
    ("H11", Role.BROKER, "3.7.2 3.9.2 4.0.2 4.1.2 4.2.1 4.3.1 4.4.0", "3.6.2"),
    ("H12", Role.BROKER, "4.0.0 4.0.1 4.1.0 4.1.1", "4.0.2 4.1.2 4.2.0 4.3.0 4.4.0"),
    ("H13", Role.BROKER, "3.7.0 3.7.2", "3.6.2 3.8.0"),
    ("H14", Role.BROKER, "3.7.2 3.8.1 3.9.2", "4.0.0 4.0.2"),
    ("H16", Role.BROKER, "3.8.1 3.9.1 3.9.2", "4.0.0 4.1.0"),
    ("H17", Role.BROKER, "3.8.1 3.9.2", "4.0.0"),
    ("H18", Role.BROKER, "4.0.0 4.0.1 4.1.0", "4.0.2 4.1.1 4.2.0 4.3.1"),
    ("H19", Role.BROKER, "3.9.2 4.0.2 4.1.2 4.2.1 4.3.0", "4.3.1 4.4.0"),
    ("H20", Role.BROKER, "4.3.1 4.4.0", "4.0.2 4.1.2 4.2.1 4.3.0"),
    ("H21", Role.BROKER, "4.0.2 4.3.1 4.4.0", "4.3.3 4.4.1 4.5.0"),
    ("H23", Role.LIBRDKAFKA, "2.8.0 2.16.0", "1.5.3"),
    ("H24", Role.LIBRDKAFKA, "2.10.0 2.16.0", "2.8.0"),
    ("H25", Role.LIBRDKAFKA, "2.4.0 2.10.0 2.11.0", "2.3.0 2.12.0 2.16.0"),
    ("H26", Role.LIBRDKAFKA, "2.8.0 2.14.2", "2.15.0 2.16.0"),
    ("H30", Role.KAFKA_CLIENTS, "3.7.2 3.9.2", "4.0.0 4.3.1"),
    ("H32", Role.BROKER, "2.8.0 3.9.2", "2.7.2 4.0.0"),
    ("H33", Role.BROKER, "2.1.0 2.2.0", "2.0.1 2.3.0 2.4.1"),
    ("H37", Role.MIRROR_MAKER, "2.4.0 3.2.3", "3.3.0 4.3.1"),
    ("H38", Role.BROKER, "3.9.2 4.0.2", "4.1.0 4.3.1"),
    ("H39", Role.BROKER, "3.9.2 4.0.2", "4.1.0 4.3.1"),
    ("H40", Role.BROKER, "3.8.1 3.9.1 4.0.0 4.0.2 4.1.0 4.1.2", "3.6.2 4.2.0 4.2.1 4.3.1 4.4.0"),
    ("H41", Role.BROKER, "3.8.1 3.9.1 4.0.0", "4.0.1 4.0.2 4.1.0 4.3.1"),
    ("H42", Role.BROKER, "3.8.1 3.9.1 4.0.0", "4.0.1 4.0.2 4.1.0 4.3.1"),
    ("H43", Role.BROKER, "4.1.0 4.1.2 4.3.1 4.4.0", "3.9.2 4.0.2"),
    ("H44", Role.KAFKA_CLIENTS, "2.3.0 3.9.2 4.3.1", "2.0.1 2.2.2"),
)
"""Number, role, releases that have it, releases that have it not."""

CASES = [
    (number, role, release, has)
    for number, role, having, lacking in AFFECTED
    for has, releases in ((True, having), (False, lacking))
    for release in releases.split()
]


@pytest.mark.parametrize(("number", "role", "release", "has"), CASES)
def test_a_release_has_a_hazard_or_not(number: str, role: Role, release: str, has: bool) -> None:  # noqa: FBT001
    """Each release that was looked at is on its side of the border."""
    (hazard,) = [each for each in BOOK if each.number == number]
    rest = BEFORE_4 if number == "H24" else REST
    known = {**rest, role: release}
    if Comparison.DOWNGRADE not in hazard.moves or Role.TARGET not in hazard.affected:
        known[Role.TARGET] = release  # a loader is then this release before and after
    facts = Facts(
        versions={
            each: (Met(where=each.value, version=Version.parse(text)),) for each, text in known.items()
        },
        traits=dict.fromkeys(Trait, True),
    )
    for move in sorted(hazard.moves):
        (judged,) = [each for each in look(move, facts) if each.hazard is hazard]
        assert (judged.does is not None) == has, move


def test_what_ends_somewhere_is_written_down_twice() -> None:
    """A hazard whose range ends in a fix is in the list above, but for those named here with the reason."""
    only_in_the_book = {
        "H05": "the border is that of H03",
        "H06": "said of a release, not tried",
        "H07": "said of a release, not tried",
        "H15": "the border is that of H14",
        "H35": "the old coordinator's code went with 4.1",
    }
    listed = {number for number, *_ in AFFECTED}
    ending = {
        hazard.number
        for hazard in BOOK
        for spans in hazard.affected.values()
        for span in spans
        if span.before is not None
    }
    assert ending - listed == set(only_in_the_book)


FIELD = {
    "KAFKA-19233": ("H40", Role.BROKER, "4.1.2", "4.2.0"),
    "KAFKA-19163": ("H41", Role.BROKER, "4.0.0", "4.0.1"),
    "KAFKA-19164": ("H42", Role.BROKER, "4.0.0", "4.0.1"),
    "KAFKA-19154": ("H43", Role.BROKER, "4.1.0", "4.0.2"),
    "foreign leader epochs": ("H44", Role.KAFKA_CLIENTS, "2.3.0", "2.2.2"),
}


@pytest.mark.parametrize("bug", FIELD)
def test_f10_the_book_knows_the_hazard_at_both_sides_of_its_border(bug: str) -> None:
    """The release that was read with it, and the one that was read without it."""
    (hazard,) = [each for each in BOOK if each.bug == bug]
    number, role, affected, spared = FIELD[bug]
    assert hazard.number == number
    assert [
        {
            span.touch(Version.parse(text))
            for span in hazard.affected.get(role) or hazard.affected[Role.LOADER]
        }
        for text in (affected, spared)
    ] == [{True}, {False}]
