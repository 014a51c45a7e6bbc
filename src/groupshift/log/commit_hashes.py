"""The bytes of every live commit in the log of the offsets topic, as hashes, and what differs between two
moments.

Brokers never rewrite a commit: one that was not committed anew has the same key and value, byte for byte,
whichever release serves it. Source: docs/reference/group-coordinator.md §§1.7, 6.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter

from groupshift.log import LogRecord, commit_place


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCommit:
    """The latest record of one (group, topic, partition) in one partition of the log, which is no tombstone.
    ``log_offset`` is where it lies, ``sha256`` the hash in hex of its key's bytes followed by its value's."""

    group: str
    topic: str
    partition: int
    log_partition: int
    log_offset: int
    sha256: str

    @property
    def place(self) -> Place:
        """What a later commit of the same replaces."""
        return self.log_partition, self.group, self.topic, self.partition


Place = tuple[int, str, str, int]
"""Partition of the log, group, topic, partition: a stale copy in another partition is kept apart."""


class CommitChange(StrEnum):
    """What became of a record."""

    LOST = "lost"
    EXTRA = "extra"
    ANEW = "committed anew"
    """Another record, further on in the log."""
    REWRITTEN = "rewritten"
    """Other bytes at the same place of the log."""
    WENT_BACK = "went back"
    """An older record is the latest one again: the log lost its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDifference:
    """One live commit that is not the same at two moments; ``now`` is the later one, or the earlier one where
    it is lost."""

    change: CommitChange
    now: LiveCommit

    def __str__(self) -> str:
        at = f"partition {self.now.log_partition} offset {self.now.log_offset} of the log"
        of = f"group {self.now.group!r} topic {self.now.topic!r} partition {self.now.partition}"
        return f"commit of {of} {self.change} ({at}, SHA-256 {self.now.sha256[:12]})"


def live_commits(records: Iterable[LogRecord]) -> tuple[LiveCommit, ...]:
    """The live commits of a log that is read to its end, sorted by their places.

    Records may come in any order; those of aborted transactions must not be among them. Keys that cannot be
    read are passed over. Never raises."""
    latest: dict[Place, LogRecord] = {}
    for record in records:
        at = commit_place(record.key)
        if at is not None:
            place = (record.partition, *at)
            if place not in latest or latest[place].offset < record.offset:
                latest[place] = record
    return tuple(
        LiveCommit(
            log_partition=log_partition,
            group=group,
            topic=topic,
            partition=partition,
            log_offset=record.offset,
            sha256=hashlib.sha256((record.key or b"") + record.value).hexdigest(),
        )
        for (log_partition, group, topic, partition), record in sorted(latest.items(), key=itemgetter(0))
        if record.value is not None
    )


def differences(
    before: Iterable[LiveCommit], after: Iterable[LiveCommit], *, anew: bool
) -> tuple[RecordDifference, ...]:
    """What is not byte for byte the same, in the order of places. Where commits may go on (``anew``), records
    further on in the log and extra ones are none; lost, rewritten and older ones always are."""
    former = {each.place: each for each in before}
    present = {each.place: each for each in after}
    allowed = {CommitChange.ANEW, CommitChange.EXTRA} if anew else frozenset[CommitChange]()
    changes = (_difference(former.get(place), present.get(place)) for place in sorted({*former, *present}))
    return tuple(each for each in changes if each is not None and each.change not in allowed)


def _difference(before: LiveCommit | None, after: LiveCommit | None) -> RecordDifference | None:
    if after is None:
        return None if before is None else RecordDifference(change=CommitChange.LOST, now=before)
    if before is None:
        return RecordDifference(change=CommitChange.EXTRA, now=after)
    if before.sha256 == after.sha256:
        return None
    if before.log_offset == after.log_offset:
        return RecordDifference(change=CommitChange.REWRITTEN, now=after)
    further = after.log_offset > before.log_offset
    return RecordDifference(change=CommitChange.ANEW if further else CommitChange.WENT_BACK, now=after)
