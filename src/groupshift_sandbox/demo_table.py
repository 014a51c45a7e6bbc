"""What a demo shows at its end: one row a stage, from the journal, ZooKeeper's log and the ledgers. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from groupshift.application.status import MigrationStatus, StageProgress
from groupshift.audit.ownership import Interval
from groupshift.domain.evidence import Moment
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.verdict import Verdict, worst
from groupshift_sandbox.ledger import Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """A partition went from one owner to the next; ``unowned_ms`` lies between their owner nodes."""

    partition: TopicPartition
    at_ms: int
    unowned_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage: wall time in seconds, worst verdict, partitions that changed owner, longest time one of
    them had none (ms), records delivered again, records never delivered."""

    stage: str
    wall_s: float
    verdict: Verdict
    moved: int
    unowned_ms: int
    duplicates: int
    lost: int
    report: str


def hand_overs(intervals: Iterable[Interval]) -> list[HandOver]:
    """Every change of owner in the log, by time."""
    of: dict[TopicPartition, list[Interval]] = defaultdict(list)
    for one in intervals:
        of[one.partition].append(one)
    found = []
    for partition, history in of.items():
        for former, later in pairwise(sorted(history, key=lambda one: one.start_zxid)):
            gap = later.start_ms - (former.end_ms if former.end_ms is not None else later.start_ms)
            found.append(HandOver(partition=partition, at_ms=later.start_ms, unowned_ms=max(0, gap)))
    return sorted(found, key=lambda one: one.at_ms)


def repeated_at(deliveries: Iterable[Delivery]) -> list[int]:
    """When each record was delivered once more than needed (epoch ms, sorted)."""
    seen: set[tuple[TopicPartition, int]] = set()
    again = []
    for delivery in sorted(deliveries, key=lambda delivery: delivery.at_ms):
        key = (delivery.partition, delivery.offset)
        if key in seen:
            again.append(delivery.at_ms)
        seen.add(key)
    return again


def missing_at(deliveries: Iterable[Delivery]) -> list[int]:
    """For each offset skipped between the first and the last delivered: when its follower arrived."""
    first: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
    for delivery in deliveries:
        known = first[delivery.partition].get(delivery.offset, delivery.at_ms)
        first[delivery.partition][delivery.offset] = min(known, delivery.at_ms)
    return sorted(
        times[after]
        for times in first.values()
        for before, after in pairwise(sorted(times))
        for _ in range(before + 1, after)
    )


def rows(
    status: MigrationStatus, intervals: Iterable[Interval], deliveries: Sequence[Delivery]
) -> list[StageRow]:
    """One row for each stage that was judged, in the order in which they began."""
    changes, again, missing = hand_overs(intervals), repeated_at(deliveries), missing_at(deliveries)
    found = []
    for stage in sorted(status.stages, key=lambda stage: stage.began_at_ms or 0):
        if stage.began_at_ms is None or not stage.validations:
            continue
        start, end = stage.began_at_ms, max(each.judged_at_ms for each in stage.validations)
        moved = [change for change in changes if start <= change.at_ms < end]
        found.append(
            StageRow(
                stage=stage.stage.name.value,
                wall_s=(end - start) / 1000,
                verdict=worst(each.verdict for each in stage.validations),
                moved=len({change.partition for change in moved}),
                unowned_ms=max((change.unowned_ms for change in moved), default=0),
                duplicates=_between(again, start, end),
                lost=_between(missing, start, end),
                report=_report(stage),
            )
        )
    return found


def _between(times: Sequence[int], start: int, end: int) -> int:
    return bisect_right(times, end) - bisect_right(times, start)


def _report(stage: StageProgress) -> str:
    after = [each.report for each in stage.validations if each.moment is Moment.AFTER]
    return after[0] if after else stage.validations[-1].report
