"""Where groups belong, by every way in which it is computed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupshift.domain.group_partition_and_count import java_hash, partition_of
from groupshift.moves.expansion.logged_offsets import Hashed

NAMES = st.text(st.characters(), max_size=40)
COUNT = st.integers(1, 5_000)


def one_by_one(name: str) -> int:
    """String.hashCode as Java's documentation has it, over UTF-16 code units."""
    units, found = name.encode("utf-16-be", "surrogatepass"), 0
    for at in range(0, len(units), 2):
        found = (31 * found + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found


@given(NAMES, COUNT)
def test_a_hash_is_that_of_java_and_min_value_is_nothing(name: str, count: int) -> None:
    """Also of characters that are two code units, and of half ones."""
    wanted = one_by_one(name)
    assert java_hash(name) == wanted
    assert partition_of(name, count) == (0 if wanted == -(1 << 31) else abs(wanted)) % count


@given(st.sets(NAMES, max_size=60), COUNT)
def test_many_names_at_once_are_placed_as_each_alone(names: set[str], count: int) -> None:
    """The planner's way for hundreds of thousands."""
    hashed = Hashed({*names, "polygenelubricants", "", "emoji-🚀"})
    places = {name: (partition_of(name, count), partition_of(name, count + 1)) for name in hashed.groups}
    found = {each.group: (each.before, each.after) for each in hashed.movers(count, count + 1)}
    assert found == {name: both for name, both in places.items() if both[0] != both[1]}
    assert names <= places.keys()
