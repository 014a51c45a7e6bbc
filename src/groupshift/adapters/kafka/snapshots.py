"""Live snapshots of all groups of a cluster: `groupshift.ports.cluster.GroupSnapshots`.

Reads committed offsets alone, too (`groupshift.ports.cluster.CommittedOffsets`). `LogEnds` reads log starts
and ends of all partitions of some topics: two requests a leader, repeated where leaders move.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from groupshift.adapters.kafka.cluster import BrokerNode, KafkaCluster
from groupshift.adapters.kafka.commit_places import topics_now, with_topic_ids
from groupshift.adapters.kafka.reading import Listed, Reading, listing
from groupshift.adapters.kafka.requests import EARLIEST, LATEST, list_offsets
from groupshift.adapters.kafka.rows import within_logs
from groupshift.adapters.kafka.wire import by_partition, error_name, is_retriable
from groupshift.domain.commit_places import Topics
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import (
    LEFT_OVER,
    LISTED_TOO,
    BrokerRow,
    ClusterState,
    Committed,
    LogEndRow,
    OffsetRow,
    ProblemRow,
)
from groupshift.ports.clock import Clock
from groupshift.ports.cluster import Progress

_UNKNOWN_TOPIC, _NO_LEADER = 3, 5
_UNKNOWN_ROUNDS = 2
"""So often a topic is asked for before it counts as deleted: a broker may learn it a moment later."""


@dataclass(slots=True)
class LogEnds:
    """What is known so far of ``topics``, and what is still to be asked; ``unread`` are those of them that no
    member reads: that one of these is gone leaves nothing to be read."""

    topics: Collection[str]
    unread: Collection[str] = frozenset()
    rows: list[LogEndRow] = field(default_factory=list)
    problems: list[ProblemRow] = field(default_factory=list)
    _unknown: dict[str, int] = field(init=False)
    _left: dict[TopicPartition, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._unknown = dict.fromkeys(self.topics, 0)

    @property
    def pending(self) -> int:
        """How many topics and partitions are not answered."""
        return len(self._unknown) + len(self._left)

    def round(self, cluster: KafkaCluster) -> None:
        """Ask each leader once for its partitions of ``pending``."""
        leaders, errors = cluster.partitions_of({*self._unknown, *(at.topic for at in self._left)})
        for topic in errors.keys() & self._unknown.keys():
            self._not_told(topic, errors[topic])
        fresh = self._unknown.keys() - errors.keys()
        self._left |= {at: error_name(_NO_LEADER) for at in leaders if at.topic in fresh}
        for topic in fresh:
            del self._unknown[topic]
        led = ((leaders[at], at) for at in sorted(self._left) if leaders.get(at, -1) >= 0)
        found: dict[int, dict[TopicPartition, int]] = {EARLIEST: {}, LATEST: {}}
        for spec, answer in cluster.ask_at(led, list_offsets):
            self._read(answer, found[spec])
        self._take(found[EARLIEST], found[LATEST])

    def give_up(self) -> None:
        """Say of everything that is still pending that it could not be read, and end."""
        for topic in sorted(self._unknown):
            self._problem(f"topic {topic!r}", error_name(_UNKNOWN_TOPIC))
        for at, cause in sorted(self._left.items()):
            self._problem(str(at), cause)
        self._unknown.clear()
        self._left.clear()

    def _not_told(self, topic: str, code: int) -> None:
        self._unknown[topic] += 1
        if code == _UNKNOWN_TOPIC and self._unknown[topic] >= _UNKNOWN_ROUNDS:
            text = f"topic {topic!r} has committed offsets or members but does not exist (any more)"
            if topic in self.unread:
                text = f"topic {topic!r}{LEFT_OVER}its committed offsets are kept as they are"
            self.problems.append(ProblemRow(problem=text))
            del self._unknown[topic]
        elif not is_retriable(code):
            self._problem(f"topic {topic!r}", error_name(code))
            del self._unknown[topic]

    def _read(self, answer: Any, found: dict[TopicPartition, int]) -> None:
        for at, each in by_partition(answer.topics).items():
            if each.error_code:
                self._left[at] = error_name(each.error_code)
                if not is_retriable(each.error_code):
                    self._problem(str(at), self._left.pop(at))
            else:
                found[at] = int(each.offset)

    def _take(self, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> None:
        for at in sorted(starts.keys() & ends.keys()):
            row = LogEndRow(topic=at.topic, partition=at.partition, log_start=starts[at], log_end=ends[at])
            self.rows.append(row)
            self._left.pop(at, None)

    def _problem(self, subject: str, cause: str) -> None:
        text = f"the log end of {subject} cannot be read ({cause}): check the leader of the partition"
        self.problems.append(ProblemRow(problem=text))


_PAUSE_S = 0.1


class _Rounds(Protocol):
    """Something that is asked for in rounds."""

    @property
    def pending(self) -> int: ...

    def give_up(self) -> None: ...


class LiveGroupSnapshots:
    """Reads through one `KafkaCluster`, which it closes. ``patience_s`` is how long groups may stay
    unanswered (a coordinator moves, a transaction is open) after the last one that was answered."""

    def __init__(self, cluster: KafkaCluster, clock: Clock, *, patience_s: float = 10.0) -> None:
        self._cluster = cluster
        self._clock = clock
        self._patience_s = patience_s

    def take(
        self, groups: Collection[str] | None = None, *, progress: Progress | None = None
    ) -> ClusterState:
        """See the port. Committed offsets are read before log ends, so none is ahead of its log."""
        tell = progress or (lambda _what, _done, _of: None)
        taken_at_ms, before = self._clock.now_ms(), self._cluster.requests
        self._cluster.attempt(self._cluster.refuse_several)
        listed, counts = self._cluster.attempt(lambda: listing(self._cluster))
        brokers = self._cluster.attempt(self._cluster.brokers)
        reading = Reading(groups=sorted(listed if groups is None else set(groups)), listed=listed)
        total = len(reading.groups)

        def done() -> None:
            tell("groups", total - reading.pending, total)

        self._in_rounds(reading, lambda: reading.round(self._cluster, done))
        committed, read = _topics(reading)
        ends, missing = self.log_ends(committed | read, committed - read)
        tell("log ends", len(ends), len(ends))
        offsets, topics = self._places(_offsets(reading))
        return _state(
            reading,
            ends,
            missing,
            offsets=offsets,
            topics=topics,
            brokers=_broker_rows(brokers, counts, reading),
            cluster_id=self._cluster.cluster_id,
            taken_at_ms=taken_at_ms,
            requests=self._cluster.requests - before,
        )

    def committed(self, groups: Collection[str]) -> Committed:
        """See the port: one OffsetFetch for each coordinator, and no listing of all groups."""
        reading = Reading(groups=sorted(set(groups)), members=False)
        self._cluster.attempt(self._cluster.refuse_several)
        self._in_rounds(reading, lambda: reading.round(self._cluster, lambda: None))
        return Committed(offsets=_offsets(reading), problems=reading.problems)

    def _places(self, rows: list[OffsetRow]) -> tuple[list[OffsetRow], Topics]:
        topics = self._cluster.attempt(lambda: topics_now(self._cluster, rows))
        again = lambda groups: self.committed(groups).offsets  # noqa: E731
        return self._cluster.attempt(lambda: with_topic_ids(self._cluster, rows, topics, again)), topics

    @property
    def requests(self) -> int:
        """How many requests were sent so far."""
        return self._cluster.requests

    def cluster_id(self) -> str:
        """The id of the cluster. Raises as `take`."""
        return self._cluster.attempt(self._cluster.one_cluster)

    def topics(self) -> frozenset[str]:
        """The names of all topics. Raises as `take`."""
        return self._cluster.attempt(self._cluster.topics)

    def log_ends(
        self, topics: Collection[str], unread: Collection[str] = frozenset()
    ) -> tuple[list[LogEndRow], list[ProblemRow]]:
        """Log starts and ends of these topics, and what could not be read; ``unread`` are those of them that
        no member reads. Raises as `take`."""
        ends = LogEnds(topics=topics, unread=unread)
        self._in_rounds(ends, lambda: ends.round(self._cluster))
        return sorted(ends.rows, key=lambda row: (row.topic, row.partition)), ends.problems

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()

    def _in_rounds(self, asked: _Rounds, ask: Callable[[], None]) -> None:
        deadline = time.monotonic() + self._patience_s
        while before := asked.pending:
            self._cluster.attempt(ask)
            if not asked.pending:
                return
            if asked.pending < before:
                deadline = time.monotonic() + self._patience_s
            elif time.monotonic() >= deadline:
                asked.give_up()
            self._clock.sleep(_PAUSE_S)


def _offsets(reading: Reading) -> list[OffsetRow]:
    return [row for group in reading.groups for row in reading.offsets.get(group, ())]


def _topics(reading: Reading) -> tuple[set[str], set[str]]:
    """Topics with committed offsets, and topics that members read."""
    committed = {row.topic for rows in reading.offsets.values() for row in rows}
    described = reading.described.values()
    subscribed = {row.topic for found in described for row in found.subscriptions if row.topic[:1] != "~"}
    assigned = {row.topic for found in described for row in found.assignments}
    return committed, subscribed | assigned


def _broker_rows(
    brokers: Collection[BrokerNode], counts: Mapping[int, int], reading: Reading
) -> list[BrokerRow]:
    coordinated = Counter(found.group.coordinator for found in reading.described.values())
    return [
        BrokerRow(
            node_id=node.node_id,
            host=node.host,
            port=node.port,
            rack=node.rack,
            groups_listed=counts.get(node.node_id, 0),
            groups_coordinated=coordinated[node.node_id],
        )
        for node in brokers
    ]


def _listed_elsewhere(listed: Mapping[str, Listed], reading: Reading) -> list[ProblemRow]:
    """Groups that a broker lists without coordinating them: a view of the past, or two coordinators
    (docs/reference/group-coordinator.md §3)."""
    found = []
    for group in reading.groups:
        coordinator = reading.described[group].group.coordinator
        others = [node for node in listed.get(group, Listed()).brokers if node != coordinator]
        if others and coordinator is not None:
            text = (
                f"group {group!r}: listed by broker {', '.join(map(str, others))}{LISTED_TOO}"
                f"{coordinator}: it moved just now, or two brokers serve it; take the snapshot again"
            )
            found.append(ProblemRow(group=group, problem=text))
    return found


def _state(reading: Reading, ends: list[LogEndRow], missing: list[ProblemRow], **more: Any) -> ClusterState:
    described = [reading.described[group] for group in reading.groups]
    return ClusterState(
        groups=[found.group for found in described],
        members=[row for found in described for row in found.members],
        subscriptions=[row for found in described for row in found.subscriptions],
        assignments=within_logs((row for found in described for row in found.assignments), ends),
        log_ends=ends,
        problems=[*reading.problems, *_listed_elsewhere(reading.listed, reading), *missing],
        **more,
    )
