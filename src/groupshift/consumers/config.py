"""The configuration of a consumer: the old consumer's keys, KIP-125's keys, and librdkafka's.

`parse` reports every problem, not only the first. `KEYS` says what becomes of each key, and why;
docs/service-teams/configuration.md shows this table. librdkafka itself says which properties it knows.
Source: docs/reference/zookeeper-coordination.md §§6, 7, 8.1, O5; KIP-125.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib.resources import files
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from groupshift.adapters.zookeeper.login import KEYS as LOGIN
from groupshift.adapters.zookeeper.login import ZookeeperLogin, read_login
from groupshift.consumers.group_state import Policy
from groupshift.domain.addresses import joined, kafka_servers, login_problem, zookeeper_ensemble
from groupshift.domain.assignment import Assignor, TextForm
from groupshift.domain.reconcile import Member
from groupshift.domain.registration import consumer_id
from groupshift.domain.znodes import INTERNAL_TOPICS
from groupshift.errors import Rejected
from groupshift.ports.consumer import Reset

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


_LOGIN = {f"zookeeper.{key}": Key(Use.HONOURED, why) for key, why in LOGIN.items()}
_TABLE = json.loads(files("groupshift").joinpath("consumers", "keys.json").read_text("utf-8"))
KEYS: Final[Mapping[str, Key]] = _LOGIN | {
    key: Key(Use(use), why) for use, keys in _TABLE.items() for key, why in keys.items()
}
"""JSON and no TOML: an application that imports the library loads no parser for it."""

FORCED: Final = frozenset({"group.id", "client.id", "enable.auto.commit", "enable.auto.offset.store"})
"""Keys of the embedded consumer whose value is given (§8.1)."""
EAGER: Final = frozenset({"range", "roundrobin"})
COOPERATIVE: Final = "cooperative-sticky"
"""Assignors of the embedded consumer: all members must be eager (L7)."""

_LOG = logging.getLogger(__name__)
_RESETS = {"smallest": Reset.EARLIEST, "largest": Reset.LATEST} | {each.value: each for each in Reset}
_PASSIVE = {"enable.auto.commit": False, "enable.auto.offset.store": False}
_LONGEST_DRAIN_S = 1.0
_BROKERS = ("bootstrap.servers", "metadata.broker.list")
_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """One consumer's configuration, checked. Times in seconds; ``kafka`` goes to librdkafka unchanged.
    Without ``bootstrap.servers`` in it, ZooKeeper knows the brokers.

    ``member`` has no subscription yet; it is not aware of migration where that is disabled.
    ``membership`` are the properties of the embedded Kafka consumer, ``login`` the identity at ZooKeeper,
    ``metrics_port`` None without an endpoint."""

    group: str
    client_id: str
    zookeeper: str
    login: ZookeeperLogin
    session_s: float
    connect_s: float
    member: Member
    policy: Policy
    store_on_delivery: bool
    metrics_port: int | None
    kafka: Mapping[str, Any] = field(repr=False)
    membership: Mapping[str, Any] = field(repr=False)

    def fetcher(self) -> dict[str, Any]:
        """Properties of the fetching client; a short fetch wait lets a partition that is taken start soon,
        a short back-off keeps a full queue from running dry (the client's own is 1 s: 4 times slower). A
        broker that has just restarted may answer that a topic has no partitions (seen with 3.9.2): the client
        then fetches nothing of it until it looks again, by its own default after five minutes."""
        forced = {
            **_PASSIVE,
            "group.id": self.group,
            "client.id": self.client_id,
            "auto.offset.reset": "error",
        }
        defaults = {
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 20,
            "topic.metadata.refresh.interval.ms": 10_000,
        }
        return {**defaults, **self.kafka, **forced}

    def embedded(self) -> dict[str, Any]:
        """Properties of the membership; what KIP-125 forces is forced (§8.1)."""
        defaults = {
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 1_000,
            "partition.assignment.strategy": "range,roundrobin",
            "topic.metadata.refresh.interval.ms": 10_000,  # finds what a watch did not tell (L5)
            "socket.timeout.ms": 10_000,  # a commit without an answer holds up leaving (N5)
        }
        forced = {**_PASSIVE, "group.id": self.group, "client.id": self.member.consumer_id}
        return {**defaults, **self.kafka, **self.membership, **forced}


def parse(raw: Mapping[str, Any], *, migrating: bool) -> ConsumerConfig:
    """Check ``raw``, the application's properties by key; `KEYS` says what becomes of each.

    ``migrating`` is what the class is made for; KIP-125's switch (``coordination.migration.enabled``) may
    turn it off. librdkafka is asked about every key that is not ours, once as the fetcher and once as the
    embedded consumer gets it. Raises `Rejected` with one sentence that names every field that is wrong."""
    read = Reader(raw)
    aware = read.flag(f"{PREFIX}enabled", default=migrating)
    if aware and not migrating:
        read.problems.append(f"{PREFIX}enabled is for MigratingConsumer: change the class or remove the key")
    config = _read(read, migrating=aware and migrating)
    if (problem := objection(config.fetcher())) is not None:
        read.problems.append(f"{problem}: correct or remove it")
    elif config.member.aware and (problem := objection(config.embedded())) is not None:
        read.problems.append(f"{problem} (of the embedded Kafka consumer, {PREFIX}…): correct or remove it")
    if read.problems:
        raise Rejected("consumer configuration: " + "; ".join(read.problems))
    return config


def _read(read: Reader, *, migrating: bool) -> ConsumerConfig:
    _check_contradictions(read, migrating=migrating)
    group, ensemble = (str(read.raw.get(key) or "") for key in ("group.id", "zookeeper.connect"))
    if not group:
        read.problems.append("group.id is missing: set it")
    session_s = read.milliseconds("zookeeper.session.timeout.ms", 6_000)
    brokers: dict[str, str] = {}
    for prefix in ("", PREFIX):
        brokers |= read.checked(partial(addressed, read.raw, prefix), {f"{prefix}bootstrap.servers": "-"})
    bootstrap = brokers.get("bootstrap.servers") or brokers.get(f"{PREFIX}bootstrap.servers")
    if not bootstrap and migrating:
        read.problems.append("bootstrap.servers is missing: set it to the brokers' addresses")
    kafka, membership = _split({**read.raw, **brokers}, read.problems)
    unused = [login_problem(kafka)]
    if {**kafka, **membership} != kafka:
        unused.append(login_problem({**kafka, **membership}, PREFIX))
    read.problems.extend(dict.fromkeys(each for each in unused if each))
    unique = f"{socket.gethostname()}-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"  # as in Scala (§2)
    name = str(read.raw.get("consumer.id") or unique)
    internal = read.raw.get("internal.topics")
    hidden = INTERNAL_TOPICS if internal is None else frozenset(str(internal).replace(" ", "").split(","))
    return ConsumerConfig(
        group=group,
        client_id=read.checked(partial(_name, str(read.raw.get("client.id", group or "-"))), "-"),
        zookeeper=read.checked(lambda: str(zookeeper_ensemble(ensemble, "zookeeper.connect")), ""),
        login=read_login(read.raw, "zookeeper.", read.problems),
        session_s=session_s,
        connect_s=read.milliseconds("zookeeper.connection.timeout.ms", int(session_s * 1000)),
        member=Member(
            consumer_id=read.checked(partial(consumer_id, group or "-", name), f"{group}_{os.getpid()}"),
            subscription={},
            aware=migrating,
            assignor=read.choice(
                "partition.assignment.strategy", "range", {each.value: each for each in Assignor}
            ),
            form=read.choice("roundrobin.text.form", "dash", {each.value: each for each in TextForm}),
            hidden=hidden if read.flag("exclude.internal.topics") else frozenset(),
        ),
        policy=Policy(
            reset=read.choice("auto.offset.reset", "largest", _RESETS),
            auto_commit=read.flag("enable.auto.commit", "auto.commit.enable"),
            commit_every_s=read.milliseconds("auto.commit.interval.ms", 5_000),
            drain_s=min(read.milliseconds("rebalance.drain.ms", 500), _LONGEST_DRAIN_S),
            wake_every_s=read.milliseconds("wake.old.members.ms", 0),
        ),
        store_on_delivery=read.flag("enable.auto.offset.store"),
        metrics_port=None
        if read.raw.get("metrics.port") is None
        else read.value("metrics.port", 0, partial(_whole, most=_HIGHEST_PORT), "a port, or 0 for any"),
        kafka=kafka | ({"bootstrap.servers": bootstrap} if bootstrap else {}),
        membership=membership,
    )


def addressed(properties: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """The brokers' addresses by the key (after ``prefix``) that names them, as librdkafka understands them.
    Raises `Rejected` for what is no address, and for one that contradicts the security protocol."""
    protocol = properties.get(f"{prefix}security.protocol") or properties.get("security.protocol") or ""
    keys = [f"{prefix}{name}" for name in _BROKERS if properties.get(f"{prefix}{name}")]
    return {key: joined(kafka_servers(str(properties[key]), key, str(protocol))) for key in keys}


def _split(raw: Mapping[str, Any], problems: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keys for librdkafka: of every client, and of the embedded consumer alone. Refuse what cannot work
    here, say of the rest what has no effect."""
    kafka: dict[str, Any] = {}
    membership: dict[str, Any] = {}
    for key, value in raw.items():
        known, own = KEYS.get(key), key.removeprefix(PREFIX)
        if known is None and own == key:
            kafka[key] = value
        elif known is None or known.use is Use.EMBEDDED or key == f"{PREFIX}bootstrap.servers":
            membership[own] = value
            if own in FORCED:
                _LOG.warning("%s has no effect: its value is given (KIP-125)", key)
        elif known.use is Use.REFUSED:
            problems.append(f"{key} is refused ({known.why}): remove it")
        elif known.use is Use.IGNORED:
            _LOG.info("%s has no effect: %s", key, known.why)
    return kafka, membership


def _check_contradictions(read: Reader, *, migrating: bool) -> None:
    """Two keys, or a key and the class, that want different things."""
    storage, dual = ("kafka", "true") if migrating else ("zookeeper", "false")
    kind = "a migrating consumer" if migrating else "a consumer that does not migrate"
    for key, value in (("offsets.storage", storage), ("dual.commit.enabled", dual)):
        if str(read.raw.get(key, value)).lower() != value:
            read.problems.append(f"{key} of {kind} is {value}: remove the key")
    alike = {key: f"{PREFIX}{key}" for key, known in KEYS.items() if known.use is Use.EMBEDDED}
    for one, other in {"auto.commit.enable": "enable.auto.commit", **alike}.items():
        first, second = read.raw.get(one), read.raw.get(other)
        if first is not None and second is not None and str(first).lower() != str(second).lower():
            read.problems.append(
                f"{one} {first!r} and {other} {second!r} contradict each other: remove one of them"
            )
    strategy = str(read.raw.get(f"{PREFIX}partition.assignment.strategy", "range"))
    if strategy.strip() != COOPERATIVE and not {each.strip() for each in strategy.split(",")} <= EAGER:
        read.problems.append(
            f"{PREFIX}partition.assignment.strategy {strategy!r} must be of {', '.join(sorted(EAGER))}, or "
            f"{COOPERATIVE} alone and at every member: the two kinds cannot share a group"
        )


T = TypeVar("T")

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_FLAGS: Final = {"true": True, "false": False}


class Reader:
    """Reads values of ``raw`` and collects what is wrong with them.

    Every method returns a value of its type, also when ``problems`` got a sentence: so one pass finds all
    that is wrong, and whoever starts the application corrects it at once."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.problems: list[str] = []

    def checked(self, value: Callable[[], T], instead: T) -> T:
        """``instead`` of what is refused with a sentence."""
        try:
            return value()
        except Rejected as wrong:
            self.problems.append(str(wrong))
            return instead

    def value(self, key: str, default: Any, parse: Callable[[Any], T], wanted: str) -> T:
        """What ``parse`` makes of the key's value, or of ``default``; it fails on what is not ``wanted``."""
        value = self.raw.get(key)
        value = default if value is None else value
        try:
            return parse(value)
        except (TypeError, ValueError, OverflowError, KeyError):
            self.problems.append(f"{key} {value!r} is not {wanted}: correct it")
            return parse(default)

    def flag(self, *keys: str, default: bool = True) -> bool:
        """The first key that is set."""
        key = next((each for each in keys if each in self.raw), keys[0])
        return self.value(key, default, lambda value: _FLAGS[str(value).lower()], "true or false")

    def milliseconds(self, key: str, default: int) -> float:
        """Seconds."""
        return self.value(key, default, _whole, "a number of milliseconds") / 1000

    def choice(self, key: str, default: str, choices: Mapping[str, T]) -> T:
        """One of the keys of ``choices``."""
        return self.value(key, default, lambda value: choices[str(value)], f"one of {', '.join(choices)}")


def _whole(value: Any, most: float = math.inf) -> int:
    if not 0 <= (number := int(value)) <= most:
        raise ValueError
    return number


def _name(client_id: str) -> str:
    """A name as Kafka allows it (§2)."""
    if not _NAME.fullmatch(client_id):
        raise Rejected(
            f"client.id {client_id!r} is not a name of letters, digits, '.', '_' and '-': correct it"
        )
    return client_id


_END = "groupshift.end.of.properties"
_ANSWER_S = 2.0
_TURN_S = 0.2
_CONNECTING = frozenset({"bootstrap.servers", "metadata.broker.list", "client.id", "oauth_cb"})


def objection(properties: Mapping[str, Any]) -> str | None:
    """What librdkafka has against a property, its own sentence; None when it takes them all. Never raises.

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
    """Those of a consumer's properties that another client needs to reach the brokers and log in: addresses,
    name, and what begins with ``security.``, ``sasl.``, ``ssl.`` or ``enable.ssl.``."""
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
    user, refused = properties.get("sasl.username"), list[KafkaError]()
    who = f"user {user!r}" if user else "a connection without a user name"
    admin = AdminClient({**connecting(properties), "log_level": 0, "error_cb": refused.append})
    deadline = time.monotonic() + _ANSWER_S
    while time.monotonic() < deadline:
        admin.poll(0)
        for error in refused:
            if error.code() in {KafkaError._AUTHENTICATION, KafkaError._SSL}:  # noqa: SLF001
                what = "sasl.*" if error.code() == KafkaError._AUTHENTICATION else "ssl.*"  # noqa: SLF001
                # without the broker's address and the time that it took
                reason = str(error.str()).partition(": ")[2].partition(" (after")[0] or error.name()
                return f"the brokers refuse {who} ({reason}): correct {prefix}{what}"
        try:
            known = admin.list_topics(timeout=_TURN_S).brokers
        except KafkaException:
            continue
        return _unseen(admin, topics, who) if known else None
    return None


def _unseen(admin: AdminClient, topics: Collection[str], who: str) -> str | None:
    for topic in topics:
        try:
            metadata = admin.list_topics(topic, timeout=_ANSWER_S).topics.get(topic)
        except KafkaException:
            return None
        if metadata and metadata.error and metadata.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return f"the brokers do not show topic {topic!r} to {who}: grant it Read on the topic"
    return None
