"""The configuration of a consumer: the old consumer's keys, KIP-125's keys, and librdkafka's.

Source: docs/reference/zookeeper-coordination.md §§7, 8.1, O5. `parse` reports every problem, not only the
first.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from groupshift.adapters.zookeeper.login import ZookeeperLogin, read_login
from groupshift.consumers.config_keys import COOPERATIVE, EAGER, FORCED, KEYS, PREFIX, Use, objection
from groupshift.consumers.group_state import Policy
from groupshift.domain.addresses import joined, kafka_servers, login_problem, zookeeper_ensemble
from groupshift.domain.assignment import Assignor, TextForm
from groupshift.domain.reconcile import Member
from groupshift.domain.registration import consumer_id
from groupshift.domain.znodes import INTERNAL_TOPICS
from groupshift.errors import Rejected
from groupshift.ports.consumer import Reset

_LOG = logging.getLogger(__name__)
_RESETS = {
    "smallest": Reset.EARLIEST,
    "earliest": Reset.EARLIEST,
    "beginning": Reset.EARLIEST,
    "largest": Reset.LATEST,
    "latest": Reset.LATEST,
    "end": Reset.LATEST,
}
_ASSIGNORS = {each.value: each for each in Assignor}
_FORMS = {each.value: each for each in TextForm}
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
            "group.id": self.group,
            "client.id": self.client_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
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
        forced = {
            "group.id": self.group,
            "client.id": self.member.consumer_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
        return {**defaults, **self.kafka, **self.membership, **forced}


def parse(raw: Mapping[str, Any], *, migrating: bool) -> ConsumerConfig:
    """Check ``raw``; ``migrating`` is what the class is made for. Raises `Rejected` with one sentence that
    names every field that is wrong."""
    read = Reader(raw)
    migrating = _migrating(read, migrating=migrating)
    _check_keys(read)
    _check_contradictions(read, migrating=migrating)
    _check_login(read)
    config = _read(read, migrating=migrating)
    _check_librdkafka(read, config)
    if read.problems:
        raise Rejected("consumer configuration: " + "; ".join(read.problems))
    return config


def _migrating(read: Reader, *, migrating: bool) -> bool:
    """KIP-125's switch. Without it, the class decides."""
    enabled = read.flag(f"{PREFIX}enabled", default=migrating)
    if enabled and not migrating:
        read.problems.append(f"{PREFIX}enabled is for MigratingConsumer: change the class or remove the key")
    return enabled and migrating


def _read(read: Reader, *, migrating: bool) -> ConsumerConfig:
    group = read.text("group.id")
    session_s = read.milliseconds("zookeeper.session.timeout.ms", 6_000)
    brokers = _brokers(read)
    bootstrap = brokers.get("bootstrap.servers") or brokers.get(f"{PREFIX}bootstrap.servers")
    raw = {**read.raw, **brokers}
    if not bootstrap and migrating:
        read.problems.append("bootstrap.servers is missing: set it to the brokers' addresses")
    return ConsumerConfig(
        group=group,
        client_id=read.name("client.id", group or "-"),
        zookeeper=_ensemble(read),
        login=read_login(read.raw, "zookeeper.", read.problems),
        session_s=session_s,
        connect_s=read.milliseconds("zookeeper.connection.timeout.ms", int(session_s * 1000)),
        member=Member(
            consumer_id=_consumer_id(group, read),
            subscription={},
            aware=migrating,
            assignor=read.choice("partition.assignment.strategy", "range", _ASSIGNORS),
            form=read.choice("roundrobin.text.form", "dash", _FORMS),
            hidden=_hidden(read),
        ),
        policy=Policy(
            reset=read.choice("auto.offset.reset", "largest", _RESETS),
            auto_commit=read.flag("enable.auto.commit", "auto.commit.enable"),
            commit_every_s=read.milliseconds("auto.commit.interval.ms", 5_000),
            drain_s=min(read.milliseconds("rebalance.drain.ms", 500), _LONGEST_DRAIN_S),
            wake_every_s=read.milliseconds("wake.old.members.ms", 0),
        ),
        store_on_delivery=read.flag("enable.auto.offset.store"),
        metrics_port=read.number("metrics.port", "a port, or 0 for any", upto=_HIGHEST_PORT),
        kafka=_librdkafka(raw) | ({"bootstrap.servers": bootstrap} if bootstrap else {}),
        membership=_membership(raw),
    )


def _brokers(read: Reader) -> dict[str, str]:
    """The brokers' addresses by the key that names them, as librdkafka understands them."""
    found: dict[str, str] = {}
    for key in (f"{prefix}{name}" for name in _BROKERS for prefix in ("", PREFIX)):
        if not read.raw.get(key):
            continue
        protocol = read.raw.get("security.protocol")
        if key.startswith(PREFIX):
            protocol = read.raw.get(f"{PREFIX}security.protocol") or protocol
        try:
            found[key] = joined(kafka_servers(str(read.raw[key]), key, str(protocol or "")))
        except Rejected as wrong:
            read.problems.append(str(wrong))
            found[key] = "-"
    return found


def _ensemble(read: Reader) -> str:
    """``zookeeper.connect`` as kazoo understands it."""
    text = read.text("zookeeper.connect")
    try:
        return str(zookeeper_ensemble(text, "zookeeper.connect")) if text else ""
    except Rejected as wrong:
        read.problems.append(str(wrong))
        return ""


def _check_login(read: Reader) -> None:
    """A login, or certificates, that the security protocol does not use: the session would be PLAINTEXT."""
    own = _librdkafka(read.raw)
    embedded = {**own, **_membership(read.raw)}
    problems = [login_problem(own), login_problem(embedded, PREFIX) if embedded != own else None]
    read.problems.extend(dict.fromkeys(each for each in problems if each))


def _librdkafka(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key not in KEYS and not key.startswith(PREFIX)}


def _membership(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The embedded consumer's own keys: the few that concern nobody else, and all with the prefix."""
    embedded = {key: value for key, value in raw.items() if key in KEYS and KEYS[key].use is Use.EMBEDDED}
    steering = {key for key in KEYS if key.startswith(PREFIX)} - {f"{PREFIX}bootstrap.servers"}
    given = {
        key.removeprefix(PREFIX): value
        for key, value in raw.items()
        if key.startswith(PREFIX) and key not in steering
    }
    return embedded | given


def _check_keys(read: Reader) -> None:
    """Refuse what cannot work here, say of the rest what does not matter."""
    for key in read.raw:
        known = KEYS.get(key)
        if known is not None and known.use is Use.REFUSED:
            read.problems.append(f"{key} is refused ({known.why}): remove it")
        elif known is not None and known.use is Use.IGNORED:
            _LOG.info("%s has no effect: %s", key, known.why)
        elif key.startswith(PREFIX) and key.removeprefix(PREFIX) in FORCED:
            _LOG.warning("%s has no effect: its value is given (KIP-125)", key)


def _check_contradictions(read: Reader, *, migrating: bool) -> None:
    """Two keys, or a key and the class, that want different things."""
    storage, dual = ("kafka", "true") if migrating else ("zookeeper", "false")
    kind = "a migrating consumer" if migrating else "a consumer that does not migrate"
    for key, value in (("offsets.storage", storage), ("dual.commit.enabled", dual)):
        if str(read.raw.get(key, value)).lower() != value:
            read.problems.append(f"{key} of {kind} is {value}: remove the key")
    read.same("auto.commit.enable", "enable.auto.commit")
    for key, known in KEYS.items():
        if known.use is Use.EMBEDDED:
            read.same(key, f"{PREFIX}{key}")
    strategy = str(read.raw.get(f"{PREFIX}partition.assignment.strategy", "range"))
    if strategy.strip() != COOPERATIVE and not {each.strip() for each in strategy.split(",")} <= EAGER:
        read.problems.append(
            f"{PREFIX}partition.assignment.strategy {strategy!r} must be of {', '.join(sorted(EAGER))}, or "
            f"{COOPERATIVE} alone and at every member: the two kinds cannot share a group"
        )


def _check_librdkafka(read: Reader, config: ConsumerConfig) -> None:
    """Ask librdkafka about the keys that are not ours; the embedded consumer's are named with prefix."""
    problem = objection(config.fetcher())
    if problem is not None:
        read.problems.append(f"{problem}: correct or remove it")
    elif config.member.aware and (problem := objection(config.embedded())) is not None:
        read.problems.append(f"{problem} (of the embedded Kafka consumer, {PREFIX}…): correct or remove it")


def _hidden(read: Reader) -> frozenset[str]:
    """The internal topics, unless wildcards shall see them."""
    listed = read.raw.get("internal.topics")
    names = frozenset(str(listed).replace(" ", "").split(",")) if listed is not None else INTERNAL_TOPICS
    return names if read.flag("exclude.internal.topics") else frozenset()


def _consumer_id(group: str, read: Reader) -> str:
    """``<g>_<consumer.id>``, or the old consumer's own scheme (§2)."""
    unique = f"{socket.gethostname()}-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"
    try:
        return consumer_id(group or "-", str(read.raw.get("consumer.id") or unique))
    except Rejected as error:
        read.problems.append(str(error))
        return f"{group}_{os.getpid()}"


T = TypeVar("T")

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


class Reader:
    """Every method returns a value of its type, also when ``problems`` got a sentence."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.problems: list[str] = []

    def text(self, key: str) -> str:
        """A text that has to be there."""
        value = self.raw.get(key)
        if value in (None, ""):
            self.problems.append(f"{key} is missing: set it")
            return ""
        return str(value)

    def name(self, key: str, default: str) -> str:
        """A name as Kafka allows it (§2)."""
        value = str(self.raw.get(key, default))
        if not _NAME.fullmatch(value):
            self.problems.append(
                f"{key} {value!r} may hold only letters, digits, '.', '_' and '-': rename it"
            )
        return value

    def flag(self, *keys: str, default: bool = True) -> bool:
        """The first key that is set."""
        key = next((each for each in keys if each in self.raw), None)
        value = str(self.raw.get(key or "", default)).lower()
        if value not in ("true", "false"):
            self.problems.append(f"{key} {value!r} is neither true nor false: write one of them")
        return value == "true"

    def number(self, key: str, what: str, *, upto: int | None = None) -> int | None:
        """A whole number from 0, None when the key is not set; ``what`` says what it stands for."""
        value = self.raw.get(key)
        if value is None:
            return None
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            number = -1
        if number < 0 or (upto is not None and number > upto):
            self.problems.append(f"{key} {value!r} is not {what}: correct it")
            return 0
        return number

    def milliseconds(self, key: str, default: int) -> float:
        """Seconds."""
        found = self.number(key, "a number of milliseconds")
        return (default if found is None else found) / 1000

    def choice(self, key: str, default: str, choices: Mapping[str, T]) -> T:
        """One of the keys of ``choices``."""
        value = str(self.raw.get(key, default))
        if value not in choices:
            self.problems.append(f"{key} {value!r} is not one of {', '.join(choices)}: choose one")
        return choices.get(value, choices[default])

    def same(self, one: str, other: str) -> None:
        """Two keys that mean the same must not differ."""
        first, second = self.raw.get(one), self.raw.get(other)
        if first is not None and second is not None and str(first).lower() != str(second).lower():
            self.problems.append(
                f"{one} {first!r} and {other} {second!r} contradict each other: remove one of them"
            )
