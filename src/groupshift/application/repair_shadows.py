"""Bring back offsets on OLD coordinators, and take away what would hide them.

An OLD coordinator keeps one cache for all partitions: a stray record of a group, in a former partition, may
hide every later commit, although that was acknowledged (docs/reference/group-coordinator.md §3.1). So what is
to be restored is committed, and proven in the log; then every stray record gets a tombstone; and the caches
forget it when brokers are restarted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groupshift.application.repair_placement import PlannedRepair, Repaired
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Rejected, Transient
from groupshift.moves.expansion.facts import logged_offsets
from groupshift.moves.expansion.load import LogReading
from groupshift.moves.expansion.repair import Mend
from groupshift.moves.expansion.restore import NotRestored, Restored
from groupshift.moves.expansion.rules import busy_groups
from groupshift.ports.changes import OffsetRestoring
from groupshift.ports.cluster import PlacementViews
from groupshift.ports.log import LogErasing, OffsetsLog

_Key = tuple[str, str, int]
_BUSY = "it has members: stop them, then run it again"
UNDECIDED = "a person has to decide about an offset of it first"
"""Why a group keeps its strays that no run settles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowTools:
    """What a repair on OLD coordinators needs."""

    views: PlacementViews
    log: OffsetsLog
    restoring: OffsetRestoring
    erasing: LogErasing


def repair_shadows(planned: PlannedRepair, tools: ShadowTools) -> Repaired:
    """Commit what is to be restored, for groups without members, prove it in the log, then erase the strays
    of every group that is settled: nothing of it is left to a person, nobody uses it, nothing was refused.

    Safe to repeat, and gone on with where it was cut off: what is committed at home already is newer than its
    strays. Raises `Rejected` with `PlannedRepair.against`, `Transient` when tombstones do not show in the log
    yet, and as the ports."""
    if planned.against:
        raise Rejected(f"nothing was changed: {planned.against}")
    busy = busy_groups(tools.views.look().cluster)
    changed = _changed(planned, tools)
    left = dict.fromkeys(busy, _BUSY)
    left |= dict.fromkeys((each.chosen.group for each in planned.of(Mend.CONFLICT)), UNDECIDED) | changed
    wanted = [each for each in planned.of(Mend.RESTORE) if each.chosen.group not in left]
    refused = tools.restoring.commit([each.row for each in wanted])
    differing = _not_logged([each.row for each in wanted], refused, planned, tools)
    left |= {each.wanted.group: each.reason for each in differing}
    erased, kept = _erase(planned, tools, left)
    named = [each for each in planned.of(Mend.RESTORE) if each.chosen.group in busy | changed.keys()]
    return Repaired(
        restored=Restored(equal=len(wanted) - len(differing), differing=differing),
        changed=tuple(
            NotRestored(wanted=each.row, found=None, reason=left[each.chosen.group]) for each in named
        ),
        erased=erased,
        strays_left=kept,
    )


def _changed(planned: PlannedRepair, tools: ShadowTools) -> dict[str, str]:
    """Groups of which the log says something else than when it was planned, and why. Answers tell nothing: a
    cache may hide what was committed."""
    log = planned.audit.facts.log
    count = log.count if log else 0
    now = LogReading().take(tools.log.read(tools.log.position())).places(count, 0, newest=False)
    present = {_key(each.group, each.topic, each.partition): each for each in now.elsewhere}
    found = {}
    for each in planned.repairs:
        chosen = each.chosen
        there = present.get(_key(chosen.group, chosen.topic, chosen.partition))
        if there is None or there.at_home != chosen.at_home:
            found[chosen.group] = "somebody committed or deleted it since the look"
    return found


def _not_logged(
    rows: list[OffsetRow], refused: Mapping[str, str], planned: PlannedRepair, tools: ShadowTools
) -> tuple[NotRestored, ...]:
    """What the newest record at home does not say."""
    log = planned.audit.facts.log
    offsets = logged_offsets(tools.log.read(tools.log.position()), log.count if log else 0)
    return tuple(
        NotRestored(wanted=row, found=None, reason=refused.get(row.group, "it is not in the log"))
        for row in rows
        if row.group in refused or offsets.get(_key(row.group, row.topic, row.partition)) != _said(row)
    )


def _erase(
    planned: PlannedRepair, tools: ShadowTools, unsettled: Mapping[str, str]
) -> tuple[frozenset[str], Mapping[str, str]]:
    """The groups whose strays have tombstones now, and those that keep theirs, with why."""
    log = planned.audit.facts.log
    every = log.strays if log else {}
    strays = {group: keys for group, keys in every.items() if group not in unsettled}
    tools.erasing.erase([key for keys in strays.values() for key in keys])
    left = LogReading().take(tools.log.read(tools.log.position())).places(log.count if log else 1, 0).strays
    still = sorted(strays.keys() & left.keys())
    if still:
        raise Transient(
            f"strays of {len(still)} groups are still in the log, {still[0]!r} first; run it again"
        )
    return frozenset(strays), {group: unsettled[group] for group in sorted(every.keys() - strays.keys())}


def _said(row: OffsetRow) -> tuple[int, int, str]:
    return row.offset, -1 if row.leader_epoch is None else row.leader_epoch, row.metadata or ""


def _key(group: str, topic: str, partition: int) -> _Key:
    return group, topic, partition
