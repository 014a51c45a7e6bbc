"""What a demo shows at its end: one row a phase, from the journal, from who owned which partition, and from
what was delivered. Pure."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from groupshift.audit.ownership import Interval
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.run import plan_from
from groupshift.domain.verdict import Verdict, worst
from groupshift.ports.runs import Event, EventKind, RunRecord
from groupshift_sandbox.client_members.events import Owned
from groupshift_sandbox.ledger import Delivery

BACK = "back: "
"""What stands before the name of a phase of a rollback."""
_LOOKS = frozenset({EventKind.CHECKED, EventKind.JUDGED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A phase of a run that was begun, from its first to its last event (epoch ms); ``verdict`` is the worst
    of what the last look at each of its steps came to, ``output`` the folder of its last Spark job (empty:
    there was none)."""

    name: str
    start_ms: int
    end_ms: int
    verdict: Verdict
    output: str = ""

    @property
    def wall_s(self) -> float:
        """How long it took, in seconds."""
        return (self.end_ms - self.start_ms) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """A partition went from one owner to the next; ``unowned_ms`` lies between them."""

    partition: TopicPartition
    at_ms: int
    unowned_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A phase with what it did to consumers: partitions that changed owner, longest time one of them had none
    (ms), records delivered again, records never delivered."""

    phase: Phase
    moved: int
    unowned_ms: int
    duplicates: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Something that the demo looked at by itself: at the start, after the move, and after its rollback
    (empty: it was not); ``holds`` is whether it was as it should be."""

    what: str
    start: str = ""
    there: str = ""
    back: str = ""
    holds: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """``verdict`` is that of the run's end, ``report`` the command that makes its report, ``reports`` where
    others lie; ``consumers``: the rows tell what happened to consumers."""

    run: str
    verdict: str
    rows: tuple[Row, ...]
    proofs: tuple[Proof, ...]
    report: str
    reports: Mapping[str, str]
    consumers: bool

    @property
    def passed(self) -> bool:
        """Whether there was something to see, and everything is as it should be."""
        held = all(each.holds for each in self.proofs) and bool(self.rows)
        return held and self.verdict == "pass" and all(each.phase.verdict == "pass" for each in self.rows)


def phases(record: RunRecord, events: Sequence[Event]) -> list[Phase]:
    """The phases of a run that were begun, there and back, in order. What a step waits for counts to the
    phase that it belongs to."""
    of = dict(_names(record, events))
    events_of = grouped((of[event.step], event) for event in events if event.step in of)
    return [_phase(name, own_events) for name, own_events in events_of.items()]


def _names(record: RunRecord, events: Iterable[Event]) -> Iterator[tuple[str, str]]:
    """By the key of a step, the name of its phase; of each rollback the last plan counts."""
    for step in plan_from(record.plan).steps:
        yield step.key, step.phase
    for event in events:
        if event.kind is EventKind.ROLLBACK_BEGUN:
            for step in plan_from(json.dumps(event.body["plan"])).steps:
                yield step.key, f"{BACK}{step.phase.removeprefix('undo_').removeprefix('undo-')}"


def _phase(name: str, events: Sequence[Event]) -> Phase:
    last = {each.step: str(each.body["outcome"]) for each in events if each.kind in _LOOKS}
    verdicts = {each.value: each for each in Verdict}
    jobs = [each.body.get("spark_job") for each in events if each.kind is EventKind.ACTED]
    return Phase(
        name=name,
        start_ms=events[0].at_ms,
        end_ms=events[-1].at_ms,
        verdict=worst(verdicts.get(each, Verdict.INCONCLUSIVE) for each in last.values() or ("pass",)),
        output=next((str(each["output"]) for each in reversed(jobs) if each), ""),
    )


def hand_overs(intervals: Iterable[Interval]) -> list[HandOver]:
    """Every change of owner in ZooKeeper's log, by time."""
    ordered = sorted(intervals, key=lambda one: one.start_zxid)
    return _changes(grouped((one.partition, (one.start_ms, one.end_ms)) for one in ordered))


def taken_over(owners: Mapping[TopicPartition, Iterable[Owned]]) -> list[HandOver]:
    """Every change of owner that members told of, by time."""
    return _changes(
        {at: [(each.from_ms, each.to_ms) for each in intervals] for at, intervals in owners.items()}
    )


def _changes(times: Mapping[TopicPartition, Sequence[tuple[int, int | None]]]) -> list[HandOver]:
    changes = []
    for partition, of_one in times.items():
        for (_, ended), (began, _) in pairwise(of_one):
            gap = began - (ended if ended is not None else began)
            changes.append(HandOver(partition=partition, at_ms=began, unowned_ms=max(0, gap)))
    return sorted(changes, key=lambda one: one.at_ms)


def repeated_at(deliveries: Iterable[Delivery]) -> list[int]:
    """When each record was delivered once more than needed (epoch ms, sorted)."""
    delivered: set[tuple[TopicPartition, int]] = set()
    again = []
    for delivery in sorted(deliveries, key=lambda delivery: delivery.at_ms):
        key = (delivery.partition, delivery.offset)
        if key in delivered:
            again.append(delivery.at_ms)
        delivered.add(key)
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
    run_phases: Iterable[Phase], changes: Sequence[HandOver], deliveries: Sequence[Delivery]
) -> list[Row]:
    """One row for each phase."""
    again, missing = repeated_at(deliveries), missing_at(deliveries)
    made = []
    for phase in run_phases:
        moved = [change for change in changes if phase.start_ms <= change.at_ms < phase.end_ms]
        made.append(
            Row(
                phase=phase,
                moved=len({change.partition for change in moved}),
                unowned_ms=max((change.unowned_ms for change in moved), default=0),
                duplicates=_between(again, phase.start_ms, phase.end_ms),
                lost=_between(missing, phase.start_ms, phase.end_ms),
            )
        )
    return made


def _between(times: Sequence[int], start: int, end: int) -> int:
    return bisect_right(times, end) - bisect_right(times, start)
