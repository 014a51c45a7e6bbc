"""The Kafka half of a group, or of many: membership, committed offsets, log starts and ends, rights.

Many groups take one request a coordinator and question, for a window of groups at a time. The broker that
lists a group coordinates it, so no coordinator lookup is needed for each group. What cannot be read of one
group is a sentence about that group; it keeps no other group from being read.

`KafkaRights` says whether the tool's identity may see a group and all its topics. A broker silently leaves
out of its lists what this user may not see: topics, groups and committed offsets. It refuses only what a
request names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    NotCoordinatorError,
    TopicAuthorizationFailedError,
    for_code,
)
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from groupshift.adapters.kafka import kafka_python
from groupshift.adapters.kafka.kafka_python import KafkaConnection, Requests, ends_of, raise_for
from groupshift.adapters.kafka.rows import assigned_partitions, subscribed_topics
from groupshift.domain.group import CommittedOffset, KafkaGroup, KafkaMember, LogEnd
from groupshift.domain.observation import KafkaSide, Positions
from groupshift.domain.partitions import TopicPartition
from groupshift.ports.cluster import Identity, Server

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
            ends = await kafka_python.log_ends(requests, partitions)
            return Positions(log_ends=ends, offsets=offsets, problems=problems)

        return self._connection.call(work)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


async def _observe(requests: Requests, group: str, embedded: frozenset[str]) -> KafkaSide:
    coordinator = await requests.coordinator(group)
    describing = kafka_python.describe(requests, group, coordinator)
    fetching = kafka_python.fetch_offsets(requests, group, coordinator, None)
    described = kafka_python.described(group, await describing)
    fetched = kafka_python.fetched(group, await fetching)
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
    if group not in await kafka_python.groups(requests):
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
    answer = kafka_python.fetched(
        group, await kafka_python.fetch_offsets(requests, group, coordinator, partitions)
    )
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


_MOVED = (NotCoordinatorError, CoordinatorNotAvailableError, CoordinatorLoadInProgressError)
"""What a coordinator says of a group that is not its own (any more): the groups are listed again."""

NOT_LISTED = KafkaGroup(state="Dead")


@dataclass(slots=True)
class _Cluster:
    """What holds for a while: the coordinator of each group, partition counts and leaders of each topic."""

    coordinators: dict[str, Any] = field(default_factory=dict)
    leaders: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


class KafkaEnsemble:
    """Reads groups and changes nothing. Raises as `KafkaConnection.call`.

    ``batches`` False asks for the offsets of each group alone, as brokers before Kafka 3.0 want it; a broker
    that is too old for batches is asked so anyway."""

    def __init__(self, connection: KafkaConnection, *, batches: bool = True) -> None:
        self._connection = connection
        self._cluster: _Cluster | None = None
        self._batches = batches

    def groups(self) -> tuple[str, ...]:
        """The groups that any broker lists, sorted; learns their coordinators anew."""
        self._cluster = None

        async def work(requests: Requests) -> tuple[str, ...]:
            return tuple(sorted((await self._known(requests)).coordinators))

        return self._connection.call(work)

    def observe(self, groups: Mapping[str, Sequence[str]]) -> dict[str, KafkaSide]:
        """Membership and committed offsets of each group; the values are client ids whose subscription is
        known otherwise (aware members). A group that no broker lists is ``Dead`` and has no offsets, unless
        it has such members: its coordinator is asked then."""

        async def work(requests: Requests) -> dict[str, KafkaSide]:
            try:
                return await self._observe(requests, groups)
            except _MOVED:
                self._cluster = None
                raise

        return self._connection.call(work)

    def log_ends(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, LogEnd], list[str]]:
        """Log start and end of each partition, and a sentence about each that has none now."""
        wanted = sorted(set(partitions))

        async def work(requests: Requests) -> tuple[dict[TopicPartition, LogEnd], list[str]]:
            cluster = await self._known(requests)
            ends, problems = await ends_of(requests, wanted, cluster.leaders)
            if problems:
                self._cluster = None
                cluster = await self._known(requests)
                ends, problems = await ends_of(requests, wanted, cluster.leaders)
            return ends, problems

        return self._connection.call(work) if wanted else ({}, [])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    async def _known(self, requests: Requests) -> _Cluster:
        if self._cluster is None:
            leaders = await requests.topics()
            counts = {name: len(partitions) for name, partitions in leaders.items()}
            self._cluster = _Cluster(await _coordinators(requests), leaders, counts)
        return self._cluster

    async def _observe(self, requests: Requests, groups: Mapping[str, Sequence[str]]) -> dict[str, KafkaSide]:
        cluster = await self._known(requests)
        for group, embedded in groups.items():
            if embedded and group not in cluster.coordinators:
                cluster.coordinators[group] = await requests.coordinator(group)
        asked: dict[Any, list[str]] = defaultdict(list)
        for group in groups:
            if group in cluster.coordinators:
                asked[cluster.coordinators[group]].append(group)
        described = [(n, requests.send(_describe(names), n)) for n, names in asked.items()]
        found = {each.group_id: each for _, sent in described for each in (await sent).groups}
        offsets = await self._offsets(requests, asked)
        return {
            group: _side(group, found.get(group), offsets.get(group), embedded, cluster.counts)
            for group, embedded in groups.items()
        }

    async def _offsets(self, requests: Requests, asked: Mapping[Any, list[str]]) -> dict[str, Any]:
        """Per group what its coordinator answers; together where the brokers know how (3.0)."""
        if self._batches:
            sent = [requests.send(_fetch_all(names), node) for node, names in asked.items()]
            try:
                return {each.group_id: each for waiting in sent for each in (await waiting).groups}
            except IncompatibleBrokerVersion:
                self._batches = False
        single = [
            (name, kafka_python.fetch_offsets(requests, name, node, None))
            for node, names in asked.items()
            for name in names
        ]
        return {name: await waiting for name, waiting in single}


async def _coordinators(requests: Requests) -> dict[str, Any]:
    """Node id of the coordinator of every group that a broker lists."""
    sent = [(n, requests.send(ListGroupsRequest(max_version=3), n)) for n in requests.brokers()]
    listed: dict[str, Any] = {}
    for node, waiting in sent:
        answer = await waiting
        raise_for(answer.error_code, "groups are not listed")
        listed |= {each.group_id: node for each in answer.groups}
    return listed


def _describe(groups: list[str]) -> Any:
    return DescribeGroupsRequest(groups=groups, include_authorized_operations=False, max_version=5)


def _fetch_all(groups: list[str]) -> Any:
    each = OffsetFetchRequest.OffsetFetchRequestGroup
    asked = [each(group_id=group, topics=None) for group in groups]
    return OffsetFetchRequest(groups=asked, require_stable=False, min_version=8, max_version=8)


def _side(
    group: str, described: Any, fetched: Any, embedded: Sequence[str], counts: Mapping[str, int]
) -> KafkaSide:
    if described is None or fetched is None:
        return KafkaSide(group=NOT_LISTED, topics=counts)
    for answer in (described, fetched):
        if answer.error_code in {kind.errno for kind in _MOVED}:
            raise_for(answer.error_code, f"group {group!r} has moved")
        if answer.error_code:
            reason = for_code(answer.error_code).__name__
            text = f"the coordinator of group {group!r} refuses to describe it ({reason}): check the ACLs"
            return KafkaSide(group=KafkaGroup(state="Unknown"), topics=counts, problems=(text,))
    side = kafka_side(group, described, kafka_python.fetched(group, fetched), (embedded, counts))
    if described.group_state != "Dead":
        return side
    text = (
        f"the brokers list group {group!r} but its coordinator describes it as Dead: it was deleted "
        "just now, or uses another group protocol than classic"
    )
    return KafkaSide(group=side.group, topics=counts, offsets=side.offsets, problems=(*side.problems, text))


class KafkaRights:
    """Asks and changes nothing."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    def identity(self, group: str, topics: Sequence[str]) -> Identity:
        """Describe on the group and on each topic. Raises as `KafkaConnection.call`."""

        async def work(requests: Requests) -> tuple[str, ...]:
            return (*await _group_rights(requests, group), *await _topics(requests, topics))

        missing = self._connection.call(work)
        return Identity(server=Server.KAFKA, who=self._connection.who, missing=missing)


async def _group_rights(requests: Requests, group: str) -> tuple[str, ...]:
    try:
        coordinator = await requests.coordinator(group)
        kafka_python.described(group, await kafka_python.describe(requests, group, coordinator))
        kafka_python.fetched(group, await kafka_python.fetch_offsets(requests, group, coordinator, None))
    except GroupAuthorizationFailedError:
        return (f"Describe group {group}",)
    return ()


async def _topics(requests: Requests, topics: Sequence[str]) -> tuple[str, ...]:
    if not topics:
        return ()
    wanted = [MetadataRequest.MetadataRequestTopic(name=each) for each in topics]
    asked = MetadataRequest(topics=wanted, allow_auto_topic_creation=False, min_version=4, max_version=8)
    answer = await requests.send(asked)
    refused = TopicAuthorizationFailedError.errno
    return tuple(f"Describe topic {each.name}" for each in answer.topics if each.error_code == refused)
