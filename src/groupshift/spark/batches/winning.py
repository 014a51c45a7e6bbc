"""The newest record of each key of one partition, kept while the partition is read in log order.

What a group coordinator loads (specs/group-coordinator.md §1.7): per key the highest offset wins, types 0
and 1 are the same commit, and all records without key count as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupshift.errors import Rejected

_MOST_BYTES = 1 << 31
_AT_FIRST = 1 << 18
_COMMIT_0 = b"\0\0"


def winning(pieces: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The winners of a partition, in log order, from its ``pieces`` (with a column ``key``) in log order.

    Holds the winners so far and about as many rows again. Raises `Rejected` when they exceed 2 GiB.
    """
    held: list[pa.RecordBatch] = []
    count, limit = 0, _AT_FIRST
    for piece in pieces:
        held.append(_winners(piece))
        count += len(held[-1])
        if count > limit:
            held = [_winners(_joined(held))]
            count = len(held[0])
            limit = max(_AT_FIRST, 2 * count)
    if len(held) == 1:
        yield held[0]
    elif held:
        yield _winners(_joined(held))


def _joined(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    size = sum(piece.nbytes for piece in pieces)
    if size >= _MOST_BYTES:
        raise Rejected(
            f"the newest records of one partition take {size:,} bytes, more than a task may hold (2 GiB); "
            "read with keep=Keep.NEWEST and let Spark find the winners"
        )
    return pa.concat_batches(pieces)


def _winners(rows: pa.RecordBatch) -> pa.RecordBatch:
    codes = _same_commits(rows.column("key")).dictionary_encode(null_encoding="encode").indices.to_numpy()
    last = np.empty(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    last[codes] = np.arange(len(codes))  # of several assignments the last remains
    return rows.take(pa.array(np.sort(last)))


def _same_commits(keys: pa.Array) -> pa.Array:
    """The keys, those of type 0 written as of type 1."""
    old = pc.starts_with(keys, pattern=_COMMIT_0).fill_null(False)
    if not pc.any(old).as_py():
        return keys
    valid, places, data = keys.buffers()
    begins = np.frombuffer(places, np.int32)[keys.offset : keys.offset + len(keys)]
    renamed = np.array(np.frombuffer(data, np.uint8))
    renamed[begins[old.to_numpy(zero_copy_only=False)] + 1] = 1
    return pa.Array.from_buffers(
        keys.type, len(keys), [valid, places, pa.py_buffer(renamed)], offset=keys.offset
    )
