"""Requests about what a broker supports, how it and its groups are configured; and what the answers say.

Sources: KIP-584 (features), KIP-226 (DescribeConfigs and the source of a value), KIP-1142
(ListConfigResources).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift import __version__
from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.wire import Api, fill, raise_for
from groupshift.domain.cluster import Property

_BROKER, _GROUP = 4, 32
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
    return _describe(connection, _BROKER, [str(node_id)])


def configured(result: Any) -> dict[str, Property]:
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
    answer = connection.ask(module.ListConfigResourcesRequest(resource_types=(_GROUP,)))
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
    for answer in connection.ask_all(_describe(connection, _GROUP, part) for part in parts):
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
