"""How long partitions had no owner during each move, from the owners that members told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise

from groupshift.domain.partitions import TopicPartition
from groupshift_sandbox.client_members.events import Owned, gaps

Owners = Mapping[TopicPartition, Sequence[Owned]]
"""By partition, who owned it from when to when, in order of time."""


def longest_gaps_s(owners: Owners, began_ms: Sequence[int]) -> list[list[float]]:
    """For each move the longest gap of every partition, in seconds; 0 where it always had an owner.

    ``began_ms`` are the beginnings of the moves (epoch ms, ascending) and at last the end of the record: a
    gap belongs to the move in which it began, so one that a move leaves behind is its own."""
    found = {at: gaps(intervals) for at, intervals in owners.items()}
    return [
        [
            max((to - since for since, to in each if begin <= since < end), default=0) / 1000
            for _, each in sorted(found.items())
        ]
        for begin, end in pairwise(began_ms)
    ]


def all_unowned_s(owners: Owners, began_ms: Sequence[int]) -> list[float]:
    """For each move the longest time in which no partition had an owner, in seconds; as `longest_gaps_s`."""
    together = sorted(chain.from_iterable(owners.values()), key=lambda each: each.from_ms)
    whole = gaps(together)
    return [
        max((to - since for since, to in whole if begin <= since < end), default=0) / 1000
        for begin, end in pairwise(began_ms)
    ]
