"""What the file of the hazard book may hold: each kind of fault is one sentence that names it."""

from __future__ import annotations

import re

import pytest

from groupshift.domain.hazards import CHAPTERS, FILE, read_book
from groupshift.domain.tables import shipped
from groupshift.errors import Rejected
from groupshift.moves.downgrade.releases import LEVELS

BOOK = shipped(FILE)

FAULTS = (
    ('action = "refuse"', 'action = "forbid"', "H01, action: 'forbid' is refused; allowed: one of refuse"),
    ('moves = ["downgrade"]', 'moves = ["downgrade", "down"]', "H01, moves: 'down' is refused; allowed, "),
    ('moves = ["downgrade"]', "moves = []", "H01, moves: a list of 0 values is refused; allowed: a list"),
    ('moves = ["downgrade"]', 'moves = ["downgrade", "downgrade"]', "H01, moves: 'downgrade' is refused"),
    ('moves = ["downgrade"]', 'moves = "downgrade"', "H01, moves: 'downgrade' is refused; allowed: a list"),
    ('traits = ["new-records"]', 'traits = ["records"]', "H01, traits: 'records' is refused; allowed, each"),
    ('sure = "verified"', "", "H01: the field sure is missing; allowed: all of number, bug"),
    ('sure = "verified"', 'sure = "verified"\nsurely = 1', "H01: the field 'surely' is unknown; allowed: n"),
    ('sure = "verified"', "sure = 2026-11-25", "H01, sure: 2026-11-25 is refused; allowed: one of verified"),
    ('bug = "KAFKA-14869"', "bug = 14869", "H01, bug: 14869 is refused; allowed: a text of one line"),
    ('bug = "KAFKA-14869"', 'bug = ""', "H01, bug: '' is refused; allowed: a text of one line"),
    ('bug = "KAFKA-14869"', 'bug = " KAFKA"', "H01, bug: ' KAFKA' is refused; allowed: a text of one line"),
    ('bug = "KAFKA-14869"', 'bug = "A\\nB"', "H01, bug: 'A\\nB' is refused; allowed: a text of one line"),
    ("does not know", "does not know.", "H01, title: 'a broker before 3.4.1 breaks off"),
    ("https://github", "http://github", "H01, source: 'http://github.com/apache/kafka/pull/13511' is refuse"),
    ("affected.broker", "affected.brokers", "H01, affected: the field 'brokers' is unknown; allowed: broker"),
    ('since = "3.7.0", last', 'since = "3.7", last', "H01, affected, broker 1, since: '3.7' is no version"),
    ('since = "3.7.0", last', 'from = "3.7.0", last', "H01, affected, broker 1: the field 'from' is unknown"),
    ('since = "3.7.0", last', 'since = "4.5.0", last', "broker 1, last: '4.4.0' is refused; allowed: a vers"),
    ('{ last = "3.4.0", before', "{ before", "H01, affected, target 1: the field last is missing"),
    ('last = "4.4.0" }', 'last = "4.4.0", fix = "line" }', "broker 1, fix: 'line' is refused; allowed: no f"),
    ('before = "3.4.1"', 'before = "3.4.1", fix = "none"', "target 1, fix: 'none' is refused; allowed: no f"),
    ('before = "3.4.1"', 'before = "3.4.1", fix = "soon"', "target 1, fix: 'soon' is refused; allowed: one"),
    ('[{ since = "3.7.0", last = "4.4.0" }]', "[]", "H01, affected, broker: a list of 0 values is refused"),
    ('last = "4.4.0" }]', 'last = "4.4.0" }, { last = "4.0.0" }]', "affected, broker: a list of 2 values is"),
    ('number = "H01"', 'number = "H00"', "H00, number: 'H00' is refused; allowed: H and two digits, but for"),
    ('number = "H01"', 'number = "G01"', "G01, number: 'G01' is refused; allowed: H and two digits"),
    ('number = "H01"', "", "older brokers, hazard 1: the field number is missing; allowed: all of number"),
    ('number = "H02"', 'number = "H01"', "domain/hazards.toml, number: 'H01' is there twice; allowed: each"),
    ('title = "Going to older brokers"', "", "domain/hazards.toml, chapter 1: the field title is missing"),
    ("[[chapter.hazard]]", "[[chapter.danger]]", "older brokers: the field 'danger' is unknown; allowed: ti"),
    ("[[chapter]]", 'name = "book"\n[[chapter]]', "hazards.toml: the field 'name' is unknown; allowed: chap"),
    ("[[chapter]]", "[[chapter]", "domain/hazards.toml: Expected ']]'"),
)  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "said"), FAULTS, ids=[bad for _, bad, _ in FAULTS])
def test_a_fault_is_refused_with_file_entry_field_value_and_what_is_allowed(
    good: str, bad: str, said: str
) -> None:
    """The book as it is shipped, but for one place."""
    assert good in BOOK
    with pytest.raises(Rejected, match=re.escape(said)) as fault:
        read_book(BOOK.replace(good, bad, 1))
    assert (
        "allowed: " in str(fault.value)
        or "is no version" in str(fault.value)
        or "each once" in str(fault.value)
    )
    assert "\n" not in str(fault.value)


def test_the_book_as_it_is_shipped_is_whole() -> None:
    """What is read twice is the same, and an empty file is refused."""
    assert read_book(BOOK) == CHAPTERS
    with pytest.raises(Rejected, match=re.escape("my.toml: the field chapter is missing")):
        read_book("", "my.toml")


def test_the_levels_that_cannot_be_undone_are_those_of_the_table() -> None:
    """H04 writes out the levels of metadata.version that changed the metadata log."""
    (h04,) = [each for chapter in CHAPTERS for each in chapter.hazards if each.number == "H04"]
    assert h04.happens.endswith(": " + ", ".join(each.name for each in LEVELS.values() if each.changes))
