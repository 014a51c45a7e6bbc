"""Follows the commits of the source: each is on the target a moment later.

`Follower.step` polls the tail of the source's offsets topic once. Commits only say which groups to look at:
what is written is planned and applied as in any cycle, from the commits that are there by then. Those of a
group are collected for 200 ms, and groups that are due are synced together.

Decided here:

* The first step, and every one while the tail is behind, is a cycle over all groups: what the tail has not
  reached yet is found by that. It is said when that begins and when it ends.
* A group whose offset is not exact yet (the copies, or the sync, are not there), or that is skipped, is tried
  again without a new commit: after one second, then after twice the time before, up to the cycle interval.
* Most commits need no thought: everything is plain, and `write_plain` writes them after one look at the
  target. A group of which anything is not is planned and applied as in any cycle.
* A commit on the target that is neither ours nor there since the last look is somebody's who uses the group
  without being its member: the group is left alone until it stays. Where a group is met for the first time
  with such a commit, half a second passes between plan and write, to see it.
* Positions are written down every few seconds and at the end, not with each batch. So a fail-over goes on at
  most that much earlier.
* A group is stale since its oldest commit that is not on the target. A gate is closed by a stale group, and
  by one of which nothing is known: while the tail is behind, every group counts as stale since then.

Source: docs/reference/cross-cluster-offsets.md §9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from groupshift.domain.commit_places import FORMER
from groupshift.domain.group_protocol import EMPTY
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Transient
from groupshift.links.ports import CommitTail, GroupPartition, TailBatch
from groupshift.links.sync import LEDGER, SyncPlanner
from groupshift.links.sync_apply import KeptPositions, Lease, apply_plan, differs
from groupshift.links.sync_look import (
    NOTHING_THERE,
    Look,
    OpenLink,
    Position,
    TargetLook,
    commits_of,
    id_of,
    id_of_commit,
    log_of,
    look_at_logs,
    look_at_target,
)
from groupshift.links.sync_plan import SyncPlan, SyncRequest, SyncRow
from groupshift.links.translation import Certainty, OffsetPair, Reason, Translation
from groupshift.links.write_rules import ABSENT, Action, Failure, LogRange, TopicIds
from groupshift.ports.changes import refusal_of

COALESCE_MS = 200
_RETRY_MS = 1_000
_KEEP_MS = 5_000
_POLL_S = 0.05
_CONTACT_S = 0.5
_TIMES = 64
"""Times of commits that are remembered of a group."""
_ARRIVED = frozenset({Reason.OK, Reason.OK_NEW_GROUP, Reason.CLAMPED_LOW})


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRules:
    """When what is done, in ms: ``behind_ms`` is how far the tail may be behind, ``cycle_ms`` the time from
    one cycle to the next while it is."""

    coalesce_ms: int = COALESCE_MS
    behind_ms: int = 10_000
    cycle_ms: int = 30_000


@dataclass(slots=True)
class _Pending:
    """A group that is not in step: the times of its commits (epoch ms, ours), the oldest first; when it is
    ``due``; and how often it was tried."""

    due_ms: int
    times: deque[int] = field(default_factory=deque)
    tries: int = 0


class CommitQueue:
    """The groups that have commits which are not on the target."""

    def __init__(self, rules: FollowRules) -> None:
        self._rules = rules
        self._pending: dict[str, _Pending] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, batch: TailBatch, now_ms: int) -> None:
        """Take commits; a group is due so long after the first of them."""
        for group, times in grouped((key.group, at_ms) for key, at_ms in batch.commits).items():
            due_ms = now_ms + self._rules.coalesce_ms
            pending = self._pending.setdefault(group, _Pending(due_ms))
            pending.due_ms = min(pending.due_ms, due_ms)
            if len(pending.times) >= _TIMES:  # the oldest says how stale it is, the newest when it is not
                pending.times.pop()
            pending.times.append(min(times) if not pending.times else max(times))

    def groups(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._pending)

    def due(self, now_ms: int) -> list[str]:
        """The groups to be synced now."""
        return sorted(group for group, each in self._pending.items() if each.due_ms <= now_ms)

    def settle(self, group: str, *, looked_ms: int) -> None:
        """The group was in step at ``looked_ms``: only commits after that are pending."""
        pending = self._pending.get(group)
        if pending is None:
            return
        pending.tries = 0
        while pending.times and pending.times[0] <= looked_ms:
            pending.times.popleft()
        if pending.times:
            pending.due_ms = looked_ms + self._rules.coalesce_ms
        else:
            del self._pending[group]

    def put_off(self, group: str, now_ms: int) -> None:
        """The group is not in step: try again later, without a new commit, too."""
        pending = self._pending.setdefault(group, _Pending(now_ms, deque([now_ms])))
        pending.due_ms = now_ms + min(_RETRY_MS << min(pending.tries, 16), self._rules.cycle_ms)
        pending.tries += 1

    def stale_ms(self, group: str, now_ms: int) -> int:
        """Since when its oldest commit that is not on the target is waiting; 0: there is none."""
        pending = self._pending.get(group)
        return max(0, now_ms - pending.times[0]) if pending and pending.times else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """What was written without a plan: the groups that are in step now, and how many offsets it took."""

    groups: frozenset[str] = frozenset()
    writes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step did; ``plan`` is None where no group needed one."""

    plain: Plain = Plain()
    plan: SyncPlan | None = None

    @property
    def writes(self) -> int:
        """How many offsets were written."""
        return self.plain.writes + (self.plan.writes if self.plan else 0)


def write_plain(
    at: OpenLink, planner: SyncPlanner, held: Lease, kept: KeptPositions, groups: Collection[str]
) -> Plain:
    """Write the offsets of those groups of which everything is plain, without a plan and a second look.

    Plain is what `groupshift.links.write_rules.decide` would write under any policy, or find in step: nothing
    is filtered, clamped, rewound, of another topic, or used by somebody else, and each offset is exact-proven
    with all records before it on the target. All others are left as they are. Raises as `apply_plan`."""
    commits, unread = commits_of(at.source.committed(groups))
    at.syncs.read()
    look = replace(look_at_logs(at, commits, unread, NOTHING_THERE), sync_log_end=at.syncs.log_end())
    topics = {topic for topic in look.copies if planner.accepts_topic(topic)}
    offsets = grouped((key.partition, row.offset) for key, row in commits.items() if row.offset >= 0)
    wanted = {partition: some for partition, some in offsets.items() if partition.topic in topics}
    readers = None
    with suppress(Transient):  # else each is opened by itself, and fails by itself
        readers = planner.readers(wanted, look)
    places = {
        each: _Place.of(look, each, planner.translations(each, some, look, readers))
        for each, some in wanted.items()
    }
    target = look_at_target(at, groups)
    hidden = unread.keys() | target.unread.keys()
    cells: dict[str, list[_Cell]] = {group: [] for group in groups if group not in hidden}
    for key, row in commits.items():
        if key.group in cells and row.topic in topics:
            cell = _plain_cell(places.get(key.partition), target, kept.last.get(key), key, row)
            if cell is None:
                del cells[key.group]
            else:
                cells[key.group].append(cell)
    states = target.states
    cells = {group: each for group, each in cells.items() if _is_unused(states.get(group)) and each}
    writes = [cell for each in cells.values() for cell in each if not cell.is_there]
    if writes:
        held.require()
        refused = at.target.commit([cell.row for cell in writes])
        after = look_at_target(at, {cell.row.group for cell in writes})
        ahead = {cell.row.group for cell in writes if not _is_written(cell, after, refused)}
        cells = {group: each for group, each in cells.items() if group not in ahead}
    for each in (cell for some in cells.values() for cell in some):
        pair = OffsetPair(each.committed, each.row.offset)
        kept.put(each.key, each.copy.partition, pair, each.ids, is_proven=True)
    return Plain(groups=frozenset(cells), writes=sum(cell.row.group in cells for cell in writes))


class _Place(NamedTuple):
    """What is alike for all groups of a partition: its log, its copy, the topic ids, and the translations."""

    log: LogRange | Failure | None
    copy: TopicPartition
    ids: TopicIds
    translations: Mapping[int | None, Translation | Failure]

    @classmethod
    def of(
        cls, look: Look, at: TopicPartition, translations: Mapping[int | None, Translation | Failure]
    ) -> _Place:
        """The place of a source partition."""
        copy = TopicPartition(look.copies[at.topic].topic or "", at.partition)
        ids = TopicIds(id_of(look.source_topics, at), id_of(look.target_topics, copy))
        return cls(log_of(look.source_topics, at), copy, ids, translations)


class _Cell(NamedTuple):
    """A group and partition of which everything is plain; ``copy`` is the same on the target, and
    ``is_there``: it has the offset."""

    key: GroupPartition
    copy: GroupPartition
    committed: int
    row: OffsetRow
    ids: TopicIds
    is_there: bool


def _plain_cell(
    place: _Place | None,
    target: TargetLook,
    former: Position | None,
    key: GroupPartition,
    row: OffsetRow,
) -> _Cell | None:
    """What is to be written of a commit; None where anything is out of the ordinary."""
    translation = place.translations.get(row.offset) if place else None
    if place is None or not isinstance(translation, Translation) or not _is_plain(translation):
        return None
    x, copy = translation.x, GroupPartition(key.group, place.copy)
    there = target.commits.get(copy)
    ours = {-1, x, former and former.written}
    is_used = there is not None and (there.topic_id == FORMER or there.offset not in ours)
    is_former = id_of_commit(row, former, place.ids.source, place.log) != place.ids.source
    if x is None or is_used or is_former or (there is not None and there.offset > x):
        return None
    wanted = OffsetRow(
        group=key.group,
        topic=place.copy.topic,
        partition=place.copy.partition,
        offset=x,
        metadata="" if (row.metadata or "").startswith(LEDGER) else row.metadata,
        topic_id=place.ids.target,
    )
    return _Cell(key, copy, row.offset, wanted, place.ids, there is not None and there.offset == x)


def _is_plain(translation: Translation) -> bool:
    """Whether a translation is exact, within the target's log, and the link is not behind it."""
    evidence = translation.evidence
    is_exact = translation.certainty is Certainty.EXACT_PROVEN and translation.reason is Reason.OK
    return is_exact and not (evidence.is_behind or evidence.expired)


def _is_unused(state: str | Failure | None) -> bool:
    return isinstance(state, str) and (state == EMPTY or state in ABSENT)


def _is_written(cell: _Cell, after: TargetLook, refused: Mapping[str, str]) -> bool:
    """Whether an offset was read back as it was written, in a group that is still without members."""
    there, row = after.commits.get(cell.copy), cell.row
    if there is None or not _is_unused(after.states.get(row.group)) or (refused and refusal_of(refused, row)):
        return False
    return there.offset == row.offset and not differs(there, row)


class Follower:
    """Keeps the groups of a link in step while somebody calls `step`; ``tell`` gets sentences for people."""

    def __init__(
        self,
        at: OpenLink,
        request: SyncRequest,
        held: Lease,
        tail: CommitTail,
        *,
        tell: Callable[[str], None],
        rules: FollowRules | None = None,
    ) -> None:
        self._at, self._held, self._tail, self._tell = at, held, tail, tell
        self._rules = rules or FollowRules()
        self._planner = SyncPlanner(at, request, compares=False)
        self._accepts, self._is_fenced = request.filters.accepts_group, request.fenced_writes
        self._kept = KeptPositions(at, held)
        self._queue = CommitQueue(self._rules)
        self._known: dict[GroupPartition, int | None] = {}
        """The commits on the target when this process looked last."""
        self._cycle_ms: int | None = None
        """When the last cycle began; None: there was none."""
        self._behind_since: int | None = None
        self._kept_ms = at.clock.now_ms()
        self.writes = 0
        """How many offsets were written."""

    def step(self) -> Step:
        """Poll the tail once, and sync what is due.

        Raises as `SyncPlanner.plan` and `apply_plan`; what was due stays due."""
        batch = self._tail.poll(_POLL_S)
        now_ms = self._at.clock.now_ms()
        self._queue.add(
            TailBatch(commits=[each for each in batch.commits if self._accepts(each[0].group)]), now_ms
        )
        self._note_behind(batch.behind_ms, now_ms)
        step = Step()
        if self._cycle_ms is None or (
            self._behind_since is not None and now_ms - self._cycle_ms >= self._rules.cycle_ms
        ):
            step = Step(plan=self._sync(None))
            self._cycle_ms = now_ms
        elif self._behind_since is None and (due := self._queue.due(now_ms)):
            step = self._sync_due(due)
        self.writes += step.writes
        if now_ms - self._kept_ms >= _KEEP_MS:
            self._kept.flush()
            self._kept_ms = now_ms
        return step

    def _sync_due(self, groups: list[str]) -> Step:
        """Write what needs no thought, and plan the rest."""
        looked_ms, plain = self._at.clock.now_ms(), Plain()
        if not self._is_fenced:
            plain = write_plain(self._at, self._planner, self._held, self._kept, groups)
        for group in plain.groups:
            self._queue.settle(group, looked_ms=looked_ms)
        left = [group for group in groups if group not in plain.groups]
        return Step(plain=plain, plan=self._sync(left) if left else None)

    def _note_behind(self, behind_ms: int, now_ms: int) -> None:
        rules = self._rules
        if self._behind_since is None and behind_ms > rules.behind_ms:
            self._behind_since = now_ms - behind_ms
            self._tell(
                f"the tail of the source's commits is {behind_ms / 1000:.0f} s behind: all groups are synced "
                f"every {rules.cycle_ms / 1000:.0f} s until it has caught up"
            )
        elif self._behind_since is not None and behind_ms <= rules.coalesce_ms:
            self._behind_since = None
            self._tell("the tail has caught up: groups are synced on commit again")

    def _sync(self, groups: Iterable[str] | None) -> SyncPlan:
        plan = self._planner.plan(groups, self._kept.last, self._known)
        rows = [row for row in plan.rows if row.action is Action.WRITE and row.t_current is not None]
        if any(row.key not in self._known for row in rows):
            self._at.clock.sleep(_CONTACT_S)
        applied = apply_plan(self._at, plan, self._held, kept=self._kept)
        self._known |= {row.key: row.t_current for row in applied.rows if row.source_tp}
        by_group = grouped((row.group, row) for row in applied.rows)
        for group, rows in by_group.items():
            if all(map(_is_in_step, rows)):
                self._queue.settle(group, looked_ms=plan.made_ms)
            else:
                self._queue.put_off(group, self._at.clock.now_ms())
        for group in set(groups or ()) - by_group.keys():  # it has no commit any more
            self._queue.settle(group, looked_ms=plan.made_ms)
        return applied

    def stale_ms(self, group: str) -> int:
        """For how many ms a commit of this group has been waiting to be on the target; 0: it is fresh."""
        now_ms = self._at.clock.now_ms()
        behind = 0 if self._behind_since is None else now_ms - self._behind_since
        return max(behind, self._queue.stale_ms(group, now_ms))

    def stale(self) -> Mapping[str, int]:
        """The groups that have commits which are not on the target, with `stale_ms` of each."""
        return {group: self.stale_ms(group) for group in self._queue.groups()}

    def is_fresh(self, groups: Iterable[str], *, at_most_ms: int) -> bool:
        """Whether the gate is open for these groups; it is closed before the first cycle."""
        return self._cycle_ms is not None and all(self.stale_ms(group) <= at_most_ms for group in groups)

    def close(self) -> None:
        """Write down the positions that are new."""
        self._kept.flush()


def _is_in_step(row: SyncRow) -> bool:
    """Whether nothing better is to be expected of a row: its offset arrived, is exact, and the link is not
    behind it; or the target is ahead; or it was left out on purpose."""
    if row.reason in {Reason.SKIP_FILTERED, Reason.SKIP_WATERMARK}:
        return True
    if row.evidence.get("is_behind"):
        return False
    return row.reason in _ARRIVED and (row.certainty is Certainty.EXACT_PROVEN or not row.est_again)
