"""Transactions that are open and commit offsets, and the groups whose first commit may be in one of them.

``require_stable`` tells of an open transaction only where an offset was committed before: a coordinator
that is asked for all offsets of a group leaves out a partition whose first one is pending (seen on 3.9.2 and
4.3.1). Open transactions name the partitions of ``__consumer_offsets`` they write, and so the groups they
may concern.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.connection_and_login import BrokerConnection
from groupshift.adapters.kafka.requests import LATEST, log_offsets
from groupshift.adapters.kafka.wire import Api, raise_for
from groupshift.domain.group_partition_and_count import NOBODY, OFFSETS_TOPIC, partition_of

_LEVELS = (0, 1)
"""Isolation levels: read uncommitted, which answers the log end, first; then read committed."""
_BY_ISOLATION = 2
"""ListOffsets 2 is the first with an isolation level."""
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
_GONE = frozenset({48, 105})
"""INVALID_TXN_STATE and TRANSACTIONAL_ID_NOT_FOUND: ended since it was listed."""


class OpenTransaction(NamedTuple):
    """One transaction of a producer; its next one starts at another time (epoch milliseconds)."""

    transactional_id: str
    started_ms: int


def open_commits(cluster: KafkaCluster) -> dict[int, frozenset[OpenTransaction]]:
    """Open transactions by the partition of ``__consumer_offsets`` that they write.

    Brokers before 3.0 cannot tell; of transactional ids that this user may not describe nothing is told."""
    describing: dict[int, list[tuple[Any, int]]] = {}
    for node, answers in cluster.ask_brokers(_listing).items():
        for answer in answers:
            raise_for(answer.error_code, f"broker {node} does not list its transactions")
            if ids := tuple(str(each.transactional_id) for each in answer.transaction_states):
                request = cluster.broker(node).request(Api.DESCRIBE_TRANSACTIONS, transactional_ids=ids)
                describing[node] = [(request, node)]
    by_partition: dict[int, set[OpenTransaction]] = defaultdict(set)
    for node, answer in cluster.ask_each(describing):
        for each in answer.transaction_states:
            if each.error_code not in _GONE:
                raise_for(each.error_code, f"broker {node} does not describe {each.transactional_id!r}")
            since_ms = int(each.transaction_start_time.timestamp() * 1000)
            at = OpenTransaction(str(each.transactional_id), since_ms)
            for topic in each.topics:
                for partition in topic.partitions if topic.topic == OFFSETS_TOPIC else ():
                    by_partition[int(partition)].add(at)
    return {partition: frozenset(transactions) for partition, transactions in by_partition.items()}


def unstable(cluster: KafkaCluster, leaders: Sequence[int]) -> tuple[int, ...]:
    """The partitions of ``__consumer_offsets`` (with these ``leaders``, node ids, -1: none) whose last stable
    offset is below the log end that was asked for right before: a transaction is open there, or hangs.

    Brokers before 0.11 know none. Raises `BrokerError` where a leader does not tell."""
    led = [(node, (OFFSETS_TOPIC, at)) for at, node in enumerate(leaders) if node != NOBODY]

    def questions(connection: BrokerConnection, each: list[tuple[str, int]]) -> Iterator[tuple[Any, int]]:
        for level in _LEVELS if connection.highest(Api.LIST_OFFSETS) >= _BY_ISOLATION else ():
            yield log_offsets(connection, each, LATEST, isolation=level), level

    offsets: dict[int, dict[int, int]] = {level: {} for level in _LEVELS}
    for level, answer in cluster.ask_at(led, questions):
        for each in answer.topics[0].partitions:
            raise_for(each.error_code, f"the end of partition {each.partition_index} of {OFFSETS_TOPIC}")
            offsets[level][int(each.partition_index)] = int(each.offset)
    ends, stable = (offsets[level] for level in _LEVELS)
    return tuple(sorted(at for at, end in ends.items() if stable[at] < end))


def _listing(connection: BrokerConnection, _node: int) -> Iterator[Any]:
    """The question for open transactions, where the broker can tell."""
    if connection.highest(Api.LIST_TRANSACTIONS) >= 0:
        yield connection.request(Api.LIST_TRANSACTIONS, state_filters=_OPEN, producer_id_filters=())


@dataclass(slots=True)
class FirstCommits:
    """The groups that lack an offset and are asked again, until every transaction that was open when they
    were looked at first has ended; those begun later do not count, for somebody commits all the time. Each is
    asked once more in any case: one that was pending may have been committed between answer and look."""

    _waiting: dict[str, frozenset[OpenTransaction]] = field(default_factory=dict)

    def doubtful(self, cluster: KafkaCluster, lacking: Collection[str]) -> dict[str, str]:
        """Of the groups ``lacking`` an offset those to ask again, and why: empty where the answer that comes
        now is the last one."""
        undecided = [group for group in lacking if self._waiting.get(group) != frozenset()]
        if not undecided:
            return {}
        opened = open_commits(cluster)
        count = len(cluster.partitions_of({OFFSETS_TOPIC})[0]) if opened else 0
        again: dict[str, str] = {}
        for group in undecided:
            now = opened.get(partition_of(group, count), frozenset()) if opened else frozenset()
            self._waiting[group] = waiting = self._waiting.get(group, now) & now
            ids = ", ".join(sorted({repr(each.transactional_id) for each in waiting}))
            again[group] = f"its first commit may be in a transaction that is open: {ids}" if ids else ""
        return again
