"""Hashes and checksums of committed offsets: what they must not see, and what they must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.adapters.parquet import row_hashes
from groupshift.adapters.parquet.row_hashes import Hashes, Segments
from groupshift.domain.equality_rules import Field

VALUES = (Field.OFFSET, Field.LEADER_EPOCH, Field.METADATA, Field.COMMIT_TIMESTAMP)
_SCHEMA = pa.schema(
    {
        "group": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "leader_epoch": pa.int32(),
        "metadata": pa.string(),
        "commit_timestamp_ms": pa.int64(),
    }
)


def row(**changes: Any) -> dict[str, Any]:
    """A commit."""
    usual = {"group": "g", "topic": "t", "partition": 0, "offset": 5, "leader_epoch": 1}
    return {**usual, "metadata": "m", "commit_timestamp_ms": 7, **changes}


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table without dictionaries."""
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def hashes_of(rows: list[dict[str, Any]]) -> Hashes:
    """Of rows as they are."""
    return row_hashes.hashed(table(rows), VALUES)


ROWS = [row(group=f"group-{n % 7}", partition=n, metadata="x" * (n % 20)) for n in range(300)]


def written(folder: Path, name: str, rows: list[dict[str, Any]], **how: Any) -> tuple[int, ...]:
    """The checksum of a Parquet file with these rows."""
    path = folder / name
    pq.write_table(table(rows), path, **how)
    found = Segments.none(1)
    for part in row_hashes.committed(path, VALUES):
        found.add_rows(row_hashes.hashed(part, VALUES))
    return tuple(found.sums[:, 0].tolist())


def test_order_encoding_and_row_groups_do_not_matter(tmp_path: Path) -> None:
    """The same rows in other files have the same checksum; one of another has not."""
    usual = written(tmp_path, "a", ROWS)
    assert written(tmp_path, "b", ROWS[::-1], row_group_size=17, use_dictionary=False) == usual
    assert written(tmp_path, "c", [*ROWS[1:], row()]) != usual
    assert usual[0] == 300


def test_what_was_never_committed_is_no_row(tmp_path: Path) -> None:
    """Offset -1 and no row are the same, in every row group."""
    never = [row(partition=n, offset=-1) for n in range(40)]
    assert written(tmp_path, "a", [*never, *ROWS, *never], row_group_size=19) == written(tmp_path, "b", ROWS)
    assert written(tmp_path, "c", never) == (0, 0, 0)


def test_what_is_absent_has_one_spelling(tmp_path: Path) -> None:
    """No leader epoch and -1, no metadata and an empty one; with a dictionary and without."""
    absent, spelt = row(leader_epoch=None, metadata=None), row(leader_epoch=-1, metadata="")
    first = written(tmp_path, "a", [absent, row()])
    assert written(tmp_path, "b", [spelt, row()], use_dictionary=False) == first
    assert row_hashes.plain(table([absent]), VALUES).to_pylist() == [
        {**spelt, "group": b"g", "topic": b"t", "metadata": b""}
    ]


CHANGES = [
    {"group": "gt", "topic": ""},
    {"group": "", "topic": "gt"},
    {"topic": "t\0"},
    {"partition": 1},
    {"offset": 6},
    {"leader_epoch": 2},
    {"leader_epoch": None},
    {"metadata": "m\0"},
    {"metadata": "m\0\0\0\0\0\0\0\0"},
    {"metadata": None},
    {"commit_timestamp_ms": 8},
    {"offset": 7, "commit_timestamp_ms": 5},
    {"offset": 5 + 2**40},
]


def test_every_change_is_seen_by_both_hashes() -> None:
    """Also where bytes only move to the next column, or are zero."""
    found = hashes_of([row(), *(row(**change) for change in CHANGES)])
    for words in (found.first, found.second):
        assert len(np.unique(words)) == 1 + len(CHANGES)
    assert not set(found.first.tolist()) & set(found.second.tolist())


def test_the_hash_of_a_key_knows_nothing_of_values() -> None:
    """Rows of one key have it, whatever they say; a slice of a table has the hashes of its rows."""
    found = hashes_of([row(offset=n) for n in range(5)])
    assert len(set(found.key.tolist())) == 1
    parts = row_hashes.hashed(table(ROWS).slice(100, 50), VALUES)
    assert (parts.first == hashes_of(ROWS).first[100:150]).all()


def test_segments_add_up_and_show_where_rows_differ() -> None:
    """In two portions or in one; a changed row differs in its own segment only."""
    whole, parts, other = (Segments.none(64) for _ in range(3))
    whole.add_rows(hashes_of(ROWS))
    for part in (ROWS[:100], ROWS[100:]):
        of_part = Segments.none(64)
        of_part.add_rows(hashes_of(part))
        parts.add(of_part.table())
    changed = [*ROWS[:-1], {**ROWS[-1], "offset": 99}]
    other.add_rows(hashes_of(changed))
    assert not len(whole.differing(parts))
    assert whole.differing(other).tolist() == row_hashes.segment(hashes_of(ROWS[-1:]).key, 64).tolist()


def of_numbers(rows: list[tuple[int, int, int]]) -> Hashes:
    """Made-up hashes."""
    key, first, second = np.array(rows, dtype=np.uint64).reshape(-1, 3).T
    return Hashes(key=key, first=first, second=second)


few = st.integers(0, 3)
sides = st.lists(st.tuples(few, few, few), max_size=12)


@settings(deadline=None)
@given(before=sides, after=sides)
def test_only_keys_that_both_sides_have_once_and_alike_are_done(
    before: list[tuple[int, int, int]], after: list[tuple[int, int, int]]
) -> None:
    """Against counting them one by one."""
    found = row_hashes.differing_rows(of_numbers(before), of_numbers(after))
    keys = [[one[0] for one in side] for side in (before, after)]

    def done(one: tuple[int, int, int]) -> bool:
        once = all(side.count(one[0]) == 1 for side in keys)
        return once and one in before and one in after

    assert found[0].tolist() == [not done(one) for one in before]
    assert found[1].tolist() == [not done(one) for one in after]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 4096])
def test_texts_of_any_length_differ_by_any_byte(length: int) -> None:
    """Beside longer and shorter ones in the same column."""
    texts = ["a" * length, "a" * length + "b", *(("a" * at + "b").ljust(length, "a") for at in range(length))]
    found = hashes_of([row(metadata=text) for text in texts[:80]])
    assert len(np.unique(found.first)) == len(np.unique(found.second)) == len(set(texts[:80]))
