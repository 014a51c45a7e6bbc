"""Which properties librdkafka knows, asked of librdkafka itself."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

_END = "groupshift.end.of.properties"
_ANSWER_S = 2.0
_TURN_S = 0.2
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


def refusal(properties: Mapping[str, Any], topics: Collection[str], prefix: str = "") -> str | None:
    """A sentence when the brokers refuse the login, the TLS handshake or to show one of ``topics``, with the
    keys to correct (each after ``prefix``); None when they take it, or do not answer within 2 s.

    A client whose login is refused tries again for ever and says so on its log only."""
    protocol = str(properties.get("security.protocol", "PLAINTEXT")).upper()
    if protocol == "PLAINTEXT":
        return None
    refused: list[KafkaError] = []
    admin = AdminClient({**connecting(properties), "log_level": 0, "error_cb": refused.append})
    deadline = time.monotonic() + _ANSWER_S
    while time.monotonic() < deadline:
        admin.poll(0)
        for error in refused:
            if error.code() in {KafkaError._AUTHENTICATION, KafkaError._SSL}:  # noqa: SLF001
                what = "sasl.*" if error.code() == KafkaError._AUTHENTICATION else "ssl.*"  # noqa: SLF001
                return f"the brokers refuse {_who(properties)} ({_reason(error)}): correct {prefix}{what}"
        try:
            known = admin.list_topics(timeout=_TURN_S).brokers
        except KafkaException:
            continue
        return _hidden(admin, topics, _who(properties)) if known else None
    return None


def _hidden(admin: AdminClient, topics: Collection[str], who: str) -> str | None:
    for topic in topics:
        try:
            found = admin.list_topics(topic, timeout=_ANSWER_S).topics.get(topic)
        except KafkaException:
            return None
        if found and found.error and found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return f"the brokers do not show topic {topic!r} to {who}: grant it Read on the topic"
    return None


def _who(properties: Mapping[str, Any]) -> str:
    user = properties.get("sasl.username")
    return f"user {user!r}" if user else "a connection without a user name"


def _reason(error: KafkaError) -> str:
    """Without the broker's address and the time that it took."""
    return str(error.str()).partition(": ")[2].partition(" (after")[0] or str(error.name())
