"""Overlaps of deliveries where the stamps of some members may come late.

What an old member is delivered goes through a pipe and is stamped by whoever reads it there: on a busy
machine later than it was delivered, and so perhaps after the next owner began."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.ledger import Delivery, Overlap, delivered, overlaps


def second_owners(deliveries: Sequence[Delivery], piped: Collection[str]) -> list[Overlap]:
    """The overlaps that a late stamp of a member of ``piped`` does not explain.

    It does where the records of the two follow one another as at a hand-over: the intruder is piped and its
    record lies before the first one of the owner's run, or the owner is piped and the intruder's record lies
    behind the last one of its run; and nobody else was ever delivered that record. A real second owner goes
    forward over the records of the first one, so that some lie within its run or come twice."""
    return [one for one in overlaps(deliveries) if not _stamped_late(one, deliveries, piped)]


def _stamped_late(one: Overlap, deliveries: Sequence[Delivery], piped: Collection[str]) -> bool:
    first, last = _run(one, deliveries)
    counts = delivered(deliveries)[one.partition]
    meant = (one.intruder, one.partition, one.at_ms)
    offsets = {each.offset for each in deliveries if (each.member, each.partition, each.at_ms) == meant}
    return all(
        counts[offset] == 1
        and ((one.intruder in piped and offset < first) or (one.member in piped and offset > last))
        for offset in offsets
    )


def _run(one: Overlap, deliveries: Sequence[Delivery]) -> tuple[int, int]:
    """First and last offset of what the owner was delivered without a gap around the overlap."""
    own = _offsets(one.member, one.partition, deliveries)
    first = last = one.offset
    while first - 1 in own:
        first -= 1
    while last + 1 in own:
        last += 1
    return first, last


def _offsets(member: str, partition: TopicPartition, deliveries: Sequence[Delivery]) -> set[int]:
    return {each.offset for each in deliveries if (each.member, each.partition) == (member, partition)}
