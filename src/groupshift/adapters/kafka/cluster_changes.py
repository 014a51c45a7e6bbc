"""Changes to a cluster through its brokers: configurations, groups that commit, joins, more partitions.

Implements `groupshift.ports.changes.ClusterActs`, `FencedCommits` and `TopicExpansion`.

* Configurations of topics and groups are read and changed one by one (KIP-339, IncrementalAlterConfigs).
* Groups of groupshift's own commit once to every partition of the offsets topic: a segment is rolled only
  when something is appended, and only what is not in the newest segment is compacted. They commit for the
  offsets topic itself, so no other topic is named, and are deleted again.
* One classic member joins an empty group of type consumer and leaves it; that makes the group classic. It
  commits nothing, or what is to be committed before anybody else goes on; all other offsets stay
  (docs/reference/group-coordinator.md §5.3, docs/reference/coordinator-on-real-brokers.md §C).
* The controller that the metadata names gets the request for more partitions: in ZooKeeper mode no other
  broker does it, in KRaft mode any broker hands it on.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kio.schema.errors import ErrorCode

from groupshift.adapters.kafka.broker import BrokerConnection
from groupshift.adapters.kafka.cluster import KafkaCluster, OfCluster, attempted
from groupshift.adapters.kafka.group_changes import (
    codes_of,
    commit_parts,
    commit_request,
    commit_rows,
    delete_groups,
    state_in_use,
)
from groupshift.adapters.kafka.requests import (
    GROUP,
    OF_TOPIC,
    TOPIC,
    FeatureChange,
    describe_configs,
    fetch_now,
    metadata,
    set_values,
    update_features,
)
from groupshift.adapters.kafka.rows import offset_rows
from groupshift.adapters.kafka.snapshots import listing
from groupshift.adapters.kafka.wire import Api, BrokerError, error_name, raise_for
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC, partition_of
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import OffsetRow
from groupshift.errors import Conflict, Rejected
from groupshift.ports.changes import Refusals

PREFIX = "groupshift-compaction-"


class LiveClusterActs(OfCluster):
    """See the port. Acts through one `KafkaCluster`, which it closes."""

    @attempted
    def convert_empty(self, group: str) -> None:
        """See the port: join as the only member, be assigned nothing, and leave."""
        with _only_member(self._cluster, group):
            pass

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


@contextmanager
def _only_member(cluster: KafkaCluster, group: str) -> Iterator[tuple[BrokerConnection, int, str]]:
    """Join a group, be assigned nothing, and leave at the end: coordinator, generation and member id.

    Raises `Conflict` when it has another member, which then goes on."""
    coordinator = cluster.coordinator(group)
    joined = _join(coordinator, group, "")
    if joined.error_code == ErrorCode.member_id_required:
        joined = _join(coordinator, group, joined.member_id)
    raise_for(joined.error_code, f"group {group!r} is not joined")
    try:
        if joined.leader != joined.member_id or len(joined.members) > 1:
            raise Conflict(f"group {group!r} has other members: it was left alone")
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
        yield coordinator, int(joined.generation_id), str(joined.member_id)
    finally:
        identity = {"member_id": joined.member_id, "group_instance_id": None}
        left = _ask(coordinator, Api.LEAVE_GROUP, group_id=group, members=[identity])
        raise_for(left.error_code, f"group {group!r} is not left")


class LiveFencedCommits(OfCluster):
    """See `groupshift.ports.changes.FencedCommits`. Acts through one `KafkaCluster`, which it closes."""

    @attempted
    def commit(
        self, group: str, choose: Callable[[Mapping[TopicPartition, OffsetRow]], Iterable[OffsetRow]]
    ) -> Mapping[str, str]:
        """See the port."""
        if state := state_in_use(self._cluster.coordinator(group), group):
            raise Conflict(f"group {group!r} is {state}: it was left alone")
        refused = Refusals()
        with _only_member(self._cluster, group) as (coordinator, generation, member_id):
            committed: dict[TopicPartition, OffsetRow] = {}
            for _, code, topics in fetch_now(coordinator, [group]):
                raise_for(code, f"offsets of group {group!r} are not given")
                rows, failed = offset_rows(group, topics)
                for topic, number, why in failed:
                    raise_for(why, f"the offset of {topic}-{number} of group {group!r} is not given")
                committed |= {row.at: row for row in rows}
            for _, part in commit_parts(choose(committed)):
                request = commit_request(coordinator, group, part, generation=generation, member_id=member_id)
                answer = coordinator.ask(request)
                for row, code in codes_of(part, answer):
                    refused.add(row, f"offsets of group {group!r} are not committed: {error_name(code)}")
        return refused


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
        described, connection = _controlled(self._cluster, OFFSETS_TOPIC)
        if not validate_only and len(described.partitions) == count:
            return  # a try before this one was not answered in time, and done
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


def _controlled(cluster: KafkaCluster, topic: str) -> tuple[Any, BrokerConnection]:
    """What a broker says of a topic, and the connection to the controller that it names."""
    described = metadata(cluster.broker(cluster.brokers()[0].node_id), [topic])
    controller = int(described.controller_id)
    if controller < 0:
        text = "the cluster has no controller; wait until it has one"
        raise BrokerError(ErrorCode.not_controller, text)
    return described.topics[0], cluster.broker(controller)


_CREATE_TOPICS = 4
"""The newest version that old brokers (2.4) have, too."""
_REPLICAS = 3
_POLICY, _COMPACT = "cleanup.policy", "compact"


def ensure_compacted_topic(cluster: KafkaCluster, topic: str) -> None:
    """Make a compacted topic of one partition, with three replicas or as many as there are brokers; leave one
    that is there.

    Raises:
        Rejected: it is there and not compacted, or may not be made.
        Transient: as `KafkaCluster.attempt`.
    """

    def work() -> str:
        described, controller = _controlled(cluster, topic)
        if described.error_code == ErrorCode.unknown_topic_or_partition:
            request = controller.request(
                Api.CREATE_TOPICS,
                at_most=_CREATE_TOPICS,
                topics=[
                    {
                        "name": topic,
                        "num_partitions": 1,
                        "replication_factor": min(_REPLICAS, len(cluster.brokers())),
                        "assignments": (),
                        "configs": [{"name": _POLICY, "value": _COMPACT}],
                    }
                ],
                timeout=dt.timedelta(seconds=_MADE_S),
                validate_only=False,
            )
            for each in controller.ask(request, timeout_s=_MADE_S + 5.0).topics:
                if each.error_code != ErrorCode.topic_already_exists:
                    raise_for(each.error_code, f"topic {topic!r} is not created", said=each.error_message)
        else:
            raise_for(described.error_code, f"topic {topic!r}")
        question = describe_configs(controller, TOPIC, [topic], (_POLICY,))
        (configs,) = controller.ask(question).results
        raise_for(configs.error_code, f"configurations of topic {topic!r}", said=configs.error_message)
        return next((str(each.value) for each in configs.configs if each.name == _POLICY), "")

    policy = cluster.attempt(work)
    if policy != _COMPACT:
        raise Rejected(
            f"topic {topic!r} has {_POLICY} {policy!r}, so what it keeps would be deleted: set it to "
            f"{_COMPACT!r}, or delete the topic"
        )
