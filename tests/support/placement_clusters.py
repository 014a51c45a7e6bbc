"""Clusters by their placement, as a test tells them: what brokers count, and what lies in the log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from groupshift.domain.cluster import COUNT, BrokerView, PlacementView, TopicView
from groupshift.domain.group_partition_and_count import Answers, expected, partition_of, probe_names
from groupshift.domain.group_protocol import KafkaGroup
from groupshift.domain.verdict import Verdict
from groupshift.log import LogRecord
from groupshift.log.decode import Position
from groupshift.moves.expansion.facts import PlacementFacts
from groupshift.moves.expansion.logged_offsets import LoggedPlaces, LogReading
from groupshift.moves.expansion.rules import ask
from groupshift_testing.log_encoder import encode_key, encode_value
from support.downgrade_clusters import broker, cluster

NODES = (1, 2, 3)


def leading(count: int, nodes: Sequence[int] = NODES) -> tuple[int, ...]:
    """Leaders of ``count`` partitions, one broker after the other."""
    return tuple(nodes[number % len(nodes)] for number in range(count))


def answering(counts: Mapping[int, int], leaders: Sequence[int]) -> tuple[Answers, ...]:
    """What brokers that use these counts answer."""
    names = probe_names(leaders)
    return tuple(
        Answers(node_id=node, named={name: expected(name, count, leaders) for name in names})
        for node, count in counts.items()
    )


def view(
    partitions: int = 8,
    counts: Mapping[int, int] | None = None,
    *,
    groups: Mapping[int, Sequence[KafkaGroup]] | None = None,
    release: str = "4.3.1",
    configured: Mapping[int, int] | None = None,
    **more: object,
) -> PlacementView:
    """Three brokers of a release, each with the count that it uses (default: all), and what it lists."""
    using = counts or dict.fromkeys(NODES, partitions)
    leaders = leading(partitions, tuple(using)) if partitions else ()
    brokers = tuple(
        broker(
            node,
            release,
            groups=(groups or {}).get(node, ()),
            properties={COUNT: str((configured or {}).get(node, partitions or 50))},
        )
        for node in using
    )
    found = PlacementView(
        cluster=cluster(*brokers, partitions=partitions),
        topic=TopicView(leaders=leaders, replicas=(3,) * partitions),
        answers=answering(using, leaders) if partitions else (),
    )
    return replace(found, **more)  # type: ignore[arg-type]


def changed(found: PlacementView, node_id: int, **change: object) -> PlacementView:
    """The view with one broker changed."""

    def one(each: BrokerView) -> BrokerView:
        return replace(each, **change) if each.node_id == node_id else each  # type: ignore[arg-type]

    brokers = tuple(one(each) for each in found.cluster.brokers)
    return replace(found, cluster=replace(found.cluster, brokers=brokers))


def commit(
    group: str, place: int, *, at: int = 0, offset: int | None = 7, ms: int = 1_000, record_type: int = 1
) -> LogRecord:
    """A commit of t-0 (``offset`` None: its tombstone), at offset ``at`` of partition ``place``."""
    fields = {"group": group, "topic": "t", "partition": 0}
    said = {"offset": offset, "leaderEpoch": 3, "metadata": "m", "commitTimestamp": ms}
    value = None if offset is None else encode_value(1, 3, said)
    return LogRecord(
        partition=place, offset=at, timestamp_ms=ms, key=encode_key(record_type, fields), value=value
    )


def at(groups: Iterable[str], count: int, *, ms: int = 1_000) -> list[LogRecord]:
    """One commit a group, where ``count`` partitions put it."""
    return [
        commit(group, partition_of(group, count), at=number, ms=ms) for number, group in enumerate(groups)
    ]


def facts(
    found: PlacementView, records: Iterable[LogRecord] | None = (), *, to: int | None = None, held: int = 0
) -> PlacementFacts:
    """The facts of a view and a log, held against ``held`` partitions (0: those of the topic)."""
    log = None
    if records is not None:
        log = LoggedPlaces(LogReading(records), held or found.count or 1, found.count)
    return PlacementFacts(view=found, log=log, to=to)


def complaints(found: PlacementFacts) -> dict[str, list[tuple[Verdict, str]]]:
    """By rule, what did not pass."""
    said: dict[str, list[tuple[Verdict, str]]] = {}
    for each in ask(found):
        if each.verdict is not Verdict.PASS:
            assert each.hint, f"{each.rule} says no remedy"
            said.setdefault(each.rule, []).append((each.verdict, each.reason))
    return said


@dataclass(slots=True)
class Log:
    """These records; ``read_at`` are the positions it was read to."""

    records: Sequence[LogRecord] = ()
    read_at: list[Position] = field(default_factory=list)

    def position(self) -> Position:
        """Behind the last record of each partition."""
        return {each.partition: each.offset + 1 for each in self.records}

    def read(
        self, up_to: Position, partitions: Collection[int] | None = None, _told: object = None
    ) -> Iterator[LogRecord]:
        """All of them."""
        assert partitions is None
        self.read_at.append(up_to)
        return iter(self.records)
