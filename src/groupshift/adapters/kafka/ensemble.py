"""The Kafka half of many groups: one request a coordinator and question, for a window of groups at a time.

Who coordinates a group follows from the broker that lists it, so no coordinator is asked for one by one. What
cannot be read of one group is a sentence about that group; it keeps no other from being read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    IncompatibleBrokerVersion,
    NotCoordinatorError,
    for_code,
)
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest

from groupshift.adapters.kafka import protocol
from groupshift.adapters.kafka.connection import KafkaConnection
from groupshift.adapters.kafka.groups import kafka_side
from groupshift.adapters.kafka.offsets import ends_of
from groupshift.adapters.kafka.session import Requests, raise_for
from groupshift.domain.group import KafkaGroup, LogEnd
from groupshift.domain.observation import KafkaSide
from groupshift.domain.partitions import TopicPartition

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
            (name, protocol.fetch_offsets(requests, name, node, None))
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
    side = kafka_side(group, described, protocol.fetched(group, fetched), (embedded, counts))
    if described.group_state != "Dead":
        return side
    text = (
        f"the brokers list group {group!r} but its coordinator describes it as Dead: it was deleted "
        "just now, or uses another group protocol than classic"
    )
    return KafkaSide(group=side.group, topics=counts, offsets=side.offsets, problems=(*side.problems, text))
