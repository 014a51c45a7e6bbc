"""Which properties librdkafka knows, asked of librdkafka itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException

_END = "groupshift.end.of.properties"
_CONNECTING = frozenset({"bootstrap.servers", "metadata.broker.list", "client.id", "oauth_cb"})


def objection(properties: Mapping[str, Any]) -> str | None:
    """What librdkafka has against a property, its own sentence; None when it takes them all.

    Properties are set one after the other before a client is made; an unknown one at the end tells that
    all before it were taken, without making a client."""
    try:
        Consumer({**properties, _END: ""}).close()
    except KafkaException as error:
        reason = str(error.args[0].str()).strip()
    except (TypeError, ValueError) as error:
        return str(error)
    else:
        return None
    return reason if reason and _END not in reason else None


def connecting(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a consumer's properties that an admin client needs to reach the brokers and log in."""
    return {
        key: value
        for key, value in properties.items()
        if key in _CONNECTING or key.startswith(("security.", "sasl.", "ssl.", "enable.ssl."))
    }
