"""The keys of a consumer's configuration: what becomes of each, and why.

Source: docs/reference/zookeeper-coordination.md §§6, 7, 8.1; KIP-125. ``docs/service-teams/configuration.md``
shows this table. librdkafka itself says which properties it knows.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from groupshift.adapters.zookeeper.login import KEYS as LOGIN

PREFIX: Final = "coordination.migration."


class Use(StrEnum):
    """What becomes of a key."""

    HONOURED = "honoured"
    EMBEDDED = "embedded"
    """Goes to the embedded Kafka consumer, like ``coordination.migration.<key>``."""
    IGNORED = "ignored"
    """Accepted, so that an old configuration can stay as it is; logged once with the reason."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its use and a clause that explains it."""

    use: Use
    why: str


def _honoured(why: str) -> Key:
    return Key(Use.HONOURED, why)


def _ignored(why: str) -> Key:
    return Key(Use.IGNORED, why)


_STATIC_MEMBER = Key(
    Use.REFUSED, "a static member stays in the group when it leaves, and with it what it was assigned"
)
_NO_CHANNEL = _ignored("there is no offsets channel; a commit is repeated until it succeeds")

KEYS: Final = MappingProxyType(
    {
        "group.id": _honoured("required"),
        "consumer.id": _honoured("the registered name is <group.id>_<consumer.id>; default as in Scala"),
        "client.id": _honoured("label of metrics and name at the brokers; default group.id"),
        "zookeeper.connect": _honoured("required; host:port,…/chroot"),
        "bootstrap.servers": Key(Use.HONOURED, "required to migrate; otherwise ZooKeeper knows the brokers"),
        "zookeeper.session.timeout.ms": _honoured("default 6000"),
        "zookeeper.connection.timeout.ms": _honoured("default: the session timeout"),
        **{f"zookeeper.{key}": _honoured(why) for key, why in LOGIN.items()},
        "zookeeper.sync.time.ms": _ignored("every view begins with a sync"),
        "rebalance.max.retries": _ignored("a taken partition is waited for without limit"),
        "rebalance.backoff.ms": _ignored("watches say when to go on"),
        "rebalance.drain.ms": _honoured("default 500, at most 1000: wait for readers at a hand-over"),
        "partition.assignment.strategy": _honoured("range (default) or roundrobin; alike in all members"),
        "roundrobin.text.form": _honoured("dash (default, Kafka 1.0 and later) or bracket (to 0.11)"),
        "exclude.internal.topics": _honoured("default true; alike in all members"),
        "internal.topics": _honoured("default __consumer_offsets,__transaction_state (to 0.10: the first)"),
        "offsets.storage": _honoured("kafka in a migrating consumer, zookeeper otherwise"),
        "dual.commit.enabled": _honoured("true in a migrating consumer, false otherwise"),
        "auto.commit.enable": _honoured("default true; the same as enable.auto.commit"),
        "enable.auto.commit": _honoured("default true; the same as auto.commit.enable"),
        "auto.commit.interval.ms": _honoured("default 5000; the old default is 60000"),
        "enable.auto.offset.store": _honoured("default true: what was delivered is committed"),
        "auto.offset.reset": _honoured("largest (default) or smallest; also latest, earliest"),
        "consumer.timeout.ms": _ignored("poll and consume take a timeout themselves"),
        "offsets.channel.backoff.ms": _NO_CHANNEL,
        "offsets.channel.socket.timeout.ms": _NO_CHANNEL,
        "offsets.commit.max.retries": _NO_CHANNEL,
        "refresh.leader.backoff.ms": _ignored("librdkafka finds leaders; see retry.backoff.ms"),
        "queued.max.message.chunks": _ignored("see queued.max.messages.kbytes"),
        "num.consumer.fetchers": _ignored("there is one connection a broker"),
        "metrics.port": _honoured("Prometheus on 127.0.0.1; 0: any free port; off without it"),
        "wake.old.members.ms": _honoured("default 0 (off): wake stuck old members, at most this often"),
        "session.timeout.ms": Key(Use.EMBEDDED, "default 10000"),
        "heartbeat.interval.ms": Key(Use.EMBEDDED, "default 1000"),
        "max.poll.interval.ms": Key(Use.EMBEDDED, "the embedded consumer polls by itself"),
        "group.instance.id": _STATIC_MEMBER,
        "group.protocol": Key(Use.REFUSED, "only the classic protocol waits for a revocation"),
        "group.remote.assignor": Key(Use.REFUSED, "only the classic protocol waits for a revocation"),
        f"{PREFIX}enabled": _honoured("default true in MigratingConsumer, where false is the old consumer"),
        f"{PREFIX}poll.interval.ms": _ignored("the embedded consumer polls all the time"),
        f"{PREFIX}bootstrap.servers": _honoured("default: bootstrap.servers, which it replaces if alone"),
        f"{PREFIX}group.instance.id": _STATIC_MEMBER,
        f"{PREFIX}group.protocol": Key(Use.REFUSED, "only the classic protocol waits for a revocation"),
    }
)

FORCED: Final = frozenset({"group.id", "client.id", "enable.auto.commit", "enable.auto.offset.store"})
"""Keys of the embedded consumer whose value is given (§8.1)."""
EAGER: Final = frozenset({"range", "roundrobin"})
COOPERATIVE: Final = "cooperative-sticky"
"""Assignors of the embedded consumer: all members must be eager (L7)."""

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
