"""Offsets as coordinators answer them: given back as a snapshot has them, read back, and held against the
log.

A snapshot is the only copy while groups are deleted, so two sources must agree on it.
Source: docs/reference/group-coordinator.md §3.4 steps 10 and 11.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

from groupshift.domain.placement import partition_of
from groupshift.domain.rows import ClusterState, Committed, OffsetRow
from groupshift.errors import Transient
from groupshift.log import LogRecord, commit_place, decode
from groupshift.ports.changes import OffsetRestoring, refusal_of
from groupshift.ports.cluster import CommittedOffsets

T = TypeVar("T")
Key = tuple[str, str, int]
"""Group, topic, partition."""
Said = tuple[int, int, str]
"""Offset, leader epoch (-1: none), metadata."""
_NONE = -1
_GROUPS_AT_A_TIME = 100


def key_of(row: OffsetRow) -> Key:
    """Return whose offset of what it is."""
    return row.group, row.topic, row.partition


def said(row: OffsetRow) -> Said:
    """Return what is committed. No metadata and empty metadata are stored alike, and so is no epoch and
    -1."""
    return row.offset, _NONE if row.leader_epoch is None else row.leader_epoch, row.metadata or ""


def unlike(one: OffsetRow, other: OffsetRow) -> bool:
    """Whether offset, leader epoch or metadata differ."""
    return said(one) != said(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRestored:
    """An offset that is not as it should be: what was wanted, what is answered (None: nothing), and why it
    was refused, where it was."""

    wanted: OffsetRow
    current: OffsetRow | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was done: ``equal`` offsets were read back as wanted; those of ``differing`` were not, or were
    left alone because somebody changed them between the look and the act. ``erased`` are the groups whose
    stray records have tombstones now, which OLD coordinators take up when they load the partitions again
    (empty on NEW ones); ``strays_left`` are groups whose stray records stay there, and may still hide a
    commit, each with why."""

    equal: int = 0
    differing: tuple[NotRestored, ...] = ()
    erased: frozenset[str] = frozenset()
    strays_left: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: Restored) -> Restored:
        """Offsets of both, strays of the first."""
        differing = (*self.differing, *other.differing)
        return replace(self, equal=self.equal + other.equal, differing=differing)


def restore_offsets(
    restoring: OffsetRestoring, reader: CommittedOffsets, rows: Iterable[OffsetRow]
) -> Restored:
    """Commit ``rows`` (of groups without members; offsets below 0 are none and left out), then read back.

    Raises as the ports."""
    wanted = [row for row in rows if row.offset > _NONE]
    return read_back(reader, wanted, restoring.commit(wanted))


def read_back(
    reader: CommittedOffsets,
    wanted: Iterable[OffsetRow],
    refused: Mapping[str, str] | None = None,
    *,
    whole: bool = False,
) -> Restored:
    """Hold what coordinators answer against ``wanted``: offset, leader epoch and metadata.

    Where no answer must not count as no offset (``whole``), raises `Transient` when one does not answer."""
    rows = list(wanted)
    groups = sorted({row.group for row in rows})
    state = reader.committed(groups) if groups else Committed()
    if whole:
        demand_answers(state)
    now = {key_of(row): row for row in state.offsets}
    differing = tuple(
        NotRestored(wanted=row, current=now.get(key_of(row)), reason=refusal_of(refused or {}, row))
        for row in rows
        if (there := now.get(key_of(row))) is None or unlike(there, row)
    )
    return Restored(equal=len(rows) - len(differing), differing=differing)


def demand_answers(state: ClusterState | Committed) -> None:
    """Raises `Transient` where a group was not answered: that is not the same as no offset. What concerns no
    group (a topic's log end that cannot be read) hides none."""
    silent = [each for each in state.problems if each.group is not None and not each.of_listing]
    if silent:
        raise Transient(f"group {silent[0].group!r} is not answered ({silent[0].problem}); run it again")


def some_groups(
    rows: Iterable[T], group: Callable[[T], str], at_a_time: int = _GROUPS_AT_A_TIME
) -> Iterator[list[T]]:
    """Yield what was found of some groups at a time, by their names; ``group`` is whose one is. What is
    answered of groups is asked for right before they change, and a process that another one overtook stops
    between two of these."""
    by_group: dict[str, list[T]] = defaultdict(list)
    for each in rows:
        by_group[group(each)].append(each)
    names = sorted(by_group)
    for start in range(0, len(names), at_a_time):
        yield [each for name in names[start : start + at_a_time] for each in by_group[name]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What answers and the log do not tell alike (``differing``: group and sentence, sorted), and the groups
    of commits with an expiry of their own (``expiring``, each as often as it has one): what is committed
    again has none (clients before Kafka 2.1 could ask for one; group-coordinator.md §3.4 step 10)."""

    differing: tuple[tuple[str, str], ...]
    expiring: tuple[str, ...]


def agreement(rows: Iterable[OffsetRow], records: Iterable[LogRecord], count: int) -> Agreement:
    """Hold answers (``rows``) against the log (``records``, read to its end, where ``count`` partitions put
    each group). Records elsewhere do not count.

    Raises `Rejected` for a count below 1."""
    answered = {key_of(row): said(row) for row in rows if row.offset > _NONE}
    live = list(_live(records, count))
    logged = {key: saying for key, saying, _ in live if saying[0] > _NONE}
    differing = tuple(
        (key[0], f"{key[0]!r} {key[1]}-{key[2]}: answered {_told(here)}, in the log {_told(there)}")
        for key in sorted({*answered, *logged})
        if (here := answered.get(key)) != (there := logged.get(key))
    )
    expiring = tuple(sorted(key[0] for key, _, expires_ms in live if expires_ms > _NONE))
    return Agreement(differing=differing, expiring=expiring)


def logged_offsets(records: Iterable[LogRecord], count: int) -> dict[Key, Said]:
    """Every live commit that lies where ``count`` partitions put its group."""
    return {key: said for key, said, _ in _live(records, count)}


def _live(records: Iterable[LogRecord], count: int) -> Iterator[tuple[Key, Said, int]]:
    """Every live commit where ``count`` partitions put its group: key, what it says, and its expiry (epoch
    ms; -1: none)."""
    home = cache(lambda group: partition_of(group, count))
    latest: dict[Key, LogRecord] = {}
    for record in records:
        key = commit_place(record.key)
        if key is None or record.partition != home(key[0]):
            continue
        if key not in latest or latest[key].offset < record.offset:
            latest[key] = record
    for key, record in latest.items():
        if record.value is not None:
            fields = decode(record, partitions=None).decoded or {}
            said = fields.get("offset", _NONE), fields.get("leaderEpoch", _NONE), fields.get("metadata") or ""
            yield key, said, fields.get("expireTimestamp", _NONE)


def _told(said: Said | None) -> str:
    """What one source says of an offset, for a sentence about both."""
    return "nothing" if said is None else f"offset {said[0]}, epoch {said[1]}, {len(said[2])} of metadata"
