"""Where a group keeps its state in ZooKeeper, and how to read the nodes that brokers write.

Source: docs/reference/zookeeper-coordination.md §§1.1, 1.3, 6.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from groupshift.domain.foreign_json import decimal, load_object, shown, shown_value, whole_number
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


@dataclass(frozen=True, slots=True)
class GroupPaths:
    """All paths of one group, below the chroot."""

    group: str

    @property
    def root(self) -> str:
        """``/consumers/<g>``."""
        return f"{CONSUMERS}/{self.group}"

    @property
    def ids(self) -> str:
        """Directory of the registrations."""
        return f"{self.root}/ids"

    @property
    def owners(self) -> str:
        """Directory of the owner nodes."""
        return f"{self.root}/owners"

    @property
    def offsets(self) -> str:
        """Directory of the committed offsets."""
        return f"{self.root}/offsets"

    @property
    def migration_ids(self) -> str:
        """Directory of the migration-aware members."""
        return f"{self.root}/migration/ids"

    @property
    def mode(self) -> str:
        """The mode node."""
        return f"{self.root}/migration/mode"

    @property
    def fence(self) -> str:
        """Who may write the mode node (see `groupshift.domain.modes`)."""
        return f"{self.root}/migration/fence"

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

    listener: str
    protocol: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``, an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    """``/brokers/ids/<id>``: version of the JSON and the endpoints in the order written."""

    version: int
    endpoints: tuple[Endpoint, ...]


def parse_broker(data: bytes | None, where: str = BROKER_IDS) -> BrokerNode:
    """Broker JSON of versions 1 to 5 (§1.3). Raises `Rejected`, naming ``where``, for anything else."""
    try:
        return _broker(load_object(data, where), where)
    except Rejected as wrong:
        raise Rejected(f"{wrong}; restart that broker") from None


def _broker(node: dict[str, Any], where: str) -> BrokerNode:
    version = whole_number(node.get("version"), f"{where}: version", low=1, high=_INT32)
    if version < _OLDEST_BROKER_WITH_ENDPOINTS:
        return BrokerNode(version=version, endpoints=(_only_endpoint(node, where),))
    protocols, texts = node.get("listener_security_protocol_map"), node.get("endpoints")
    protocols, texts = {} if protocols is None else protocols, [] if texts is None else texts
    if not isinstance(protocols, dict) or not isinstance(texts, list):
        raise Rejected(f"{where}: 'endpoints' is no list, or its protocols are no object")
    return BrokerNode(version=version, endpoints=tuple(_endpoint(text, protocols, where) for text in texts))


def _only_endpoint(node: dict[str, Any], where: str) -> Endpoint:
    host = _host(node.get("host"), f"{where}: host")
    port = whole_number(node.get("port"), f"{where}: port", low=1, high=_PORTS)
    return Endpoint(listener="PLAINTEXT", protocol="PLAINTEXT", host=host, port=port)


def _endpoint(text: Any, protocols: dict[str, Any], where: str) -> Endpoint:
    found = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise Rejected(f"{where}: endpoint {shown_value(text)} is no LISTENER://host:port")
    listener = found["listener"]
    protocol = protocols.get(listener, listener)
    if not isinstance(protocol, str):
        raise Rejected(f"{where}: the protocol of listener {shown(listener)} is no text")
    where = f"{where}: endpoint {shown(text)}"
    return Endpoint(
        listener=listener,
        protocol=protocol,
        host=_host(found["host"].removeprefix("[").removesuffix("]"), where),
        port=decimal(found["port"], where, low=1, high=_PORTS),
    )


def _host(value: Any, where: str) -> str:
    """It becomes part of a list of addresses, so it can hold nothing that separates them."""
    if not isinstance(value, str) or not _HOST.fullmatch(value):
        raise Rejected(f"{where}: {shown_value(value)} is no host name")
    return value


def parse_cluster_id(data: bytes | None) -> str:
    """The id of the Kafka cluster that keeps its nodes here (brokers since 0.10.1 write it); empty when
    absent. Raises `Rejected` for anything that is no such node."""
    if data is None:
        return ""
    found = load_object(data, CLUSTER_ID).get("id")
    if found is not None and not isinstance(found, str):
        raise Rejected(f"{CLUSTER_ID}: id {shown_value(found)} is no text; repair the node")
    return found or ""


def refuse_other_cluster(zookeeper: str, brokers: str) -> None:
    """Raise `Rejected` when the ids of the two Kafka clusters are known and differ."""
    if zookeeper and brokers and zookeeper != brokers:
        raise Rejected(
            f"ZooKeeper belongs to Kafka cluster {zookeeper!r}, the brokers to {brokers!r}: name the "
            "brokers and the ensemble (with its chroot) of one cluster"
        )


def parse_partitions(data: bytes | None, where: str = BROKER_TOPICS) -> tuple[int, ...]:
    """Partition numbers of a topic node (versions 1 to 3), ascending; absent node or field: none."""
    if not data:
        return ()
    try:
        return _partitions(load_object(data, where).get("partitions"), where)
    except Rejected as wrong:
        raise Rejected(f"{wrong}; repair the topic node") from None


def _partitions(found: Any, where: str) -> tuple[int, ...]:
    if found is not None and not isinstance(found, dict):
        raise Rejected(f"{where}: partitions {shown_value(found)} are no object")
    numbers = {key: partition_number(key) for key in found or ()}
    for key, number in numbers.items():
        if number is None:
            raise Rejected(f"{where}: partitions {shown(key)} is no partition number")
    return tuple(sorted(each for each in numbers.values() if each is not None))


def partition_number(name: str) -> int | None:
    """The partition that a node's name says: plain decimal, not padded (§1.1), within 31 bits."""
    number = int(name) if _NUMBER.fullmatch(name) else -1
    return number if 0 <= number <= _INT32 else None


def parse_offset(data: bytes | None, where: str = "offset node") -> int | None:
    """The next offset to read, or None when the node is absent. Raises `Rejected` when not decimal."""
    if data is None:
        return None
    try:
        return decimal(data, where)
    except Rejected as wrong:
        raise Rejected(f"{wrong}; set it to the next offset") from None


def encode_offset(offset: int) -> bytes:
    """Decimal ASCII, as every reader expects."""
    return str(offset).encode("ascii")
