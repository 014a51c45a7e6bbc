"""Which partition of ``__consumer_offsets`` holds a group, and who moves when their count grows.

Source: specs/group-coordinator.md §2 (values of a JVM); the transaction coordinator uses the same
function with ``__transaction_state``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from operator import mul

from groupshift.errors import Rejected

_BITS = 32
_LOWEST = -(1 << (_BITS - 1))
_MASK = (1 << _BITS) - 1
_REMEMBERED = 1 << 16
_LENGTHS = 512
_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
"""What `memoryview` reads as 16 bits each."""


def java_hash(text: str) -> int:
    """Java's String.hashCode: signed 32 bits, wrapping, over UTF-16 code units.

    A character beyond the basic plane counts as its two surrogates; a surrogate that stands alone
    counts as itself, as in a JVM.
    """
    units: Sequence[int]
    if text.isascii():
        units = text.encode("ascii")
    else:
        units = memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    value: int = sum(map(mul, units, _powers(len(units)))) & _MASK
    return value - (1 << _BITS) if value >> (_BITS - 1) else value


@lru_cache(maxsize=_LENGTHS)
def _powers(length: int) -> tuple[int, ...]:
    """31 to the power of how many units follow each, modulo 2^32: the sum is made in C, not here."""
    return tuple(pow(31, length - 1 - place, 1 << _BITS) for place in range(length))


@lru_cache(maxsize=_REMEMBERED)
def partition_of(group_id: str, count: int) -> int:
    """The partition of a group among ``count``: ``abs(hash) % count``, where abs(-2^31) is 0.

    Not ``hash & 0x7fffffff``, which differs for every negative hash. Raises `Rejected` for a count
    below 1.
    """
    if count < 1:
        raise Rejected(f"a topic of {count} partitions holds no group; give the partition count, 1 or more")
    hashed = java_hash(group_id)
    return (0 if hashed == _LOWEST else abs(hashed)) % count


def share_that_stays(count: int, after: int) -> float:
    """The share of all groups that keep their partition when the count goes from ``count`` to
    ``after``: ``count / lcm(count, after)``. Raises `Rejected` for a count below 1."""
    if min(count, after) < 1:
        raise Rejected(f"partition counts are 1 or more, not {count} and {after}; give both")
    return count / math.lcm(count, after)
