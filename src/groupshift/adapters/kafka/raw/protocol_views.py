"""Live looks at one group and every broker: `groupshift.ports.cluster.ProtocolViews`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from groupshift.adapters.kafka.raw import group_calls, protocol_calls
from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.protocol_rows import classic_group, consumer_group, kind_of
from groupshift.adapters.kafka.raw.wire import Api, BrokerError, raise_for
from groupshift.domain.group_protocol import BrokerLook, BrokerSettings, Kind, ProtocolGroup, ProtocolView
from groupshift.domain.rows import GONE
from groupshift.ports.clock import Clock

_LOADING, _NOT_AVAILABLE, _UNSUPPORTED, _NOT_FOUND = 14, 15, 35, 69
_WAITING = frozenset({_LOADING, _NOT_AVAILABLE})
_FLIP_S, _FLIP_READS = 2.0, 8
"""While its type changes a group is listed and not described for a moment; for longer when its partition of
``__consumer_offsets`` has moved, and a broker still holds the former one."""
LOADING = "Loading"
"""What stands for the state of a group whose coordinator is still reading its partition."""


class LiveProtocolViews:
    """Looks through one `KafkaCluster`, which it closes."""

    def __init__(self, cluster: KafkaCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def look(self, group: str) -> ProtocolView:
        """See the port."""
        self._cluster.attempt(self._cluster.refuse_several)
        until, reads = time.monotonic() + _FLIP_S, count(1)
        return self._cluster.attempt(
            lambda: self._read(group, patient=next(reads) < _FLIP_READS or time.monotonic() < until)
        )

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _read(self, group: str, *, patient: bool) -> ProtocolView:
        taken_at_ms = self._clock.now_ms()
        brokers = self._brokers(group)
        named = [broker.coordinator for broker in brokers if broker.coordinator is not None]
        unknown = ProtocolGroup(group=group, kind=Kind.UNKNOWN)
        described = self._describe(group, named[0], brokers) if named else unknown
        if patient and described.kind is Kind.ABSENT and any(broker.lists for broker in brokers):
            raise BrokerError(_LOADING, f"group {group!r} is listed, but its coordinator describes none")
        return ProtocolView(
            cluster_id=self._cluster.cluster_id, taken_at_ms=taken_at_ms, group=described, brokers=brokers
        )

    def _brokers(self, group: str) -> tuple[BrokerLook, ...]:
        """Every broker is asked the same questions, all at the same time."""
        found = {
            node.node_id: BrokerLook(node_id=node.node_id, settings=BrokerSettings())
            for node in self._cluster.brokers()
        }
        questions = {node: _questions(self._cluster.broker(node), node, group) for node in found}
        for (node, read), answer in self._cluster.ask_each(questions):
            found[node] = read(found[node], answer)
        return tuple(found[node] for node in sorted(found))

    def _describe(self, group: str, node: int, brokers: Sequence[BrokerLook]) -> ProtocolGroup:
        """As the coordinator describes it: first as what it is listed, then as the other type, for it may
        have been converted in between. Of other types the list has all that is needed."""
        listed = {broker.lists: broker.state for broker in brokers if broker.lists is not None}
        for kind in (Kind.SHARE, Kind.STREAMS):
            if kind in listed:
                return ProtocolGroup(group=group, kind=kind, state=listed[kind], coordinator=node)
        kinds = [Kind.CLASSIC, Kind.CONSUMER]
        for kind in reversed(kinds) if Kind.CONSUMER in listed else kinds:
            found = self._ask(group, node, kind, listed)
            if found is not None:
                return found
        kind = Kind.UNKNOWN if Kind.UNKNOWN in listed else Kind.ABSENT
        return ProtocolGroup(group=group, kind=kind, coordinator=node)

    def _ask(self, group: str, node: int, kind: Kind, listed: Mapping[Kind, str]) -> ProtocolGroup | None:
        """The group of this kind; None when it is of another, or of none."""
        connection = self._cluster.broker(node)
        if kind is Kind.CLASSIC:
            describe, read = group_calls.describe_classic, classic_group
        elif connection.highest(Api.CONSUMER_GROUP_DESCRIBE) >= 0:
            describe, read = group_calls.describe_consumer, consumer_group
        else:
            return None
        ((request, _),) = describe(connection, [group])
        (told,) = connection.ask(request).groups
        code = int(told.error_code)
        if code == _LOADING:
            return ProtocolGroup(group=group, kind=Kind.UNKNOWN, state=LOADING, coordinator=node)
        if code == _UNSUPPORTED and kind in listed:
            return ProtocolGroup(group=group, kind=kind, state=listed[kind], coordinator=node)
        if code in {_UNSUPPORTED, _NOT_FOUND} or told.group_state == GONE:
            return None
        raise_for(code, f"group {group!r} is not described")
        return read(told, node)


_Read = Callable[[BrokerLook, Any], BrokerLook]


def _questions(connection: BrokerConnection, node: int, group: str) -> list[tuple[Any, tuple[int, _Read]]]:
    """Requests to one broker, each with what makes of its answer a broker of which more is known."""

    def listed(look: BrokerLook, answer: Any) -> BrokerLook:
        if answer.error_code in _WAITING:
            return replace(look, loading=True)
        raise_for(answer.error_code, f"broker {node} does not list its groups")
        for each in answer.groups:
            if each.group_id == group:
                return replace(look, lists=kind_of(each), state=getattr(each, "group_state", ""))
        return look

    def coordinated(look: BrokerLook, answer: Any) -> BrokerLook:
        return replace(look, coordinator=protocol_calls.coordinator_of(answer))

    def versioned(look: BrokerLook, answer: Any) -> BrokerLook:
        return replace(look, settings=protocol_calls.with_versions(look.settings, answer))

    def configured(look: BrokerLook, answer: Any) -> BrokerLook:
        return replace(look, settings=protocol_calls.with_properties(look.settings, answer))

    return [
        (group_calls.list_groups(connection), (node, listed)),
        (protocol_calls.find_coordinator(connection, group), (node, coordinated)),
        (protocol_calls.versions(connection), (node, versioned)),
        (protocol_calls.describe_broker(connection, node), (node, configured)),
    ]
