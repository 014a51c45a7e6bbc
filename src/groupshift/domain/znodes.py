"""Where a group keeps its state in ZooKeeper, and how to read the nodes that brokers write.

Source: docs/reference/zookeeper-coordination.md §§1.1, 1.3, 6.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from groupshift.domain.addresses import Server
from groupshift.domain.foreign_json import decimal, load_object, remedy, shown, shown_value, whole_number
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected

CONSUMERS = "/consumers"
BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
CLUSTER_ID = "/cluster/id"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
_OLDEST_BROKER_WITH_ENDPOINTS = 2
_INT32: Final = 2**31 - 1
_PORTS: Final = 65_535
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,255}|[0-9A-Fa-f:.]{2,64}(?:%[A-Za-z0-9._-]{1,64})?")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_ENDPOINT: Final = re.compile(r"(?P<listener>[^:/]{1,255})://(?P<host>[^/]*):(?P<port>[0-9]{1,5})")


class GroupPaths:
    """All paths of one group, below the chroot."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.root = f"{CONSUMERS}/{group}"
        """``/consumers/<g>``."""
        self.ids = f"{self.root}/ids"
        """Directory of the registrations."""
        self.owners = f"{self.root}/owners"
        """Directory of the owner nodes."""
        self.offsets = f"{self.root}/offsets"
        """Directory of the committed offsets."""
        self.migration_ids = f"{self.root}/migration/ids"
        """Directory of the migration-aware members."""
        self.mode = f"{self.root}/migration/mode"
        """The mode node."""
        self.fence = f"{self.root}/migration/fence"
        """Who may write the mode node (see `groupshift.domain.modes`)."""

    def id_of(self, consumer_id: str) -> str:
        """The registration of one member."""
        return f"{self.ids}/{consumer_id}"

    def migration_id_of(self, consumer_id: str) -> str:
        """The migration id of one member."""
        return f"{self.migration_ids}/{consumer_id}"

    def owner_of(self, partition: TopicPartition) -> str:
        """The owner node of one partition."""
        return f"{self.owners}/{partition.topic}/{partition.partition}"

    def offset_of(self, partition: TopicPartition) -> str:
        """The offset node of one partition."""
        return f"{self.offsets}/{partition.topic}/{partition.partition}"


def topic_path(topic: str) -> str:
    """The node that lists a topic's partitions."""
    return f"{BROKER_TOPICS}/{topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One listener of a broker; ``protocol`` is its security protocol."""

    protocol: str
    server: Server


@remedy("restart that broker")
def parse_broker(data: bytes | None, where: str = BROKER_IDS) -> tuple[Endpoint, ...]:
    """The endpoints in broker JSON of versions 1 to 5 (§1.3), as written; version 1 has one host and port.

    Raises `Rejected`, naming ``where``, for anything else."""
    node = load_object(data, where)
    version = whole_number(node.get("version"), f"{where}: version", low=1, high=_INT32)
    texts, protocols = node.get("endpoints") or [], node.get("listener_security_protocol_map") or {}
    if version < _OLDEST_BROKER_WITH_ENDPOINTS:
        port = whole_number(node.get("port"), f"{where}: port", low=1, high=_PORTS)
        texts, protocols = [f"PLAINTEXT://{_text(node.get('host'), where)}:{port}"], {}
    if not isinstance(protocols, dict) or not isinstance(texts, list):
        raise Rejected(f"{where}: 'endpoints' is no list, or its protocols are no object")
    return tuple(_endpoint(_text(each, where), protocols, where) for each in texts)


def _endpoint(text: str, protocols: dict[str, Any], where: str) -> Endpoint:
    """The host becomes part of a list of addresses, so it can hold nothing that separates them."""
    match = _ENDPOINT.fullmatch(text)
    host = match["host"].removeprefix("[").removesuffix("]") if match else ""
    if match is None or not _HOST.fullmatch(host):
        raise Rejected(f"{where}: endpoint {shown(text)} is no LISTENER://host:port")
    listener = match["listener"]
    port = decimal(match["port"], f"{where}: endpoint {shown(text)}", low=1, high=_PORTS)
    protocol = _text(protocols.get(listener, listener), f"{where}: protocol of {shown(listener)}")
    return Endpoint(protocol=protocol, server=Server(host, port))


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise Rejected(f"{where}: {shown_value(value)} is no text")
    return value


def parse_cluster_id(data: bytes | None) -> str:
    """The id of the Kafka cluster that keeps its nodes here (brokers since 0.10.1 write it); empty when
    absent. Raises `Rejected` for anything that is no such node."""
    if data is None:
        return ""
    cluster_id = load_object(data, CLUSTER_ID).get("id")
    return "" if cluster_id is None else _text(cluster_id, f"{CLUSTER_ID}, repair the node: id")


def refuse_other_cluster(zookeeper: str, brokers: str) -> None:
    """Raise `Rejected` when the ids of the two Kafka clusters are known and differ."""
    if zookeeper and brokers and zookeeper != brokers:
        raise Rejected(
            f"ZooKeeper belongs to Kafka cluster {zookeeper!r}, the brokers to {brokers!r}: name the "
            "brokers and the ensemble (with its chroot) of one cluster"
        )


@remedy("repair the topic node")
def parse_partitions(data: bytes | None, where: str = BROKER_TOPICS) -> tuple[int, ...]:
    """Partition numbers of a topic node (versions 1 to 3), ascending; absent node or field: none."""
    numbered = load_object(data, where).get("partitions") if data else None
    if numbered is not None and not isinstance(numbered, dict):
        raise Rejected(f"{where}: partitions {shown_value(numbered)} are no object")
    for key in numbered or ():
        if partition_number(key) is None:
            raise Rejected(f"{where}: partitions {shown(key)} is no partition number")
    return tuple(sorted(map(int, numbered or ())))


def partition_number(name: str) -> int | None:
    """The partition that a node's name says: plain decimal, not padded (§1.1), within 31 bits."""
    number = int(name) if _NUMBER.fullmatch(name) else -1
    return number if 0 <= number <= _INT32 else None


@remedy("set it to the next offset")
def parse_offset(data: bytes | None, where: str = "offset node") -> int | None:
    """The next offset to read, or None when the node is absent. Raises `Rejected` when not decimal."""
    return None if data is None else decimal(data, where)


def encode_offset(offset: int) -> bytes:
    """Decimal ASCII, as every reader expects."""
    return str(offset).encode("ascii")
