"""Which coordinator a broker names, and whether it serves a group itself.

Source: specs/group-coordinator.md §3.4 step 9 and §7.3; KIP-699 (many groups a request).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from groupshift.adapters.kafka.raw import group_calls
from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.wire import Api, fill, raise_for
from groupshift.domain.placement import NOBODY

_GROUP = 0
_BATCHED = 4
_KEYS_A_REQUEST = 1000
_NOT_AVAILABLE = 15
_NOT_COORDINATOR = 16


def coordinators_told(connection: BrokerConnection, groups: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Each group and what the broker answers for it: ``error_code`` and ``node_id``."""
    asked = tuple(groups)
    if connection.highest(Api.FIND_COORDINATOR) < _BATCHED:
        schema = connection.messages(Api.FIND_COORDINATOR, at_most=_BATCHED - 1)
        requests = [fill(schema.FindCoordinatorRequest, key=group, key_type=_GROUP) for group in asked]
        yield from zip(asked, connection.ask_all(requests), strict=True)
        return
    schema = connection.messages(Api.FIND_COORDINATOR, at_least=_BATCHED).FindCoordinatorRequest
    remaining, requests = iter(asked), []
    while keys := tuple(islice(remaining, _KEYS_A_REQUEST)):
        requests.append(schema(key_type=_GROUP, coordinator_keys=keys))
    for answer in connection.ask_all(requests):
        yield from ((each.key, each) for each in answer.coordinators)


def named_by(connection: BrokerConnection, names: Sequence[str]) -> dict[str, int]:
    """The node that this very broker names as coordinator of each group; `NOBODY` where it says that there
    is none now. Raises `BrokerError` for anything else. Where there is no offsets topic, asking makes it."""
    found = {}
    for name, each in coordinators_told(connection, names):
        if int(each.error_code) == _NOT_AVAILABLE:
            found[name] = NOBODY
        else:
            raise_for(each.error_code, f"{connection.address} names no coordinator of {name!r}")
            found[name] = int(each.node_id)
    return found


def with_offsets(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[str]:
    """Those of ``groups`` for which this broker, their coordinator, has an offset, or one that is not stable
    yet. Raises `BrokerError`."""
    for request, asked in group_calls.fetch_offsets(connection, groups):
        for group, code, topics in group_calls.fetched(asked, connection.ask(request)):
            raise_for(code, f"{connection.address} does not tell the offsets of {group!r}")
            told = [each for topic in topics or () for each in topic.partitions]
            if any(int(each.committed_offset) >= 0 or int(each.error_code) for each in told):
                yield group


def served_by(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[str]:
    """Those of ``groups`` for which this very broker answers. Raises `BrokerError`."""
    for request, asked in group_calls.fetch_offsets(connection, groups):
        for group, code, _ in group_calls.fetched(asked, connection.ask(request)):
            if code != _NOT_COORDINATOR:
                raise_for(code, f"{connection.address} does not tell the offsets of {group!r}")
                yield group
