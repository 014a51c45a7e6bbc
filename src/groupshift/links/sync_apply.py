"""Applies a plan: looks again at each group right before its offsets are written, and reads them back.

Any number of processes may plan, one applies: `Lease` is a claim of the journal on the link. What is written
of a group is written down, in the topic of positions and in the journal, after it was read back. A process
that is killed anywhere leaves nothing half done: the next one plans again, and writes what is missing.

Decided here:

* Positions are in the journal, a step of the lease's run for each group, and what is proven is in the
  target's topic, too: a fail-over reads that alone. What is only conservative is in the journal alone.
* The lease is one closed run of the journal for each link, which is open while somebody holds it. So a move
  of the link, an expansion of the target's offsets topic or a second sync cannot begin meanwhile, and a sync
  is one line in the list of runs and not one a cycle.
* A group whose commit on the source went back since the plan is not written: the planned offset would skip.
  One whose commit went on is: the planned offset only has more records read again, until the next cycle.
* A group without members whose commit on the target is neither the planned one, nor ours, nor what the plan
  saw, is in use by a consumer that joins no group: it is left alone.
* A commit that retention of the source has passed is kept as proven where its own place is: the log start is
  never translated in its stead, so what the target still has lies behind the position.
* Metadata that begins with ``kpr1;`` is dropped: it holds offsets of the source. All other metadata is copied
  byte for byte, and compared when it is read back.
* Rows that the plan skipped stay as they are: only the next plan looks at them again.

Source: docs/reference/cross-cluster-offsets.md §9 (steps 1 to 9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace

from groupshift.domain.foreign_text_quoting import command
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.plain import from_plain
from groupshift.domain.rows import OffsetRow
from groupshift.domain.run import RunState, StepRecord, StepState, Target, canonical, make_plan
from groupshift.domain.verdict import Verdict
from groupshift.errors import Conflict, Fenced, GroupshiftError, Rejected
from groupshift.links.ports import GroupPartition
from groupshift.links.proven_positions import PositionKey, ProvenPosition
from groupshift.links.sync import require_two_clusters, row_of
from groupshift.links.sync_look import (
    Look,
    OpenLink,
    Position,
    Positions,
    TargetLook,
    look_at,
    look_at_target,
    observation_of,
)
from groupshift.links.sync_plan import SyncPlan, SyncRow
from groupshift.links.translation import Certainty, Method, OffsetPair, Reason
from groupshift.links.write_rules import (
    Action,
    Decision,
    Failure,
    Observation,
    TopicIds,
    confirm,
    decide,
    explain,
    refuse,
)
from groupshift.ports.changes import refusal_of
from groupshift.ports.clock import Clock, CrashPoint
from groupshift.ports.runs import Entry, EventKind, NewEvent, RunRecord, Runs

MOVE = "sync"
"""The move of the runs that are leases."""
GROUPS_AT_ONCE = 100
_POSITIONS = "positions"
_PLAIN = tuple(each.name for each in fields(Position))
_IN_STEP = frozenset({Reason.OK, Reason.OK_NEW_GROUP})


@dataclass(slots=True, kw_only=True)
class Lease:
    """The right to write over a link: a claim of the journal with its fencing ``token``. ``said`` and
    ``verdict`` are written down at its end."""

    link: str
    runs: Runs
    run: str
    token: int
    clock: Clock
    said: str = "nothing was written"
    verdict: Verdict = Verdict.INCONCLUSIVE

    def begin(self) -> None:
        """Open the run of the lease. Raises `Conflict` where an open run is in the way."""
        self._append(state=RunState.RUNNING)

    def require(self) -> None:
        """Raise `Fenced` where another process took the lease over."""
        held = self.runs.held(self.run)
        if held is None or held.token != self.token:
            who = held.holder if held else "nobody"
            raise Fenced(f"{who} took the link over: nothing more is written here")

    def keep(self, steps: Iterable[StepRecord]) -> None:
        """Write what the steps say. Raises as `require`."""
        self._append(steps=tuple(steps))

    def end(self) -> None:
        """Let the link go, and write down what was done."""
        closed = {
            "state": RunState.MOVED.value,
            "verdict": self.verdict.value,
            "reason": self.said,
            "next": command("groupshift", MOVE, "status", "--link", self.link),
        }
        stopped = {"detail": self.said, "only_rollback_helps": False}
        events = (
            NewEvent(kind=EventKind.CLOSED, body=closed),
            NewEvent(kind=EventKind.STOPPED, body=stopped),
        )
        self._append(events=events, state=RunState.MOVED)

    def _append(
        self,
        *,
        events: tuple[NewEvent, ...] = (),
        steps: tuple[StepRecord, ...] = (),
        state: RunState | None = None,
    ) -> None:
        at_ms = self.clock.now_ms()
        self.runs.append(
            Entry(run=self.run, at_ms=at_ms, token=self.token, events=events, steps=steps, state=state)
        )


@contextmanager
def lease(
    at: OpenLink, runs: Runs, holder: str, *, requester: str = "", take_over: bool = False
) -> Iterator[Lease]:
    """Hold the link while it is written; ``holder`` is a name that no other process has.

    ``take_over``: also where another process holds it, which is gone. A process that is killed keeps it.

    Raises:
        Fenced: another process holds it.
        Conflict: an open run is in the way, of the link or of the target cluster.
    """
    target = _target_of(at)
    run = _run_of(runs, target, at.clock, requester)
    try:
        token = runs.claim(run, holder, at.clock.now_ms(), anew=True, take_over=take_over)
        held = Lease(link=at.link.name, runs=runs, run=run, token=token, clock=at.clock)
        held.begin()
    except Fenced:
        claim = runs.held(run)
        raise Fenced(
            f"link {at.link.name} is being written by {claim.holder if claim else 'another process'}; wait "
            "until it ends, or add --take-over if that process is gone"
        ) from None
    try:
        yield held
    except (GroupshiftError, KeyboardInterrupt) as why:
        if not isinstance(why, Fenced):
            held.end()
        raise
    held.end()


def _run_of(runs: Runs, target: Target, clock: Clock, requester: str) -> str:
    """The run that is the lease of a link; made where there is none."""
    if not _leases(runs, target):
        now, plan = clock.now_ms(), make_plan(())
        record = RunRecord(
            run=f"{MOVE}-{target.name}-{now}",
            move=MOVE,
            target=target,
            state=RunState.MOVED,
            plan=plan.text,
            plan_hash=plan.hash,
            request=canonical({}),
            requester=requester,
            created_at_ms=now,
            updated_at_ms=now,
        )
        with suppress(Conflict):  # another process made it in the same moment
            runs.create(record)
    return _leases(runs, target)[0].run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """An offset that is about to be written."""

    row: SyncRow
    cell: Observation
    decision: Decision

    @property
    def offset_row(self) -> OffsetRow:
        """What is committed: no leader epoch, for those of the source mean nothing on the target."""
        return OffsetRow(
            group=self.row.group,
            topic=self.row.target.topic,
            partition=self.row.target.partition,
            offset=self.decision.x or 0,
            metadata=self.row.metadata,
            topic_id=self.cell.ids_now.target,
        )

    def as_row(self, decision: Decision) -> SyncRow:
        """The row of the plan with what became of it."""
        now = row_of(self.cell, decision)
        return replace(
            self.row,
            t_start=now.t_start,
            t_end=now.t_end,
            t_current=now.t_current,
            x=decision.x if decision.x is not None else self.row.x,
            action=decision.action,
            reason=decision.reason,
            est_lost=now.est_lost,
            said=explain(self.cell, decision),
        )


def lease_of(at: OpenLink, runs: Runs) -> str:
    """Return who holds the link now, as far as the journal tells; empty: nobody does."""
    for record in _leases(runs, _target_of(at)):
        held = runs.held(record.run)
        return held.holder if held and record.state.is_open and not held.stopped else ""
    return ""


def _target_of(at: OpenLink) -> Target:
    return Target(kind="link", name=at.link.name, within=at.target.cluster_id())


def _leases(runs: Runs, target: Target) -> list[RunRecord]:
    """The lease of a link, none where it was never held; the first, where two processes made one."""
    return [record for record in runs.of_target(target) if record.move == MOVE][-1:]


def positions_of(at: OpenLink, runs: Runs) -> Positions:
    """Return the positions of a link as the journal has them."""
    leases = _leases(runs, _target_of(at))
    steps = runs.steps(leases[0].run).values() if leases else ()
    rows = (from_plain(Position, row) for step in steps for row in step.result.get(_POSITIONS, ()))
    return {each.key: each for each in rows}


class KeptPositions:
    """The newest position of each group and partition. New ones are written together (`flush`): all to the
    journal, and those that are proven to the target's topic, too (§8.1)."""

    def __init__(self, at: OpenLink, held: Lease) -> None:
        self._at, self._held = at, held
        at.positions.prepare()
        self.last: dict[GroupPartition, Position] = dict(positions_of(at, held.runs))
        self._by_group: dict[str, dict[GroupPartition, Position]] = {}
        for key, position in self.last.items():
            self._by_group.setdefault(key.group, {})[key] = position
        self._new: dict[GroupPartition, Position] = {}

    def offer(self, row: SyncRow) -> None:
        """Take the position of a row that is in step."""
        is_written = row.action is Action.WRITE and row.reason is not Reason.RACED
        if not (row.reason in _IN_STEP or is_written) or row.c is None or row.x is None:
            return
        self.put(
            row.key,
            row.target,
            OffsetPair(row.c, row.x),
            TopicIds(row.source_id, row.target_id),
            is_proven=row.certainty is Certainty.EXACT_PROVEN,
        )

    def put(
        self, key: GroupPartition, target: TopicPartition, at: OffsetPair, ids: TopicIds, *, is_proven: bool
    ) -> None:
        """Take the position of a group and partition: what it committed, and what is on the target now."""
        former = self.last.get(key)
        same = former is not None and (former.source_id, former.target_id) == (ids.source, ids.target)
        proven = at if is_proven else former.proven if former and same else None
        if former and same and (former.committed, former.written, former.proven) == (*at, proven):
            return
        position = Position(
            group=key.group,
            source=key.partition,
            target=target,
            committed=at.source,
            written=at.target,
            source_id=ids.source,
            target_id=ids.target,
            proven=proven,
            at_ms=self._at.clock.now_ms(),
        )
        self.last[key] = self._new[key] = self._by_group.setdefault(key.group, {})[key] = position

    def forget(self, rows: Iterable[SyncRow]) -> None:
        """Forget the positions of partitions that are gone on the source (§9 step 8)."""
        gone = [row for row in rows if row.reason is Reason.SKIP_TOPIC_MISSING and row.source_tp]
        lost = [self.last.pop(row.key) for row in gone if row.s_end is None and row.key in self.last]
        for each in lost:
            del self._by_group[each.group][each.key]
        if lost:
            self._at.positions.forget([_proven_key(each) for each in lost])
            self._held.keep(self._steps({each.group for each in lost}))

    def flush(self) -> None:
        """Write what is new. Raises `Fenced`."""
        if not self._new:
            return
        self._held.require()
        proven = {
            _proven_key(each): ProvenPosition(
                source_topic=each.source.topic,
                source_offset=each.proven.source,
                target_offset=each.proven.target,
                source_topic_id=each.source_id or "",
                target_topic_id=each.target_id or "",
                certainty=Certainty.EXACT_PROVEN,
                proven_at_ms=each.at_ms,
            )
            for each in self._new.values()
            if each.proven == (each.committed, each.written)
        }
        if proven:
            self._at.positions.write(proven)
        self._held.keep(self._steps({key.group for key in self._new}))
        self._new.clear()

    def _steps(self, groups: Iterable[str]) -> Iterator[StepRecord]:
        """A step for each of these groups, with all of its positions."""
        for group in sorted(groups):
            positions = self._by_group[group].values()
            yield StepRecord(
                key=group,
                state=StepState.DONE,
                token=self._held.token,
                at_ms=max((each.at_ms for each in positions), default=0),
                result={
                    _POSITIONS: [{name: getattr(each, name) for name in _PLAIN} for each in positions],
                },
            )


def _proven_key(position: Position) -> PositionKey:
    return PositionKey(position.group, *position.target)


def apply_plan(
    at: OpenLink,
    plan: SyncPlan,
    held: Lease,
    *,
    kept: KeptPositions | None = None,
    groups_at_once: int = GROUPS_AT_ONCE,
) -> SyncPlan:
    """Write what a plan says, group by group, and return it with what became of each row.

    Positions are written with each batch of groups; with ``kept`` the caller writes them when he wants to.

    Raises:
        Rejected: the plan is too old, or of other clusters; nothing was written.
        Fenced: another process took the lease over.
        Transient: the source does not answer; what was written stays, and is read back by the next plan.
    """
    _require_usable(at, plan)
    own = kept or KeptPositions(at, held)
    rows: dict[GroupPartition, SyncRow] = {}
    for row in plan.rows:
        if row.action is Action.SKIP and row.source_tp:
            own.offer(row)
    by_group = grouped((row.group, row) for row in plan.rows if row.action is Action.WRITE)
    names = sorted(by_group)
    for start in range(0, len(names), groups_at_once):
        batch = [row for name in names[start : start + groups_at_once] for row in by_group[name]]
        for row in _write(at, plan, held, own.last, batch):
            rows[row.key] = row
            own.offer(row)
        if kept is None:
            own.flush()
    own.forget(plan.rows)
    if kept is None:
        own.flush()
    applied = plan.with_rows(rows)
    held.said = f"{applied.writes:,} offsets were written: {applied.counts_text}"
    held.verdict = Verdict.PASS if applied.is_clean else Verdict.INCONCLUSIVE
    return applied


def _require_usable(at: OpenLink, plan: SyncPlan) -> None:
    age_s = (at.clock.now_ms() - plan.made_ms) / 1000
    if abs(age_s) > plan.request.plan_max_age_s:
        raise Rejected(
            f"the plan is {age_s:.0f} s old, and plan_max_age_s is {plan.request.plan_max_age_s}; plan again"
        )
    if plan.request.link != at.link.name:
        raise Rejected(f"the plan is of link {plan.request.link}, not of {at.link.name}; plan again")
    for side, planned, met in zip(
        ("source", "target"),
        (plan.source_cluster, plan.target_cluster),
        require_two_clusters(at),
        strict=True,
    ):
        if planned != met:
            raise Rejected(f"the plan's {side} cluster is {planned}, and {met} answers; plan again")


def _write(
    at: OpenLink,
    plan: SyncPlan,
    held: Lease,
    positions: Positions,
    rows: Sequence[SyncRow],
) -> list[SyncRow]:
    """Look again, write what may be written, and read it back; returns what became of each row."""
    step = f"{MOVE} {at.link.name}"
    topics = {row.key.partition.topic for row in rows}
    look = look_at(at, sorted({row.group for row in rows}), topics)
    decided = [_decided(plan, row, look, positions.get(row.key)) for row in rows]
    writes = [each for each in decided if each.decision.action is Action.WRITE]
    held.require()
    at.crash.reached(step, CrashPoint.BEFORE_JOURNAL)
    refused: Mapping[str, str] = {}
    if writes:
        fenced = plan.request.fenced_writes
        refused = at.target.commit([each.offset_row for each in writes], fenced=fenced)
    at.crash.reached(step, CrashPoint.AFTER_ACT)
    after = look_at_target(at, sorted({each.row.group for each in writes}))
    at.crash.reached(step, CrashPoint.AFTER_READ_BACK)
    return [each.as_row(_outcome(each, refused, after)) for each in decided]


def _decided(plan: SyncPlan, row: SyncRow, look: Look, position: Position | None) -> _Write:
    """The decision about a planned row as everything is now."""
    current = observation_of(look, row.key, position, row.t_current, row.x)
    c = current.source_commit
    cell = replace(
        current,
        target=row.target,
        source_commit=row.c if isinstance(c, int) else c,
        translation=Failure("the plan has no offset") if row.translated is None else row.translated,
        preserves_offsets=row.method is Method.IDENTITY,
        ids_before=TopicIds(row.source_id, row.target_id),
    )
    decision = decide(cell, policy=plan.request.rewind_policy)
    if decision.action is Action.WRITE and isinstance(c, int) and c < (row.c or 0):
        decision = refuse(decision, "went_back_since_plan", str(c))
    return _Write(row=row, cell=cell, decision=decision)


def _outcome(write: _Write, refused: Mapping[str, str], after: TargetLook) -> Decision:
    decision, wanted = write.decision, write.offset_row
    if decision.action is Action.SKIP:
        return decision
    if why := refusal_of(refused, wanted):
        return refuse(decision, "refused", why)
    row = after.commits.get(GroupPartition(wanted.group, wanted.at))
    commit: int | Failure | None = row.offset if row else None
    if row is None and wanted.group in after.unread:
        commit = Failure(after.unread[wanted.group])
    elif row and row.offset == wanted.offset and differs(row, wanted):
        commit = Failure("its metadata or leader epoch is not the one that was written")
    return confirm(decision, state=after.states.get(wanted.group, Failure("no answer")), target_commit=commit)


def differs(one: OffsetRow, other: OffsetRow) -> bool:
    """Whether metadata or leader epoch differ; none and empty, none and -1 are stored alike."""
    epochs = {-1 if each.leader_epoch is None else each.leader_epoch for each in (one, other)}
    return len(epochs) > 1 or (one.metadata or "") != (other.metadata or "")
