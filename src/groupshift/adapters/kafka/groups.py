"""The Kafka half of a group: membership, committed offsets, log starts and ends, partition counts."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import OffsetSpec

from groupshift.adapters.kafka.connection import KafkaConnection, Requests
from groupshift.adapters.kafka.subscription import subscribed_topics
from groupshift.domain.group import CommittedOffset, KafkaGroup, KafkaMember, LogEnd
from groupshift.domain.observation import KafkaSide, Positions
from groupshift.domain.partitions import TopicPartition

_STATES = {
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
}
_GROUP_ID_NOT_FOUND = 69
"""What brokers from 4.0 answer instead of the state Dead (KIP-1043)."""


class KafkaGroups:
    """Reads groups at the brokers and changes nothing.

    Every answer is one the coordinator or a leader gave: a partition without a committed offset is
    absent only after it was asked for by name, a group is ``Dead`` only when its coordinator says so.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    def observe(self, group: str, embedded: Collection[str] = ()) -> KafkaSide:
        """Membership, topics of the cluster and all committed offsets.

        ``embedded`` are client ids whose subscription is known otherwise (aware members): only for
        others the brokers are asked a second time. Raises as `KafkaConnection.call`.
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

        def work(requests: Requests) -> Positions:
            offsets, problems = _committed(requests, group, missing) if missing else ((), ())
            ends = _log_ends(requests, partitions)
            return Positions(log_ends=ends, offsets=offsets, problems=problems)

        return self._connection.call(work)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _observe(requests: Requests, group: str, embedded: frozenset[str]) -> KafkaSide:
    described = requests.admin.describe_consumer_groups([group], request_timeout=requests.left_s)
    fetched = _fetch_offsets(requests, group, None)
    listed = requests.admin.list_topics(timeout=requests.left_s).topics
    found = _group(requests, described[group])
    offsets, problems = _offsets(group, requests.result(fetched).topic_partitions)
    strangers = [member for member in found.members if member.client_id not in embedded]
    subscriptions, unread = _subscriptions(requests, group, strangers) if strangers else ({}, ())
    if found.state == "Dead":
        problems = (*problems, *_contradicted(requests, group))
    return KafkaSide(
        group=found,
        subscriptions=subscriptions,
        topics={name: len(topic.partitions) for name, topic in listed.items()},
        offsets=offsets,
        problems=(*problems, *unread),
    )


def _group(requests: Requests, described: Any) -> KafkaGroup:
    try:
        answer = requests.result(described)
    except KafkaException as failed:
        if failed.args[0].code() == _GROUP_ID_NOT_FOUND:
            return KafkaGroup(state="Dead")
        raise
    members = (_member(member) for member in answer.members)
    return KafkaGroup(
        state=_STATES.get(answer.state, answer.state.name.title()),
        protocol=answer.partition_assignor or "",
        members=tuple(sorted(members, key=lambda member: member.member_id)),
    )


def _member(member: Any) -> KafkaMember:
    return KafkaMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.host.lstrip("/"),
        assignment=frozenset(
            TopicPartition(at.topic, at.partition) for at in member.assignment.topic_partitions
        ),
    )


def _contradicted(requests: Requests, group: str) -> tuple[str, ...]:
    """A group that some broker lists while its coordinator calls it Dead speaks another protocol."""
    future = requests.admin.list_consumer_groups(request_timeout=requests.left_s)
    listing = requests.result(future)
    for error in listing.errors or ():
        raise error
    if group not in {one.group_id for one in listing.valid or ()}:
        return ()
    return (
        (
            f"the brokers list group {group!r} but its coordinator describes it as Dead: "
            "it appears to use another group protocol than classic; convert it first"
        ),
    )


def _subscriptions(
    requests: Requests, group: str, strangers: Sequence[KafkaMember]
) -> tuple[Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    wanted = {member.member_id for member in strangers}
    found: dict[str, tuple[str, ...]] = {}
    unread: list[str] = []
    for listed in _with_metadata(requests, group):
        for member in listed.members if listed.id == group else ():
            if member.id not in wanted:
                continue
            try:
                found[member.id] = subscribed_topics(member.metadata)
            except ValueError as wrong:
                unread.append(
                    f"the subscription of Kafka member {member.id!r} cannot be read ({wrong}): "
                    "only its assignment is known; check what client it runs"
                )
    return found, tuple(unread)


def _with_metadata(requests: Requests, group: str) -> Sequence[Any]:
    """The one call of this client that hands out what members sent when they joined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        listed: Sequence[Any] = requests.admin.list_groups(group=group, timeout=requests.left_s)
        return listed


def _fetch_offsets(requests: Requests, group: str, partitions: Sequence[TopicPartition] | None) -> Any:
    asked = None if partitions is None else [ClientPartition(at.topic, at.partition) for at in partitions]
    request = ConsumerGroupTopicPartitions(group, asked)
    return requests.admin.list_consumer_group_offsets([request], request_timeout=requests.left_s)[group]


def _committed(
    requests: Requests, group: str, partitions: Sequence[TopicPartition]
) -> tuple[tuple[CommittedOffset, ...], tuple[str, ...]]:
    answer = requests.result(_fetch_offsets(requests, group, partitions)).topic_partitions
    offsets, problems = _offsets(group, answer)
    answered = {TopicPartition(at.topic, at.partition) for at in answer}
    silent = [str(partition) for partition in partitions if partition not in answered]
    if silent:
        text = (
            f"the coordinator of group {group!r} said nothing about the committed offsets of "
            f"{', '.join(silent)}: whether they exist is unknown; read the group again"
        )
        problems = (*problems, text)
    return offsets, problems


def _offsets(group: str, answer: Sequence[Any]) -> tuple[tuple[CommittedOffset, ...], tuple[str, ...]]:
    offsets: list[CommittedOffset] = []
    problems: list[str] = []
    for at in answer:
        partition = TopicPartition(at.topic, at.partition)
        if at.error is not None:
            problems.append(
                f"the committed offset of group {group!r} for {partition} cannot be read "
                f"({at.error.name()}): whether it exists is unknown; read the group again"
            )
        elif at.offset >= 0:
            offsets.append(CommittedOffset(partition=partition, offset=at.offset, metadata=at.metadata or ""))
    return tuple(sorted(offsets, key=lambda at: at.partition)), tuple(problems)


def _log_ends(requests: Requests, partitions: Sequence[TopicPartition]) -> tuple[LogEnd, ...]:
    starts = _list_offsets(requests, partitions, OffsetSpec.earliest())
    ends = _list_offsets(requests, partitions, OffsetSpec.latest())
    return tuple(
        LogEnd(
            partition=partition,
            start=_offset(requests, partition, starts),
            end=_offset(requests, partition, ends),
        )
        for partition in sorted(partitions)
    )


def _list_offsets(requests: Requests, partitions: Sequence[TopicPartition], spec: Any) -> Mapping[Any, Any]:
    asked = {ClientPartition(at.topic, at.partition): spec for at in partitions}
    answers = requests.admin.list_offsets(asked, request_timeout=requests.left_s)
    return {TopicPartition(at.topic, at.partition): future for at, future in answers.items()}


def _offset(requests: Requests, partition: TopicPartition, futures: Mapping[Any, Any]) -> int:
    offset: int = requests.result(futures[partition]).offset
    if offset < 0:
        error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"{partition} has no log end")
        raise KafkaException(error)
    return offset
