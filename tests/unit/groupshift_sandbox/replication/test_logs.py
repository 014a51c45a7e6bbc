"""What is a copy of what follows from the contents of both logs."""

from __future__ import annotations

import pytest

from groupshift.errors import Broken
from groupshift.ports.records import LogRecordView
from groupshift_sandbox.replication.logs import PartitionLog, copies


def log(*records: tuple[int, bytes]) -> PartitionLog:
    """Records by offset; the log ends behind the last."""
    views = (LogRecordView(offset=offset, timestamp_ms=0, value=value) for offset, value in records)
    return PartitionLog(start=0, end=records[-1][0] + 1, records=tuple(views))


def test_copies_are_recognised_by_content() -> None:
    """Dropped, foreign and replayed records, and holes on both sides."""
    source = log((0, b"a"), (2, b"b"), (3, b"c"), (7, b"d"))
    target = log((0, b"a"), (1, b"x"), (2, b"c"), (5, b"a"), (6, b"c"), (7, b"d"))
    truth = copies(source, target)
    assert truth.source_of == {0: 0, 2: 3, 5: 0, 6: 3, 7: 7}
    assert [truth.exact(c) for c in (0, 1, 3, 4, 8)] == [5, 6, 6, 7, 8]
    assert (truth.lost(7, 3), truth.again(2, 3), truth.again(6, 3)) == (1, 1, 0)


def test_a_source_that_repeats_itself_does_not_tell() -> None:
    """Its records have several origins."""
    with pytest.raises(Broken, match="1 records of the source repeat others"):
        copies(log((0, b"a"), (1, b"a")), log((0, b"a")))
