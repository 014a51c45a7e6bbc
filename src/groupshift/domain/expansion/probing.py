"""Which partition count each broker uses, by what it answers: names are asked, counts are inferred.

A broker hashes a group's name with the count that it read when it started, and names the leader of that
partition by its current metadata. Whoever asks for enough names can tell the counts apart, unless partitions
share their leader (one broker). Source: specs/group-coordinator.md §3.1 and §3.4 step 9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from groupshift.domain.placement import partition_of

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
    count, found = len(leaders), dict[int, str]()
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
        if place not in found or (tells and place not in telling):
            found[place] = name
            telling |= {place} if tells or not before else set()
        elif len(extra) < wanted:
            extra.append(name)
    return (*found.values(), *extra)


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
    return tuple(each for each in tried if _explains(answers, each, leaders)) if answers.named else ()


def _explains(answers: Answers, count: int, leaders: Sequence[int]) -> bool:
    return all(node == expected(name, count, leaders) for name, node in answers.named.items())


def counted(
    answers: Iterable[Answers], leaders: Sequence[int], others: Collection[int] = ()
) -> dict[int, tuple[int, ...]]:
    """`counts_of` each broker, by node id. ``leaders`` must be those in force while the brokers answered."""
    return {each.node_id: counts_of(each, leaders, others) for each in answers}


def owners(group: str, using: Mapping[int, int], leaders: Sequence[int]) -> tuple[int, ...]:
    """The brokers that serve a group, where each uses the count in ``using``: a broker serves what its own
    count puts on a partition that it leads."""
    return tuple(node for node, count in sorted(using.items()) if expected(group, count, leaders) == node)


def several_owners(
    groups: Iterable[str], using: Mapping[int, int], leaders: Sequence[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The groups that more than one broker serves, and those that none does."""
    for group in groups:
        found = owners(group, using, leaders)
        if len(found) != 1:
            yield group, found
