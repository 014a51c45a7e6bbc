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

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from groupshift.domain.cluster import retention_ms
from groupshift.domain.commit_places import Topics
from groupshift.domain.facts import sentence_list
from groupshift.domain.partitions import grouped
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected, Transient
from groupshift.log.replay import written_by_others
from groupshift.moves.expansion.logged_offsets import Elsewhere, held
from groupshift.moves.expansion.restore import (
    Key,
    NotRestored,
    Restored,
    key_of,
    restore_offsets,
    said,
    some_groups,
    unlike,
)
from groupshift.moves.expansion.rules import Placement, audit_placement, busy_groups
from groupshift.ports.changes import OffsetRestoring
from groupshift.ports.cluster import ClusterGroups, GroupSnapshots, PlacementViews
from groupshift.ports.log import LogErasing, LogProgress, OffsetsLog

_UNKNOWN = -1
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


def repairs(
    elsewhere: Iterable[Elsewhere], kept_since_ms: int = 0, topics: Topics | None = None
) -> tuple[Repair, ...]:
    """What to do about every key that has a commit outside its group's partition, by group and partition.

    ``kept_since_ms`` (epoch ms): what was committed earlier may have been deleted, or have expired, at home
    without a trace (a tombstone stays for delete.retention.ms after its compaction). ``topics`` is what
    brokers tell of the topics: a commit of a former one, or of a partition that is not there, is nobody's to
    restore."""
    by_key = grouped((key_of(each), each) for each in elsewhere)
    return tuple(_repair(by_key[key], kept_since_ms, topics or Topics()) for key in sorted(by_key))


def _repair(commits: Sequence[Elsewhere], kept_since_ms: int, topics: Topics) -> Repair:
    """What to do about one key: by the newest of its commits elsewhere, unless home was committed later."""
    newest, *others = sorted(commits, key=lambda each: (each.committed_ms, each.lies_at), reverse=True)
    if newest.newer is False:
        return Repair(mend=Mend.OVERWRITTEN, chosen=newest, others=tuple(others))
    offset, unrestorable = newest.offset, topics.unrestorable(newest.topic, newest.partition, newest.topic_id)
    timeless = newest.newer is None and newest.home_record_offset is not None
    equally_new = {each.offset for each in others if each.committed_ms == newest.committed_ms} - {offset}
    twins = sentence_list([str(each) for each in sorted(equally_new)])
    higher = max((each.offset for each in others), default=offset)
    at_home = newest.at_home
    doubts: dict[str, object] = {
        unrestorable: unrestorable,
        "a commit cannot be read": not all(each.readable for each in commits),
        f"the newest commit says {offset}, which is no offset": offset < 0,
        "it was deleted in another partition later": newest.deleted_ms > newest.committed_ms,
        "it has an expiry of its own": newest.expires_ms != _UNKNOWN,
        "a commit has no time": newest.committed_ms == _UNKNOWN or timeless,
        f"partitions {newest.lies_at} and another have {offset} and {twins} of the same time": twins,
        f"an earlier commit says {higher}, the newest {offset}: two coordinators took commits": (
            higher > offset
        ),
        f"its coordinator has {at_home}, committed earlier than {offset}": (
            at_home is not None and at_home > offset
        ),
        "it is older than --within: it may have been deleted, or have expired, without a trace left": (
            newest.committed_ms < kept_since_ms
        ),
    }
    reason = next((why for why, holds in doubts.items() if holds), "")
    mend = Mend.CONFLICT if reason else Mend.RESTORE
    return Repair(mend=mend, chosen=newest, others=tuple(others), reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRepair:
    """What the log says of every key that has a commit elsewhere; ``against`` is why nothing may be committed
    (empty: it may)."""

    audit: Placement
    repairs: tuple[Repair, ...]
    against: str = ""

    @property
    def counts(self) -> Mapping[Mend, int]:
        """How many offsets are restored, left alone, left to a person."""
        counted = Counter(each.mend for each in self.repairs)
        return {mend: counted[mend] for mend in Mend}

    @property
    def count(self) -> int:
        """By how many partitions the log was read."""
        return self.audit.facts.log.count if self.audit.facts.log else 1

    @property
    def old(self) -> bool:
        """Whether a broker runs the OLD coordinator, whose one cache may hide a commit behind a stray."""
        return self.audit.facts.view.old

    @property
    def strays(self) -> Mapping[str, Sequence[tuple[int, bytes]]]:
        """Partition and key of everything live outside its group's partition, commits or not, by group."""
        return self.audit.facts.log.strays if self.audit.facts.log else {}

    def of(self, mend: Mend) -> tuple[Repair, ...]:
        """Those of this kind."""
        return tuple(each for each in self.repairs if each.mend is mend)


def plan_repair(
    views: PlacementViews, log: OffsetsLog, within_ms: int, progress: LogProgress | None = None
) -> PlannedRepair:
    """Look and plan; nothing is changed. What was committed longer than ``within_ms`` before the look (or
    than offsets are kept) is left to a person. Nothing may be committed where it would not stay, or could
    undo what somebody else does. Raises as `audit_placement`."""
    audit = audit_placement(views, log, progress)
    facts, read = audit.facts, audit.facts.log
    since = facts.view.cluster.taken_at_ms - min(within_ms, retention_ms(facts.view))
    unmet = [f"X07: {written_by_others(read.others_wrote)}"] if read and read.others_wrote else []
    unmet += [
        f"{each.rule}: {each.reason} ({each.hint})"
        for each in audit.judgement.findings
        if each.rule in _DEMANDED and each.verdict is not Verdict.PASS
    ]
    planned = repairs(read.elsewhere, since, facts.topics) if read else ()
    return PlannedRepair(audit=audit, repairs=planned, against="; ".join(unmet))


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTools:
    """What a repair works with; ``erasing`` is for OLD coordinators."""

    views: PlacementViews
    log: OffsetsLog
    restoring: OffsetRestoring
    reader: ClusterGroups
    erasing: LogErasing


def repair(planned: PlannedRepair, tools: RepairTools) -> Restored:
    """Commit what is to be restored, for groups without members, and read it back; on OLD coordinators prove
    it in the log, and erase the strays of every group that is settled. Safe to repeat. A consumer that
    commits without being a member is not refused by its coordinator.

    Raises `Rejected` with `PlannedRepair.against`, `Transient` when tombstones do not show in the log yet,
    and as the ports."""
    if planned.against:
        raise Rejected(f"nothing was changed: {planned.against}")
    if planned.old:
        return _erased(planned, tools)
    done, wanted = Restored(), (each.chosen for each in planned.of(Mend.RESTORE))
    for some in some_groups(wanted, lambda each: each.group):  # each asked for right before
        left = _left_alone(tools.reader, some)
        done += Restored(differing=tuple(left.values()))
        rows = [each.row for each in some if key_of(each) not in left]
        done += restore_offsets(tools.restoring, tools.reader, rows)
    return done


def _left_alone(reader: GroupSnapshots, wanted: Sequence[Elsewhere]) -> dict[Key, NotRestored]:
    """What may not be committed now, and is left alone: its coordinator does not tell all of the group, or
    something else than the log said."""
    state = reader.take(sorted({each.group for each in wanted}))
    answered = {key_of(row): row for row in state.offsets}
    problems = {each.group: each.problem for each in state.problems if not each.of_listing}
    kept = {}
    for each in wanted:
        there, why = answered.get(key_of(each)), problems.get(each.group, "")
        says = None if there is None else there.offset
        if not why and says != each.at_home and (there is None or unlike(there, each)):
            why = f"somebody changed it: the log said {each.at_home}, its coordinator answers {says}"
        if why:
            kept[key_of(each)] = NotRestored(wanted=each.row, current=there, reason=why)
    return kept


def _erased(planned: PlannedRepair, tools: RepairTools) -> Restored:
    """Commit, prove it in the log, then erase the strays of every group of which nothing is left to a person,
    that nobody uses, and of which nothing was refused. Gone on with where it was cut off: what is committed
    at home already is newer than its strays."""
    busy = busy_groups(tools.views.look().cluster)
    # answers tell nothing of what changed since the look: a cache may hide what was committed
    present = {key_of(each): each for each in held(tools.log, planned.count).elsewhere}
    changed = {
        each.chosen.group: "somebody committed or deleted it since the look"
        for each in planned.repairs
        if (there := present.get(key_of(each.chosen))) is None or there.at_home != each.chosen.at_home
    }
    left = dict.fromkeys(busy, _BUSY)
    left |= dict.fromkeys((each.chosen.group for each in planned.of(Mend.CONFLICT)), UNDECIDED) | changed
    to_restore = [each.chosen.row for each in planned.of(Mend.RESTORE)]
    wanted = [row for row in to_restore if row.group not in left]
    untouched = [row for row in to_restore if row.group in busy | changed.keys()]
    refused = tools.restoring.commit(wanted)
    logged = {key_of(row): said(row) for row in held(tools.log, planned.count).commits}
    differing = tuple(
        NotRestored(wanted=row, current=None, reason=refused.get(row.group, "it is not in the log"))
        for row in wanted
        if row.group in refused or logged.get(key_of(row)) != said(row)
    )
    left |= {each.wanted.group: each.reason for each in differing}
    strays = {group: keys for group, keys in planned.strays.items() if group not in left}
    tools.erasing.erase([key for keys in strays.values() for key in keys])
    still = sorted(strays.keys() & held(tools.log, planned.count).strays.keys())
    if still:
        raise Transient(
            f"strays of {len(still)} groups are still in the log, {still[0]!r} first; run it again"
        )
    alone = (NotRestored(wanted=row, current=None, reason=left[row.group]) for row in untouched)
    return Restored(
        equal=len(wanted) - len(differing),
        differing=(*differing, *alone),
        erased=frozenset(strays),
        strays_left={group: left[group] for group in sorted(planned.strays.keys() - strays.keys())},
    )
