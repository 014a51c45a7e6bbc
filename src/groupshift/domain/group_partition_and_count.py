"""Which partition of ``__consumer_offsets`` holds a group, and which partition count each broker uses.

`partition_of` computes the partition and `share_that_stays` how many groups stay when the count grows;
the transaction coordinator uses the same function with ``__transaction_state``.

A broker hashes a group's name with the count that it read when it started, and names the leader of that
partition by its current metadata. So `probe_names` gives names to look up, and the answers tell the counts
apart, unless partitions share their leader (one broker).

Source: docs/reference/group-coordinator.md §2 (values of a JVM), §3.1 and §3.4 step 9.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import mul

from groupshift.errors import Rejected

OFFSETS_TOPIC = "__consumer_offsets"
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


def hash_of(group_id: str) -> int:
    """A group's hash without its sign: ``abs(hash)``, where abs(-2^31) is 0.

    Not ``hash & 0x7fffffff``, which differs for every negative hash."""
    hashed = java_hash(group_id)
    return 0 if hashed == _LOWEST else abs(hashed)


@lru_cache(maxsize=_REMEMBERED)
def partition_of(group_id: str, count: int) -> int:
    """The partition of a group among ``count``: `hash_of` modulo it. Raises `Rejected` for a count below
    1."""
    if count < 1:
        raise Rejected(f"a topic of {count} partitions holds no group; give the partition count, 1 or more")
    return hash_of(group_id) % count


def share_that_stays(count: int, after: int) -> float:
    """The share of all groups that keep their partition when the count goes from ``count`` to
    ``after``: ``count / lcm(count, after)``. Raises `Rejected` for a count below 1."""
    if min(count, after) < 1:
        raise Rejected(f"partition counts are 1 or more, not {count} and {after}; give both")
    return count / math.lcm(count, after)


NOBODY = -1
"""What a broker answers when the partition has no leader or does not exist: COORDINATOR_NOT_AVAILABLE."""
PREFIX = "groupshift-probe-"
"""Names that are asked for; asking makes no group."""
_FEWEST = 64
_TRIED_A_PARTITION = 200
_SPREAD, _NAMES = 2_654_435_761, 1 << 32
"""Digits that count up reach only some partitions where 31, the factor of Java's hash, divides the count:
these are spread over eight places (Knuth's multiplicative hash), and no two are the same."""


def probe_names(leaders: Sequence[int], before: int = 0) -> tuple[str, ...]:
    """Names that together hit every partition of a topic with these ``leaders`` (node ids by partition).

    With ``before`` (an earlier count) each partition gets a name whose leader differs between the counts,
    where there is one; and there are enough for other counts to show."""
    count, names = len(leaders), dict[int, str]()
    before = 0 if before == count else before
    telling: set[int] = set()
    extra: list[str] = []
    wanted = max(_FEWEST, count)
    for number in range(count * _TRIED_A_PARTITION):
        if len(telling) == count and len(extra) >= wanted:
            break
        name = f"{PREFIX}{number * _SPREAD % _NAMES:08x}"
        place = partition_of(name, count)
        tells = bool(before) and leaders[place] != expected(name, before, leaders)
        if place not in names or (tells and place not in telling):
            names[place] = name
            telling |= {place} if tells or not before else set()
        elif len(extra) < wanted:
            extra.append(name)
    return (*names.values(), *extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one broker said: the node (`NOBODY`: none) that it names as coordinator of each name."""

    node_id: int
    named: Mapping[str, int] = field(default_factory=dict)


def expected(name: str, count: int, leaders: Sequence[int]) -> int:
    """The coordinator that a broker names which counts ``count`` partitions, where these lead."""
    place = partition_of(name, count)
    return leaders[place] if place < len(leaders) else NOBODY


def counts_of(answers: Answers, leaders: Sequence[int], others: Collection[int] = ()) -> tuple[int, ...]:
    """Every count that explains all that a broker said: one where it can be told, none where nothing does.

    Tried are all up to the count of the topic, and ``others``, such as configured ones."""
    tried = sorted({*range(1, len(leaders) + 1), *(each for each in others if each > 0)})
    named = answers.named.items()
    return tuple(
        count
        for count in tried
        if named and all(node == expected(name, count, leaders) for name, node in named)
    )


def owners(group: str, using: Mapping[int, int], leaders: Sequence[int]) -> tuple[int, ...]:
    """The brokers that serve a group, where each uses the count in ``using``: a broker serves what its own
    count puts on a partition that it leads."""
    return tuple(node for node, count in sorted(using.items()) if expected(group, count, leaders) == node)


def not_one_owner(
    groups: Iterable[str], using: Mapping[int, int], leaders: Sequence[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The groups that more than one broker serves, and those that none does."""
    for group in groups:
        nodes = owners(group, using, leaders)
        if len(nodes) != 1:
            yield group, nodes
