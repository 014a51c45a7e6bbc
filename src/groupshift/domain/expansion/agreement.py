"""Whether coordinators and the log tell the same offsets.

Source: specs/group-coordinator.md §3.4 step 4: the snapshot is the only copy while groups are deleted, so two
sources must agree on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from groupshift.domain.cluster_rows import OffsetRow
from groupshift.domain.coordinator_log import LogRecord, commit_place, decode
from groupshift.domain.placement import partition_of

_NONE = -1
_Key = tuple[str, str, int]
_Said = tuple[int, int, str]


def disagreements(
    rows: Iterable[OffsetRow], records: Iterable[LogRecord], count: int
) -> tuple[tuple[str, str], ...]:
    """Group and sentence of every offset that answers (``rows``) and the log (``records``, read to its end,
    where ``count`` partitions put each group) do not tell alike, sorted. Records elsewhere do not count.

    Raises `Rejected` for a count below 1."""
    answered = {(row.group, row.topic, row.partition): _of_row(row) for row in rows if row.offset > _NONE}
    logged = logged_offsets(records, count)
    found = []
    for key in sorted({*answered, *logged}):
        here, there = answered.get(key), logged.get(key)
        if here != there:
            group, topic, partition = key
            said = f"answered {_told(here)}, in the log {_told(there)}"
            found.append((group, f"{group!r} {topic}-{partition}: {said}"))
    return tuple(found)


def logged_offsets(records: Iterable[LogRecord], count: int) -> dict[_Key, _Said]:
    """Offset, leader epoch (-1: none) and metadata of every live commit that lies where ``count`` partitions
    put its group, by group, topic and partition."""
    return dict(_live(records, count))


def _live(records: Iterable[LogRecord], count: int) -> Iterator[tuple[_Key, _Said]]:
    home = cache(lambda group: partition_of(group, count))
    latest: dict[_Key, LogRecord] = {}
    for record in records:
        key = commit_place(record.key)
        if key is None or record.partition != home(key[0]):
            continue
        if key not in latest or latest[key].offset < record.offset:
            latest[key] = record
    for key, record in latest.items():
        if record.value is not None:
            said = decode(record, partitions=None).decoded or {}
            yield key, (said.get("offset", _NONE), said.get("leaderEpoch", _NONE), said.get("metadata") or "")


def _of_row(row: OffsetRow) -> _Said:
    return row.offset, _NONE if row.leader_epoch is None else row.leader_epoch, row.metadata or ""


def _told(said: _Said | None) -> str:
    return "nothing" if said is None else f"offset {said[0]}, epoch {said[1]}, {len(said[2])} of metadata"
