"""Both clusters of a link at their brokers, and the commits of the source as they are made; without Spark.

Implements `SourceSide`, `TargetSide` and `CommitTail` of `groupshift.links.ports`. Each works through one
`KafkaCluster`, which it closes.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from kio.schema.errors import ErrorCode

from groupshift.adapters.kafka.broker import BrokerConnection
from groupshift.adapters.kafka.cluster import KafkaCluster, OfCluster, attempted
from groupshift.adapters.kafka.cluster_changes import LiveFencedCommits
from groupshift.adapters.kafka.commit_places import told_topics, with_topic_ids
from groupshift.adapters.kafka.group_changes import commit_rows
from groupshift.adapters.kafka.requests import DESCRIBED, describe
from groupshift.adapters.kafka.snapshots import LiveGroupSnapshots, listing
from groupshift.adapters.kafka.wire import error_name, is_retriable, raise_for
from groupshift.domain.commit_places import Topics
from groupshift.domain.group_partition_and_count import OFFSETS_TOPIC
from groupshift.domain.group_protocol import Kind
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.domain.rows import GONE, Committed, OffsetRow
from groupshift.errors import Conflict
from groupshift.links.ports import GroupPartition, TailBatch, TopicLogs
from groupshift.links.write_rules import Failure, LogRange
from groupshift.log import commit_place
from groupshift.ports.changes import Refusals, refusal_of
from groupshift.ports.clock import Clock
from groupshift.spark.batches.decompress import Origin
from groupshift.spark.batches.headers import LAST, MAX_TIMESTAMP
from groupshift.spark.batches.records import read_records
from groupshift.spark.batches.transactions import visible
from groupshift.spark.broker_source import batches_in, bounds_of, fetch_request
from groupshift.spark.record_reads import LiveLogs

_PAUSE_S = 0.1
_ABSENT = frozenset({ErrorCode.group_id_not_found, ErrorCode.unsupported_version})
"""What coordinators say of a group that is not of the kind that they were asked for."""


class LiveSide(LiveLogs):
    """Either side. What brokers do not answer of one group or partition within ``patience_s`` is a failure of
    that one."""

    def __init__(self, cluster: KafkaCluster, clock: Clock, *, patience_s: float = 10.0) -> None:
        super().__init__(cluster)
        self._clock, self._patience_s = clock, patience_s
        self._snapshots = LiveGroupSnapshots(cluster, clock, patience_s=patience_s)
        self._fenced = LiveFencedCommits(cluster)

    def cluster_id(self) -> str:
        """See the port."""
        return self._snapshots.cluster_id()

    def topic_names(self) -> frozenset[str]:
        """See the port."""
        return self._snapshots.topics()

    def logs(self, topics: Collection[str]) -> Mapping[str, TopicLogs | Failure]:
        """See the port."""
        now = self._cluster.attempt(lambda: told_topics(self._cluster, topics))
        there = {name: each for name, each in now.items() if each.exists}
        ends, problems = self._snapshots.log_ends(there)
        ranges = {end.at: LogRange(end.log_start, max(end.log_start, end.log_end)) for end in ends}
        unread = "; ".join(each.problem for each in problems) or "its leader does not tell it"
        logs: dict[str, TopicLogs | Failure] = {
            name: Failure("this login may not see the topic") for name in topics if name not in now
        }
        for name, each in there.items():
            by_number = {n: ranges.get(TopicPartition(name, n)) or Failure(unread) for n in each.epochs}
            logs[name] = TopicLogs(topic_id=each.topic_id or None, logs=by_number)
        return logs

    def committed(self, groups: Collection[str]) -> Committed:
        """See the port; each offset with the id of its topic, where coordinators tell (4.1 on)."""
        answer = self._snapshots.committed(groups)

        def again(some: Collection[str]) -> Iterable[OffsetRow]:
            return self._snapshots.committed(some).offsets

        def with_ids() -> list[OffsetRow]:
            topics = told_topics(self._cluster, {row.topic for row in answer.offsets})
            return with_topic_ids(self._cluster, answer.offsets, Topics(now=topics), again)

        return replace(answer, offsets=self._cluster.attempt(with_ids))

    @attempted
    def groups(self) -> frozenset[str]:
        """See the port."""
        return frozenset(listing(self._cluster)[0])

    def states(self, groups: Collection[str]) -> Mapping[str, str | Failure]:
        """See the port."""
        states: dict[str, str | Failure] = {}
        left, deadline = set(groups), time.monotonic() + self._patience_s
        while left:
            passing = self._describe(left, states)
            left = set(passing)
            if left and time.monotonic() >= deadline:
                return states | {group: Failure(why) for group, why in passing.items()}
            self._clock.sleep(_PAUSE_S if left else 0.0)
        return states

    @attempted
    def _describe(self, groups: Collection[str], states: dict[str, str | Failure]) -> dict[str, str]:
        """Note the state of each group, whose coordinator is asked for one kind of group after the other
        until it knows it; returns why some have to be asked again."""
        passing: dict[str, str] = {}

        def note(group: str, code: int, state: str) -> None:
            if is_retriable(code):
                passing[group] = error_name(code)
            else:
                states[group] = Failure(error_name(code)) if code else state

        nodes, errors = self._cluster.coordinators(groups)
        for group, code in errors.items():
            note(group, code, "")
        for kind in DESCRIBED:
            ask = partial(_descriptions, kind)
            unknown = {group for group, node in nodes.items() if self._lacks(node, kind)}
            places = ((nodes[group], group) for group in sorted(nodes.keys() - unknown))
            for _, answer in self._cluster.ask_at(places, ask):
                for each in answer.groups:
                    if each.error_code in _ABSENT or (not each.error_code and each.group_state == GONE):
                        unknown.add(str(each.group_id))
                    else:
                        note(str(each.group_id), int(each.error_code), str(each.group_state))
            nodes = {group: node for group, node in nodes.items() if group in unknown}
        states |= dict.fromkeys(nodes, GONE)
        return passing

    def _lacks(self, node: int, kind: Kind) -> bool:
        """True if the broker has no groups of that kind."""
        return self._cluster.broker(node).highest(DESCRIBED[kind]) < 0

    def commit(self, rows: Sequence[OffsetRow], *, fenced: bool = False) -> Mapping[str, str]:
        """See the port."""
        return self._commit_fenced(rows) if fenced else commit_rows(self._cluster, rows)

    def _commit_fenced(self, rows: Sequence[OffsetRow]) -> Refusals:
        """Commit each group's rows as its only member; none for a partition whose offset changed before it
        had joined."""
        refused = Refusals()
        before = {
            (row.group, row.at): row for row in self._snapshots.committed({row.group for row in rows}).offsets
        }
        for group, wanted in grouped((row.group, row) for row in rows).items():
            try:
                said = self._fenced.commit(group, partial(_unchanged, wanted, before, refused))
            except Conflict as why:
                said = {group: str(why)}
            for row in wanted:
                if why_not := refusal_of(said, row):
                    refused.add(row, why_not)
        return refused


def _descriptions(
    kind: Kind, connection: BrokerConnection, groups: Sequence[str]
) -> Iterator[tuple[Any, None]]:
    for request, _ in describe(connection, kind, groups):
        yield request, None


def _unchanged(
    wanted: Iterable[OffsetRow],
    before: Mapping[tuple[str, TopicPartition], OffsetRow],
    refused: Refusals,
    now: Mapping[TopicPartition, OffsetRow],
) -> Iterator[OffsetRow]:
    """The rows whose partitions have the offset that they had before."""
    for row in wanted:
        if now.get(row.at) == before.get((row.group, row.at)):
            yield row
        else:
            refused.add(row, f"somebody else committed {row.at} of group {row.group!r} meanwhile")


_MOVING = frozenset({3, 5, 6, 74, 75, 76})
"""What a broker says that does not lead the partition (any more), or not yet."""
_OUT_OF_RANGE = 1
_MOST_KEYS = 500_000
"""Keys of commits that are remembered."""


class LiveCommitTail(OfCluster):
    """See the port. Begins at the log ends of its first poll. Of several commits of a group in one batch only
    the first and the last are given: who reads them looks at the group."""

    def __init__(self, cluster: KafkaCluster, clock: Clock, topic: str = OFFSETS_TOPIC) -> None:
        super().__init__(cluster)
        self._clock, self._topic = clock, topic
        self._positions: dict[TopicPartition, int] = {}
        self._leaders: Mapping[TopicPartition, int] = {}
        self._places: dict[bytes, GroupPartition | None] = {}
        self._behind: dict[TopicPartition, int] = {}
        self._commits: dict[str, list[tuple[GroupPartition, int]]] = {}

    def poll(self, timeout_s: float) -> TailBatch:
        """See the port. A leader that moved is looked up at the next call."""
        self._poll(timedelta(seconds=timeout_s))
        commits, self._commits = self._commits, {}
        now = self._clock.now_ms()
        behind_ms = max((now - at_ms for at_ms in self._behind.values()), default=0)
        return TailBatch(
            commits=tuple(each for of_group in commits.values() for each in of_group),
            behind_ms=max(0, behind_ms),
        )

    @attempted
    def _poll(self, wait: timedelta) -> None:
        """Ask every leader once; what was read stays read where another one does not answer."""
        leaders = self._leaders or self._cluster.partitions_of([self._topic])[0]
        if leaders.keys() - self._positions.keys():
            bounds = bounds_of(self._cluster, [self._topic])
            self._positions = {at: each.stable for at, each in bounds.items()} | self._positions
        self._leaders = {}  # to be looked up again, unless all goes well
        led = grouped((node, at) for at, node in leaders.items() if node >= 0 and at in self._positions)
        questions = {
            node: [(self._question(node, partitions, wait), None)] for node, partitions in led.items()
        }
        moved = False
        for _, answer in self._cluster.ask_each(questions):
            raise_for(getattr(answer, "error_code", 0), self._topic)
            for topic in answer.responses:
                for each in topic.partitions:
                    at = TopicPartition(str(topic.topic), int(each.partition_index))
                    moved |= not self._take(at, each)
        self._leaders = {} if moved else leaders

    def _question(self, node: int, partitions: Iterable[TopicPartition], wait: timedelta) -> Any:
        positions = {at: self._positions[at] for at in partitions}
        return fetch_request(self._cluster.broker(node), positions, stable=True, wait=wait)

    def _take(self, at: TopicPartition, answer: Any) -> bool:
        """Note what a leader answers; False where it is none any more, or its log is another one."""
        code, position = int(answer.error_code), self._positions[at]
        if code in _MOVING:
            return False
        if code == _OUT_OF_RANGE:  # deleted or cut: it goes on at the end, and is behind until it does
            del self._positions[at]
            self._behind[at] = 0
            return False
        raise_for(code, f"{at} at offset {position}")
        part, aborted = batches_in(answer, f"{at}: the batch after offset {position}")
        table = part.headers.table
        if len(table):
            self._positions[at] = int(table[-1, LAST]) + 1
            rows = read_records(part.data, visible(table, aborted), Origin(name=f"an answer for {at}"))
            for batch in rows:
                self._note(batch.slice(int(np.searchsorted(batch.column("offset"), position))))
        if self._positions[at] >= answer.last_stable_offset:
            self._behind.pop(at, None)
        elif len(table):
            self._behind[at] = int(table[-1, MAX_TIMESTAMP])
        return True

    def _note(self, rows: pa.RecordBatch) -> None:
        """Remember the first and the last commit of each group; tombstones are none."""
        rows = rows.filter(rows.column("value").is_valid())
        if len(self._places) > _MOST_KEYS:
            self._places.clear()
        for key, at_ms in zip(
            *(rows.column(name).to_pylist() for name in ("key", "timestamp_ms")), strict=True
        ):
            if key not in self._places:
                place = commit_place(key)
                self._places[key] = place and GroupPartition(place[0], TopicPartition(*place[1:]))
            if commit := self._places[key]:
                self._commits.setdefault(commit.group, [])[1:] = [(commit, at_ms)]
