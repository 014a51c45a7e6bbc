"""Bring back the offsets that an unprepared expansion lost, from the log: planned, committed, read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from groupshift.application.placement import PlacementAudit, audit_placement
from groupshift.application.restore_offsets import NotRestored, Restored, restore_offsets
from groupshift.domain.cluster_rows import OffsetRow
from groupshift.domain.expansion.repair import Mend, Repair, repairs
from groupshift.domain.expansion.view import retention_ms
from groupshift.errors import Rejected
from groupshift.ports.audits import LogProgress
from groupshift.ports.group_snapshots import GroupSnapshots
from groupshift.ports.log_copies import OffsetsLog
from groupshift.ports.offset_restoring import OffsetRestoring
from groupshift.ports.placement_views import PlacementViews

_Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRepair:
    """What the log says of every key that has a commit elsewhere; ``against`` is why nothing may be committed
    (empty: it may)."""

    audit: PlacementAudit
    repairs: tuple[Repair, ...]
    against: str = ""

    @property
    def counts(self) -> Mapping[Mend, int]:
        """How many offsets are restored, left alone, left to a person."""
        found = Counter(each.mend for each in self.repairs)
        return {mend: found[mend] for mend in Mend}

    def of(self, mend: Mend) -> tuple[Repair, ...]:
        """Those of this kind."""
        return tuple(each for each in self.repairs if each.mend is mend)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What was done: ``restored`` as read back; ``changed`` were committed by somebody between the look and
    the act, and left alone."""

    restored: Restored
    changed: tuple[NotRestored, ...] = ()


def plan_repair(views: PlacementViews, log: OffsetsLog, told: LogProgress | None = None) -> PlannedRepair:
    """Look and plan; nothing is changed. Raises as `audit_placement`."""
    audit = audit_placement(views, log, told)
    view = audit.facts.view
    kept_since_ms = view.cluster.taken_at_ms - retention_ms(view)
    found = repairs(audit.facts.log.elsewhere, kept_since_ms) if audit.facts.log else ()
    return PlannedRepair(audit=audit, repairs=found, against=_against(audit))


def _against(audit: PlacementAudit) -> str:
    facts = audit.facts
    if facts.in_force != facts.view.count:
        return (
            "brokers do not count what the topic has (X04): restart them first, with all clients stopped, or "
            "what is committed now is lost at the next restart"
        )
    if facts.view.old:
        return (
            "a broker runs the OLD coordinator, whose cache may keep an older offset however new the commit: "
            "repair of OLD coordinators is not built yet, see docs/expansion.md"
        )
    return ""


def repair(planned: PlannedRepair, restoring: OffsetRestoring, reader: GroupSnapshots) -> Repaired:
    """Commit what is to be restored, for groups without members, and read it back; an offset that somebody
    committed since the look is left alone. Safe to repeat.

    Raises `Rejected` with `PlannedRepair.against`, and as the ports."""
    if planned.against:
        raise Rejected(f"nothing was changed: {planned.against}")
    wanted = planned.of(Mend.RESTORE)
    answered = _answered(reader, {each.chosen.group for each in wanted}) if wanted else {}
    changed = [
        NotRestored(wanted=each.row, found=there, reason="somebody committed since the look")
        for each in wanted
        if (there := answered.get(_key(each.row))) is not None and there.offset not in _expected(each)
    ]
    since = {_key(each.wanted) for each in changed}
    rows = [each.row for each in wanted if _key(each.row) not in since]
    return Repaired(restored=restore_offsets(restoring, reader, rows), changed=tuple(changed))


def _expected(each: Repair) -> tuple[int | None, int]:
    """What the coordinator may answer: what it did when the log was read, or what is restored already."""
    return each.chosen.at_home, each.row.offset


def _answered(reader: GroupSnapshots, groups: Collection[str]) -> dict[_Key, OffsetRow]:
    return {_key(row): row for row in reader.take(sorted(groups)).offsets}


def _key(row: OffsetRow) -> _Key:
    return row.group, row.topic, row.partition
