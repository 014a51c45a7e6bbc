"""Configurations of topics and groups: told and changed one by one (KIP-339, IncrementalAlterConfigs)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.wire import Api, UnsupportedByBroker, fill, raise_for

TOPIC, GROUP = 2, 32
"""Types of resources."""
_OF_TOPIC = 1
"""The source of a value that is set for a topic itself."""
_ALTER, _VERSION = 44, 1
_SET, _DELETE = 0, 1


def topic_configs(connection: BrokerConnection, topic: str) -> dict[str, str]:
    """What is set for a topic itself, no defaults. Raises `BrokerError`."""
    module = connection.messages(Api.DESCRIBE_CONFIGS, at_least=1)
    resource = module.DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=None
    )
    asked = fill(
        module.DescribeConfigsRequest,
        resources=(resource,),
        include_synonyms=False,
        include_documentation=False,
    )
    (told,) = connection.ask(asked).results
    raise_for(told.error_code, f"configurations of topic {topic!r}", said=told.error_message)
    return {each.name: each.value or "" for each in told.configs if each.config_source == _OF_TOPIC}


def alter(connection: BrokerConnection, kind: int, name: str, values: Mapping[str, str | None]) -> None:
    """Set these configurations of a topic or group; None takes one back to its default.

    Raises `BrokerError` with the broker's words, `UnsupportedByBroker`."""
    theirs = connection.versions.get(_ALTER)
    if theirs is None or theirs.highest < _VERSION:
        raise UnsupportedByBroker(f"{connection.address} does not change single configurations")
    module = load_payload_module(_ALTER, _VERSION, EntityType.request)
    changes = tuple(_change(module, each, value) for each, value in sorted(values.items()))
    resource = module.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    answer = connection.ask(
        fill(module.IncrementalAlterConfigsRequest, resources=(resource,), validate_only=False)
    )
    for each in answer.responses:
        raise_for(each.error_code, f"configurations of {name!r} are not changed", said=each.error_message)


def _change(module: Any, name: str, value: str | None) -> Any:
    operation = _DELETE if value is None else _SET
    return module.AlterableConfig(name=name, config_operation=operation, value=value)
