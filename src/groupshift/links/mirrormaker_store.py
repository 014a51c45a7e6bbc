"""What MirrorMaker 2 itself would translate: a model of its checkpoint task.

`MirrorMakerStore` is the task's store of 64 syncs of one source partition, and `CheckpointFilter` decides
which translations become checkpoints. We write nothing by this model: it is the ``mm2_x`` of a plan, shown
beside our own offset.

Source: docs/reference/cross-cluster-offsets.md §§4.2-4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from groupshift.domain.partitions import TopicPartition
from groupshift.links.sync_history import Sync

SLOTS = 64
LAST = SLOTS - 1
BEFORE_FIRST_SYNC = -1
"""MirrorMaker's translation of an offset below every sync it still has; no checkpoint is written then."""


@dataclass(frozen=True, slots=True, eq=False)
class _StoredSync:
    """A sync in a slot. Two of them are the same only if they are one object, as in MirrorMaker."""

    upstream: int
    downstream: int


def _is_near(x: _StoredSync, y: _StoredSync, i: int, j: int) -> bool:
    """True if ``x`` in slot i is close enough to ``y`` in the higher slot j.

    MirrorMaker computes the bound in signed 64-bit numbers and takes an overflow for true. No offset is
    above such a bound, so Python's unbounded numbers give the same answer.
    """
    return x is y or x.upstream <= y.upstream + (1 << j) - (1 << i)


def _is_far(x: _StoredSync, y: _StoredSync, i: int) -> bool:
    """True if ``x`` in slot i is far enough from ``y`` in a higher slot. An overflow of MirrorMaker's bound
    means false; here, no offset reaches such a bound."""
    return x is y or x.upstream >= y.upstream + (1 << max(i - 2, 0))


class MirrorMakerStore:
    """MirrorMaker's store of one source partition: 64 slots, the newest sync in slot 0.

    It begins in loading, where it translates nothing. ``last_only``: keep only the newest sync while loading,
    as MirrorMaker does where it could not read its checkpoints.
    """

    __slots__ = ("_last_only", "_loading", "_slots")

    def __init__(self, *, last_only: bool = False) -> None:
        self._last_only = last_only
        self._loading = True
        self._slots: list[_StoredSync] = []

    @classmethod
    def load(cls, syncs: Iterable[Sync], *, last_only: bool = False) -> MirrorMakerStore:
        """Return the store of a task that has just loaded these syncs, in the order of their log."""
        store = cls(last_only=last_only)
        for sync in syncs:
            store.insert(sync.upstream, sync.downstream)
        store.finish_loading()
        return store

    def finish_loading(self) -> None:
        """Note that the end of the syncs topic is reached: from now on the store translates."""
        self._loading = False

    @property
    def syncs(self) -> tuple[tuple[int, int], ...]:
        """The distinct syncs in the slots as (upstream, downstream), newest first."""
        distinct: list[_StoredSync] = []
        for sync in self._slots:
            if not distinct or sync is not distinct[-1]:
                distinct.append(sync)
        return tuple((sync.upstream, sync.downstream) for sync in distinct)

    def insert(self, upstream: int, downstream: int) -> None:
        """Take over the next sync of the log; both offsets are 0 or above."""
        new = _StoredSync(upstream, downstream)
        rewound = not self._slots or upstream < self._slots[0].upstream
        if rewound or (self._loading and self._last_only):
            self._slots = [new] * SLOTS
        else:
            self._insert(new)

    def _insert(self, new: _StoredSync) -> None:
        old, slots = self._slots.copy(), self._slots
        slots[0] = keep = new
        next_old = 0
        for k in range(1, SLOTS):
            previous = slots[k - 1]
            while True:
                candidate = old[next_old]
                far = _is_far(previous, candidate, k - 1)
                usable = (
                    far
                    and _is_near(previous, candidate, k - 1, k)
                    and (k == LAST or _is_far(candidate, slots[k + 1], k))
                )
                discard = not far or (next_old < LAST and candidate is old[next_old + 1])
                if usable:
                    keep = candidate
                if usable or discard:
                    next_old += 1
                if next_old >= k or not discard:
                    break
            if _is_near(previous, slots[k], k - 1, k):
                return  # this slot is still valid, and so are all behind it
            slots[k] = keep

    def translate(self, committed: int) -> int | None:
        """Return MirrorMaker's target offset for a committed offset.

        None: it writes no checkpoint, because the store is not loaded or has no sync of the partition.
        `BEFORE_FIRST_SYNC`: every sync that is left lies above the committed offset (no checkpoint either).
        """
        if self._loading or not self._slots:
            return None
        for sync in self._slots:
            if sync.upstream <= committed:
                return sync.downstream + (committed > sync.upstream)
        return BEFORE_FIRST_SYNC


@dataclass(frozen=True, slots=True)
class CheckpointOffsets:
    """The offsets of a checkpoint: what a group committed in the source, and what it was translated to."""

    committed: int
    translated: int


class CheckpointFilter:
    """The last checkpoint of each group and partition, and which translation becomes the next one."""

    __slots__ = ("_checkpoints",)

    def __init__(self) -> None:
        self._checkpoints: dict[tuple[str, TopicPartition], CheckpointOffsets] = {}

    def checkpoint(self, group: str, partition: TopicPartition) -> CheckpointOffsets | None:
        """The last checkpoint of a group and partition; none if there was none."""
        return self._checkpoints.get((group, partition))

    def restore(self, group: str, partition: TopicPartition, checkpoint: CheckpointOffsets) -> None:
        """Take over a checkpoint that a restarted task read from the topic."""
        self._checkpoints[group, partition] = checkpoint

    def offer(self, group: str, partition: TopicPartition, committed: int, translated: int | None) -> bool:
        """Return True, and remember the checkpoint, if MirrorMaker emits one for this translation.

        It does if it is the first, if the committed offset went back, or if the translated one went up.
        """
        if translated is None or translated < 0:
            return False
        last = self.checkpoint(group, partition)
        if last and committed >= last.committed and translated <= last.translated:
            return False
        self._checkpoints[group, partition] = CheckpointOffsets(committed, translated)
        return True
