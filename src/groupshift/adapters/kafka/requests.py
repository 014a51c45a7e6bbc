"""Requests about groups, coordinators and brokers, and what each answer says.

Requests about groups take many groups each. Sources: KIP-709 (OffsetFetch 8: many groups), KIP-447
(require_stable), KIP-848 (ConsumerGroupDescribe), KIP-699 (FindCoordinator 4: many keys), KIP-226 and KIP-569
(DescribeConfigs and the source of a value), KIP-584 (features), KIP-1142 (ListConfigResources);
docs/reference/group-coordinator.md §3.4 step 9, §5.4 and §7.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift import __version__
from groupshift.adapters.kafka.broker import BrokerConnection
from groupshift.adapters.kafka.wire import Api, error_name, fill, grouped, raise_for
from groupshift.domain.cluster import Property
from groupshift.domain.group_protocol import ALIKE, ASSIGNMENT_INTERVAL, BrokerSettings
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.placement import NOBODY

GROUPS_A_REQUEST = 500
_MANY_GROUPS = 8
_NAMED_TOPICS = 9
_FIRST_IN_KAFKA = 2
"""Versions of OffsetFetch: the first for many groups, the last that calls topics by name, and the first that
gives all offsets of a group. ``require_stable`` is known from 7 on (2.5); older brokers show committed
offsets only anyway."""

ABSENT_IS_DEAD = 5
"""The last version of DescribeGroups that calls an absent group ``Dead``; 6 answers an error (KIP-1043)."""
EARLIEST, LATEST = -2, -1
_BY_OFFSET, _PLAIN = 1, 7
"""ListOffsets 1 is the first that answers one offset (0 answers many); after 7 comes tiered storage."""
_CLIENT = -1
_PARTITIONS_A_REQUEST = 2000

Question = tuple[Any, tuple[str, ...]]
"""A request and the groups it asks about."""


def list_groups(connection: BrokerConnection) -> Any:
    """The request for all groups of a broker. The answer has each group's type from version 5 on (3.8) and
    its state from 4 on (2.6); no filter is sent, since older brokers could not follow it."""
    schema = connection.messages(Api.LIST_GROUPS).ListGroupsRequest
    return fill(schema, states_filter=(), types_filter=())


def describe_classic(
    connection: BrokerConnection, groups: Sequence[str], *, at_most: int = 32_767
) -> list[Question]:
    """State and members of classic groups; see `ABSENT_IS_DEAD` for those that are not there."""
    schema = connection.messages(Api.DESCRIBE_GROUPS, at_most=at_most).DescribeGroupsRequest
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


def fetch_offsets(
    connection: BrokerConnection,
    groups: Sequence[str],
    *,
    partitions: Iterable[TopicPartition] | None = None,
    stable: bool = True,
    together: bool = True,
) -> list[Question]:
    """Committed offsets: of ``partitions``, or of all that have one. ``stable`` gives an error for those that
    an open transaction commits, else what was committed before. A request for each group at brokers before
    3.0, or where they are not to be asked ``together``."""
    if not together or connection.highest(Api.OFFSET_FETCH) < _MANY_GROUPS:
        module = connection.messages(Api.OFFSET_FETCH, at_least=_FIRST_IN_KAFKA, at_most=_MANY_GROUPS - 1)
        topics = None if partitions is None else _named(module.OffsetFetchRequestTopic, partitions)
        request = partial(fill, module.OffsetFetchRequest, topics=topics, require_stable=stable)
        return [(request(group_id=group), (group,)) for group in groups]
    module = connection.messages(Api.OFFSET_FETCH, at_least=_MANY_GROUPS, at_most=_NAMED_TOPICS)
    topics = None if partitions is None else _named(module.OffsetFetchRequestTopics, partitions)
    each = partial(module.OffsetFetchRequestGroup, topics=topics)
    return [
        (
            module.OffsetFetchRequest(
                groups=tuple(each(group_id=group) for group in part), require_stable=stable
            ),
            part,
        )
        for part in _parts(groups)
    ]


def _named(schema: Any, partitions: Iterable[TopicPartition]) -> tuple[Any, ...]:
    return tuple(
        schema(name=name, partition_indexes=tuple(each)) for name, each in grouped(partitions).items()
    )


def fetched(asked: Sequence[str], answer: Any) -> Iterator[tuple[str, int, Any]]:
    """Group, error code and topics of each group in an answer with offsets."""
    if hasattr(answer, "groups"):
        for each in answer.groups:
            yield each.group_id, int(each.error_code), each.topics
    else:
        yield asked[0], int(answer.error_code), answer.topics


def list_offsets(connection: BrokerConnection, partitions: Sequence[TopicPartition]) -> list[tuple[Any, int]]:
    """The questions for log starts (`EARLIEST`) and log ends (`LATEST`) of partitions that this broker leads,
    each with which of the two it asks for."""
    module = connection.messages(Api.LIST_OFFSETS, at_least=_BY_OFFSET, at_most=_PLAIN)
    asked = []
    for start in range(0, len(partitions), _PARTITIONS_A_REQUEST):
        named = grouped(partitions[start : start + _PARTITIONS_A_REQUEST])
        for spec in (EARLIEST, LATEST):
            topics = tuple(
                module.ListOffsetsTopic(
                    name=name,
                    partitions=tuple(
                        module.ListOffsetsPartition(partition_index=number, timestamp=spec) for number in each
                    ),
                )
                for name, each in named.items()
            )
            request = fill(module.ListOffsetsRequest, replica_id=_CLIENT, isolation_level=0, topics=topics)
            asked.append((request, spec))
    return asked


def _parts(groups: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(groups), GROUPS_A_REQUEST):
        yield tuple(groups[start : start + GROUPS_A_REQUEST])


_GROUP = 0
_BATCHED = 4
_KEYS_A_REQUEST = 1000
_NOT_AVAILABLE = 15
_NOT_COORDINATOR = 16


def coordinators_told(connection: BrokerConnection, groups: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Each group and what the broker answers for it: ``error_code`` and ``node_id``."""
    asked = tuple(groups)
    if connection.highest(Api.FIND_COORDINATOR) < _BATCHED:
        schema = connection.messages(Api.FIND_COORDINATOR, at_most=_BATCHED - 1)
        requests = [fill(schema.FindCoordinatorRequest, key=group, key_type=_GROUP) for group in asked]
        yield from zip(asked, connection.ask_all(requests), strict=True)
        return
    schema = connection.messages(Api.FIND_COORDINATOR, at_least=_BATCHED).FindCoordinatorRequest
    remaining, requests = iter(asked), []
    while keys := tuple(islice(remaining, _KEYS_A_REQUEST)):
        requests.append(schema(key_type=_GROUP, coordinator_keys=keys))
    for answer in connection.ask_all(requests):
        yield from ((each.key, each) for each in answer.coordinators)


def named_by(connection: BrokerConnection, names: Sequence[str]) -> dict[str, int]:
    """The node that this very broker names as coordinator of each group; `NOBODY` where it says that there
    is none now. Raises `BrokerError` for anything else. Where there is no offsets topic, asking makes it."""
    found = {}
    for name, each in coordinators_told(connection, names):
        if int(each.error_code) == _NOT_AVAILABLE:
            found[name] = NOBODY
        else:
            raise_for(each.error_code, f"{connection.address} names no coordinator of {name!r}")
            found[name] = int(each.node_id)
    return found


def with_offsets(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[str]:
    """Those of ``groups`` for which this broker, their coordinator, has an offset, or one that is not stable
    yet. Raises `BrokerError`."""
    for request, asked in fetch_offsets(connection, groups):
        for group, code, topics in fetched(asked, connection.ask(request)):
            raise_for(code, f"{connection.address} does not tell the offsets of {group!r}")
            told = [each for topic in topics or () for each in topic.partitions]
            if any(int(each.committed_offset) >= 0 or int(each.error_code) for each in told):
                yield group


def served_by(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[str]:
    """Those of ``groups`` for which this very broker answers. Raises `BrokerError`."""
    for request, asked in fetch_offsets(connection, groups):
        for group, code, _ in fetched(asked, connection.ask(request)):
            if code != _NOT_COORDINATOR:
                raise_for(code, f"{connection.address} does not tell the offsets of {group!r}")
                yield group


_GROUP_KEY = 0
_BROKER_CONFIG = 4
_HEARTBEAT = 68
_NEWEST_VERSIONS = 4
_METADATA = "metadata.version"
_TOLD = (*ALIKE, ASSIGNMENT_INTERVAL)


def find_coordinator(connection: BrokerConnection, group: str) -> Any:
    """The request for the group's coordinator, as this very broker knows it."""
    schema = connection.messages(Api.FIND_COORDINATOR).FindCoordinatorRequest
    return fill(schema, key=group, key_type=_GROUP_KEY, coordinator_keys=(group,))


def coordinator_of(answer: Any) -> int | None:
    """The node id; None while there is none."""
    told = answer.coordinators[0] if hasattr(answer, "coordinators") else answer
    return None if told.error_code else int(told.node_id)


def describe_group_settings(connection: BrokerConnection, node_id: int) -> Any:
    """The request for the properties of this very broker that bear on groups."""
    module = connection.messages(Api.DESCRIBE_CONFIGS)
    asked = module.DescribeConfigsResource(
        resource_type=_BROKER_CONFIG, resource_name=str(node_id), configuration_keys=_TOLD
    )
    return fill(
        module.DescribeConfigsRequest, resources=(asked,), include_synonyms=False, include_documentation=False
    )


def versions(connection: BrokerConnection) -> Any:
    """ApiVersions once more: the levels of features change while a connection lives."""
    schema = connection.messages(Api.API_VERSIONS, at_most=_NEWEST_VERSIONS).ApiVersionsRequest
    return fill(schema, client_software_name="groupshift", client_software_version=__version__)


def with_versions(settings: BrokerSettings, answer: Any) -> BrokerSettings:
    """What ApiVersions says of requests and features."""
    highest = {int(each.api_key): int(each.max_version) for each in answer.api_keys}
    finalised = getattr(answer, "finalized_features", ())
    supported = {each.name: int(each.max_version) for each in getattr(answer, "supported_features", ())}
    return replace(
        settings,
        heartbeats=highest.get(_HEARTBEAT, -1),
        listings=highest.get(Api.LIST_GROUPS, -1),
        descriptions=highest.get(Api.DESCRIBE_GROUPS, -1),
        features={each.name: int(each.max_version_level) for each in finalised},
        metadata=supported.get(_METADATA, 0),
    )


def with_properties(settings: BrokerSettings, answer: Any) -> BrokerSettings:
    """What `describe_group_settings` is answered."""
    told = answer.results[0]
    return replace(
        settings,
        properties={each.name: each.value or "" for each in told.configs},
        untold=error_name(told.error_code) if told.error_code else "",
    )


_GROUP_CONFIG = 32
_STATIC, _DYNAMIC, _DEFAULT_OF_CLUSTER, _OF_GROUP = 4, 2, 3, 8
"""Sources of a value: the broker's file, set for this broker, set for all brokers, set for a group."""
_LIST_CONFIG_RESOURCES, _OF_TYPES = 74, 1
_SHOWS_ALL_FEATURES = 4
_RESOURCES_A_REQUEST = 500


def ask_versions(connection: BrokerConnection) -> Any:
    """ApiVersions again: what a connection was told when it was made is of that moment."""
    schema = connection.messages(Api.API_VERSIONS, at_most=_SHOWS_ALL_FEATURES).ApiVersionsRequest
    return fill(schema, client_software_name="groupshift", client_software_version=__version__)


def supported(answer: Any) -> dict[str, tuple[int, int]]:
    """Lowest and highest level of each feature; before version 4 those whose lowest is 0 are missing."""
    told = getattr(answer, "supported_features", ())
    return {each.name: (int(each.min_version), int(each.max_version)) for each in told}


def finalised(answer: Any) -> dict[str, int]:
    """Level of each feature that is finalised above 0, as this broker knows it now."""
    told = getattr(answer, "finalized_features", ())
    return {each.name: int(each.max_version_level) for each in told}


def describe_broker(connection: BrokerConnection, node_id: int) -> Any:
    """The request for everything that this very broker is configured with."""
    return _describe(connection, _BROKER_CONFIG, [str(node_id)])


def configured_properties(result: Any) -> dict[str, Property]:
    """What was set in a broker's file, or for it in the metadata; no defaults."""
    return {
        each.name: Property(value=each.value, static=each.config_source == _STATIC)
        for each in result.configs
        if each.config_source in {_STATIC, _DYNAMIC, _DEFAULT_OF_CLUSTER}
    }


def lists_group_configs(connection: BrokerConnection) -> bool:
    """Whether the broker lists which groups have configurations (since 4.1)."""
    theirs = connection.versions.get(_LIST_CONFIG_RESOURCES)
    return theirs is not None and theirs.highest >= _OF_TYPES


def groups_with_configs(connection: BrokerConnection) -> tuple[str, ...]:
    """Names of groups that have any. Raises `BrokerError`."""
    module = load_payload_module(_LIST_CONFIG_RESOURCES, _OF_TYPES, EntityType.request)
    answer = connection.ask(module.ListConfigResourcesRequest(resource_types=(_GROUP_CONFIG,)))
    raise_for(answer.error_code, "the groups with configurations are not listed")
    return tuple(sorted(str(each.resource_name) for each in answer.config_resources))


def configs_of_groups(connection: BrokerConnection, groups: Sequence[str]) -> Mapping[str, dict[str, str]]:
    """What is set for each of these groups; groups for which nothing is are left out. Raises
    `BrokerError`."""
    found = {}
    for group, result in _described(connection, groups):
        raise_for(result.error_code, f"configurations of group {group!r}", said=result.error_message)
        own = {each.name: each.value or "" for each in result.configs if each.config_source == _OF_GROUP}
        if own:
            found[group] = own
    return found


def _described(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[tuple[str, Any]]:
    parts = (
        groups[start : start + _RESOURCES_A_REQUEST] for start in range(0, len(groups), _RESOURCES_A_REQUEST)
    )
    for answer in connection.ask_all(_describe(connection, _GROUP_CONFIG, part) for part in parts):
        yield from ((str(result.resource_name), result) for result in answer.results)


def _describe(connection: BrokerConnection, kind: int, names: Sequence[str]) -> Any:
    module = connection.messages(Api.DESCRIBE_CONFIGS, at_least=1)
    resources = tuple(
        module.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for name in names
    )
    return fill(
        module.DescribeConfigsRequest,
        resources=resources,
        include_synonyms=False,
        include_documentation=False,
    )
