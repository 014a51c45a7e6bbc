"""Reading a ledger piece by piece gives what reading it at once gives."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.adapters.ledger.files import LedgerFiles
from groupshift.domain.partitions import TopicPartition

RECORDS = st.lists(
    st.tuples(st.sampled_from(["g_a", "g_b", "other_a"]), st.integers(0, 2), st.integers(0, 50)), max_size=30
)


@settings(max_examples=60, deadline=None)
@given(records=RECORDS, cuts=st.lists(st.integers(0, 4000), max_size=6))
def test_reading_while_it_grows_equals_reading_it_whole(
    records: list[tuple[str, int, int]], cuts: list[int]
) -> None:
    """Wherever the writer was when it was looked at, also in the middle of a line or a character."""
    lines = [
        {"member": member, "topic": "t\u00e4g", "partition": partition, "offset": offset, "at_ms": 1}
        for member, partition, offset in records
    ]
    data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
    expected: dict[TopicPartition, int] = {}
    for member, partition, offset in records:
        if member.startswith("g_"):
            key = TopicPartition("t\u00e4g", partition)
            expected[key] = max(offset, expected.get(key, 0))
    with tempfile.TemporaryDirectory() as folder:
        path, growing = Path(folder, "m.jsonl"), LedgerFiles(folder)
        path.touch()
        for cut in sorted(cuts):
            with path.open("r+b") as file:
                file.write(data[:cut])
            growing.last_delivered("g")
        with path.open("r+b") as file:
            file.write(data)
        assert growing.last_delivered("g") == expected
        assert LedgerFiles(folder).last_delivered("g") == expected
