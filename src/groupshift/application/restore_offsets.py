"""Give groups back the offsets that a snapshot has, and read every one of them back.

Source: specs/group-coordinator.md §3.4 steps 10 and 11.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from groupshift.domain.cluster_rows import OffsetRow
from groupshift.ports.group_snapshots import GroupSnapshots
from groupshift.ports.offset_restoring import OffsetRestoring

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
    restoring: OffsetRestoring, reader: GroupSnapshots, rows: Iterable[OffsetRow]
) -> Restored:
    """Commit ``rows`` (of groups without members; offsets below 0 are none and left out), then read back.

    Raises as the ports."""
    wanted = [row for row in rows if row.offset > _NONE]
    refused = restoring.commit(wanted)
    return read_back(reader, wanted, refused)


def read_back(
    reader: GroupSnapshots, wanted: Iterable[OffsetRow], refused: Mapping[str, str] | None = None
) -> Restored:
    """Hold what coordinators answer against ``wanted``: offset, leader epoch and metadata."""
    rows = list(wanted)
    groups = sorted({row.group for row in rows})
    found = {_key(row): row for row in reader.take(groups).offsets} if groups else {}
    differing = tuple(
        NotRestored(wanted=row, found=found.get(_key(row)), reason=(refused or {}).get(row.group, ""))
        for row in rows
        if (there := found.get(_key(row))) is None or _said(there) != _said(row)
    )
    return Restored(equal=len(rows) - len(differing), differing=differing)


def _key(row: OffsetRow) -> tuple[str, str, int]:
    return row.group, row.topic, row.partition


def _said(row: OffsetRow) -> _Said:
    """No metadata and empty metadata are stored alike, and so is no epoch and -1."""
    return row.offset, None if row.leader_epoch == _NONE else row.leader_epoch, row.metadata or ""
