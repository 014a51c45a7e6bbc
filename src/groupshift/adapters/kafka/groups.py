"""The Kafka half of a group: membership, committed offsets, log starts and ends, partition counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kafka.errors import for_code

from groupshift.adapters.kafka import protocol
from groupshift.adapters.kafka.connection import KafkaConnection
from groupshift.adapters.kafka.session import Requests
from groupshift.adapters.kafka.subscription import assigned_partitions, subscribed_topics
from groupshift.domain.group import CommittedOffset, KafkaGroup, KafkaMember
from groupshift.domain.observation import KafkaSide, Positions
from groupshift.domain.partitions import TopicPartition

T = TypeVar("T")

_CONSUMERS = "consumer"
"""The protocol type of a group whose members speak of topics and partitions."""


class KafkaGroups:
    """Reads groups at the brokers and changes nothing.

    Every answer is one the coordinator or a leader gave: a partition without a committed offset is
    absent only after it was asked for by name, a group is ``Dead`` only when its coordinator says so.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    def observe(self, group: str, embedded: Collection[str] = ()) -> KafkaSide:
        """Membership, topics of the cluster and all committed offsets.

        ``embedded`` are client ids whose subscription is known otherwise (aware members): only that
        of others is read. Raises as `KafkaConnection.call`.
        """
        return self._connection.call(lambda requests: _observe(requests, group, frozenset(embedded)))

    def positions(
        self, group: str, partitions: Sequence[TopicPartition], answered: Collection[TopicPartition]
    ) -> Positions:
        """Log start and end of ``partitions``, and the committed offsets of those not ``answered``.

        Log ends are read last, so no offset of the same view exceeds them.
        """
        if not partitions:
            return Positions()
        missing = [partition for partition in partitions if partition not in set(answered)]

        async def work(requests: Requests) -> Positions:
            offsets, problems = await _committed(requests, group, missing) if missing else ((), ())
            ends = await protocol.log_ends(requests, partitions)
            return Positions(log_ends=ends, offsets=offsets, problems=problems)

        return self._connection.call(work)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


async def _observe(requests: Requests, group: str, embedded: frozenset[str]) -> KafkaSide:
    coordinator = await requests.coordinator(group)
    describing = protocol.describe(requests, group, coordinator)
    fetching = protocol.fetch_offsets(requests, group, coordinator, None)
    described = protocol.described(group, await describing)
    fetched = protocol.fetched(group, await fetching)
    topics = await requests.topics()
    counts = {name: len(partitions) for name, partitions in topics.items()}
    side = replace(kafka_side(group, described, fetched, (embedded, counts)), brokers=requests.met())
    if described.group_state != "Dead":
        return side
    return replace(side, problems=(*side.problems, *await _contradicted(requests, group)))


def kafka_side(
    group: str,
    described: Any,
    fetched: Mapping[TopicPartition, Any],
    known: tuple[Collection[str], Mapping[str, int]],
) -> KafkaSide:
    """What a coordinator's two answers say of a group; ``known`` are the client ids whose subscription need
    not be read, and the number of partitions of every topic."""
    embedded, counts = known
    offsets, problems = _offsets(group, fetched)
    members = described.members if described.protocol_type == _CONSUMERS else ()
    strangers = [member for member in members if member.client_id not in embedded]
    subscriptions, unread = _read(strangers, "subscription", _subscription)
    assignments, unknown = _read(members, "assignment", _assignment)
    return KafkaSide(
        group=_group(described, assignments),
        subscriptions=subscriptions,
        topics=counts,
        offsets=offsets,
        problems=(*problems, *unread, *unknown),
    )


def _group(described: Any, assignments: Mapping[str, frozenset[TopicPartition]]) -> KafkaGroup:
    members = (
        KafkaMember(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host.lstrip("/"),
            assignment=assignments.get(member.member_id, frozenset()),
        )
        for member in described.members
    )
    return KafkaGroup(
        state=described.group_state,
        protocol=described.protocol_data or "",
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def _subscription(member: Any) -> tuple[str, ...]:
    return subscribed_topics(bytes(member.member_metadata or b""))


def _assignment(member: Any) -> frozenset[TopicPartition]:
    return assigned_partitions(bytes(member.member_assignment or b""))


def _read(
    members: Sequence[Any], what: str, read: Callable[[Any], T]
) -> tuple[Mapping[str, T], tuple[str, ...]]:
    """Per member id what ``read`` makes of it, and a sentence for each that it cannot read."""
    found: dict[str, T] = {}
    unread: list[str] = []
    for member in members:
        try:
            found[member.member_id] = read(member)
        except ValueError as wrong:
            unread.append(
                f"the {what} of Kafka member {member.member_id!r} cannot be read ({wrong}): "
                "what it consumes is known in part only; check what client it runs"
            )
    return found, tuple(unread)


async def _contradicted(requests: Requests, group: str) -> tuple[str, ...]:
    """A group that some broker lists while its coordinator calls it Dead speaks another protocol."""
    if group not in await protocol.groups(requests):
        return ()
    return (
        (
            f"the brokers list group {group!r} but its coordinator describes it as Dead: "
            "it appears to use another group protocol than classic; convert it first"
        ),
    )


async def _committed(
    requests: Requests, group: str, partitions: Sequence[TopicPartition]
) -> tuple[tuple[CommittedOffset, ...], tuple[str, ...]]:
    coordinator = await requests.coordinator(group)
    answer = protocol.fetched(group, await protocol.fetch_offsets(requests, group, coordinator, partitions))
    offsets, problems = _offsets(group, answer)
    silent = [str(partition) for partition in partitions if partition not in answer]
    if silent:
        text = (
            f"the coordinator of group {group!r} said nothing about the committed offsets of "
            f"{', '.join(silent)}: whether they exist is unknown; read the group again"
        )
        problems = (*problems, text)
    return offsets, problems


def _offsets(
    group: str, answer: Mapping[TopicPartition, Any]
) -> tuple[tuple[CommittedOffset, ...], tuple[str, ...]]:
    """Those that exist, with their metadata exactly as it is stored, and a sentence for each error."""
    offsets: list[CommittedOffset] = []
    problems: list[str] = []
    for partition, at in sorted(answer.items()):
        if at.error_code:
            problems.append(
                f"the committed offset of group {group!r} for {partition} cannot be read "
                f"({for_code(at.error_code).__name__}): whether it exists is unknown; read the group again"
            )
        elif at.committed_offset >= 0:
            epoch = getattr(at, "committed_leader_epoch", None)
            offsets.append(
                CommittedOffset(
                    partition=partition,
                    offset=at.committed_offset,
                    metadata=at.metadata or "",
                    leader_epoch=-1 if epoch is None else epoch,
                )
            )
    return tuple(offsets), tuple(problems)
