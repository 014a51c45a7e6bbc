"""Bring back the offsets that an unprepared expansion lost, from the log: planned, committed, read back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from groupshift.domain.cluster import retention_ms
from groupshift.domain.rows import OffsetRow
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected
from groupshift.log.other_writers import sentence
from groupshift.moves.expansion.assess import PlacementAudit, audit_placement
from groupshift.moves.expansion.repair import Mend, Repair, repairs
from groupshift.moves.expansion.restore import NotRestored, Restored, restore_offsets, unlike
from groupshift.ports.changes import OffsetRestoring
from groupshift.ports.cluster import ClusterGroups, GroupSnapshots, PlacementViews
from groupshift.ports.log import LogProgress, OffsetsLog

_Key = tuple[str, str, int]
_GROUPS_AT_A_TIME = 100
_DEMANDED = frozenset({"X01", "X02", "X03", "X04", "X05", "X11"})
"""Rules that must pass before anything is committed."""


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

    @property
    def old(self) -> bool:
        """Whether a broker runs the OLD coordinator, whose one cache may hide a commit behind a stray."""
        return self.audit.facts.view.old

    def of(self, mend: Mend) -> tuple[Repair, ...]:
        """Those of this kind."""
        return tuple(each for each in self.repairs if each.mend is mend)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What was done: ``restored`` as read back; ``changed`` were committed by somebody between the look and
    the act, and left alone; ``erased`` are the groups whose stray records have tombstones now, which OLD
    coordinators take up when they load the partitions again (empty on NEW ones); ``strays_left`` are groups
    whose stray records stay there, and may still hide a commit, each with why."""

    restored: Restored
    changed: tuple[NotRestored, ...] = ()
    erased: frozenset[str] = frozenset()
    strays_left: Mapping[str, str] = field(default_factory=dict)


def plan_repair(
    views: PlacementViews, log: OffsetsLog, within_ms: int, told: LogProgress | None = None
) -> PlannedRepair:
    """Look and plan; nothing is changed. What was committed longer than ``within_ms`` before the look (or
    than offsets are kept) is left to a person. Raises as `audit_placement`."""
    audit = audit_placement(views, log, told)
    view = audit.facts.view
    since = view.cluster.taken_at_ms - min(within_ms, retention_ms(view))
    facts = audit.facts
    found = repairs(facts.log.elsewhere, since, facts.topics) if facts.log else ()
    return PlannedRepair(audit=audit, repairs=found, against=_against(audit))


def _against(audit: PlacementAudit) -> str:
    """Why nothing may be committed: it would not stay, or could undo what somebody else does."""
    unmet = [
        f"{each.rule}: {each.reason} ({each.hint})"
        for each in audit.judgement.findings
        if each.rule in _DEMANDED and each.verdict is not Verdict.PASS
    ]
    log = audit.facts.log
    if log is not None and log.others_wrote:
        unmet.insert(0, f"X07: {sentence(log.others_wrote)}")
    return "; ".join(unmet)


def repair(planned: PlannedRepair, restoring: OffsetRestoring, reader: ClusterGroups) -> Repaired:
    """Commit what is to be restored, for groups without members, and read it back: some groups at a time,
    asked for right before; what is answered otherwise than the log said, or cannot be asked, is left alone.
    Safe to repeat. A consumer that commits without being a member is not refused by its coordinator. On NEW
    coordinators; `groupshift.application.repair_shadows` on OLD ones.

    Raises `Rejected` with `PlannedRepair.against`, and as the ports."""
    if planned.against:
        raise Rejected(f"nothing was changed: {planned.against}")
    if planned.old:
        raise Rejected("nothing was changed: OLD coordinators need tombstones beside the commits")
    by_group: dict[str, list[Repair]] = defaultdict(list)
    for each in planned.of(Mend.RESTORE):
        by_group[each.chosen.group].append(each)
    equal, differing, changed = 0, list[NotRestored](), list[NotRestored]()
    groups = sorted(by_group)
    for start in range(0, len(groups), _GROUPS_AT_A_TIME):
        wanted = [each for group in groups[start : start + _GROUPS_AT_A_TIME] for each in by_group[group]]
        left = _left_alone(reader, wanted)
        rows = [each.row for each in wanted if _key(each.row) not in left]
        restored = restore_offsets(restoring, reader, rows)
        equal, changed = equal + restored.equal, [*changed, *left.values()]
        differing += restored.differing
    return Repaired(restored=Restored(equal=equal, differing=tuple(differing)), changed=tuple(changed))


def _left_alone(reader: GroupSnapshots, wanted: Sequence[Repair]) -> dict[_Key, NotRestored]:
    """What may not be committed now: its coordinator does not tell all of the group, or something else than
    the log said."""
    state = reader.take(sorted({each.chosen.group for each in wanted}))
    answered = {_key(row): row for row in state.offsets}
    problems = {each.group: each.problem for each in state.problems if not each.of_listing}
    found = {}
    for each in wanted:
        key, there = _key(each.row), answered.get(_key(each.row))
        says = None if there is None else there.offset
        why = problems.get(each.chosen.group, "")
        other = there is None or unlike(there, each.row)
        if not why and says != each.chosen.at_home and other:
            why = f"somebody changed it: the log said {each.chosen.at_home}, its coordinator answers {says}"
        if why:
            found[key] = NotRestored(wanted=each.row, found=there, reason=why)
    return found


def _key(row: OffsetRow) -> _Key:
    return row.group, row.topic, row.partition
