"""Members of groups that are nothing but requests: native ones that say more, streams, early share groups."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from groupshift.adapters.kafka.connection_and_login import Access, BrokerConnection
from groupshift.adapters.kafka.wire import fill, raise_for, request_frame
from support.kio_messages import messages
from support.native_member import NativeMember

_STREAMS = 88
STREAMED = "orders"
"""The topic that streams groups read."""


class EarlyConnection(BrokerConnection):
    """To brokers that speak version 0 only of the two requests about share groups, which was withdrawn: it
    has the fields of version 1, so that is sent under the other number."""

    _SHARE = (76, 77)

    def __init__(self, host: str, port: int, access: Access) -> None:
        super().__init__(host, port, access)
        self.versions = {**self.versions, **dict.fromkeys(self._SHARE, range(1, 2))}

    def send(self, request: Any) -> int:
        """As `BrokerConnection.send`."""
        self.sent += 1
        frame = bytearray(request_frame(request, self.sent, self._access.client_id))
        if request.__api_key__ in self._SHARE:
            frame[6:8] = bytes(2)
        self._unanswered.append((self.sent, request))
        self._channel.write(bytes(frame), self._access.wait_s)
        return self.sent


class StatedMember(NativeMember):
    """A native member that says more of itself: ``stated`` are fields of its heartbeats."""

    def __init__(self, coordinator: BrokerConnection, group: str, topics: list[str], **stated: Any) -> None:
        self._stated = stated
        super().__init__(coordinator, group, topics)

    def _beat(self, timeout: dt.timedelta, *, topics: Any, owned: Any) -> None:
        asked = fill(
            self._request,
            **{
                "group_id": self._group,
                "member_id": self.member_id,
                "member_epoch": self.epoch,
                "rebalance_timeout": timeout,
                "subscribed_topic_names": topics,
                "server_assignor": None,
                "topic_partitions": owned,
                **self._stated,
            },
        )
        answer = self._coordinator.ask(asked)
        raise_for(answer.error_code, f"heartbeat in {self._group}", said=answer.error_message)
        self.member_id, self.epoch = answer.member_id or self.member_id, answer.member_epoch
        if answer.assignment is not None:
            self.assigned = {
                (each.topic_id, n) for each in answer.assignment.topic_partitions for n in each.partitions
            }


class StreamsMember:
    """A member of a streams group (KIP-1071) that is nothing but its heartbeats."""

    def __init__(self, broker: BrokerConnection, group: str) -> None:
        self._broker, self._group = broker, group
        self._module = messages(broker, _STREAMS, at_most=0)  # type: ignore[arg-type]
        self.member_id, self.epoch, self.active = str(uuid.uuid4()), 0, ()
        self._ask(first=True)

    def beat(self) -> None:
        """One heartbeat that acknowledges what is assigned."""
        self._ask(first=False)

    def leave(self) -> None:
        """Leave the group."""
        self.epoch = -1
        self._ask(first=False)

    def _ask(self, *, first: bool) -> None:
        m = self._module
        changelog = m.TopicInfo(
            name=f"{self._group}-store-changelog",
            partitions=0,
            replication_factor=1,
            topic_configs=(m.KeyValue(key="cleanup.policy", value="compact"),),
        )
        part = m.Subtopology(
            subtopology_id="0",
            source_topics=(STREAMED,),
            source_topic_regex=(),
            state_changelog_topics=(changelog,),
            repartition_sink_topics=(),
            repartition_source_topics=(),
            copartition_groups=(),
        )
        nothing: tuple[Any, ...] = ()
        answer = self._broker.ask(
            m.StreamsGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self.member_id,
                member_epoch=self.epoch,
                endpoint_information_epoch=-1,
                instance_id=None,
                rack_id="r" if first else None,
                rebalance_timeout=dt.timedelta(minutes=5) if first else dt.timedelta(milliseconds=-1),
                topology=m.Topology(epoch=3, subtopologies=(part,)) if first else None,
                active_tasks=nothing if first else self.active,
                standby_tasks=nothing,
                warmup_tasks=nothing,
                process_id="process-1" if first else None,
                user_endpoint=m.Endpoint(host="here", port=40_000) if first else None,
                client_tags=(m.KeyValue(key="zone", value="a"),) if first else None,
                task_offsets=None,
                task_end_offsets=None,
            )
        )
        raise_for(answer.error_code, f"heartbeat in {self._group}", said=answer.error_message)
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.active = tuple(
                m.TaskIds(subtopology_id=each.subtopology_id, partitions=each.partitions)
                for each in answer.active_tasks
            )

    @property
    def tasks(self) -> int:
        """How many it has."""
        return sum(len(each.partitions) for each in self.active)
