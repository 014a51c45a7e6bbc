"""Requests about groups, coordinators, topics, brokers and the whole cluster, and what each answer says.

Requests about groups take many groups each. Sources: KIP-709 (OffsetFetch 8: many groups), KIP-447
(require_stable), KIP-848 (ConsumerGroupDescribe), KIP-932 (ShareGroupDescribe), KIP-1071
(StreamsGroupDescribe), KIP-699 (FindCoordinator 4: many keys), KIP-226 and KIP-569 (DescribeConfigs and the
source of a value), KIP-584 (features), KIP-778 (safe and unsafe
downgrades), KIP-595 and KIP-836 (DescribeQuorum), KIP-1142 (ListConfigResources);
docs/reference/group-coordinator.md §3.4 step 9, §5.4 and §7.3.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from groupshift.adapters.kafka.connection_and_login import NEWEST_VERSIONS, SOFTWARE, BrokerConnection
from groupshift.adapters.kafka.wire import Api, error_name, in_parts, raise_for
from groupshift.domain.cluster import QuorumView
from groupshift.domain.group_partition_and_count import NOBODY
from groupshift.domain.group_protocol import ALIKE, ASSIGNMENT_INTERVAL, BrokerSettings, Kind
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.versions import METADATA

_GROUPS_A_REQUEST = 500
_PARTITIONS_A_REQUEST = 2000
_KEYS_A_REQUEST = 1000
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
_BATCHED = 4
"""FindCoordinator 4 is the first for many keys."""
TOPIC, BROKER, GROUP = 2, 4, 32
"""Types of resources that have configurations."""
OF_TOPIC, OF_GROUP = 1, 8
"""The sources of values that are set for a topic itself, and for a group."""
OF_GROUPS = (*ALIKE, ASSIGNMENT_INTERVAL)
"""The properties of a broker that bear on groups."""


Question = tuple[Any, tuple[str, ...]]
"""A request and the groups it asks about."""
DESCRIBED: Mapping[Kind, Api] = {
    Kind.CLASSIC: Api.DESCRIBE_GROUPS,
    Kind.CONSUMER: Api.CONSUMER_GROUP_DESCRIBE,
    Kind.SHARE: Api.SHARE_GROUP_DESCRIBE,
    Kind.STREAMS: Api.STREAMS_GROUP_DESCRIBE,
}
"""The request that describes groups of a kind: their state, epochs and members."""


def metadata(connection: BrokerConnection, topics: Iterable[str] | None, *, at_most: int = 9) -> Any:
    """Ask this very broker for all brokers and for these topics (None: all); see `metadata_request`."""
    return connection.ask(metadata_request(connection, topics, at_most=at_most))


def metadata_request(connection: BrokerConnection, topics: Iterable[str] | None, *, at_most: int = 9) -> Any:
    """The request for all brokers and for these topics (None: all), which asking does not make.

    From version 4 on a request can forbid making them; after 9 topics are named by id too. The answer has
    leader epochs from 7 on, and ids of topics from 10 on."""
    named = None if topics is None else [{"topic_id": None, "name": name} for name in topics]
    return connection.request(
        Api.METADATA,
        at_least=4,
        at_most=at_most,
        topics=named,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def replicas_lacking(topics: Iterable[Any], wanted: Collection[int]) -> str:
    """The first partition without a leader, or with a replica on one of these brokers that is not in sync;
    empty when there is none."""
    for topic in topics:
        for each in topic.partitions:
            late = (set(map(int, each.replica_nodes)) & set(wanted)) - set(map(int, each.isr_nodes))
            where = f"{topic.name}-{each.partition_index}"
            if int(each.leader_id) < 0:
                return f"{where} has no leader"
            if late:
                return f"{where} is not in sync on broker {', '.join(map(str, sorted(late)))}"
    return ""


def list_groups(connection: BrokerConnection) -> Any:
    """The request for all groups of a broker. The answer has each group's type from version 5 on (3.8) and
    its state from 4 on (2.6); no filter is sent, since older brokers could not follow it."""
    return connection.request(Api.LIST_GROUPS, states_filter=(), types_filter=())


def describe(
    connection: BrokerConnection, kind: Kind, groups: Sequence[str], *, at_most: int = 32_767
) -> list[Question]:
    """The questions for groups of a kind; see `ABSENT_IS_DEAD` for classic ones that are not there."""
    ask = partial(connection.request, DESCRIBED[kind], at_most=at_most, include_authorized_operations=False)
    return [(ask(groups=part, group_ids=part), part) for part in in_parts(groups, _GROUPS_A_REQUEST)]


def fetch_offsets(
    connection: BrokerConnection,
    groups: Sequence[str],
    *,
    partitions: Iterable[TopicPartition] | None = None,
    stable: bool = True,
) -> list[Question]:
    """Committed offsets: of ``partitions``, or of all that have one. ``stable`` gives an error for those that
    an open transaction commits, else what was committed before. A request for each group at brokers before
    3.0."""
    topics = None if partitions is None else named(partitions, "partition_indexes")
    ask = partial(connection.request, Api.OFFSET_FETCH, require_stable=stable)
    if connection.highest(Api.OFFSET_FETCH) < _MANY_GROUPS:
        alone = partial(ask, at_least=_FIRST_IN_KAFKA, at_most=_MANY_GROUPS - 1, topics=topics)
        return [(alone(group_id=group), (group,)) for group in groups]
    many = partial(ask, at_least=_MANY_GROUPS, at_most=_NAMED_TOPICS)
    return [
        (many(groups=[{"group_id": group, "topics": topics} for group in part]), part)
        for part in in_parts(groups, _GROUPS_A_REQUEST)
    ]


def named(items: Iterable[tuple[str, Any]], of: str = "partitions") -> list[dict[str, Any]]:
    """Topics by name with what belongs to each, as requests have them."""
    return [{"name": name, of: each} for name, each in grouped(items).items()]


def fetched(names: Sequence[str], answer: Any) -> Iterator[tuple[str, int, Any]]:
    """Group, error code and topics of each group in an answer with offsets."""
    if hasattr(answer, "groups"):
        for each in answer.groups:
            yield each.group_id, int(each.error_code), each.topics
    else:
        yield names[0], int(answer.error_code), answer.topics


def fetch_now(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[tuple[str, int, Any]]:
    """Ask this very broker for the stable offsets of these groups: as `fetched`."""
    for request, names in fetch_offsets(connection, groups):
        yield from fetched(names, connection.ask(request))


def list_offsets(connection: BrokerConnection, partitions: Sequence[TopicPartition]) -> list[tuple[Any, int]]:
    """The questions for log starts (`EARLIEST`) and log ends (`LATEST`) of partitions that this broker leads,
    each with which of the two it asks for."""
    return [
        (log_offsets(connection, part, spec), spec)
        for part in in_parts(partitions, _PARTITIONS_A_REQUEST)
        for spec in (EARLIEST, LATEST)
    ]


def log_offsets(
    connection: BrokerConnection, partitions: Iterable[tuple[str, int]], spec: int, *, isolation: int = 0
) -> Any:
    """The request for the log starts or ends (``spec``) of partitions that this broker leads; an isolation
    level is known from version 2 on."""
    wanted = ((name, {"partition_index": number, "timestamp": spec}) for name, number in partitions)
    return connection.request(
        Api.LIST_OFFSETS,
        at_least=_BY_OFFSET,
        at_most=_PLAIN,
        replica_id=-1,
        isolation_level=isolation,
        topics=named(wanted),
    )


def find_coordinators(connection: BrokerConnection, groups: Sequence[str]) -> list[Question]:
    """The questions for the coordinators of groups, as this very broker knows them. Where there is no offsets
    topic, asking makes it."""
    many = connection.highest(Api.FIND_COORDINATOR) >= _BATCHED
    ask = partial(connection.request, Api.FIND_COORDINATOR, key_type=0)
    parts = in_parts(groups, _KEYS_A_REQUEST if many else 1)
    return [(ask(key=part[0], coordinator_keys=part), part) for part in parts]


def coordinators_in(names: Sequence[str], answer: Any) -> Iterator[tuple[str, int, int]]:
    """Each group of an answer with the node id of its coordinator and the error code."""
    for each in getattr(answer, "coordinators", (answer,)):
        yield getattr(each, "key", names[0]), int(each.node_id), int(each.error_code)


def coordinators_told(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Ask this very broker for the coordinators of groups: as `coordinators_in`."""
    requests = find_coordinators(connection, groups)
    answers = connection.ask_all(request for request, _ in requests)
    for (_, part), answer in zip(requests, answers, strict=True):
        yield from coordinators_in(part, answer)


def named_by(connection: BrokerConnection, names: Sequence[str]) -> dict[str, int]:
    """The node that this very broker names as coordinator of each group; `NOBODY` where it says that there
    is none now. Raises `BrokerError` for anything else."""
    nodes = {}
    for name, node, code in coordinators_told(connection, names):
        if code != ErrorCode.coordinator_not_available:
            raise_for(code, f"{connection.address} names no coordinator of {name!r}")
        nodes[name] = NOBODY if code else node
    return nodes


def ask_versions(connection: BrokerConnection) -> Any:
    """ApiVersions once more: what a connection was told when it was made is of that moment, and the levels of
    features change while it lives."""
    return connection.request(Api.API_VERSIONS, at_most=NEWEST_VERSIONS, **SOFTWARE)


def supported(answer: Any) -> dict[str, tuple[int, int]]:
    """Lowest and highest level of each feature; before version 4 those whose lowest is 0 are missing."""
    features = getattr(answer, "supported_features", ())
    return {each.name: (int(each.min_version), int(each.max_version)) for each in features}


def finalised(answer: Any) -> dict[str, int]:
    """Level of each feature that is finalised, as this broker knows it now."""
    features = getattr(answer, "finalized_features", ())
    return {each.name: int(each.max_version_level) for each in features}


def settings_of(versions: Any, configs: Any) -> BrokerSettings:
    """What a broker's answers to ApiVersions and DescribeConfigs (of `OF_GROUPS`) say of it."""
    highest = {int(each.api_key): int(each.max_version) for each in versions.api_keys}
    (result,) = configs.results
    return BrokerSettings(
        heartbeats=highest.get(Api.CONSUMER_GROUP_HEARTBEAT, -1),
        listings=highest.get(Api.LIST_GROUPS, -1),
        descriptions=highest.get(Api.DESCRIBE_GROUPS, -1),
        features=finalised(versions),
        metadata=supported(versions).get(METADATA, (0, 0))[1],
        properties={each.name: each.value or "" for each in result.configs},
        untold=error_name(result.error_code) if result.error_code else "",
    )


def describe_configs(
    connection: BrokerConnection, kind: int, names: Iterable[str], keys: Sequence[str] | None = None
) -> Any:
    """The request for configurations of these topics, groups, or this very broker (``kind``): those of
    ``keys``, or all; sources of values are told from version 1 on."""
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys} for name in names]
    return connection.request(
        Api.DESCRIBE_CONFIGS,
        at_least=1 if keys is None else 0,
        resources=resources,
        include_synonyms=False,
        include_documentation=False,
    )


def set_values(result: Any, source: int, what: str) -> dict[str, str]:
    """The values of one source in a result of `describe_configs`. Raises `BrokerError` about ``what``."""
    raise_for(result.error_code, f"configurations of {what}", said=result.error_message)
    return {each.name: each.value or "" for each in result.configs if each.config_source == source}


def configs_of_groups(connection: BrokerConnection, groups: Sequence[str]) -> Mapping[str, dict[str, str]]:
    """What is set for each of these groups; groups for which nothing is are left out. Raises
    `BrokerError`."""
    by_group: dict[str, dict[str, str]] = {}
    requests = (describe_configs(connection, GROUP, part) for part in in_parts(groups, _GROUPS_A_REQUEST))
    for answer in connection.ask_all(requests):
        for each in answer.results:
            group = str(each.resource_name)
            if values := set_values(each, OF_GROUP, f"group {group!r}"):
                by_group[group] = values
    return by_group


class FeatureChange(IntEnum):
    """What a change of a feature's level may do (KIP-778); unsafe downgrades are never asked for."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2


def describe_quorum(connection: BrokerConnection) -> QuorumView:
    """The metadata quorum now. Raises `BrokerError`, `UnsupportedByBroker` (ZooKeeper mode, before 3.3)."""
    topic = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    answer = connection.ask(connection.request(Api.DESCRIBE_QUORUM, at_most=2, topics=[topic]))
    raise_for(answer.error_code, "the metadata quorum is not told")
    (partition,) = answer.topics[0].partitions
    raise_for(partition.error_code, "the metadata quorum is not told")
    ends = {int(each.replica_id): int(each.log_end_offset) for each in partition.current_voters}
    return QuorumView(
        leader=int(partition.leader_id),
        voters=tuple(sorted(ends)),
        high_watermark=int(partition.high_watermark),
        behind=tuple(sorted(node for node, end in ends.items() if end < int(partition.high_watermark))),
    )


def update_features(
    connection: BrokerConnection,
    levels: Mapping[str, int],
    *,
    change: FeatureChange = FeatureChange.UPGRADE,
    validate_only: bool = False,
    timeout_s: float = 30.0,
) -> None:
    """Give features these levels (0: none), all or none of them.

    Raises `BrokerError` with the broker's words when one is refused."""
    updates = [
        {"feature": name, "max_version_level": level, "upgrade_type": change}
        for name, level in levels.items()
    ]
    request = connection.request(
        Api.UPDATE_FEATURES,
        at_least=1,  # 0 cannot tell a safe downgrade from an unsafe one
        at_most=2,
        timeout=dt.timedelta(seconds=timeout_s),
        feature_updates=updates,
        validate_only=validate_only,
    )
    answer = connection.ask(request, timeout_s=timeout_s + 5.0)
    what = ", ".join(f"{name} to {level}" for name, level in levels.items())
    raise_for(answer.error_code, f"features are not changed ({what})", said=answer.error_message)
    for each in getattr(answer, "results", ()):
        what = f"{each.feature} is not changed to {levels[each.feature]}"
        raise_for(each.error_code, what, said=each.error_message)
