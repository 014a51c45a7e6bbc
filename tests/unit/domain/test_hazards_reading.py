"""What the file of the hazard book may hold: each kind of fault is one sentence that names it."""

from __future__ import annotations

import re

import pytest

from groupshift.domain.hazards import CHAPTERS, FILE, Book
from groupshift.domain.tables import shipped, table_of
from groupshift.errors import Rejected
from groupshift.moves.downgrade.releases import CHANGES, LEVELS

BOOK = shipped(FILE)

FAULTS = (
    ('action = "refuse"', 'action = "forbid"', "chapters, 1, hazards, 1, action, 'forbid' is not a valid"),
    ('moves = ["downgrade"]', 'moves = ["downgrade", "down"]', "hazards, 1, moves, 2, 'down' is not a valid"),
    ('moves = ["downgrade"]', 'moves = "downgrade"', "hazards, 1, moves, 'downgrade' is no list"),
    ('traits = ["new-records"]', 'traits = ["records"]', "hazards, 1, traits, 1, 'records' is not a valid"),
    ('sure = "verified"', "", "hazards, 1, Hazard.__init__() missing 1 required"),
    ('sure = "verified"', 'sure = "verified"\nsurely = 1', "hazards, 1, surely is no field of Hazard"),
    ("affected.broker", "affected.brokers", "hazards, 1, affected, 'brokers' is not a valid Role"),
    ('since = "3.7.0", last', 'since = "3.7", last', "version '3.7' is no version; give all its numbers"),
    ('since = "3.7.0", last', 'from = "3.7.0", last', "affected, broker, 1, from is no field of Span"),
    ("[[chapters]]", 'name = "book"\n[[chapters]]', "name is no field of Book"),
    ("[[chapters]]", "[[chapters]", "Expected ']]'"),
)  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "said"), FAULTS, ids=[bad for _, bad, _ in FAULTS])
def test_a_fault_is_refused_with_file_entry_field_and_value(good: str, bad: str, said: str) -> None:
    """The book as it is shipped, but for one place."""
    assert good in BOOK
    with pytest.raises(Rejected, match=re.escape(said)) as fault:
        table_of(Book, FILE, BOOK.replace(good, bad, 1))
    assert str(fault.value).startswith(f"{FILE}: ")
    assert "\n" not in str(fault.value)


def test_the_levels_that_cannot_be_undone_are_those_of_the_table() -> None:
    """H04 writes out the levels of metadata.version that changed the metadata log."""
    (h04,) = [each for chapter in CHAPTERS for each in chapter.hazards if each.number == "H04"]
    assert h04.happens.endswith(": " + ", ".join(name for level, name in LEVELS.items() if level in CHANGES))
