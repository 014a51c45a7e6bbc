"""Kio's classes of a request in the version that a broker and kio both know."""

from __future__ import annotations

from types import ModuleType

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.wire import Api, choose


def messages(broker: BrokerConnection, api: Api, *, at_least: int = 0, at_most: int = 32_767) -> ModuleType:
    """Return kio's module: ``messages(broker, Api.METADATA, at_most=9).MetadataRequest``."""
    version = choose(broker.versions, api, at_least=at_least, at_most=at_most)
    return load_payload_module(api, version, EntityType.request)
