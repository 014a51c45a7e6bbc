"""Give groups back the offsets that a snapshot has, and read every one of them back.

Source: docs/reference/group-coordinator.md §3.4 steps 10 and 11.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from groupshift.domain.rows import ClusterState, Committed, OffsetRow
from groupshift.errors import Transient
from groupshift.ports.changes import OffsetRestoring, refusal_of
from groupshift.ports.cluster import CommittedOffsets

_NONE = -1
_Said = tuple[int, int | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRestored:
    """An offset that is not as it should be: what was wanted, what is answered (None: nothing), and why it
    was refused, where it was."""

    wanted: OffsetRow
    found: OffsetRow | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """``equal`` offsets were read back as wanted; those of ``differing`` were not."""

    equal: int
    differing: tuple[NotRestored, ...]


def restore_offsets(
    restoring: OffsetRestoring, reader: CommittedOffsets, rows: Iterable[OffsetRow]
) -> Restored:
    """Commit ``rows`` (of groups without members; offsets below 0 are none and left out), then read back.

    Raises as the ports."""
    wanted = [row for row in rows if row.offset > _NONE]
    refused = restoring.commit(wanted)
    return read_back(reader, wanted, refused)


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
    found = {_key(row): row for row in state.offsets}
    differing = tuple(
        NotRestored(wanted=row, found=found.get(_key(row)), reason=refusal_of(refused or {}, row))
        for row in rows
        if (there := found.get(_key(row))) is None or _said(there) != _said(row)
    )
    return Restored(equal=len(rows) - len(differing), differing=differing)


def demand_answers(state: ClusterState | Committed) -> None:
    """Raises `Transient` where a group was not answered: that is not the same as no offset. What concerns no
    group (a topic's log end that cannot be read) hides none."""
    silent = [each for each in state.problems if each.group is not None and not each.of_listing]
    if silent:
        raise Transient(f"group {silent[0].group!r} is not answered ({silent[0].problem}); run it again")


def unlike(one: OffsetRow, other: OffsetRow) -> bool:
    """Whether offset, leader epoch or metadata differ."""
    return _said(one) != _said(other)


def _key(row: OffsetRow) -> tuple[str, str, int]:
    return row.group, row.topic, row.partition


def _said(row: OffsetRow) -> _Said:
    """No metadata and empty metadata are stored alike, and so is no epoch and -1."""
    return row.offset, None if row.leader_epoch == _NONE else row.leader_epoch, row.metadata or ""
