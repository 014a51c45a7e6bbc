"""The comparison of a release's log with its broker and its tool: nothing to say of an equal one, and every
kind of difference is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupshift.log import Decoded, LogRecord, decode
from groupshift.log.group_states import materialise
from groupshift.spark.batches.coordinator_records import COLUMNS, cell
from groupshift_testing.log_encoder import encode_key, encode_value
from support.release_broker import RELEASES
from support.release_capture import Captured
from support.release_checks import kinds_in, lacking, unlike_answers, unlike_domain, unlike_dump
from support.release_dump import Line, fields, shape_of

RELEASE = RELEASES["3.4.0"]
COMMIT = {"offset": 42, "leaderEpoch": 7, "metadata": "m", "commitTimestamp": 9}
AT = {"group": "simple", "topic": "orders", "partition": 1}


def log_record(offset: int, value: dict[str, Any] | None) -> LogRecord:
    """A commit of the one group, or its tombstone."""
    return LogRecord(
        partition=0,
        offset=offset,
        timestamp_ms=8,
        key=encode_key(1, AT),
        value=None if value is None else encode_value(1, 3, value),
    )


def line(record: Decoded) -> Line:
    """What the release's tool prints of it."""
    return Line(
        partition=record.src_partition,
        offset=record.src_offset,
        timestamp_ms=record.record_ts,
        key_size=len(record.raw_key or b""),
        value_size=-1 if record.raw_value is None else len(record.raw_value),
        fields=fields(record, shape_of(RELEASE.numbers)),
    )


def captured() -> Captured:
    """A release's log of two commits by one group, of which everything agrees."""
    read = [log_record(0, COMMIT), log_record(1, {**COMMIT, "offset": 43})]
    records = {(one.partition, one.offset): decode(one, partitions=1) for one in read}
    rows = {at: {name: cell(one, name) for name in COLUMNS} for at, one in records.items()}
    answer = {"simple": {"type": "classic", "offsets": {("orders", 1): (43, 7, "m")}}}
    return Captured(
        release=RELEASE,
        answered=answer,
        decoded=answer,
        state=materialise(records.values()),
        in_spark={"simple": ("simple", None, [], 1)},
        records=records,
        text=[line(one) for one in records.values()],
        visible=read,
        fetched=read,
        generations={"classic": (True, False)},
        rows=rows,
        columns=rows,
    )


def test_nothing_is_said_of_what_agrees() -> None:
    """Two records, one group."""
    found = captured()
    assert unlike_answers(found) == unlike_domain(found) == unlike_dump(found) == []
    assert kinds_in(found) == {"simple"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"decoded": {}}, "simple: we have nothing"),
        ({"answered": {}}, "they have nothing"),
        ({"generations": {"classic": (True, True)}}, "generation of classic: we have (True, True)"),
        ({"generations": {"classic": (False, False)}}, "generation of classic: we have (False, False)"),
    ],
)
def test_what_the_broker_tells_otherwise_is_named(changed: dict[str, Any], said: str) -> None:
    """A group of one side only, a generation that is not the coordinator's."""
    (found,) = unlike_answers(replace(captured(), **changed))
    assert said in found


def test_what_spark_and_our_fetches_give_otherwise_is_named() -> None:
    """One cell, one group's state, one record that was not fetched, one that belongs elsewhere."""
    equal = captured()
    rows = {at: row | {"record_ts": row["record_ts"] + at[1]} for at, row in equal.rows.items()}
    (said,) = unlike_domain(replace(equal, rows=rows))
    assert said.startswith("(0, 1): we have ")
    (said,) = unlike_domain(replace(equal, in_spark={"simple": ("simple", None, [], 2)}))
    assert said == "simple: we have ('simple', None, [], 2), they have ('simple', None, [], 1)"
    (said,) = unlike_domain(replace(equal, fetched=equal.visible[:1]))
    assert said.startswith("fetched: (0, 1): we have nothing")
    unread = [
        *equal.records.values(),
        decode(LogRecord(partition=0, offset=2, timestamp_ms=8, key=b"\0", value=None), partitions=1),
    ]
    (said,) = unlike_domain(replace(equal, state=materialise(unread)))
    assert said.startswith("out of place: ")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"timestamp_ms": 9}, ["(0, 1): we have (8, "]),
        ({"value_size": -1}, ["(0, 1): we have (8, "]),
        ({"fields": {"group": "simple"}}, ["(0, 1): we have {'group': 'simple', 'at': "]),
        ({"offset": 2}, ["(0, 1): ", "(0, 2): ", "(0, 1): ", "(0, 2): ", "partition 0: the offsets printed"]),
        ({"marker": "ABORT"}, ["(0, 1): ", "(0, 1): "]),
    ],
)
def test_what_the_tool_prints_otherwise_is_named(changed: dict[str, Any], said: list[str]) -> None:
    """A time, a size, a field, an offset that it passes over, a record that it takes for a marker."""
    equal = captured()
    found = unlike_dump(replace(equal, text=[equal.text[0], replace(equal.text[1], **changed)]))
    assert [each[: len(start)] for each, start in zip(found, said, strict=True)] == said


def test_a_kind_that_the_log_has_not_is_named() -> None:
    """Its groups, the types of its records, the tombstones of its members."""
    found = lacking(captured(), "streams")
    assert found[0] == "group streaming: decoded and answered None"
    assert found[1:7] == [f"no live record of type {number}" for number in (17, 19, 20, 21, 22, 23)]
    assert found[7:] == [f"no tombstone of type {number}" for number in (19, 21, 22)]


def test_transactions_are_there_when_both_markers_are_and_something_is_hidden() -> None:
    """Neither markers alone nor hidden records alone are transactions that were decided."""
    equal = captured()
    markers = [
        replace(equal.text[0], offset=2 + n, marker=kind) for n, kind in enumerate(("COMMIT", "ABORT"))
    ]
    hidden = replace(equal, visible=equal.visible[:1])
    assert kinds_in(replace(hidden, text=[*equal.text, *markers])) == {"simple", "transactions"}
    assert kinds_in(replace(equal, text=[*equal.text, *markers])) == {"simple"}
    assert kinds_in(replace(hidden, text=[*equal.text, markers[0]])) == {"simple"}
