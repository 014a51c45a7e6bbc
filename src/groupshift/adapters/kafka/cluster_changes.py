"""Changes to a cluster through its brokers: configurations, groups that commit, joins, more partitions.

Implements `groupshift.ports.changes.ClusterActs` and `groupshift.ports.changes.TopicExpansion`.

* Configurations of topics and groups are read and changed one by one (KIP-339, IncrementalAlterConfigs).
* Groups of groupshift's own commit once to every partition of the offsets topic: a segment is rolled only
  when something is appended, and only what is not in the newest segment is compacted. They commit for the
  offsets topic itself, so no other topic is named, and are deleted again.
* One classic member joins an empty group of type consumer and leaves it; that makes the group classic. It
  commits nothing and the group's offsets stay (docs/reference/group-coordinator.md §5.3,
  docs/reference/coordinator-on-real-brokers.md §C).
* The controller that the metadata names gets the request for more partitions: in ZooKeeper mode no other
  broker does it, in KRaft mode any broker hands it on.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Collection, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from groupshift.adapters.kafka.cluster import OfCluster, attempted
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.group_changes import commit_rows, delete_groups
from groupshift.adapters.kafka.requests import (
    GROUP,
    OF_TOPIC,
    TOPIC,
    FeatureChange,
    describe_configs,
    metadata,
    set_values,
    update_features,
)
from groupshift.adapters.kafka.snapshots import listing
from groupshift.adapters.kafka.wire import Api, BrokerError, raise_for
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC, partition_of
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Rejected

PREFIX = "groupshift-compaction-"


class LiveClusterActs(OfCluster):
    """See the port. Acts through one `KafkaCluster`, which it closes."""

    @attempted
    def convert_empty(self, group: str) -> None:
        """See the port: join as the only member, be assigned nothing, and leave."""
        coordinator = self._cluster.coordinator(group)
        joined = _join(coordinator, group, "")
        if joined.error_code == ErrorCode.member_id_required:
            joined = _join(coordinator, group, joined.member_id)
        raise_for(joined.error_code, f"group {group!r} is not joined")
        try:
            assigned = _ask(
                coordinator,
                Api.SYNC_GROUP,
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=None,
                assignments=[{"member_id": joined.member_id, "assignment": _NOTHING}],
            )
            raise_for(assigned.error_code, f"group {group!r} assigns nothing")
        finally:
            identity = {"member_id": joined.member_id, "group_instance_id": None}
            left = _ask(coordinator, Api.LEAVE_GROUP, group_id=group, members=[identity])
            raise_for(left.error_code, f"group {group!r} is not left")

    @attempted
    def topic_configs(self) -> Mapping[str, str]:
        """See the port."""
        connection = self._any()
        (configs,) = connection.ask(describe_configs(connection, TOPIC, [OFFSETS_TOPIC])).results
        return set_values(configs, OF_TOPIC, f"topic {OFFSETS_TOPIC!r}")

    @attempted
    def configure_topic(self, values: Mapping[str, str | None]) -> None:
        """See the port."""
        alter(self._any(), TOPIC, OFFSETS_TOPIC, values)

    def force_compaction(self) -> None:
        """See the port: one commit by each group of groupshift's own."""
        _refuse(commit_rows(self._cluster, self._churn()))

    def remove_churn(self) -> None:
        """See the port; one that is gone already is no error."""
        _refuse(delete_groups(self._cluster, (row.group for row in self._churn())))

    @attempted
    def churning(self) -> Collection[str]:
        """See the port."""
        return {group for group in listing(self._cluster)[0] if group.startswith(PREFIX)}

    @attempted
    def configure_group(self, group: str, values: Mapping[str, str | None]) -> None:
        """See the port."""
        alter(self._any(), GROUP, group, values)

    @attempted
    def lower_feature(self, feature: str, level: int) -> None:
        """See the port."""
        update_features(self._any(), {feature: level}, change=FeatureChange.SAFE_DOWNGRADE)

    @attempted
    def raise_feature(self, feature: str, level: int) -> None:
        """See the port."""
        update_features(self._any(), {feature: level})

    @attempted
    def lacks(self, brokers: Collection[int]) -> str:
        """See the port: as every one of these brokers tells it."""
        return self._cluster.lacking(brokers)

    def _any(self) -> BrokerConnection:
        return self._cluster.broker(self._cluster.brokers()[0].node_id)

    @attempted
    def _churn(self) -> list[OffsetRow]:
        """One commit for each partition of the offsets topic, by the group that has its place there."""
        leaders, untold = self._cluster.partitions_of([OFFSETS_TOPIC])
        for code in untold.values():  # a broker that has just started does not know it yet
            raise_for(code, f"topic {OFFSETS_TOPIC!r}")
        groups = names(len(leaders))
        return [
            OffsetRow(group=group, topic=OFFSETS_TOPIC, partition=number, offset=0, metadata="")
            for number, group in groups.items()
        ]


_SET, _DELETE = 0, 1


def alter(connection: BrokerConnection, kind: int, name: str, values: Mapping[str, str | None]) -> None:
    """Set these configurations of a topic or group; None takes one back to its default.

    Raises `BrokerError` with the broker's words, `UnsupportedByBroker`."""
    changes = [
        {"name": each, "config_operation": _DELETE if value is None else _SET, "value": value}
        for each, value in sorted(values.items())
    ]
    request = connection.request(
        Api.INCREMENTAL_ALTER_CONFIGS,
        at_least=1,
        resources=[{"resource_type": kind, "resource_name": name, "configs": changes}],
        validate_only=False,
    )
    answer = connection.ask(request)
    for each in answer.responses:
        raise_for(each.error_code, f"configurations of {name!r} are not changed", said=each.error_message)


def names(partitions: int, prefix: str = PREFIX) -> dict[int, str]:
    """The group of each partition of the offsets topic; none for a topic that is not there (0).

    The last character runs through 94 neighbours: where 31, the factor of Java's hash, divides the count, it
    alone decides, and ten digits would not reach all."""
    groups: dict[int, str] = {}
    tried = 0
    while len(groups) < partitions:
        name = f"{prefix}{tried}{chr(ord('!') + tried % 94)}"
        groups.setdefault(partition_of(name, partitions), name)
        tried += 1
    return groups


def _refuse(refused: Mapping[str, str]) -> None:
    if refused:
        raise Rejected("; ".join(refused.values()))


_NEWEST = {Api.JOIN_GROUP: 5, Api.LEAVE_GROUP: 3, Api.SYNC_GROUP: 3}
"""Versions with a place for ``group.instance.id``, offered since 2.3 and still by 4.4."""
_SESSION = dt.timedelta(seconds=10)
"""How long a member that was cut off stays: at least the broker's group.min.session.timeout.ms."""
_WAIT_S = 60.0
_NOTHING = struct.pack(">hii", 0, 0, -1)
"""ConsumerProtocolSubscription and ConsumerProtocolAssignment version 0 of no topic, without user data."""


def _join(coordinator: BrokerConnection, group: str, member_id: str) -> Any:
    return _ask(
        coordinator,
        Api.JOIN_GROUP,
        group_id=group,
        session_timeout=_SESSION,
        rebalance_timeout=_SESSION,
        member_id=member_id,
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": _NOTHING}],
    )


def _ask(coordinator: BrokerConnection, api: Api, **values: Any) -> Any:
    request = coordinator.request(api, at_least=_NEWEST[api], at_most=_NEWEST[api], **values)
    return coordinator.ask(request, timeout_s=_WAIT_S)


_CREATE_VERSION = 1
_MADE_S = 30.0


class LiveTopicExpansion(OfCluster):
    """Acts through one `KafkaCluster`, which it closes."""

    def check(self, count: int) -> None:
        """See the port."""
        self._ask(count, validate_only=True)

    def expand(self, count: int) -> None:
        """See the port."""
        self._ask(count, validate_only=False)

    @attempted
    def lacks(self, brokers: Collection[int]) -> str:
        """See the port."""
        return self._cluster.lacking(brokers, OFFSETS_TOPIC)

    @attempted
    def cluster_lacks(self, brokers: Collection[int]) -> str:
        """See the port."""
        return self._cluster.lacking(brokers)

    @attempted
    def _ask(self, count: int, *, validate_only: bool) -> None:
        any_broker = self._cluster.broker(self._cluster.brokers()[0].node_id)
        described = metadata(any_broker, [OFFSETS_TOPIC])
        if not validate_only and len(described.topics[0].partitions) == count:
            return  # a try before this one was not answered in time, and done
        controller = int(described.controller_id)
        if controller < 0:
            text = "the cluster has no controller; wait until it has one"
            raise BrokerError(ErrorCode.not_controller, text)
        connection = self._cluster.broker(controller)
        request = connection.request(
            Api.CREATE_PARTITIONS,
            at_least=_CREATE_VERSION,
            at_most=_CREATE_VERSION,
            topics=[{"name": OFFSETS_TOPIC, "count": count, "assignments": None}],
            timeout=dt.timedelta(seconds=_MADE_S),
            validate_only=validate_only,
        )
        for each in connection.ask(request, timeout_s=_MADE_S + 5.0).results:
            raise_for(each.error_code, f"{count} partitions of {OFFSETS_TOPIC}", said=each.error_message)
