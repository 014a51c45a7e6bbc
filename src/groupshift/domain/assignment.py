"""Assignment: the old consumer's assignors and the thread mapping of Kafka mode.

Every member computes alone and all must compute the same, so these rules are bit-exact. `GroupAssignment` is
the whole group, thread by thread, as a listener of the global assignment gets it.
Source: docs/reference/zookeeper-coordination.md §§2, 5 and 8.7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from itertools import cycle, islice

from groupshift.domain.group_partition_and_count import java_hash
from groupshift.domain.group_protocol import KafkaMember
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected

Assignment = dict[TopicPartition, str]
"""Partition → thread id."""

MOST_THREADS = 2_000_000
"""Of all topics of a group together: streams times topics times members, counted out in memory."""


class Assignor(StrEnum):
    """``partition.assignment.strategy``; every member of a group must use the same."""

    RANGE = "range"
    ROUND_ROBIN = "roundrobin"


class TextForm(StrEnum):
    """How a partition is written before hashing: up to 0.11.0, and from 1.0."""

    BRACKET = "bracket"
    DASH = "dash"


@dataclass(frozen=True, slots=True)
class Scheme:
    """By what a member computes; the text form matters to round-robin alone. As text: its configuration."""

    assignor: Assignor
    form: TextForm

    def __str__(self) -> str:
        form = "" if self.assignor is Assignor.RANGE else f", roundrobin.text.form={self.form}"
        return f"partition.assignment.strategy={self.assignor}{form}"


SCHEMES: Mapping[str, Scheme] = {
    "range": Scheme(Assignor.RANGE, TextForm.DASH),
    "roundrobin (bracket form, up to 0.11)": Scheme(Assignor.ROUND_ROBIN, TextForm.BRACKET),
    "roundrobin (dash form, from 1.0)": Scheme(Assignor.ROUND_ROBIN, TextForm.DASH),
}
"""Every way in which members of one group may compute its assignment (§5), by its name for people."""


def java_order(text: str) -> bytes:
    """Sort key of Java's String.compareTo: UTF-16 code units."""
    return text.encode("utf-16-be")


def thread_ids(consumer_id: str, streams: int) -> tuple[str, ...]:
    """The thread ids of one consumer, in order of stream number."""
    return tuple(f"{consumer_id}-{number}" for number in range(streams))


def consumer_of(thread_id: str) -> str:
    """The ``<cid>`` of a thread id: everything before the last ``-``."""
    return thread_id.rpartition("-")[0]


def stream_of(thread_id: str) -> int:
    """The stream number of a thread id."""
    return int(thread_id.rpartition("-")[2])


def threads_by_topic(members: Mapping[str, Mapping[str, int]]) -> dict[str, tuple[str, ...]]:
    """Topic → sorted thread ids, from consumer id → topic → streams (§3.3).

    Raises `Rejected`, naming the member with most, when there are more than `MOST_THREADS`."""
    counts = {member: sum(subscription.values()) for member, subscription in members.items()}
    if sum(counts.values()) > MOST_THREADS:
        most = max(counts, key=lambda each: counts[each])
        raise Rejected(
            f"the group's members have {sum(counts.values())} streams over all topics, {most} alone "
            f"{counts[most]}; at most {MOST_THREADS} are counted out: restart that member with fewer"
        )
    threads: dict[str, list[str]] = {}
    for member, subscription in members.items():
        ids = cache(partial(thread_ids, member))
        for topic, streams in subscription.items():
            threads.setdefault(topic, []).extend(ids(streams))
    return {topic: tuple(sorted(ids, key=java_order)) for topic, ids in threads.items()}


def assign(
    assignor: Assignor,
    threads: Mapping[str, Sequence[str]],
    partitions: Mapping[str, Iterable[int]],
    form: TextForm = TextForm.DASH,
) -> Assignment:
    """The group's assignment, from topic → thread ids and topic → partition numbers.

    Round-robin (§5.2): partitions in order of their text's hash, one cursor over all threads of the group.
    Equal hashes are ordered by (topic, partition); the Scala order of those is not reproducible."""
    if assignor is Assignor.RANGE:
        return range_assignment(threads, partitions)
    text = str if form is TextForm.DASH else "[{0.topic},{0.partition}]".format
    every = [TopicPartition(topic, number) for topic in threads for number in partitions.get(topic, ())]
    return _circle(sorted(every, key=lambda each: (java_hash(text(each)), each)), threads)


def range_assignment(
    threads: Mapping[str, Sequence[str]], partitions: Mapping[str, Iterable[int]]
) -> Assignment:
    """§5.1: per topic, consecutive partitions to the sorted threads, the first ones get one more."""
    result: Assignment = {}
    for topic, ids in threads.items():
        numbers = sorted(partitions.get(topic, ()))
        share, extra = divmod(len(numbers), len(ids) or 1)
        left = iter(numbers)
        for index, thread in enumerate(sorted(ids, key=java_order)):
            for number in islice(left, share + (index < extra)):
                result[TopicPartition(topic, number)] = thread
    return result


def map_to_threads(held: Collection[TopicPartition], streams: Mapping[str, Sequence[str]]) -> Assignment:
    """§8.7: one member's Kafka assignment spread over its own threads (topic → thread ids).

    The Kafka clients' round-robin assignor over relative numbers; a topic without a thread is
    left out.
    """
    return _circle(sorted(held), streams)


def _circle(ordered: Iterable[TopicPartition], threads: Mapping[str, Sequence[str]]) -> Assignment:
    """Deal partitions out with one cursor over the sorted threads, skipping those not subscribed."""
    subscribed = {topic: frozenset(ids) for topic, ids in threads.items()}
    circle = cycle(sorted(frozenset().union(*subscribed.values()), key=java_order))
    return {
        each: next(thread for thread in circle if thread in subscribed[each.topic])
        for each in ordered
        if subscribed.get(each.topic)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignment:
    """``threads``: partition → thread id, of all members. ``complete`` is False when the Kafka group did not
    become stable in time; the map then holds this member's own part alone."""

    mode: Mode
    threads: Mapping[TopicPartition, str]
    complete: bool = True


def kafka_threads(
    members: Iterable[KafkaMember], subscriptions: Mapping[str, Mapping[str, int]]
) -> Assignment:
    """The map of a stable Kafka group; ``subscriptions`` is consumer id → topic → streams.

    A member whose client id is no consumer id is a plain consumer: one thread for all it holds."""
    result: Assignment = {}
    for member in members:
        topics = subscriptions.get(member.client_id)
        if topics is None:
            result |= dict.fromkeys(member.assigned, f"{member.member_id}-0")
        else:
            result |= map_to_threads(member.assigned, threads_by_topic({member.client_id: topics}))
    return result
