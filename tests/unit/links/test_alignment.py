"""Which record is a copy of which, and what follows for positions."""

from __future__ import annotations

import pytest

from groupshift.links.alignment import OPEN, Copy, CopyTraits, Place, Places, SourceIndex, map_copies
from groupshift.links.record_reads import Content, Stretch

PLAIN = CopyTraits()


def records(text: str, *, start: int = 0) -> Stretch:
    """One record for each letter, from offset ``start`` on; a dot is an offset without a record."""
    pairs = [(start + at, letter) for at, letter in enumerate(text) if letter != "."]
    return Stretch([at for at, _ in pairs], [Content(0, None, letter.encode(), ()) for _, letter in pairs])


def mapped(source: str, target: str, traits: CopyTraits = PLAIN, **more) -> list:
    """For each target record that may be a copy: its offset and its original's; ``?`` in front of the highest
    possible one where that is not certain."""
    index = SourceIndex(records(source), (0, len(source)))
    copies = map_copies(index, records(target), pins=more.pop("pins", {}), traits=traits, **more)
    return [(copy.target, copy.source if copy.is_certain else f"?{copy.source}") for copy in copies]


@pytest.mark.parametrize(
    ("source", "target", "copies"),
    [
        ("abcd", "abcd", [(0, 0), (1, 1), (2, 2), (3, 3)]),
        ("abcd", "abd", [(0, 0), (1, 1), (2, 3)]),
        ("a.bcd", "abc.d", [(0, 0), (1, 2), (2, 3), (4, 4)]),
        ("abcd", "aXbcd", [(0, 0), (2, 1), (3, 2), (4, 3)]),
        ("abcd", "abcbcd", [(0, 0), (1, 1), (2, 2), (3, 1), (4, 2), (5, 3)]),
        ("abxxcd", "abxxcd", [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]),
        ("ab.d", "abXd", [(0, 0), (1, 1), (2, 2), (3, 3)]),
    ],
    ids=["all", "dropped", "markers", "foreign", "replay", "repeated", "removed on the source"],
)
def test_cluster_13_unique_records_are_found_and_equal_numbers_give_the_rest(source, target, copies) -> None:
    """A dot is a marker or what compaction took; X is on no record of the source."""
    assert mapped(source, target) == copies


@pytest.mark.parametrize(
    ("source", "target", "traits", "copies"),
    [
        ("abxxcd", "abxcd", PLAIN, [(0, 0), (1, 1), (2, "?3"), (3, 4), (4, 5)]),
        (
            "abxxcd",
            "abxxcd",
            CopyTraits(drops_records=True),
            [(0, 0), (1, 1), (2, "?3"), (3, "?3"), (4, 4), (5, 5)],
        ),
        ("ab.d", "abXd", CopyTraits(foreign_writers=True), [(0, 0), (1, 1), (2, "?2"), (3, 3)]),
        ("ab..d", "abXd", PLAIN, [(0, 0), (1, 1), (2, "?3"), (3, 4)]),
    ],
    ids=["one of two", "a filter", "foreign or removed", "one of two removed"],
)
def test_cluster_13_what_cannot_be_told_is_not_certain(source, target, traits, copies) -> None:
    """The highest original that is possible bounds the position."""
    assert mapped(source, target, traits) == copies


def test_a_replay_may_hide_between_two_syncs_where_content_repeats() -> None:
    """The records between are not taken for what lies between on the source: the replay may be longer."""
    unsure = mapped("xyxyxyxy", "xyxyxxy", pins={0: 0, 6: 7})
    assert all(str(source).startswith("?") for target, source in unsure if target not in {0, 6})


def test_a_record_out_of_order_is_the_copy_of_a_removed_one() -> None:
    """Its content came again later: the first was compacted away on the source."""
    assert mapped("ab.defgc", "abcdefg")[2] == (2, 2)


def test_places_are_the_first_last_copy_of_what_is_to_come() -> None:
    """Of a record with several copies, the last one counts: `exact` of §1."""
    places = Places([Copy(0, 10), Copy(1, 11), Copy(2, 12), Copy(3, 11), Copy(4, 13)], end=9)
    assert [places.at(committed).low for committed in (10, 11, 12, 13, 14)] == [0, 2, 2, 4, 9]
    assert places.at(14).is_exact
    assert places.lowest == 10


def test_an_uncertain_copy_bounds_the_place_below() -> None:
    """It may be the only copy of what the group has not read."""
    places = Places([Copy(0, 10), Copy(1, 12, is_certain=False), Copy(2, 13)], end=9)
    assert places.at(12) == Place(1, 2)
    assert places.at(13) == Place(2, 2)


def test_copies_from_the_limit_on_do_not_count() -> None:
    """Their last copies lie behind the end of the segment."""
    copies = [Copy(0, 10), Copy(1, 30), Copy(2, 11)]
    assert Places(copies, end=9, limit=20).at(12) == Place(9, 9)
    assert Places(copies, end=9).at(12) == Place(1, 1)
    assert Places([], end=9).lowest == OPEN
