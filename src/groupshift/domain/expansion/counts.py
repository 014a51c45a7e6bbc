"""What another partition count would cost: which groups move, and which counts move fewer.

Source: specs/group-coordinator.md §2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from groupshift.domain.placement import java_hash, share_that_stays
from groupshift.errors import Rejected

_LOWEST = -(1 << 31)
_MULTIPLES = (2, 3, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """A group that changes its partition of ``__consumer_offsets``."""

    group: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What going to ``count`` partitions costs: ``moving`` of ``groups`` groups move; ``stays`` is the share
    of all possible names that does not (N / lcm(N, M)); ``multiple`` says whether it is one of the count now.
    """

    count: int
    stays: float
    moving: int
    groups: int
    multiple: bool


class Hashed:
    """Group names with their hashes, made once for any number of counts: 500,000 names are a matter of
    seconds, and nothing is kept beyond this object."""

    def __init__(self, groups: Iterable[str]) -> None:
        self.groups: Sequence[str] = tuple(sorted(set(groups)))
        self._hashes = tuple(_absolute(java_hash(group)) for group in self.groups)

    def movers(self, before: int, after: int) -> tuple[Mover, ...]:
        """Groups whose partition differs between the two counts, by name."""
        return tuple(
            Mover(group=group, before=hashed % before, after=hashed % after)
            for group, hashed in zip(self.groups, self._hashes, strict=True)
            if hashed % before != hashed % after
        )

    def cost(self, before: int, after: int) -> Cost:
        """What going from ``before`` to ``after`` partitions costs. Raises `Rejected` for counts below 1."""
        stays = share_that_stays(before, after)
        moving = sum(hashed % before != hashed % after for hashed in self._hashes)
        multiple = after % before == 0
        return Cost(count=after, stays=stays, moving=moving, groups=len(self.groups), multiple=multiple)

    def places(self, count: int) -> tuple[int, ...]:
        """The partition of each of `groups`, in their order. Raises `Rejected` for a count below 1."""
        if count < 1:
            raise Rejected(
                f"a topic of {count} partitions holds no group; give the partition count, 1 or more"
            )
        return tuple(hashed % count for hashed in self._hashes)


def worth_comparing(before: int, after: int) -> tuple[int, ...]:
    """Counts to show beside ``after``: small multiples of ``before``, and the multiple next to ``after``."""
    above = -(-after // before) * before
    counts: Collection[int] = {after, above, *(before * each for each in _MULTIPLES)}
    return tuple(sorted(counts))


def _absolute(hashed: int) -> int:
    """Java's Math.abs as Kafka uses it: the lowest number has no positive one and counts as 0."""
    return 0 if hashed == _LOWEST else abs(hashed)
