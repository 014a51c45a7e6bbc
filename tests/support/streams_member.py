"""A member of a streams group that is nothing but its heartbeats (KIP-1071), on brokers since 4.2."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence

from kio.index import load_payload_module
from kio.static.constants import EntityType

from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.wire import fill, raise_for

_HEARTBEAT = 88
_LEAVE = -1
_UNCHANGED = dt.timedelta(milliseconds=-1)


class StreamsMember:
    """``parts`` maps a part of the topology to its source topics; ``active`` are its tasks (part, number)."""

    def __init__(self, coordinator: BrokerConnection, group: str, parts: Mapping[str, Sequence[str]]) -> None:
        self._coordinator, self._group = coordinator, group
        self._module = load_payload_module(_HEARTBEAT, 0, EntityType.request)
        self.member_id, self.epoch = str(uuid.uuid4()), 0
        self.active: set[tuple[str, int]] = set()
        self._beat(dt.timedelta(minutes=5), topology=self._topology(parts))

    def beat(self) -> None:
        """One heartbeat that acknowledges what is assigned."""
        self._beat(_UNCHANGED, topology=None)

    def leave(self) -> None:
        """Leave the group."""
        self.epoch = _LEAVE
        self._beat(_UNCHANGED, topology=None)

    def _topology(self, parts: Mapping[str, Sequence[str]]):
        nothing = {
            "state_changelog_topics": (),
            "repartition_sink_topics": (),
            "repartition_source_topics": (),
            "copartition_groups": (),
        }
        made = (
            fill(self._module.Subtopology, subtopology_id=name, source_topics=tuple(topics), **nothing)
            for name, topics in parts.items()
        )
        return self._module.Topology(epoch=1, subtopologies=tuple(made))

    def _tasks(self):
        return tuple(
            self._module.TaskIds(
                subtopology_id=part, partitions=tuple(sorted(n for at, n in self.active if at == part))
            )
            for part in sorted({part for part, _ in self.active})
        )

    def _beat(self, timeout: dt.timedelta, *, topology) -> None:
        answer = self._coordinator.ask(
            fill(
                self._module.StreamsGroupHeartbeatRequest,
                group_id=self._group,
                member_id=self.member_id,
                member_epoch=self.epoch,
                endpoint_information_epoch=0,
                rebalance_timeout=timeout,
                topology=topology,
                active_tasks=self._tasks(),
                standby_tasks=(),
                warmup_tasks=(),
                process_id=self.member_id if topology else None,
                client_tags=() if topology else None,
                task_offsets=None,
                task_end_offsets=None,
                shutdown_application=False,
            )
        )
        raise_for(answer.error_code, f"heartbeat in {self._group}", said=answer.error_message)
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.active = {(each.subtopology_id, n) for each in answer.active_tasks for n in each.partitions}
