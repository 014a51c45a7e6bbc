"""The columns of raw and of decoded coordinator records, and how a row of the Python decoder fills them.

Source: specs/group-coordinator.md §1.9. The fields of a commit's value are columns of their own; ``decoded``
is JSON, and null for commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from groupshift.log import Decoded, LogRecord, decode

RAW = "partition int, offset long, timestamp_ms long, key binary, value binary"
RAW_COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value")
COLUMNS: dict[str, tuple[str, pa.DataType]] = {
    "src_partition": ("int", pa.int32()),
    "src_offset": ("bigint", pa.int64()),
    "record_ts": ("bigint", pa.int64()),
    "record_type": ("int", pa.int32()),
    "type_name": ("string", pa.string()),
    "key_version": ("int", pa.int32()),
    "group_id": ("string", pa.string()),
    "group_guessed": ("boolean", pa.bool_()),
    "member_id": ("string", pa.string()),
    "topic": ("string", pa.string()),
    "partition": ("int", pa.int32()),
    "is_tombstone": ("boolean", pa.bool_()),
    "value_version": ("int", pa.int32()),
    "layout": ("string", pa.string()),
    "committed_offset": ("bigint", pa.int64()),
    "leader_epoch": ("int", pa.int32()),
    "metadata": ("string", pa.string()),
    "commit_timestamp_ms": ("bigint", pa.int64()),
    "expire_timestamp_ms": ("bigint", pa.int64()),
    "topic_id": ("string", pa.string()),
    "decoded": ("string", pa.string()),
    "unknown_tags": ("map<string,string>", pa.map_(pa.string(), pa.string())),
    "raw_key": ("binary", pa.binary()),
    "raw_value": ("binary", pa.binary()),
    "decode_status": ("string", pa.string()),
    "problem": ("string", pa.string()),
    "expected_partition": ("int", pa.int32()),
    "is_foreign": ("boolean", pa.bool_()),
}
DECODED = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
"""Schema of decoded rows; ``record_ts`` and the timestamps of commits are epoch ms."""

_COMMIT_FIELDS = {
    "committed_offset": "offset",
    "leader_epoch": "leaderEpoch",
    "metadata": "metadata",
    "commit_timestamp_ms": "commitTimestamp",
    "expire_timestamp_ms": "expireTimestamp",
    "topic_id": "topicId",
}
_COMMITS = frozenset({0, 1})


def by_python(records: Iterable[LogRecord], partitions: int | None) -> pa.RecordBatch:
    """Records as the decoder in Python sees them: the oracle of all other ways."""
    rows = [decode(record, partitions=partitions) for record in records]
    arrays = [pa.array([cell(row, name) for row in rows], kind) for name, (_, kind) in COLUMNS.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def cell(row: Decoded, column: str) -> Any:
    """What a decoded row of the oracle has in a column of `DECODED`."""
    commit = row.record_type in _COMMITS
    if column in _COMMIT_FIELDS:
        return row.decoded.get(_COMMIT_FIELDS[column]) if commit and row.decoded else None
    if column == "decoded":
        return (
            None
            if commit or row.decoded is None
            else json.dumps(row.decoded, ensure_ascii=False, separators=(",", ":"))
        )
    if column == "unknown_tags":
        return list(row.unknown_tags.items())
    if column == "decode_status":
        return row.decode_status.value
    return getattr(row, column)
