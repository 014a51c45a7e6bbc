"""Reads what members wrote down about their deliveries, and what follows from it.

One JSON object a line: ``{"member":...,"topic":...,"partition":3,"offset":1234,"at_ms":1763740000123}``.
A last line without its newline is a member killed while writing; it is not a delivery.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from groupshift.domain.partitions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One record handed to one member at ``at_ms`` (epoch)."""

    member: str
    partition: TopicPartition
    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """``intruder`` was delivered a record of the partition at ``at_ms``, between two consecutive offsets
    delivered to ``member``, the second one being ``offset``."""

    partition: TopicPartition
    member: str
    intruder: str
    offset: int
    at_ms: int


def read_ledger(path: Path) -> list[Delivery]:
    """All deliveries of one member's file, in the order written; empty when there is no file yet."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    deliveries = []
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        entry = json.loads(line)
        deliveries.append(
            Delivery(
                member=entry["member"],
                partition=TopicPartition(entry["topic"], int(entry["partition"])),
                offset=int(entry["offset"]),
                at_ms=int(entry["at_ms"]),
            )
        )
    return deliveries


def read_ledgers(folder: Path, group: str | None = None) -> list[Delivery]:
    """All deliveries in the folder (of one group), sorted by time; each member's order is kept."""
    deliveries = [
        delivery
        for path in sorted(folder.glob("*.jsonl"))
        for delivery in read_ledger(path)
        if group is None or delivery.member.startswith(f"{group}_")
    ]
    return sorted(deliveries, key=lambda delivery: delivery.at_ms)


def delivered(deliveries: Iterable[Delivery]) -> dict[TopicPartition, Counter[int]]:
    """How often each offset of each partition was delivered."""
    counts: dict[TopicPartition, Counter[int]] = defaultdict(Counter)
    for delivery in deliveries:
        counts[delivery.partition][delivery.offset] += 1
    return dict(counts)


def lost(
    deliveries: Iterable[Delivery], ends: Mapping[TopicPartition, int]
) -> list[tuple[TopicPartition, int]]:
    """Offsets from 0 to before each partition's end that nobody was delivered."""
    counts = delivered(deliveries)
    return [
        (partition, offset)
        for partition, end in sorted(ends.items())
        for offset in range(end)
        if offset not in counts.get(partition, ())
    ]


def overlaps(deliveries: Iterable[Delivery]) -> list[Overlap]:
    """Where two members were delivered one partition at one time.

    A member that gets offset o and then o+1 had the partition all the while; a delivery to somebody
    else strictly between the two is an overlap. Deliveries within the same millisecond prove nothing."""
    by_partition: dict[TopicPartition, list[Delivery]] = defaultdict(list)
    for delivery in sorted(deliveries, key=lambda delivery: delivery.at_ms):
        by_partition[delivery.partition].append(delivery)
    times = []
    for partition, ordered in by_partition.items():
        last: dict[str, Delivery] = {}
        for index, delivery in enumerate(ordered):
            before = last.get(delivery.member)
            if before is not None and delivery.offset == before.offset + 1:
                times += _between(partition, ordered[:index], before, delivery)
            last[delivery.member] = delivery
    return times


def _between(
    partition: TopicPartition, earlier: list[Delivery], before: Delivery, after: Delivery
) -> list[Overlap]:
    times = []
    for other in reversed(earlier):
        if other.at_ms <= before.at_ms:
            break
        if other.member != after.member and other.at_ms < after.at_ms:
            times.append(
                Overlap(
                    partition=partition,
                    member=after.member,
                    intruder=other.member,
                    offset=after.offset,
                    at_ms=other.at_ms,
                )
            )
    return times
