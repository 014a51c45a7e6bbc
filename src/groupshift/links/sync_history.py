"""The offset syncs of one partition: all of them, not the 64 that MirrorMaker keeps.

`SyncHistory` is built by appending, in the order of the offset-syncs topic, and may be asked at any time. It
holds the syncs of the current *epoch* only, because no other may translate: an epoch is the time in which
source offsets and target offsets keep their meaning. Within it, a *run* is one pass of the replicator: a new
one begins where the replicator goes back and copies again.

Of a replay that has not yet passed everything that was copied before, the syncs do not translate: records
that are not copied again yet stand behind them only as old copies (H10). Replayed records of which no sync
exists cannot be known here; for that, the target itself has to be read (`SyncHistory.replay_sign`).

Times are in ms since the epoch of Unix. A history is for one thread.

Source: docs/reference/cross-cluster-offsets.md §§4.3, 8, 8.1, 9.2; KIP-516 (topic ids).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from groupshift.errors import Rejected

REPLAY_GUARD_RECORDS = 100_000
REPLAY_GUARD_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """The record at source offset ``upstream`` was acknowledged at target offset ``downstream``.

    ``log_offset`` and ``log_time_ms``: where and when the sync stands in the offset-syncs topic.
    """

    upstream: int
    downstream: int
    log_offset: int
    log_time_ms: int


@dataclass(frozen=True, slots=True)
class SyncOffset:
    """An offset of the other side, and the sync that it was computed from."""

    offset: int
    sync: Sync


class EpochEnd(StrEnum):
    """Why an epoch ended."""

    SOURCE_TOPIC_ID = "the topic id of the source changed"
    TARGET_TOPIC_ID = "the topic id of the target changed"
    TARGET_WENT_BACK = "a sync has a lower target offset than the one before"
    TARGET_END = "the log of the target ends before the newest sync"
    FORGOTTEN = "a tombstone says to forget the syncs before it"


class SyncEffect(StrEnum):
    """What a sync did to the history."""

    EPOCH = "began an epoch"
    RUN = "began a run"
    CONTINUED = "continued the run"
    DUPLICATE = "repeated the sync before it"
    BEFORE_EPOCH = "is older than the epoch"


class BeforeFirstSync(StrEnum):
    """What a committed offset below every sync becomes."""

    SKIP = "skip"
    EARLIEST = "earliest"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPair:
    """Both sides of a replicated partition at one moment.

    Topic ids are None where the brokers have none. Read in this order: the syncs, and then ``source_start``
    (S.start), ``target_end`` (T.end, the high watermark) and the ids, and at last ``sync_log_end``, the log
    end of the offset-syncs topic.
    """

    source_id: str | None
    target_id: str | None
    source_start: int
    target_end: int
    sync_log_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """The current epoch: its ``number``, why the one before ended, and the topic ids of both sides.

    Syncs before ``first_log_offset`` of the offset-syncs topic are not of it. ``source_start``: S.start at
    the last look before its first sync. None where nobody looked.
    """

    number: int = 0
    cause: EpochEnd | None = None
    source_id: str | None = None
    target_id: str | None = None
    source_start: int | None = None
    first_log_offset: int = 0


@dataclass(frozen=True, slots=True)
class ReplaySign:
    """Two neighbouring syncs between which the replicator may have copied records again: it went back, or
    the target grew by more than was new. The target has to be read from ``before.downstream`` on to know."""

    before: Sync
    after: Sync


class _Runs:
    """The runs in which the newest sync at or below an offset may lie, and which of them it is.

    Of two runs the older one matters only for offsets below the first of the newer one. So the first source
    offsets of the runs that are kept rise, and one bisection finds the run.
    """

    __slots__ = ("_first", "_run")

    def __init__(self) -> None:
        self._first = array("q")
        self._run = array("q")

    def push(self, run: int, first: int) -> None:
        """Add the newest run, and the source offset of its first sync."""
        while self._first and self._first[-1] >= first:
            self._first.pop()
            self._run.pop()
        self._first.append(first)
        self._run.append(run)

    def lowest_behind(self, run: int) -> int | None:
        """The lowest source offset of the first syncs of all newer runs; none if there is no newer one."""
        at = bisect_right(self._run, run)
        return self._first[at] if at < len(self._first) else None

    def newest(self, committed: int) -> int | None:
        """The newest run with a sync at or below ``committed``; none if there is none."""
        at = bisect_right(self._first, committed)
        return self._run[at - 1] if at else None


class SyncHistory:
    """All syncs of the current epoch of one partition, in the order of their log; see the module.

    ``epoch``: where to go on after a restart; the syncs of that epoch are then appended again.
    """

    def __init__(self, epoch: Epoch | None = None) -> None:
        self._begin(epoch or Epoch())

    def _begin(self, epoch: Epoch) -> None:
        self._epoch = epoch
        self._upstream, self._downstream = array("q"), array("q")
        self._log_offset, self._log_time_ms = array("q"), array("q")
        self._last_log_offset = epoch.first_log_offset - 1
        self._run_starts = array("q")
        self._all_runs, self._complete_runs = _Runs(), _Runs()
        self._complete = 0
        """So many runs, from the first on, translate: up to the newest that reached the highest offset."""
        self._highest = -1
        self._signs = array("q")
        """The syncs with a sign of a replay before them."""
        self._sign_latest_ms = array("q")
        """The latest time in the log up to each of those; times in the log may go back."""
        self._latest_ms = -1

    # -- building --------------------------------------------------------------------------------------

    def append(self, sync: Sync) -> SyncEffect:
        """Add the next sync of the log; returns what it did.

        Raises: `Rejected` for a negative offset, and for a sync that is not behind the last one in the log.
        """
        if min(sync.upstream, sync.downstream, sync.log_offset) < 0:
            raise Rejected(f"{sync} has a negative offset; give syncs as MirrorMaker wrote them")
        if sync.log_offset < self._epoch.first_log_offset:
            return SyncEffect.BEFORE_EPOCH
        if sync.log_offset <= self._last_log_offset:
            raise Rejected(
                f"a sync at log offset {sync.log_offset} follows one at {self._last_log_offset}; "
                "give each sync once and in the order of the log"
            )
        effect = self._effect(sync)
        if effect is SyncEffect.EPOCH and self._upstream:
            # whether the target was truncated or made anew is seen at the next look
            self._begin(
                Epoch(
                    number=self._epoch.number + 1,
                    cause=EpochEnd.TARGET_WENT_BACK,
                    source_id=self._epoch.source_id,
                    first_log_offset=sync.log_offset,
                )
            )
        self._last_log_offset = sync.log_offset
        if effect is not SyncEffect.DUPLICATE:
            self._add(sync, is_run_start=effect is not SyncEffect.CONTINUED)
        return effect

    def _effect(self, sync: Sync) -> SyncEffect:
        if not self._upstream:
            return SyncEffect.EPOCH
        upstream, downstream = self._upstream[-1], self._downstream[-1]
        if (sync.upstream, sync.downstream) == (upstream, downstream):
            return SyncEffect.DUPLICATE
        if sync.downstream <= downstream:
            # the same target offset for another record: what stood there is gone
            return SyncEffect.EPOCH
        return SyncEffect.RUN if sync.upstream <= upstream else SyncEffect.CONTINUED

    def _add(self, sync: Sync, *, is_run_start: bool) -> None:
        at = len(self._upstream)
        self._latest_ms = max(self._latest_ms, sync.log_time_ms)
        if at and sync.downstream - self._downstream[-1] > sync.upstream - self._upstream[-1]:
            self._signs.append(at)
            self._sign_latest_ms.append(self._latest_ms)
        self._upstream.append(sync.upstream)
        self._downstream.append(sync.downstream)
        self._log_offset.append(sync.log_offset)
        self._log_time_ms.append(sync.log_time_ms)
        if is_run_start:
            self._all_runs.push(len(self._run_starts), sync.upstream)
            self._run_starts.append(at)
        if sync.upstream >= self._highest:
            self._highest = sync.upstream
            for run in range(self._complete, len(self._run_starts)):
                self._complete_runs.push(run, self._upstream[self._run_starts[run]])
            self._complete = len(self._run_starts)

    def observe(self, pair: PartitionPair) -> EpochEnd | None:
        """Look at both sides: end the epoch if a topic is another one, or the target lost what a sync says.

        Returns why the epoch ended; None if it goes on. After it ended, only syncs from ``sync_log_end`` on
        count: those before may have been written for the topics as they were.
        """
        end = self._ended_by(pair)
        if end:
            number = self._epoch.number + 1
            self._begin(Epoch(number=number, cause=end, first_log_offset=pair.sync_log_end))
        self._epoch = replace(
            self._epoch,
            source_id=pair.source_id or self._epoch.source_id,
            target_id=pair.target_id or self._epoch.target_id,
            source_start=self._epoch.source_start if self._upstream else pair.source_start,
        )
        return end

    def _ended_by(self, pair: PartitionPair) -> EpochEnd | None:
        epoch = self._epoch
        if pair.source_id and epoch.source_id and pair.source_id != epoch.source_id:
            return EpochEnd.SOURCE_TOPIC_ID
        if pair.target_id and epoch.target_id and pair.target_id != epoch.target_id:
            return EpochEnd.TARGET_TOPIC_ID
        if self._downstream and pair.target_end <= self._downstream[-1]:
            return EpochEnd.TARGET_END
        return None

    # -- what is held ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._upstream)

    def __iter__(self) -> Iterator[Sync]:
        return map(self._sync, range(len(self)))

    @property
    def epoch(self) -> Epoch:
        """The current epoch."""
        return self._epoch

    @property
    def runs(self) -> int:
        """How many runs the epoch has."""
        return len(self._run_starts)

    @property
    def is_replaying(self) -> bool:
        """True while the newest run has not reached the highest source offset of all syncs."""
        return self._complete < len(self._run_starts)

    @property
    def first(self) -> Sync | None:
        """The oldest sync of the epoch; none if it has none."""
        return self._sync(0) if self._upstream else None

    @property
    def newest(self) -> Sync | None:
        """The newest sync of the epoch; none if it has none."""
        return self._sync(len(self._upstream) - 1) if self._upstream else None

    def _sync(self, at: int) -> Sync:
        return Sync(
            upstream=self._upstream[at],
            downstream=self._downstream[at],
            log_offset=self._log_offset[at],
            log_time_ms=self._log_time_ms[at],
        )

    # -- look-ups: O(log n) ----------------------------------------------------------------------------

    def conservative(self, committed: int) -> SyncOffset | None:
        """Return the target offset for a committed source offset, by the newest usable sync at or below it.

        It is the sync's target offset if the sync is of ``committed`` itself, else one more. None: no usable
        sync is that low (`before_first_sync`), or the epoch has none. The syncs of a replay that has not
        reached the highest source offset are not usable.
        """
        at = self._newest(self._complete_runs, committed)
        if at is None:
            return None
        sync = self._sync(at)
        return SyncOffset(sync.downstream + (committed > sync.upstream), sync)

    def anchor(self, committed: int) -> Sync | None:
        """Return the newest sync at or below a committed source offset, of an unfinished replay too."""
        at = self._newest(self._all_runs, committed)
        return None if at is None else self._sync(at)

    def next_sync(self, committed: int) -> Sync | None:
        """Return the first sync from the `anchor` on whose source offset is at or above ``committed``.

        None: there is none yet. Without an anchor it is the first sync of the epoch.
        """
        at = self._newest(self._all_runs, committed)
        if at is None:
            return self.first
        if self._upstream[at] < committed:
            at += 1  # every sync behind the anchor is above, else it would be the anchor
        return self._sync(at) if at < len(self._upstream) else None

    def _newest(self, runs: _Runs, committed: int) -> int | None:
        run = runs.newest(committed)
        if run is None:
            return None
        ends = self._run_starts[run + 1] if run + 1 < len(self._run_starts) else len(self._upstream)
        return bisect_right(self._upstream, committed, self._run_starts[run], ends) - 1

    def inverse(self, committed: int) -> SyncOffset | None:
        """Return the source offset for a committed target offset; none before the first sync.

        It is not above where a later run begins: that may be a source topic that was made anew, unknown to
        us, in which older offsets mean other records.
        """
        at = bisect_right(self._downstream, committed) - 1
        if at < 0:
            return None
        sync = self._sync(at)
        begin = self._all_runs.lowest_behind(bisect_right(self._run_starts, at) - 1)
        offset = sync.upstream + (committed > sync.downstream)
        return SyncOffset(offset if begin is None else min(offset, begin), sync)

    @property
    def default_before_first(self) -> BeforeFirstSync:
        """The policy where none is set: the target's log start if nothing older than the first sync was ever
        replicated, else no offset."""
        if self._upstream and self._upstream[0] == self._epoch.source_start:
            return BeforeFirstSync.EARLIEST
        return BeforeFirstSync.SKIP

    def before_first_sync(
        self, committed: int, *, target_start: int, policy: BeforeFirstSync | None = None
    ) -> int | None:
        """Return the target offset where `conservative` has none, by ``policy`` or by the default.

        None: write nothing. An epoch without a sync has no offset by any policy.

        Raises: `Rejected` where the policy is ``fail``.
        """
        if not self._upstream:
            return None
        match policy or self.default_before_first:
            case BeforeFirstSync.EARLIEST:
                return target_start
            case BeforeFirstSync.FAIL:
                raise Rejected(
                    f"committed offset {committed} lies before the first offset sync ({self._upstream[0]}); "
                    f"set before.first.sync to {BeforeFirstSync.SKIP} or {BeforeFirstSync.EARLIEST}, "
                    "or wait until the group has passed it"
                )
        return None

    def replay_sign(
        self,
        *,
        target_end: int,
        now_ms: int,
        records: int = REPLAY_GUARD_RECORDS,
        ms: int = REPLAY_GUARD_MS,
    ) -> ReplaySign | None:
        """Return the oldest sign of a replay in the last ``records`` before T.end or the last ``ms``.

        A sign is a run boundary, or two neighbouring syncs between which the target grew by more offsets than
        the source; foreign records and markers of the target look the same. None: there is no sign.
        """
        by_offset = bisect_left(self._signs, target_end - records, key=self._downstream.__getitem__)
        by_time = bisect_left(self._sign_latest_ms, now_ms - ms)
        sign = min(by_offset, by_time)
        if sign == len(self._signs):
            return None
        at = self._signs[sign]
        return ReplaySign(before=self._sync(at - 1), after=self._sync(at))
