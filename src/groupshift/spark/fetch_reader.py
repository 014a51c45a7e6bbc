"""Batches fetched from the leader of one partition, by requests of our own; no Spark.

While one answer is being read the next is already asked for. A leader that moved or went away is looked up
again, and what failed is asked for again, within the time of `KafkaCluster`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from groupshift.adapters.kafka.broker import BrokerConnection
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.wire import Api, BrokerError, fill, raise_for
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Broken
from groupshift.spark.batches.files import Part
from groupshift.spark.batches.headers import ABORT, CONTROL, LAST, OFFSET, PRODUCER, Headers, read_headers
from groupshift.spark.batches.transactions import FOR_EVER, Transactions

_VERSIONS = {"at_least": 4, "at_most": 12}
"""Fetch 4 is the first that knows transactions, 12 the last that names topics (KIP-98, KIP-516)."""
_ANSWER_BYTES = 8 << 20
_WAIT = timedelta(milliseconds=500)
_OUT_OF_RANGE, _UNKNOWN_TOPIC, _LEADER_NOT_AVAILABLE = 1, 3, 5
_EVERYTHING = 1 << 20  # batches a call of `read_headers` may find: more than an answer holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One answer: its whole batches, and the aborted transactions that the broker told with them."""

    part: Part
    transactions: Transactions


class PartitionReader:
    """Reads one partition through ``cluster``; `stable` asks as a consumer with read_committed does."""

    def __init__(self, cluster: KafkaCluster, at: TopicPartition, *, stable: bool) -> None:
        self._cluster, self._at, self._stable = cluster, at, stable
        self._leader: int | None = None
        self._asked: tuple[BrokerConnection, int, int] | None = None

    def read(self, start: int, end: int) -> Iterator[Fetched]:
        """The batches with offsets from ``start`` to ``end`` (exclusive); the first and the last may reach
        beyond. Records that were deleted meanwhile are left out.

        Raises `Transient` when no leader answers in time, `Rejected` when one refuses, `Broken` for damage.
        """
        position = start
        while position < end:
            answer = self._cluster.attempt(lambda at=position: self._answer(at))  # type: ignore[misc]
            data = np.frombuffer(answer.records or b"", dtype=np.uint8)
            headers = read_headers(data, capacity=min(_EVERYTHING, len(data) // 60 + 1))
            if headers.damage:
                raise Broken(f"{self._at}: the batch after offset {position} came damaged, {headers.damage}")
            table = headers.table
            position = int(table[-1, LAST]) + 1 if len(table) else int(answer.log_start_offset)
            if position < end:
                self._ask(position)
            yield self._fetched(data, headers, answer)

    def _fetched(self, data: Any, headers: Headers, answer: Any) -> Fetched:
        told = [(int(each.producer_id), int(each.first_offset)) for each in answer.aborted_transactions or ()]
        transactions = Transactions(aborted=_ranges(told, headers.table), open={})
        return Fetched(part=Part(data=data, headers=headers, position=0), transactions=transactions)

    def _answer(self, position: int) -> Any:
        """What the leader answers for ``position``: already asked for, or asked now."""
        try:
            if self._asked is None or self._asked[2] != position:
                self._ask(position)
            assert self._asked is not None  # noqa: S101 - `_ask` has set it
            connection, correlation, _ = self._asked
            self._asked = None
            return self._checked(connection.receive(correlation), position)
        except (OSError, BrokerError):
            self._forget()
            raise

    def _ask(self, position: int) -> None:
        if self._leader is None:
            self._leader = self._cluster.leaders([self._at.topic]).get(self._at)
            if self._leader is None:
                raise BrokerError(_UNKNOWN_TOPIC, str(self._at))
            if self._leader < 0:
                leaderless, self._leader = _LEADER_NOT_AVAILABLE, None
                raise BrokerError(leaderless, str(self._at))
        connection = self._cluster.broker(self._leader)
        request = _request(connection, self._at, position, stable=self._stable)
        self._asked = connection, connection.send(request), position

    def _checked(self, answer: Any, position: int) -> Any:
        raise_for(getattr(answer, "error_code", 0), str(self._at))
        ((found,),) = [topic.partitions for topic in answer.responses]
        if found.error_code == _OUT_OF_RANGE and found.log_start_offset > position:
            return found  # deleted since the ends were taken: what is left begins later
        raise_for(found.error_code, f"{self._at} at offset {position}")
        if not found.records:  # the end was known when it was asked for: this leader is behind
            raise BrokerError(_LEADER_NOT_AVAILABLE, f"{self._at} has nothing at offset {position}")
        return found

    def _forget(self) -> None:
        self._leader = self._asked = None


def _request(connection: BrokerConnection, at: TopicPartition, position: int, *, stable: bool) -> Any:
    module = connection.messages(Api.FETCH, **_VERSIONS)
    partition = fill(
        module.FetchPartition,
        partition=at.partition,
        fetch_offset=position,
        partition_max_bytes=_ANSWER_BYTES,
    )
    return fill(
        module.FetchRequest,
        max_wait=_WAIT,
        min_bytes=1,
        max_bytes=_ANSWER_BYTES,
        isolation_level=int(stable),
        topics=(module.FetchTopic(topic=at.topic, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def _ranges(told: list[tuple[int, int]], table: Any) -> Any:
    """Rows of (producer id, first, last) of the transactions that the broker says were aborted: each ends
    with its producer's next marker in this answer, or after it."""
    rows = []
    markers = table[table[:, CONTROL] == ABORT]
    for producer, first in told:
        ends = markers[(markers[:, PRODUCER] == producer) & (markers[:, OFFSET] > first), OFFSET]
        rows.append((producer, first, int(ends[0]) if len(ends) else FOR_EVER))
    return np.array(sorted(rows), dtype=np.int64).reshape(-1, 3)
