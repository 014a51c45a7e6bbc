"""Who delivered first: what owner intervals and ledgers say about a hand-over."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise
from typing import Any

from groupshift.audit.ownership import Interval
from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.ledger import Delivery


class Firsts:
    """First delivery of each partition by its owner from a moment on."""

    def __init__(self, intervals: tuple[Interval, ...], deliveries: list[Delivery]) -> None:
        self._intervals: dict[TopicPartition, list[Interval]] = defaultdict(list)
        for interval in intervals:
            self._intervals[interval.partition].append(interval)
        self._times: dict[tuple[TopicPartition, str], list[int]] = defaultdict(list)
        for delivery in deliveries:
            self._times[delivery.partition, delivery.member].append(delivery.at_ms)

    def all_owned_s(self, t0: int, end: int) -> float:
        """Latest first record over all partitions, in seconds after ``t0``; infinite if one has none."""
        return max((self._first(partition, t0, end) - t0) / 1000 for partition in self._intervals)

    def visit(self, changes: list[Any], came: int, left: int, ended: int) -> dict[str, float]:
        """Of one visit, seconds: registration or departure until all is delivered by its owner, and the
        longest silence of a partition while it comes and while it goes."""
        guests = [i for every in self._intervals.values() for i in every if "scala" in i.member_id]
        mine = [i for i in guests if came <= i.start_ms < left]
        registered = min(c.at_ms for c in changes if came <= c.at_ms < left)
        gone = max((i.end_ms or left) for i in mine)
        return {
            "join_all_owned_s": self.all_owned_s(registered, left),
            "join_silence_s": self._silence(registered, left),
            "leave_all_owned_s": self.all_owned_s(gone, ended),
            "leave_silence_s": self._silence(left, ended),
        }

    def _silence(self, start: int, end: int) -> float:
        longest = 0
        for partition in self._intervals:
            times = sorted(
                at
                for (where, _), every in self._times.items()
                if where == partition
                for at in every[bisect_left(every, start - 1000) : bisect_left(every, end)]
            )
            longest = max([longest, *(after - before for before, after in pairwise(times))])
        return longest / 1000

    def _first(self, partition: TopicPartition, t0: int, end: int) -> float:
        owned = [one for one in self._intervals[partition] if one.start_ms < end]
        owner = max(owned, key=lambda one: one.start_zxid)
        times = self._times[partition, owner.member_id]
        at = bisect_left(times, max(t0, owner.start_ms))
        return times[at] if at < len(times) else float("inf")
