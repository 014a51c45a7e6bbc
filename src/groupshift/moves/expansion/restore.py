"""Offsets as coordinators answer them: given back as a snapshot has them, read back, and held against the
log.

A snapshot is the only copy while groups are deleted, so two sources must agree on it.
Source: docs/reference/group-coordinator.md §3.4 steps 10 and 11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from groupshift.domain.partitions import grouped
from groupshift.domain.rows import ClusterState, Committed, OffsetRow
from groupshift.errors import Transient
from groupshift.moves.expansion.logged_offsets import LoggedPlaces
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
    by_group = grouped((group(each), each) for each in rows)
    names = sorted(by_group)
    for start in range(0, len(names), at_a_time):
        yield [each for name in names[start : start + at_a_time] for each in by_group[name]]


def agreement(rows: Iterable[OffsetRow], log: LoggedPlaces) -> tuple[tuple[str, str], ...]:
    """Hold answers (``rows``) against a log that was read to its end; returns group and sentence of what they
    do not tell alike, sorted. Records outside their group's partition do not count."""
    answered = {key_of(row): said(row) for row in rows if row.offset > _NONE}
    logged = {key_of(row): said(row) for row in log.commits if row.offset > _NONE}
    return tuple(
        (key[0], f"{key[0]!r} {key[1]}-{key[2]}: answered {_told(here)}, in the log {_told(there)}")
        for key in sorted({*answered, *logged})
        if (here := answered.get(key)) != (there := logged.get(key))
    )


def _told(said: Said | None) -> str:
    """What one source says of an offset, for a sentence about both."""
    return "nothing" if said is None else f"offset {said[0]}, epoch {said[1]}, {len(said[2])} of metadata"
