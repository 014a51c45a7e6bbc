"""Reading a ledger piece by piece gives what reading it at once gives."""

from __future__ import annotations

import json
import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from groupshift.adapters.ledger import LedgerFiles
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


@settings(max_examples=80, deadline=None)
@given(records=RECORDS, times=st.lists(st.integers(0, 99), min_size=30, max_size=30))
def test_u16_what_ledgers_tell_is_what_counting_one_by_one_tells(
    records: list[tuple[str, int, int]], times: list[int]
) -> None:
    """Deliveries, those again, offsets passed over and pauses; outside of the time and the group nothing."""
    kept = sorted(
        (at_ms, member, partition, offset)
        for at_ms, (member, partition, offset) in zip(times, records, strict=False)
    )
    ours = [each for each in kept if each[1].startswith("g_") and 10 <= each[0] <= 90]
    told = {(partition, offset) for _, _, partition, offset in ours}
    passed_over = pause = 0
    for partition in {at for at, _ in told}:
        offsets = {offset for at, offset in told if at == partition}
        passed_over += max(offsets) - min(offsets) + 1 - len(offsets)
        at = [each[0] for each in ours if each[2] == partition]
        pause = max(pause, *(later - earlier for earlier, later in pairwise(at)), 0)
    with tempfile.TemporaryDirectory() as folder:
        for name in {each[1] for each in kept}:
            lines = [
                {"member": member, "topic": "t", "partition": partition, "offset": offset, "at_ms": at_ms}
                for at_ms, member, partition, offset in kept
                if member == name
            ]
            Path(folder, f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        found = LedgerFiles(folder).delivered("g", 10, 90)
        assert LedgerFiles(None).delivered("g", 10, 90) is None
    if not ours:
        assert found is None
        return
    assert found is not None
    counted = (found.deliveries, found.again, found.passed_over, found.longest_pause_ms)
    assert counted == (len(ours), len(ours) - len(told), passed_over, pause)
    assert found.source == folder
