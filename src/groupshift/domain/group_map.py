"""Who owns what in the whole group, thread by thread: what a listener of the global assignment is told.

Source: specs/zookeeper-coordination.md §8.7; Kafka's consumer protocol for `parse_assignment`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from groupshift.domain.assignment import Assignment, map_to_threads, threads_by_topic
from groupshift.domain.coordination import Mode
from groupshift.domain.foreign_json import shown
from groupshift.domain.group import KafkaMember
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected


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
            result |= dict.fromkeys(member.assignment, f"{member.member_id}-0")
        else:
            result |= map_to_threads(member.assignment, threads_by_topic({member.client_id: topics}))
    return result


def parse_assignment(data: bytes) -> frozenset[TopicPartition]:
    """The partitions in a member's assignment, versions 0 to 3 (they share this part); empty: none.

    Raises `Rejected` when the bytes end too early or there is no such version."""
    if not data:
        return frozenset()
    found: set[TopicPartition] = set()
    try:
        version, topics = struct.unpack_from(">hi", data)
        at = struct.calcsize(">hi")
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, at)
            (name,) = struct.unpack_from(f">{length}s", data, at + 2)
            (count,) = struct.unpack_from(">i", data, at + 2 + length)
            numbers = struct.unpack_from(f">{count}i", data, at + 6 + length)
            topic = name.decode()
            found.update(TopicPartition(topic, number) for number in numbers)
            at += 6 + length + 4 * count
    except (struct.error, UnicodeDecodeError) as error:
        raise Rejected(
            f"a member's assignment {shown(data)} cannot be read ({error}); update that client"
        ) from None
    if version < 0:
        raise Rejected(f"a member's assignment has version {version}; update that client")
    return frozenset(found)
