"""Thousands of groups with committed offsets in Kafka and ZooKeeper, some of them damaged, and which is how.

Every group has ten committed offsets, each committed twice; every third is one of migration-aware members and
has the same ten in ZooKeeper. Damage takes one offset of a group that has no other damage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.audit.inputs import Key
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.partitions import TopicPartition as At
from groupshift.domain.znodes import GroupPaths
from groupshift_sandbox.committing import commit
from groupshift_sandbox.kafka import create_topic
from groupshift_testing.log_encoder import encode_key, encode_value

PARTITIONS, TOPICS, RECORDS, LOG_PARTITIONS = 10, 20, 200, 50
TRIMMED, TRIMMED_TO = "trimmed", 100
_OFFSETS = "__consumer_offsets"
_EVERY, _APART, _IN_FLIGHT, _CHUNK = 3, 23, 50, 5_000
_UNKNOWN_VERSION = b"\x00\x63what a later release writes"
_DAY_MS = 86_400_000

BY_LOG = ("A02", "A03", "A04", "A05", "A06", "A07", "A09", "A10", "A14", "A16")
"""Rules about Kafka alone; planted in groups that ZooKeeper does not have."""
BY_STORES = ("A27", "A28", "A31", "A32", "A33")
"""Rules about both stores."""
ONLY_NODES = frozenset({"A27", "A28"})
"""Their groups are in ZooKeeper only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """One offset to damage so that rule ``rule`` speaks about it."""

    rule: str
    number: int
    partition: int

    @property
    def key(self) -> Key:
        """Group, topic, partition of which the audit has to say it."""
        if self.rule == "A16":
            return group(self.number), TRIMMED, self.partition
        name = f"old-{self.number:05}" if self.rule in ONLY_NODES else group(self.number)
        return name, topic(self.number + (self.rule == "A14")), self.partition


def group(number: int) -> str:
    """Its name."""
    return f"group-{number:05}"


def topic(number: int) -> str:
    """The topic of a group."""
    return f"topic-{number % TOPICS}"


def offset(number: int, partition: int) -> int:
    """What a group committed last."""
    return 20 + (number + partition) % 100


def damages(groups: int, each: int) -> tuple[Damaged, ...]:
    """``each`` of every kind, each in a group of its own; `ValueError` when there are too few groups."""
    rules = (*BY_LOG, *BY_STORES)
    if each * len(rules) * _APART + _EVERY > groups:
        raise ValueError(f"{groups} groups have no room for {each} damages of {len(rules)} kinds")
    found = []
    for place in range(each * len(rules)):
        rule = rules[place % len(rules)]
        wanted = int(rule in BY_LOG)
        number = place * _APART + (wanted - place * _APART) % _EVERY
        found.append(Damaged(rule=rule, number=number, partition=place % PARTITIONS))
    return tuple(found)


def fill(bootstrap: str, zookeeper: str, groups: int, damaged: tuple[Damaged, ...]) -> None:
    """Topics with records, commits, offset nodes, and then the damage."""
    for name in (*(topic(number) for number in range(TOPICS)), TRIMMED):
        create_topic(bootstrap, name, PARTITIONS)
    _produce(bootstrap)
    cluster = KafkaCluster(bootstrap, timeout_s=120.0)
    try:
        for back in (10, 0):
            for first in range(0, groups, _CHUNK):
                numbers = range(first, min(first + _CHUNK, groups))
                commit(cluster, {group(number): _offsets(number, back) for number in numbers})
        for rule, at in (("A07", 10**6), ("A16", 5)):
            keys = [one.key for one in damaged if one.rule == rule]
            commit(cluster, {name: {At(in_topic, number): (at, "")} for name, in_topic, number in keys})
    finally:
        cluster.close()
    _trim(bootstrap)
    _past_the_coordinator(bootstrap, [one for one in damaged if one.rule in BY_LOG])
    _fill_zookeeper(zookeeper, groups, damaged)


def _offsets(number: int, back: int) -> Mapping[At, tuple[int, str]]:
    return {At(topic(number), n): (offset(number, n) - back, "") for n in range(PARTITIONS)}


def _produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for name in (*(topic(number) for number in range(TOPICS)), TRIMMED):
        for number in range(PARTITIONS * RECORDS):
            producer.produce(name, b"x", partition=number % PARTITIONS)
        producer.flush(60)


def _trim(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [TopicPartition(TRIMMED, number, TRIMMED_TO) for number in range(PARTITIONS)]
    for pending in admin.delete_records(wanted).values():
        pending.result(timeout=30)


def _past_the_coordinator(bootstrap: str, damaged: list[Damaged]) -> None:
    """Records that only the log gets to know; the client id is the one that may write there."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client"})
    for one in damaged:
        name, in_topic, number = one.key
        home = partition_of(name, LOG_PARTITIONS)
        key = encode_key(1, {"group": name, "topic": in_topic, "partition": number})
        of_rule = _RECORDS.get(one.rule)
        for away, value in of_rule(offset(one.number, number)) if of_rule else ():
            producer.produce(_OFFSETS, key=key, value=value, partition=(home + away) % LOG_PARTITIONS)
    if producer.flush(60):
        raise RuntimeError("records for the coordinators' log were not taken")


def _value(at: int, age_ms: int = -1000, metadata: str = "") -> bytes:
    dated = time.time_ns() // 10**6 - age_ms
    told: dict[str, Any] = {"offset": at, "leaderEpoch": -1, "metadata": metadata, "commitTimestamp": dated}
    return encode_value(1, 3, told)


_RECORDS: Mapping[str, Callable[[int], tuple[tuple[int, bytes | None], ...]]] = {
    "A02": lambda _: ((0, _UNKNOWN_VERSION),),
    "A03": lambda at: ((1, _value(at + 1)),),
    "A04": lambda at: ((1, _value(at, _DAY_MS)), (0, _value(at + 1))),
    "A05": lambda at: ((1, _value(at + 1, _DAY_MS)),),
    "A06": lambda at: ((0, _value(at, metadata="note")),),
    "A09": lambda _: ((0, None),),
    "A10": lambda at: ((0, _value(at + 1)),),
    "A14": lambda at: ((0, _value(at)),),
}
"""By rule, from the offset that was committed: how far from its own partition of the log, and what."""


def _fill_zookeeper(hosts: str, groups: int, damaged: tuple[Damaged, ...]) -> None:
    """A transaction a group, many under way."""
    by_number = {one.number: one for one in damaged if one.rule in BY_STORES}
    client = KazooClient(hosts=hosts, timeout=60.0)
    client.start(timeout=30)
    try:
        client.ensure_path("/consumers")
        waiting = []
        for nodes in _groups(groups, by_number):
            transaction = client.transaction()
            for path, data in nodes:
                transaction.create(path, data)
            waiting.append(transaction.commit_async())
            if len(waiting) >= _IN_FLIGHT:
                _check(waiting.pop(0).get(timeout=60))
        for each in waiting:
            _check(each.get(timeout=60))
    finally:
        client.stop()
        client.close()


def _groups(groups: int, damaged: Mapping[int, Damaged]) -> Iterator[list[tuple[str, bytes]]]:
    """Path and data of every group's nodes, parents first."""
    for number in range(0, groups, _EVERY):
        one = damaged.get(number)
        left = {(topic(number), n): offset(number, n) for n in range(PARTITIONS)}
        rule = "" if one is None else one.rule
        if one is not None and rule == "A32":
            del left[one.key[1:]]
        if one is not None and rule in {"A31", "A33"}:
            left[one.key[1:]] -= 5
        yield list(_nodes(group(number), left, joined=rule != "A31"))
        if one is not None and rule in ONLY_NODES:
            yield list(_nodes(one.key[0], {one.key[1:]: 7}, joined=True, mode=rule == "A27"))


def _nodes(
    name: str, offsets: Mapping[tuple[str, int], int], *, joined: bool, mode: bool = False
) -> Iterator[tuple[str, bytes]]:
    paths = GroupPaths(name)
    (in_topic,) = {each for each, _ in offsets}
    folders = (paths.root, paths.ids, f"{paths.root}/migration", paths.migration_ids, paths.offsets)
    yield from ((path, b"") for path in (*folders, f"{paths.offsets}/{in_topic}"))
    if joined:
        yield from ((f"{parent}/{name}_m", b"{}") for parent in (paths.ids, paths.migration_ids))
    if mode:
        yield paths.mode, b"kafka"
    for (_, number), at in offsets.items():
        yield f"{paths.offsets}/{in_topic}/{number}", str(at).encode()


def _check(outcome: list[Any]) -> None:
    failed = [each for each in outcome if isinstance(each, Exception)]
    if failed:
        raise failed[0]
