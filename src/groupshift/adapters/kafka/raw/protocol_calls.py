"""The questions to one chosen broker about how it coordinates groups; and what its answers say.

Sources: KIP-699 (FindCoordinator 4: many keys), KIP-226 and KIP-569 (DescribeConfigs), KIP-848.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from groupshift import __version__
from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.wire import Api, error_name, fill
from groupshift.domain.group_protocol import ALIKE, ASSIGNMENT_INTERVAL, BrokerSettings

_GROUP_KEY = 0
_BROKER = 4
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


def describe_broker(connection: BrokerConnection, node_id: int) -> Any:
    """The request for the properties of this very broker that bear on groups."""
    module = connection.messages(Api.DESCRIBE_CONFIGS)
    asked = module.DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(node_id), configuration_keys=_TOLD
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
    """What `describe_broker` is answered."""
    told = answer.results[0]
    return replace(
        settings,
        properties={each.name: each.value or "" for each in told.configs},
        untold=error_name(told.error_code) if told.error_code else "",
    )
