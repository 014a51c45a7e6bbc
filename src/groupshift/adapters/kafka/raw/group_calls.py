"""The questions about groups, many groups a request; and what an answer says of each of its groups.

Sources: KIP-709 (OffsetFetch 8: many groups), KIP-447 (require_stable), KIP-848 (ConsumerGroupDescribe),
specs/group-coordinator.md, section 5.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.wire import Api, fill

GROUPS_A_REQUEST = 500
_MANY_GROUPS = 8
_NAMED_TOPICS = 9
_FIRST_IN_KAFKA = 2
"""Versions of OffsetFetch: the first for many groups, the last that calls topics by name, and the first that
gives all offsets of a group. ``require_stable`` is known from 7 on (2.5); older brokers show committed
offsets only anyway."""

Question = tuple[Any, tuple[str, ...]]
"""A request and the groups it asks about."""


def list_groups(connection: BrokerConnection) -> Any:
    """The request for all groups of a broker. The answer has each group's type from version 5 on (3.8) and
    its state from 4 on (2.6); no filter is sent, since older brokers could not follow it."""
    schema = connection.messages(Api.LIST_GROUPS).ListGroupsRequest
    return fill(schema, states_filter=(), types_filter=())


def describe_classic(connection: BrokerConnection, groups: Sequence[str]) -> list[Question]:
    """State and members of classic groups."""
    schema = connection.messages(Api.DESCRIBE_GROUPS).DescribeGroupsRequest
    return [(fill(schema, groups=part, include_authorized_operations=False), part) for part in _parts(groups)]


def describe_consumer(connection: BrokerConnection, groups: Sequence[str]) -> list[Question]:
    """State, epochs and members of groups of type consumer."""
    schema = connection.messages(Api.CONSUMER_GROUP_DESCRIBE).ConsumerGroupDescribeRequest
    return [(schema(group_ids=part, include_authorized_operations=False), part) for part in _parts(groups)]


def describe_share(connection: BrokerConnection, groups: Sequence[str]) -> list[Question]:
    """State, epochs and members of groups of type share (KIP-932)."""
    schema = connection.messages(Api.SHARE_GROUP_DESCRIBE).ShareGroupDescribeRequest
    return [(schema(group_ids=part, include_authorized_operations=False), part) for part in _parts(groups)]


def describe_streams(connection: BrokerConnection, groups: Sequence[str]) -> list[Question]:
    """State, epochs, topology and members of groups of type streams (KIP-1071)."""
    schema = connection.messages(Api.STREAMS_GROUP_DESCRIBE).StreamsGroupDescribeRequest
    return [(schema(group_ids=part, include_authorized_operations=False), part) for part in _parts(groups)]


def fetch_offsets(connection: BrokerConnection, groups: Sequence[str]) -> list[Question]:
    """All stable committed offsets; a request for each group at brokers before 3.0."""
    if connection.highest(Api.OFFSET_FETCH) < _MANY_GROUPS:
        schema = connection.messages(Api.OFFSET_FETCH, at_least=_FIRST_IN_KAFKA).OffsetFetchRequest
        return [
            (fill(schema, group_id=group, topics=None, require_stable=True), (group,)) for group in groups
        ]
    module = connection.messages(Api.OFFSET_FETCH, at_least=_MANY_GROUPS, at_most=_NAMED_TOPICS)
    each = module.OffsetFetchRequestGroup
    return [
        (
            module.OffsetFetchRequest(
                groups=tuple(each(group_id=group, topics=None) for group in part), require_stable=True
            ),
            part,
        )
        for part in _parts(groups)
    ]


def fetched(asked: Sequence[str], answer: Any) -> Iterator[tuple[str, int, Any]]:
    """Group, error code and topics of each group in an answer with offsets."""
    if hasattr(answer, "groups"):
        for each in answer.groups:
            yield each.group_id, int(each.error_code), each.topics
    else:
        yield asked[0], int(answer.error_code), answer.topics


def _parts(groups: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(groups), GROUPS_A_REQUEST):
        yield tuple(groups[start : start + GROUPS_A_REQUEST])
