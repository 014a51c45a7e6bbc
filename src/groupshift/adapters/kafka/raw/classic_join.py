"""One classic member joins a group and leaves it: what converts an empty group of type consumer.

Nothing is committed. Source: specs/group-coordinator.md §5.3, specs/verified-coordinator.md §C (a classic
join to a consumer group without members makes it classic; its offsets stay).
"""

from __future__ import annotations

import datetime as dt
import struct
from types import ModuleType
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.wire import UnsupportedByBroker, fill, raise_for

_JOIN, _LEAVE, _SYNC = 11, 13, 14
_NEWEST = {_JOIN: 5, _LEAVE: 3, _SYNC: 3}
"""Versions with a place for ``group.instance.id``, offered since 2.3 and still by 4.4."""
_MEMBER_ID_REQUIRED = 79
_SESSION = dt.timedelta(seconds=10)
"""How long a member that was cut off stays: at least the broker's group.min.session.timeout.ms."""
_WAIT_S = 60.0
_NOTHING = struct.pack(">hii", 0, 0, -1)
"""ConsumerProtocolSubscription and ConsumerProtocolAssignment version 0 of no topic, without user data."""


def join_and_leave(coordinator: BrokerConnection, group: str) -> None:
    """Join as the only member, be assigned nothing, and leave.

    Raises `BrokerError` for what the coordinator refuses, `UnsupportedByBroker`."""
    joined = _join(coordinator, group, "")
    if joined.error_code == _MEMBER_ID_REQUIRED:
        joined = _join(coordinator, group, joined.member_id)
    raise_for(joined.error_code, f"group {group!r} is not joined")
    try:
        _sync(coordinator, group, joined)
    finally:
        _leave(coordinator, group, joined.member_id)


def _join(coordinator: BrokerConnection, group: str, member_id: str) -> Any:
    module = _messages(coordinator, _JOIN)
    offered = module.JoinGroupRequestProtocol(name="range", metadata=_NOTHING)
    return coordinator.ask(
        fill(
            module.JoinGroupRequest,
            group_id=group,
            session_timeout=_SESSION,
            rebalance_timeout=_SESSION,
            member_id=member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=(offered,),
        ),
        timeout_s=_WAIT_S,
    )


def _sync(coordinator: BrokerConnection, group: str, joined: Any) -> None:
    module = _messages(coordinator, _SYNC)
    given = module.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=_NOTHING)
    answer = coordinator.ask(
        fill(
            module.SyncGroupRequest,
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=None,
            assignments=(given,),
        ),
        timeout_s=_WAIT_S,
    )
    raise_for(answer.error_code, f"group {group!r} assigns nothing")


def _leave(coordinator: BrokerConnection, group: str, member_id: str) -> None:
    module = _messages(coordinator, _LEAVE)
    identity = module.MemberIdentity(member_id=member_id, group_instance_id=None)
    answer = coordinator.ask(fill(module.LeaveGroupRequest, group_id=group, members=(identity,)))
    raise_for(answer.error_code, f"group {group!r} is not left")


def _messages(coordinator: BrokerConnection, key: int) -> ModuleType:
    version = _NEWEST[key]
    theirs = coordinator.versions.get(key)
    if theirs is None or not theirs.lowest <= version <= theirs.highest:
        raise UnsupportedByBroker(f"{coordinator.address} does not offer request {key} in version {version}")
    return load_payload_module(key, version, EntityType.request)
