"""The configuration of a consumer: the old consumer's keys, KIP-125's keys, and librdkafka's.

Source: specs/zookeeper-coordination.md §§7, 8.1, O5. Every problem is reported, not only the first.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.domain.assignment import Assignor, TextForm
from groupshift.domain.registration import consumer_id
from groupshift.errors import Rejected
from groupshift.ports.fetch import Reset

PREFIX = "coordination.migration."
_RESETS = {
    "smallest": Reset.EARLIEST,
    "earliest": Reset.EARLIEST,
    "beginning": Reset.EARLIEST,
    "largest": Reset.LATEST,
    "latest": Reset.LATEST,
    "end": Reset.LATEST,
}
_OWN = frozenset(
    {
        "group.id", "consumer.id", "zookeeper.connect", "zookeeper.session.timeout.ms",
        "zookeeper.connection.timeout.ms", "partition.assignment.strategy", "roundrobin.text.form",
        "auto.offset.reset", "auto.commit.enable", "enable.auto.commit", "auto.commit.interval.ms",
        "enable.auto.offset.store", "rebalance.drain.ms", "offsets.storage", "dual.commit.enabled",
        "session.timeout.ms", "heartbeat.interval.ms", "group.protocol", "group.instance.id",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """One consumer's configuration, checked. Times in seconds; ``kafka`` goes to librdkafka unchanged.

    ``membership`` are the properties of the embedded Kafka consumer."""

    group: str
    consumer_id: str
    zookeeper: str
    session_s: float
    connect_s: float
    assignor: Assignor
    form: TextForm
    reset: Reset
    auto_commit: bool
    store_on_delivery: bool
    commit_every_s: float
    drain_s: float
    kafka: Mapping[str, Any]
    membership: Mapping[str, Any]

    def fetcher(self) -> dict[str, Any]:
        """Properties of the fetching client; a short fetch wait lets a partition that is taken start soon."""
        forced = {
            "group.id": self.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
        }
        return {"fetch.wait.max.ms": 50, "client.id": self.consumer_id, **self.kafka, **forced}

    def embedded(self) -> dict[str, Any]:
        """Properties of the membership; what KIP-125 forces is forced (§8.1)."""
        defaults = {
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 1_000,
            "partition.assignment.strategy": "range,roundrobin",
        }
        forced = {
            "group.id": self.group,
            "client.id": self.consumer_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
        return {**defaults, **self.kafka, **self.membership, **forced}


class _Reader:
    """Reads keys and collects what is wrong with them."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        self.problems: list[str] = []

    def text(self, key: str, default: str | None = None) -> str:
        value = self._raw.get(key, default)
        if value in (None, ""):
            self.problems.append(f"{key} is missing: set it")
            return ""
        return str(value)

    def flag(self, *keys: str) -> bool:
        """The first key that is set; true when none is."""
        key = next((each for each in keys if each in self._raw), None)
        value = str(self._raw.get(key or "", True)).lower()
        if value not in ("true", "false"):
            self.problems.append(f"{key} {value!r} is neither true nor false")
        return value == "true"

    def milliseconds(self, key: str, default: int) -> float:
        value = self._raw.get(key, default)
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = -1
        if number < 0:
            self.problems.append(f"{key} {value!r} is not a number of milliseconds")
        return number / 1000

    def choice(self, key: str, default: str, choices: Callable[[str], Any]) -> Any:
        value = str(self._raw.get(key, default))
        try:
            return choices(value)
        except (ValueError, KeyError):
            self.problems.append(f"{key} {value!r} is not supported")
            return choices(default)


def parse(raw: Mapping[str, Any], *, migrating: bool) -> ConsumerConfig:
    """Check ``raw``. Raises `Rejected` with one sentence that names every field that is wrong."""
    read = _Reader(raw)
    group = read.text("group.id")
    session_s = read.milliseconds("zookeeper.session.timeout.ms", 6_000)
    if migrating:
        _check_storage(raw, read)
    bootstrap = raw.get("bootstrap.servers") or raw.get(f"{PREFIX}bootstrap.servers")
    if not bootstrap:
        read.problems.append("bootstrap.servers is missing: set it to the brokers' addresses")
    kafka = {key: value for key, value in raw.items() if key not in _OWN and not key.startswith(PREFIX)}
    config = ConsumerConfig(
        group=group,
        consumer_id=_consumer_id(group, raw, read),
        zookeeper=read.text("zookeeper.connect"),
        session_s=session_s,
        connect_s=read.milliseconds("zookeeper.connection.timeout.ms", int(session_s * 1000)),
        assignor=read.choice("partition.assignment.strategy", "range", Assignor),
        form=read.choice("roundrobin.text.form", "dash", TextForm),
        reset=read.choice("auto.offset.reset", "largest", _RESETS.__getitem__),
        auto_commit=read.flag("enable.auto.commit", "auto.commit.enable"),
        store_on_delivery=read.flag("enable.auto.offset.store"),
        commit_every_s=read.milliseconds("auto.commit.interval.ms", 5_000),
        drain_s=min(read.milliseconds("rebalance.drain.ms", 500), 1.0),
        kafka={**kafka, "bootstrap.servers": bootstrap},
        membership={key.removeprefix(PREFIX): value for key, value in raw.items() if _migration(key)},
    )
    if read.problems:
        raise Rejected("consumer configuration: " + "; ".join(read.problems))
    return config


def _migration(key: str) -> bool:
    """KIP-125's keys for the embedded consumer, without the two that steer the old one."""
    return key.startswith(PREFIX) and key not in (f"{PREFIX}enabled", f"{PREFIX}poll.interval.ms")


def _check_storage(raw: Mapping[str, Any], read: _Reader) -> None:
    """O5: a migrating consumer commits to both stores, always."""
    if str(raw.get("offsets.storage", "kafka")) != "kafka":
        read.problems.append("offsets.storage of a migrating consumer is kafka: remove the key")
    if str(raw.get("dual.commit.enabled", "true")).lower() != "true":
        read.problems.append("dual.commit.enabled of a migrating consumer is true: remove the key")


def _consumer_id(group: str, raw: Mapping[str, Any], read: _Reader) -> str:
    """``<g>_<consumer.id>``, or the old consumer's own scheme (§2)."""
    unique = f"{socket.gethostname()}-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"
    try:
        return consumer_id(group or "-", str(raw.get("consumer.id") or unique))
    except Rejected as error:
        read.problems.append(str(error))
        return f"{group}_{os.getpid()}"
