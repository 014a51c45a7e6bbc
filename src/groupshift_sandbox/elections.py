"""Leaders back where they are preferred (KIP-460), which a roll leaves elsewhere.

By a request of our own: ``elect_leaders`` of confluent-kafka 2.16.1 with a timeout ends with a SystemError.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from contextlib import closing

from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.wire import BrokerError, error_name, raise_for
from groupshift.errors import Transient
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.readiness import connect_to, leaders_of

_ELECT_LEADERS = 43
_NEWEST = 2
_PREFERRED = 0
_ANSWER_S = 30.0
_FINE = (ErrorCode.none, ErrorCode.election_not_needed)


def elect_preferred(cluster: Cluster, topic: str, partitions: Collection[int]) -> None:
    """Give partitions back to their first replicas, as far as they are not led there already.

    Asked of one broker after the other, for with ZooKeeper only the controller does it. Raises `Transient`
    with what each partition was refused for, `BrokerError` when the whole request is."""
    for broker in cluster.brokers:
        with closing(connect_to(broker.address)) as connection:
            if _elected(connection, topic, partitions):
                return
    raise Transient(f"no broker of {cluster.bootstrap} is the controller now; run it again")


def lead_as_preferred(cluster: Cluster, topic: str, within_s: float = 120.0) -> None:
    """Give every partition of a topic back to its first replica, as brokers do some time after a restart, and
    wait until each broker tells the same leaders, every broker among them. Raises as `wait_until`."""
    nodes = {node.node_id for node in cluster.brokers}

    def back() -> bool:
        try:
            elect_preferred(cluster, topic, leaders_of(cluster.brokers[0].address, topic))
            views = [leaders_of(node.address, topic) for node in cluster.brokers]
        except (Transient, BrokerError, OSError):
            return False
        return set(views[0].values()) == nodes and all(each == views[0] for each in views)

    wait_until(back, within_s, f"partitions of {topic} are led by their first replicas", every_s=0.5)


def _elected(connection: BrokerConnection, topic: str, partitions: Collection[int]) -> bool:
    """False when this broker is not the controller."""
    version = min(_NEWEST, max(connection.versions[_ELECT_LEADERS]))
    schema = load_payload_module(_ELECT_LEADERS, version, EntityType.request)
    wanted = schema.TopicPartitions(topic=topic, partitions=tuple(sorted(partitions)))
    request = schema.ElectLeadersRequest(
        election_type=_PREFERRED, topic_partitions=(wanted,), timeout=dt.timedelta(seconds=_ANSWER_S)
    )
    answer = connection.ask(request, timeout_s=_ANSWER_S + 5.0)
    if answer.error_code == ErrorCode.not_controller:
        return False
    raise_for(answer.error_code, f"preferred leaders of {topic!r} are not elected")
    partition_results = [
        each for result in answer.replica_election_results for each in result.partition_result
    ]
    if any(
        each.error_code == ErrorCode.not_controller for each in partition_results
    ):  # with ZooKeeper it is told here
        return False
    refused = [
        f"{topic}-{each.partition_id}: {error_name(each.error_code)}"
        for each in partition_results
        if each.error_code not in _FINE
    ]
    if refused:
        raise Transient(f"preferred leaders are not elected: {'; '.join(refused)}; run it again")
    return True
