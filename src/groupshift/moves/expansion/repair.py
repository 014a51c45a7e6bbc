"""Offsets that an unprepared expansion lost: which there are, what they are to be (the newest commit of each
key that lies elsewhere, unless somebody has to decide), and how they are brought back from the log.

An OLD coordinator keeps one cache for all partitions: a stray record of a group, in a former partition, may
hide every later commit, although that was acknowledged (docs/reference/group-coordinator.md §3.1). There what
is to be restored is committed, and proven in the log; then every stray record gets a tombstone; and the
caches forget it when brokers are restarted.

Source: docs/reference/group-coordinator.md §1.7 (never merged by offsets of the log; compare commit times)
and §3.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from groupshift.domain.cluster import retention_ms
from groupshift.domain.commit_places import Topics
from groupshift.domain.rows import OffsetRow
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected, Transient
from groupshift.log.replay import written_by_others
from groupshift.moves.expansion.assess import PlacementAudit, audit_placement
from groupshift.moves.expansion.facts import logged_offsets
from groupshift.moves.expansion.load import Elsewhere, LogReading
from groupshift.moves.expansion.restore import NotRestored, Restored, restore_offsets, unlike
from groupshift.moves.expansion.rules import busy_groups
from groupshift.ports.changes import OffsetRestoring
from groupshift.ports.cluster import ClusterGroups, GroupSnapshots, PlacementViews
from groupshift.ports.log import LogErasing, LogProgress, OffsetsLog

_UNKNOWN = -1
_Key = tuple[str, str, int]
_GROUPS_AT_A_TIME = 100
_DEMANDED = frozenset({"X01", "X02", "X03", "X04", "X05", "X11"})
"""Rules that must pass before anything is committed."""
_BUSY = "it has members: stop them, then run it again"
UNDECIDED = "a person has to decide about an offset of it first"
"""Why a group keeps its strays that no run settles."""


class Mend(StrEnum):
    """What is to be done about one group's offset of one partition."""

    RESTORE = "restore"
    """Committed again: its coordinator has nothing, or something earlier and not higher."""
    OVERWRITTEN = "overwritten"
    """Left alone: at home it was committed, or deleted, later."""
    CONFLICT = "conflict"
    """Left to a person: commits of two coordinators contradict each other, or cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One key: ``chosen`` is the newest commit that lies elsewhere, ``others`` the rest of them; ``reason``
    says why a person has to decide."""

    mend: Mend
    chosen: Elsewhere
    others: tuple[Elsewhere, ...] = ()
    reason: str = ""

    @property
    def row(self) -> OffsetRow:
        """What is to be committed."""
        return self.chosen.row


def repairs(
    elsewhere: Iterable[Elsewhere], kept_since_ms: int = 0, topics: Topics | None = None
) -> tuple[Repair, ...]:
    """What to do about every key that has a commit outside its group's partition, by group and partition.

    ``kept_since_ms`` (epoch ms): what was committed earlier may have been deleted, or have expired, at home
    without a trace (a tombstone stays for delete.retention.ms after its compaction). ``topics`` is what
    brokers tell of the topics: a commit of a former one, or of a partition that is not there, is nobody's to
    restore."""
    by_key: dict[tuple[str, str, int], list[Elsewhere]] = defaultdict(list)
    for each in elsewhere:
        by_key[each.group, each.topic, each.partition].append(each)
    return tuple(_repair(by_key[key], kept_since_ms, topics or Topics()) for key in sorted(by_key))


def _repair(found: Sequence[Elsewhere], kept_since_ms: int, topics: Topics) -> Repair:
    newest, *others = sorted(found, key=lambda each: (each.committed_ms, each.found), reverse=True)
    if newest.newer is False:
        return Repair(mend=Mend.OVERWRITTEN, chosen=newest, others=tuple(others))
    reason = topics.unrestorable(newest.topic, newest.partition, newest.topic_id) or _doubt(newest, others)
    if not reason and newest.committed_ms < kept_since_ms:
        reason = "it is older than --within: it may have been deleted, or have expired, without a trace left"
    mend = Mend.CONFLICT if reason else Mend.RESTORE
    return Repair(mend=mend, chosen=newest, others=tuple(others), reason=reason)


def _doubt(newest: Elsewhere, others: Sequence[Elsewhere]) -> str:
    """Why a person has to decide; empty when nobody has to."""
    offset = newest.offset
    if offset is None or not all(each.readable for each in (newest, *others)):
        return "a commit cannot be read"
    if offset < 0:
        return f"the newest commit says {offset}, which is no offset"
    if newest.deleted_ms > newest.committed_ms or newest.expires_ms != _UNKNOWN:
        return "it was deleted in another partition later, or has an expiry of its own"
    if newest.committed_ms == _UNKNOWN or (newest.newer is None and newest.home_record_offset is not None):
        return "a commit has no time"
    return _contradiction(newest, offset, others)


def _contradiction(newest: Elsewhere, offset: int, others: Sequence[Elsewhere]) -> str:
    """Commits of two coordinators that cannot both be followed."""
    equally_new = {each.offset for each in others if each.committed_ms == newest.committed_ms} - {offset}
    if equally_new:
        return f"partitions {newest.found} and another have {offset} and {equally_new.pop()} of the same time"
    higher = max((each.offset for each in others if each.offset is not None), default=offset)
    if higher > offset:
        return f"an earlier commit says {higher}, the newest {offset}: two coordinators took commits"
    if newest.at_home is not None and newest.at_home > offset:
        return f"its coordinator has {newest.at_home}, committed earlier than {offset}"
    return ""


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
        unmet.insert(0, f"X07: {written_by_others(log.others_wrote)}")
    return "; ".join(unmet)


def repair(planned: PlannedRepair, restoring: OffsetRestoring, reader: ClusterGroups) -> Repaired:
    """Commit what is to be restored, for groups without members, and read it back: some groups at a time,
    asked for right before; what is answered otherwise than the log said, or cannot be asked, is left alone.
    Safe to repeat. A consumer that commits without being a member is not refused by its coordinator. On NEW
    coordinators; `repair_shadows` on OLD ones.

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
    present = {(each.group, each.topic, each.partition): each for each in now.elsewhere}
    found = {}
    for each in planned.repairs:
        chosen = each.chosen
        there = present.get((chosen.group, chosen.topic, chosen.partition))
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
        if row.group in refused or offsets.get(_key(row)) != _said(row)
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
