"""What a broker's admin requests tell of every group, and the same out of its log, as equal dictionaries.

One entry a group. What a release's requests do not tell is left out on both sides: types and states in the
list before its versions 5 and 4, leader epochs before OffsetFetch 5, static ids before DescribeGroups 4,
kinds of members before ConsumerGroupDescribe 1. The state in the list stands beside the described one.
"""

from __future__ import annotations

import base64
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.requests import (
    describe,
    fetch_offsets,
    fetched,
    list_groups,
)
from groupshift.adapters.kafka.wire import Api, raise_for
from groupshift.domain.group_protocol import Kind
from groupshift.log.group_states import GroupFamily, GroupState, State

_STATIC_IDS, _MEMBER_TYPES, _STATES, _EPOCHS = 4, 1, 4, 5
_TYPE_OF = {GroupFamily.SIMPLE: "classic"}
_ROLES = ("activeTasks", "standbyTasks", "warmupTasks")
_STABLE = {8: 0, 22: 1}
"""The byte that says that a member has what it is to have, by record type: streams groups count from 1."""

Answer = dict[str, Any]


def answers(broker: BrokerConnection) -> dict[str, Answer]:
    """Every group that the broker lists, with all it tells of it."""
    listed = broker.ask(list_groups(broker))
    raise_for(listed.error_code, "list of groups")
    found = {}
    for each in listed.groups:
        kind = getattr(each, "group_type", "classic").lower()
        told = _described(broker, kind, each.group_id)
        found[str(each.group_id)] = {
            "type": kind,
            "listed state": getattr(each, "group_state", None),
            "protocol type": each.protocol_type,
            **told,
            "offsets": {} if kind == "share" else _offsets(broker, each.group_id),
        }
    return found


def _described(broker: BrokerConnection, kind: str, group: str) -> Answer:
    ((asked, _),) = describe(broker, Kind(kind), [group])
    (told,) = broker.ask(asked).groups
    raise_for(told.error_code, f"description of {group}")
    return {"classic": _classic, "consumer": _consumer, "share": _share, "streams": _streams}[kind](told)


def _classic(told: Any) -> Answer:
    return {
        "state": told.group_state,
        "protocol": told.protocol_data,
        "members": {
            member.member_id: {
                "instance": getattr(member, "group_instance_id", None),
                "client": (member.client_id, member.client_host),
                "subscription": bytes(member.member_metadata).hex(),
                "assignment": bytes(member.member_assignment).hex(),
            }
            for member in told.members
        },
    }


def _head(told: Any) -> Answer:
    return {"state": told.group_state, "epoch": told.group_epoch, "assignment epoch": told.assignment_epoch}


def _consumer(told: Any) -> Answer:
    return _head(told) | {
        "protocol": told.assignor_name,
        "members": {
            member.member_id: _subscriber(member)
            | {
                "instance": member.instance_id,
                "expression": member.subscribed_topic_regex or "",
                "target": _partitions(member.target_assignment),
                "type": getattr(member, "member_type", None),
            }
            for member in told.members
        },
    }


def _any_member(member: Any) -> Answer:
    return {
        "rack": member.rack_id,
        "epoch": member.member_epoch,
        "client": (member.client_id, member.client_host),
    }


def _subscriber(member: Any) -> Answer:
    return _any_member(member) | {
        "topics": sorted(member.subscribed_topic_names),
        "assignment": _partitions(member.assignment),
    }


def _share(told: Any) -> Answer:
    return _head(told) | {
        "protocol": told.assignor_name,
        "members": {member.member_id: _subscriber(member) for member in told.members},
    }


def _streams(told: Any) -> Answer:
    return _head(told) | {
        "topology": (
            told.topology.epoch,
            {
                part.subtopology_id: (
                    sorted(part.source_topics),
                    sorted(part.repartition_sink_topics),
                    _topics(part.state_changelog_topics),
                    _topics(part.repartition_source_topics),
                )
                for part in told.topology.subtopologies
            },
        ),
        "members": {
            member.member_id: _any_member(member)
            | {
                "instance": member.instance_id,
                "topology epoch": member.topology_epoch,
                "process": member.process_id,
                "endpoint": (member.user_endpoint.host, member.user_endpoint.port),
                "tags": {each.key: each.value for each in member.client_tags},
                "assignment": _tasks(member.assignment),
                "target": _tasks(member.target_assignment),
                "classic": member.is_classic,
            }
            for member in told.members
        },
    }


def _topics(told: Iterable[Any]) -> dict[str, Any]:
    return {
        each.name: (each.replication_factor, {one.key: one.value for one in each.topic_configs})
        for each in told
    }


def _tasks(told: Any) -> dict[str, Any]:
    return {
        role: {each.subtopology_id: sorted(each.partitions) for each in getattr(told, name)}
        for role, name in zip(_ROLES, ("active_tasks", "standby_tasks", "warmup_tasks"), strict=True)
    }


def _partitions(told: Any) -> dict[str, list[int]]:
    return {_text(each.topic_id): sorted(each.partitions) for each in told.topic_partitions}


def _text(topic_id: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _offsets(broker: BrokerConnection, group: str) -> dict[tuple[str, int], Any]:
    ((asked, part),) = fetch_offsets(broker, [group])
    ((_, code, topics),) = fetched(part, broker.ask(asked))
    raise_for(code, f"offsets of {group}")
    found = {}
    for topic in topics:
        for each in topic.partitions:
            raise_for(each.error_code, f"offset of {group}")
            if each.committed_offset >= 0:
                epoch = getattr(each, "committed_leader_epoch", None)
                found[str(topic.name), int(each.partition_index)] = (
                    each.committed_offset,
                    epoch,
                    each.metadata,
                )
    return found


def expected(state: State, broker: BrokerConnection) -> dict[str, Answer]:
    """The same, out of the log; ``broker`` says only which fields its requests have."""
    found = {}
    for name, group in state.groups.items():
        if group.family is GroupFamily.GONE:
            continue
        told = {
            GroupFamily.CLASSIC: _from_classic,
            GroupFamily.SIMPLE: _from_classic,
            GroupFamily.CONSUMER: _from_consumer,
            GroupFamily.SHARE: _from_share,
            GroupFamily.STREAMS: _from_streams,
        }[group.family](group)
        found[name] = {
            "type": _TYPE_OF.get(group.family, group.family.value),
            "listed state": told["state"] if broker.highest(Api.LIST_GROUPS) >= _STATES else None,
            "protocol type": group.protocol_type or _own_name(group),
            **told,
            "offsets": {
                (one.topic, one.partition): (one.offset, one.leader_epoch, one.metadata)
                for one in group.commits
                if one.live
            },
        }
        _leave_out(found[name], group.family, broker)
    return found


def _leave_out(told: Answer, family: GroupFamily, broker: BrokerConnection) -> None:
    """Fields that the broker's requests do not have: None, as in the answers."""
    if broker.highest(Api.OFFSET_FETCH) < _EPOCHS:
        told["offsets"] = {at: (value[0], None, value[2]) for at, value in told["offsets"].items()}
    untold = {
        GroupFamily.CLASSIC: (Api.DESCRIBE_GROUPS, _STATIC_IDS, "instance"),
        GroupFamily.CONSUMER: (Api.CONSUMER_GROUP_DESCRIBE, _MEMBER_TYPES, "type"),
    }.get(family)
    if untold and broker.highest(untold[0]) < untold[1]:
        for member in told["members"].values():
            member[untold[2]] = None


def _own_name(group: GroupState) -> str:
    return group.family.value if group.family in {GroupFamily.SHARE, GroupFamily.STREAMS} else ""


def _values(group: GroupState, record_type: int) -> dict[str, Mapping[str, Any]]:
    """Values of one type by member; of a type without members under the empty name."""
    return {one.member_id or "": one.decoded or {} for one in group.records if one.record_type == record_type}


def _value(group: GroupState, record_type: int) -> Mapping[str, Any]:
    return _values(group, record_type).get("", {})


def _from_classic(group: GroupState) -> Answer:
    value = _value(group, 2)
    members = value.get("members", [])
    return {
        "state": "Stable" if members else "Empty",
        "protocol": (value.get("protocol") or "") if members else "",
        "members": {
            member["memberId"]: {
                "instance": member.get("groupInstanceId"),
                "client": (member["clientId"], member["clientHost"]),
                "subscription": member["subscription"],
                "assignment": member["assignment"],
            }
            for member in members
        },
    }


def _state(group: GroupState, target: int, current: int | None = None) -> Answer:
    """State and epochs by the rules of KIP-848; ``target`` is the type that has the assignment epoch,
    ``current`` that of members' assignments, which do not matter in a share group."""
    epoch = _value(group, target).get("assignmentEpoch", 0)
    settled = current is None or all(
        one["memberEpoch"] == epoch and one["state"] == _STABLE[current]
        for one in _values(group, current).values()
    )
    state = "Stable" if settled else "Reconciling"
    if not group.members:
        state = "Empty"
    elif group.epoch is not None and group.epoch > epoch:
        state = "Assigning"
    return {"state": state, "epoch": group.epoch, "assignment epoch": epoch}


def _at(value: Mapping[str, Any], name: str) -> dict[str, list[int]]:
    return {each["topicId"]: sorted(each["partitions"]) for each in value.get(name, ())}


def _from_consumer(group: GroupState) -> Answer:
    members, target, current = (_values(group, number) for number in (5, 7, 8))
    assignors = Counter(one["serverAssignor"] for one in members.values() if one["serverAssignor"])
    chosen = assignors.most_common(1)
    return _state(group, 6, 8) | {
        "protocol": chosen[0][0] if chosen else "uniform",
        "members": {
            name: _stored_subscriber(member, current[name])
            | {
                "instance": member["instanceId"],
                "expression": member["subscribedTopicRegex"] or "",
                "target": _at(target.get(name, {}), "topicPartitions"),
                "type": int(member["classicMemberMetadata"] is None),
            }
            for name, member in members.items()
        },
    }


def _stored_member(member: Mapping[str, Any], current: Mapping[str, Any]) -> Answer:
    return {
        "rack": member["rackId"],
        "epoch": current["memberEpoch"],
        "client": (member["clientId"], member["clientHost"]),
    }


def _stored_subscriber(member: Mapping[str, Any], current: Mapping[str, Any]) -> Answer:
    return _stored_member(member, current) | {
        "topics": sorted(member["subscribedTopicNames"]),
        "assignment": _at(current, "assignedPartitions"),
    }


def _from_share(group: GroupState) -> Answer:
    members, current = _values(group, 10), _values(group, 14)
    return _state(group, 12) | {
        "protocol": "simple",
        "members": {name: _stored_subscriber(member, current[name]) for name, member in members.items()},
    }


def _from_streams(group: GroupState) -> Answer:
    members, target, current = (_values(group, number) for number in (19, 21, 22))
    topology = _value(group, 23)
    return _state(group, 20, 22) | {
        "topology": (
            topology["epoch"],
            {
                part["subtopologyId"]: (
                    sorted(part["sourceTopics"]),
                    sorted(part["repartitionSinkTopics"]),
                    _named(part["stateChangelogTopics"]),
                    _named(part["repartitionSourceTopics"]),
                )
                for part in topology["subtopologies"]
            },
        ),
        "members": {
            name: _stored_member(member, current[name])
            | {
                "instance": member["instanceId"],
                "topology epoch": member["topologyEpoch"],
                "process": member["processId"],
                "endpoint": (member["userEndpoint"]["host"], member["userEndpoint"]["port"]),
                "tags": {each["key"]: each["value"] for each in member["clientTags"]},
                "assignment": _roles(current[name]),
                "target": _roles(target.get(name, {})),
                "classic": False,
            }
            for name, member in members.items()
        },
    }


def _named(topics: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        each["name"]: (
            each["replicationFactor"],
            {one["key"]: one["value"] for one in each["topicConfigs"]},
        )
        for each in topics
    }


def _roles(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        role: {each["subtopologyId"]: sorted(each["partitions"]) for each in value.get(role, ())}
        for role in _ROLES
    }
