"""A member of a classic consumer group that is nothing but its requests (JoinGroup, SyncGroup, Heartbeat), so
that a test decides what it offers, what it assigns and when it answers."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from kio.index import load_payload_module
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.rows import group_answer
from groupshift.adapters.kafka.wire import fill, raise_for
from groupshift.domain.group_protocol import KafkaMember, Kind

_JOIN, _HEARTBEAT, _LEAVE, _SYNC = 11, 12, 13, 14
_MEMBER_ID_REQUIRED = 79
_SESSION = dt.timedelta(seconds=300)


def subscription(topics: Sequence[str]) -> bytes:
    """ConsumerProtocolSubscription version 0 without user data."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def assignment(partitions: dict[str, Sequence[int]], user_data: bytes | None = None) -> bytes:
    """ConsumerProtocolAssignment version 0."""
    parts = b"".join(
        struct.pack(">h", len(topic))
        + topic.encode()
        + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in partitions.items()
    )
    tail = struct.pack(">i", -1) if user_data is None else struct.pack(">i", len(user_data)) + user_data
    return struct.pack(">hi", 0, len(partitions)) + parts + tail


def told_of(metadata: bytes = b"", assigned: bytes = b"") -> tuple[KafkaMember, dict[str, str]]:
    """What is made of a member whose coordinator answers these bytes, and why which of them tell nothing."""
    member = SimpleNamespace(
        member_id="m",
        client_id="c",
        client_host="/h",
        group_instance_id=None,
        member_metadata=metadata,
        member_assignment=assigned,
    )
    answer = SimpleNamespace(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
    )
    found = group_answer(Kind.CLASSIC, answer, 1)
    return found.group.members[0], {what: why for (_, what), why in found.unread.items()}


class ClassicMember:
    """Nothing is sent before `join`; the methods raise `BrokerError` for what the coordinator refuses.

    ``kind`` is the protocol type, ``offers`` the names of assignors, each with the same subscription."""

    def __init__(
        self,
        coordinator: BrokerConnection,
        group: str,
        topics: Sequence[str],
        *,
        offers: Sequence[str] = ("range",),
        kind: str = "consumer",
        instance_id: str | None = None,
        session: dt.timedelta = _SESSION,
    ) -> None:
        self._coordinator, self.group, self._topics = coordinator, group, tuple(topics)
        self._offers, self._kind, self._instance, self._session = tuple(offers), kind, instance_id, session
        self.member_id, self.generation = "", -1

    def join(self) -> None:
        """Join (twice where the coordinator wants its own member id used), and wait for the generation."""
        answer = self._join()
        if answer.error_code == _MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self._join()
        raise_for(answer.error_code, f"join of {self.group}")
        self.member_id, self.generation = answer.member_id, answer.generation_id

    def sync(self, blob: bytes | None = None) -> bytes:
        """Sync, as leader with ``blob`` as its own assignment; returns the assignment that was given."""
        module = self._module(_SYNC)
        given = () if blob is None else (
            module.SyncGroupRequestAssignment(member_id=self.member_id, assignment=blob),
        )  # fmt: skip
        answer = self._ask(
            module.SyncGroupRequest,
            protocol_type=self._kind,
            protocol_name=self._offers[0],
            assignments=given,
        )
        raise_for(answer.error_code, f"sync of {self.group}")
        return bytes(answer.assignment)

    def beat(self) -> int:
        """The error code of one heartbeat (27: a rebalance goes on)."""
        return int(self._ask(self._module(_HEARTBEAT).HeartbeatRequest).error_code)

    def leave(self) -> None:
        """Leave the group, static or not."""
        module = self._module(_LEAVE)
        identity = fill(
            module.MemberIdentity, member_id=self.member_id, group_instance_id=self._instance, reason=None
        )
        answer = self._coordinator.ask(
            fill(module.LeaveGroupRequest, group_id=self.group, members=(identity,))
        )
        raise_for(answer.error_code, f"leave of {self.group}")

    def _join(self) -> Any:
        module = self._module(_JOIN)
        blob = subscription(self._topics) if self._kind == "consumer" else b"opaque"
        offered = tuple(module.JoinGroupRequestProtocol(name=name, metadata=blob) for name in self._offers)
        return self._ask(
            module.JoinGroupRequest,
            session_timeout=self._session,
            rebalance_timeout=self._session,
            protocol_type=self._kind,
            protocols=offered,
            reason=None,
        )

    def _ask(self, schema: type[Any], **values: Any) -> Any:
        return self._coordinator.ask(
            fill(
                schema,
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance,
                **values,
            ),
            timeout_s=60.0,
        )

    def _module(self, api: int) -> Any:
        ours = max(schema_name_map[api_key_map[api]])
        return load_payload_module(api, min(self._coordinator.highest(api), ours), EntityType.request)
