"""The questions to one chosen broker about how it coordinates groups; and what its answers say.

Sources: KIP-699 (FindCoordinator 4: many keys), KIP-226 and KIP-569 (DescribeConfigs), KIP-848.
"""

from __future__ import annotations

from typing import Any

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.wire import Api, error_name, fill
from groupshift.domain.protocol.broker import ALIKE, ASSIGNMENT_INTERVAL, BrokerSettings

_GROUP_KEY = 0
_BROKER = 4
_HEARTBEAT = 68
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


def settings_of(connection: BrokerConnection, answer: Any) -> BrokerSettings:
    """What the connection's ApiVersions and the answer to `describe_broker` say together."""
    told = answer.results[0]
    heartbeats = connection.versions.get(_HEARTBEAT)
    return BrokerSettings(
        heartbeats=heartbeats.highest if heartbeats else -1,
        listings=connection.highest(Api.LIST_GROUPS),
        descriptions=connection.highest(Api.DESCRIBE_GROUPS),
        features=dict(connection.features),
        properties={each.name: each.value or "" for each in told.configs},
        untold=error_name(told.error_code) if told.error_code else "",
    )
