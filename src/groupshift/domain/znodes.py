"""Where a group keeps its state in ZooKeeper, and how to read the nodes that brokers write.

Source: specs/zookeeper-coordination.md §§1.1, 1.3, 6.1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Rejected

CONSUMERS = "/consumers"
BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
CLUSTER_ID = "/cluster/id"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
_OLDEST_BROKER_WITH_ENDPOINTS = 2


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
        """Who may write the mode node (see `groupshift.domain.holder`)."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    """``/brokers/ids/<id>``: version of the JSON and the endpoints in the order written."""

    version: int
    endpoints: tuple[Endpoint, ...]

    @property
    def plaintext(self) -> Endpoint | None:
        """The endpoint an old consumer talks to: the first PLAINTEXT one."""
        return next((each for each in self.endpoints if each.protocol == "PLAINTEXT"), None)


def parse_broker(data: bytes | None, where: str = BROKER_IDS) -> BrokerNode:
    """Broker JSON of versions 1 to 5 (§1.3). Raises `Rejected` for anything else."""
    node = _object(data, where)
    version = node.get("version")
    if not isinstance(version, int) or version < 1:
        raise Rejected(f"{where}: version {version!r} is not a broker registration; expected 1 or higher")
    if version < _OLDEST_BROKER_WITH_ENDPOINTS:
        endpoint = Endpoint(
            listener="PLAINTEXT", protocol="PLAINTEXT", host=str(node["host"]), port=int(node["port"])
        )
        return BrokerNode(version=version, endpoints=(endpoint,))
    protocols = node.get("listener_security_protocol_map") or {}
    return BrokerNode(
        version=version, endpoints=tuple(_endpoint(text, protocols) for text in node.get("endpoints") or ())
    )


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(
        listener=listener, protocol=protocols.get(listener, listener), host=host.strip("[]"), port=int(port)
    )


def parse_cluster_id(data: bytes | None) -> str:
    """The id of the Kafka cluster that keeps its nodes here (brokers since 0.10.1 write it); empty when
    absent. Raises `Rejected` for anything that is no such node."""
    return "" if data is None else str(_object(data, CLUSTER_ID).get("id") or "")


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
    partitions = _object(data, where).get("partitions") or {}
    try:
        return tuple(sorted(int(number) for number in partitions))
    except (TypeError, ValueError):
        raise Rejected(f"{where}: partitions {partitions!r} are not numbers; repair the topic node") from None


def parse_offset(data: bytes | None, where: str = "offset node") -> int | None:
    """The next offset to read, or None when the node is absent. Raises `Rejected` when not decimal."""
    if data is None:
        return None
    try:
        return int(data.decode("ascii"))
    except ValueError:
        raise Rejected(f"{where}: {data!r} is not a decimal offset; set it to the next offset") from None


def encode_offset(offset: int) -> bytes:
    """Decimal ASCII, as every reader expects."""
    return str(offset).encode("ascii")


def _object(data: bytes | None, where: str) -> dict[str, Any]:
    try:
        parsed = json.loads((data or b"").decode("utf-8"))
    except ValueError as error:
        raise Rejected(f"{where}: {data!r} is not JSON ({error}); remove or repair the node") from None
    if not isinstance(parsed, dict):
        raise Rejected(f"{where}: {data!r} is not a JSON object; remove or repair the node")
    return parsed
