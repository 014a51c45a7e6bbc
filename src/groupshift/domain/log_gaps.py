"""Offsets that were passed over: a loss only where the log has a record there that its reader is given.

Transaction markers, aborted records and compaction leave offsets that are delivered to nobody, and a client
that commits its position commits what lies behind them. Source: KIP-98; Kafka's log format (control batches).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from groupshift.domain.evidence import at_of, long_of
from groupshift.domain.modes import Isolation, MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.phase_rules import Snapshot


class LogAnswer(StrEnum):
    """What the log says about offsets that nobody was given."""

    NOTHING = "nothing"
    """It holds no record there that the reader would have been given: nothing is lost."""
    LOST = "lost"
    NOT_PROVEN = "not proven"
    """It no longer has the offsets, or cannot tell (yet)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets ``start`` to ``end`` (exclusive) of which no ledger has a delivery; how their reader reads."""

    partition: TopicPartition
    start: int
    end: int
    isolation: Isolation = Isolation.READ_COMMITTED


@dataclass(slots=True, kw_only=True)
class GapRead:
    """What is read of a gap, as far as it has come: ``log_start`` of the partition, how many records the
    reader would be given (``records``), and the offset up to which that is decided (``decided``). ``problem``
    says why it could not be read at all (empty: it could)."""

    gap: Gap
    log_start: int = 0
    records: int = 0
    decided: int = 0
    problem: str = ""

    @property
    def answer(self) -> LogAnswer:
        """A record there is a loss, whatever else is not known."""
        if self.records:
            return LogAnswer.LOST
        known = not self.problem and self.log_start <= self.gap.start and self.decided >= self.gap.end
        return LogAnswer.NOTHING if known else LogAnswer.NOT_PROVEN

    @property
    def reason(self) -> str:
        """The answer in words, as a clause."""
        where = f"offsets {self.gap.start} to {self.gap.end - 1}"
        if self.records:
            return f"the log holds {self.records} records at {where} that {self.gap.isolation} delivers"
        if self.problem:
            return f"the log could not be asked about {where} ({self.problem})"
        if self.log_start > self.gap.start:
            return f"the log begins at {self.log_start} and no longer holds {where}"
        if self.decided < self.gap.end:
            until = f"beyond {self.decided} yet (a transaction is open, or the log ends there)"
            return f"the log does not tell {where} {until}"
        return f"the log holds no record at {where} that {self.gap.isolation} delivers"


ENOUGH = 10_000
"""So many records of one gap are counted; more tell nothing new."""


class GapPass:
    """The gaps of one partition and one isolation level, counted in one pass over the records that the level
    is given, in rising offsets. Each transaction leaves a gap: they are read together, not singly."""

    def __init__(self, gaps: Sequence[Gap], log_start: int, log_end: int) -> None:
        self.reads = [GapRead(gap=gap, log_start=log_start, decided=log_end) for gap in gaps]
        """What was read of each gap, in the order in which they were given."""
        ahead = [each for each in self.reads if log_end > max(log_start, each.gap.start)]
        for each in ahead:
            each.decided = each.gap.start
        self._ahead = deque(sorted(ahead, key=lambda each: each.gap.start))
        self._under_way: list[GapRead] = []

    def wanted(self, position: int) -> int | None:
        """The offset at or behind ``position`` from which records are needed; none when all is decided."""
        if self._under_way:
            return position
        if not self._ahead:
            return None
        return max(position, self._ahead[0].log_start, self._ahead[0].gap.start)

    def record(self, offset: int) -> None:
        """A record was given at ``offset``, and none between it and the one before."""
        while self._ahead and self._ahead[0].gap.start <= offset:
            self._under_way.append(self._ahead.popleft())
        for each in self._under_way:
            inside = offset < each.gap.end
            each.records += inside
            each.decided = offset + 1 if inside else each.gap.end
        self._under_way = [
            each for each in self._under_way if each.decided < each.gap.end and each.records < ENOUGH
        ]

    def ended(self, offset: int | None, problem: str = "") -> None:
        """No record comes any more: the level is given nothing from ``offset`` on (none: who knows), or it
        could not be read further, for ``problem``."""
        for each in (*self._under_way, *self._ahead):
            each.decided = max(each.decided, offset or 0)
            each.problem = problem
        self._under_way = []
        self._ahead.clear()


def isolation_of(kinds: Iterable[MemberKind], kafka_isolation: Isolation) -> Isolation:
    """How readers of these kinds read: the old consumer is given aborted records too;
    ``kafka_isolation`` is the level of all others, who count as soon as there is one."""
    known = frozenset(kinds)
    return Isolation.READ_UNCOMMITTED if known == {MemberKind.ZOOKEEPER} else kafka_isolation


def gaps(before: Snapshot, after: Snapshot, kafka_isolation: Isolation) -> tuple[Gap, ...]:
    """What the proof of two snapshots has to ask the log: offsets that advanced beyond what was delivered.

    The ranges are those of ``sql/checks/undelivered.sql``."""
    delivered = {at_of(row): long_of(row, "last_delivered") for row in after["ledger"]}
    if not delivered:
        return ()
    starts = {at_of(row): long_of(row, "log_start") for row in before["log_ends"]}
    then = {(at_of(row), row["store"]): long_of(row, "offset") for row in before["offsets"]}
    readers: dict[TopicPartition, set[MemberKind]] = defaultdict(set)
    for tables in (before, after):
        kinds = {row["member_id"]: MemberKind(str(row["kind"])) for row in tables["members"]}
        for row in tables["owners"]:
            if row["member_id"] in kinds:
                readers[at_of(row)].add(kinds[row["member_id"]])
    result_gaps = set()
    for row in after["offsets"]:
        at, was = at_of(row), then.get((at_of(row), row["store"]))
        if was is None:
            continue
        start = max(was, delivered.get(at, -1) + 1, starts.get(at, 0))
        if long_of(row, "offset") > start:
            level = isolation_of(readers[at], kafka_isolation)
            result_gaps.add(Gap(partition=at, start=start, end=long_of(row, "offset"), isolation=level))
    return tuple(sorted(result_gaps, key=lambda gap: (gap.partition, gap.start, gap.end)))


def answers_data(read: Iterable[GapRead]) -> list[dict[str, Any]]:
    """What the log answered, as the job ``validate.py`` reads it (key ``log`` of its rules)."""
    return [
        {
            "topic": each.gap.partition.topic,
            "partition": each.gap.partition.partition,
            "from": each.gap.start,
            "to": each.gap.end,
            "answer": each.answer.value,
            "reason": each.reason,
        }
        for each in read
    ]
