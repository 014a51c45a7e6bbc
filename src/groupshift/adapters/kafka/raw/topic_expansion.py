"""More partitions of the offsets topic: `groupshift.ports.changes.TopicExpansion`.

Asked of the controller that the metadata names: in ZooKeeper mode no other broker does it, in KRaft mode any
broker hands it on.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.replicas import cluster_lacking, metadata_of
from groupshift.adapters.kafka.raw.transactions import OFFSETS_TOPIC
from groupshift.adapters.kafka.raw.wire import BrokerError, UnsupportedByBroker, fill, raise_for

_CREATE_PARTITIONS, _VERSION = 37, 1
_NO_CONTROLLER = 41
_MADE_S = 30.0


class LiveTopicExpansion:
    """Acts through one `KafkaCluster`, which it closes."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def check(self, count: int) -> None:
        """See the port."""
        self._cluster.attempt(lambda: self._ask(count, validate_only=True))

    def expand(self, count: int) -> None:
        """See the port."""
        self._cluster.attempt(lambda: self._ask(count, validate_only=False))

    def lacks(self, brokers: Collection[int]) -> str:
        """See the port."""
        return self._cluster.attempt(lambda: cluster_lacking(self._cluster, brokers, OFFSETS_TOPIC))

    def cluster_lacks(self, brokers: Collection[int]) -> str:
        """See the port."""
        return self._cluster.attempt(lambda: cluster_lacking(self._cluster, brokers))

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _ask(self, count: int, *, validate_only: bool) -> None:
        any_broker = self._cluster.broker(self._cluster.brokers()[0].node_id)
        told = metadata_of(any_broker, OFFSETS_TOPIC)
        if not validate_only and len(told.topics[0].partitions) == count:
            return  # a try before this one was not answered in time, and done
        controller = int(told.controller_id)
        if controller < 0:
            raise BrokerError(_NO_CONTROLLER, "the cluster has no controller; wait until it has one")
        connection = self._cluster.broker(controller)
        theirs = connection.versions.get(_CREATE_PARTITIONS)
        if theirs is None or not theirs.lowest <= _VERSION <= theirs.highest:
            raise UnsupportedByBroker(
                f"{connection.address} does not create partitions in version {_VERSION}: make them with "
                "kafka-topics.sh --alter of its release, then plan anew"
            )
        module = load_payload_module(_CREATE_PARTITIONS, _VERSION, EntityType.request)
        topic = module.CreatePartitionsTopic(name=OFFSETS_TOPIC, count=count, assignments=None)
        asked = fill(
            module.CreatePartitionsRequest,
            topics=(topic,),
            timeout=dt.timedelta(seconds=_MADE_S),
            validate_only=validate_only,
        )
        for each in connection.ask(asked, timeout_s=_MADE_S + 5.0).results:
            raise_for(each.error_code, f"{count} partitions of {OFFSETS_TOPIC}", said=each.error_message)
