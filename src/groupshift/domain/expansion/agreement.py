"""Whether coordinators and the log tell the same offsets.

Source: specs/group-coordinator.md §3.4 step 4: the snapshot is the only copy while groups are deleted, so two
sources must agree on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from groupshift.domain.placement import partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.log import LogRecord, commit_place, decode

_NONE = -1
_Key = tuple[str, str, int]
_Said = tuple[int, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What answers and the log do not tell alike (``differing``: group and sentence, sorted), and the groups
    of commits with an expiry of their own (``expiring``, each as often as it has one): what is committed
    again has none (clients before Kafka 2.1 could ask for one; §3.4 step 10)."""

    differing: tuple[tuple[str, str], ...]
    expiring: tuple[str, ...]


def disagreements(
    rows: Iterable[OffsetRow], records: Iterable[LogRecord], count: int
) -> tuple[tuple[str, str], ...]:
    """`Agreement.differing`. Raises likewise."""
    return agreement(rows, records, count).differing


def agreement(rows: Iterable[OffsetRow], records: Iterable[LogRecord], count: int) -> Agreement:
    """Hold answers (``rows``) against the log (``records``, read to its end, where ``count`` partitions put
    each group). Records elsewhere do not count.

    Raises `Rejected` for a count below 1."""
    answered = {(row.group, row.topic, row.partition): _of_row(row) for row in rows if row.offset > _NONE}
    live = list(_live(records, count))
    logged = {key: said for key, said, _ in live if said[0] > _NONE}
    found = []
    for key in sorted({*answered, *logged}):
        here, there = answered.get(key), logged.get(key)
        if here != there:
            group, topic, partition = key
            said = f"answered {_told(here)}, in the log {_told(there)}"
            found.append((group, f"{group!r} {topic}-{partition}: {said}"))
    expiring = tuple(sorted(key[0] for key, _, expires_ms in live if expires_ms > _NONE))
    return Agreement(differing=tuple(found), expiring=expiring)


def logged_offsets(records: Iterable[LogRecord], count: int) -> dict[_Key, _Said]:
    """Offset, leader epoch (-1: none) and metadata of every live commit that lies where ``count`` partitions
    put its group, by group, topic and partition."""
    return {key: said for key, said, _ in _live(records, count)}


def _live(records: Iterable[LogRecord], count: int) -> Iterator[tuple[_Key, _Said, int]]:
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
            told = said.get("offset", _NONE), said.get("leaderEpoch", _NONE), said.get("metadata") or ""
            yield key, told, said.get("expireTimestamp", _NONE)


def _of_row(row: OffsetRow) -> _Said:
    return row.offset, _NONE if row.leader_epoch is None else row.leader_epoch, row.metadata or ""


def _told(said: _Said | None) -> str:
    return "nothing" if said is None else f"offset {said[0]}, epoch {said[1]}, {len(said[2])} of metadata"
