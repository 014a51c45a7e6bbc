"""Values of the producer and ledger lines of the recorder."""

from __future__ import annotations

import io
import json

import pytest

from groupshift.errors import Broken
from groupshift_sandbox.faults import session_password
from groupshift_sandbox.producer import due, value_of
from groupshift_sandbox.recorder import entry_of, record


def test_a_producer_value_becomes_a_ledger_line_with_the_sequence_as_offset():
    """What the producer writes is what the recorder understands."""
    line = entry_of(value_of("orders", 3, 1234).decode() + "\n", "g_m1-1", 17)
    assert line is not None
    assert json.loads(line) == {
        "member": "g_m1-1",
        "topic": "orders",
        "partition": 3,
        "offset": 1234,
        "at_ms": 17,
    }


@pytest.mark.parametrize("line", ["\n", "Processed a total of 3 messages\n", "[warn] x\n"])
def test_other_lines_of_the_console_consumer_are_no_records(line):
    """Nothing but records gets into the ledger."""
    assert entry_of(line, "g_m1-1", 17) is None


@pytest.mark.parametrize("line", ['{"topic":"orders"}\n', "{broken\n"])
def test_a_record_of_somebody_else_is_not_passed_over(line):
    """A value without its place would make the proof worthless."""
    with pytest.raises(Broken, match="not one of the sandbox's producer"):
        entry_of(line, "g_m1-1", 17)


def test_recording_copies_every_record_and_counts():
    """All records of a stream, in order, one line each."""
    source = io.StringIO("".join(value_of("t", 0, n).decode() + "\n" for n in range(3)) + "noise\n")
    ledger = io.StringIO()
    assert record(source, ledger, "g_m1-1") == 3
    assert [json.loads(line)["offset"] for line in ledger.getvalue().splitlines()] == [0, 1, 2]


def test_the_rate_is_kept_by_the_clock_and_stops_at_the_limit():
    """A late turn catches up; a limit ends it."""
    assert due(0.0, 20, None) == 0
    assert due(1.5, 20, None) == 30
    assert due(100.0, 20, 50) == 50


def test_the_session_password_is_zookeepers():
    """A pair given by a real ZooKeeper 3.8.4."""
    assert session_password(0x1000027FB290000).hex() == "7db81ca2c60ccc192320e4717f69e702"
