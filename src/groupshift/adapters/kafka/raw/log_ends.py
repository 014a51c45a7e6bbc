"""Log starts and ends of all partitions of some topics: two requests a leader, again where leaders move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from groupshift.adapters.kafka.raw.broker import BrokerConnection
from groupshift.adapters.kafka.raw.cluster import KafkaCluster
from groupshift.adapters.kafka.raw.wire import Api, error_name, fill, is_retriable
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import LEFT_OVER, LogEndRow, ProblemRow

_LATEST, _EARLIEST = -1, -2
_BY_OFFSET, _PLAIN = 1, 7
"""ListOffsets 1 is the first that answers one offset (0 answers many); after 7 comes tiered storage."""
_CLIENT = -1
_PARTITIONS_A_REQUEST = 2000
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
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        for at in sorted(self._left):
            if leaders.get(at, -1) >= 0:
                led[leaders[at]].append(at)
        asked = {node: _questions(cluster.broker(node), each) for node, each in led.items()}
        found: dict[int, dict[TopicPartition, int]] = {_EARLIEST: {}, _LATEST: {}}
        for spec, answer in cluster.ask_each(asked):
            self._read(answer, found[spec])
        self._take(found[_EARLIEST], found[_LATEST])

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
        for topic in answer.topics:
            for each in topic.partitions:
                at = TopicPartition(str(topic.name), int(each.partition_index))
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


def _questions(connection: BrokerConnection, partitions: Sequence[TopicPartition]) -> list[tuple[Any, int]]:
    parts = range(0, len(partitions), _PARTITIONS_A_REQUEST)
    return [
        (_list_offsets(connection, partitions[start : start + _PARTITIONS_A_REQUEST], spec), spec)
        for start in parts
        for spec in (_EARLIEST, _LATEST)
    ]


def _list_offsets(connection: BrokerConnection, partitions: Iterable[TopicPartition], spec: int) -> Any:
    module = connection.messages(Api.LIST_OFFSETS, at_least=_BY_OFFSET, at_most=_PLAIN)
    numbers: dict[str, list[int]] = defaultdict(list)
    for at in partitions:
        numbers[at.topic].append(at.partition)
    topics = tuple(
        module.ListOffsetsTopic(
            name=name,
            partitions=tuple(module.ListOffsetsPartition(partition_index=n, timestamp=spec) for n in each),
        )
        for name, each in numbers.items()
    )
    return fill(module.ListOffsetsRequest, replica_id=_CLIENT, isolation_level=0, topics=topics)
