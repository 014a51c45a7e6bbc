"""A broker that loads a log which a test wrote: what it makes of each group, beside what the lint says.

The records are produced into ``__consumer_offsets`` (client id ``__admin_client``, the only one that may);
the coordinator looks at them at its next load, so the broker is started again on the same folder.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.requests import fetch_offsets, fetched
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.log import LogRecord, decode
from groupshift.log.releases import Coordinator, loader
from groupshift.log.replay import GroupVerdict, LoadOutcome, lint
from groupshift_sandbox.home import Home
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.processes import marked, stop, wait_until
from groupshift_sandbox.servers import await_node, start_node
from support.coordinator_story import (
    Line,
    classic,
    commit,
    consumer_group,
    current,
    early_target,
    epoch,
    gone,
    member,
    partition_metadata,
    record,
    share_current,
    share_member,
    streams_member,
    target,
    target_epoch,
    to_classic,
)

TOPIC = "__consumer_offsets"
PARTITIONS = 50
NOT_COORDINATOR = 16
_LOAD_S = 180.0


def now() -> int:
    """Epoch ms: commits of today are not expired."""
    return time.time_ns() // 1_000_000


def _commit(group: str, **more: int) -> Line:
    return commit(group, offset=77, at=now(), **more)


Story = Callable[[str], list[Line]]

STORIES: dict[str, Story] = {
    "offsets only": lambda g: [_commit(g)],
    "classic": lambda g: [_commit(g), classic(g)],
    "value version 4": lambda g: [_commit(g, version=4)],
    "consumer group": lambda g: [*consumer_group(g), _commit(g)],
    "converted to classic": lambda g: [*consumer_group(g), _commit(g), *to_classic(g)],
    "offsets before the consumer group": lambda g: [_commit(g), *consumer_group(g)],
    "a, live member after a classic group": lambda g: [_commit(g), classic(g), member(g)],
    "a, tombstone after a classic group": lambda g: [_commit(g), classic(g, "m1"), gone(current(g))],
    "b, member before its assignments": lambda g: [*consumer_group(g), _commit(g), gone(member(g))],
    "b, its target remains": lambda g: [*consumer_group(g), _commit(g), gone(current(g)), gone(member(g))],
    "b, in order": lambda g: [
        *consumer_group(g), _commit(g), gone(current(g)), gone(target(g)), gone(member(g)),
    ],
    "c, members remain": lambda g: [*consumer_group(g), _commit(g), gone(epoch(g))],
    "c, assignment epoch remains": lambda g: [epoch(g), _commit(g), gone(epoch(g))],
    "c, targets remain": lambda g: [epoch(g), target(g), _commit(g), gone(target_epoch(g))],
    "members before their group": lambda g: [target(g), member(g), epoch(g), _commit(g)],
    "tombstones of nobody": lambda g: [gone(current(g)), gone(epoch(g)), _commit(g)],
    "topics before their group": lambda g: [partition_metadata(g), epoch(g), _commit(g)],
    "early-access layout": lambda g: [epoch(g), early_target(g), _commit(g)],
    "removed after its offsets": lambda g: [_commit(g), gone(classic(g))],
}  # fmt: skip
"""What lies in the log of one group each, in a partition of its own."""

COPIES: dict[str, Story] = {
    "a copy elsewhere": lambda g: [_commit(g)],
    "everything elsewhere": lambda _: [],
}
"""The same for groups that have a commit of 55 in another partition too, as an expansion leaves it. The old
coordinator of a single node answers out of one cache over both, so only the new one is asked."""


NEIGHBOURS: dict[str, Story] = {
    "share: in order": lambda n: [
        epoch(n, kind=11), share_member(n), share_current(n), gone(share_current(n)), gone(share_member(n)),
    ],
    "share: a member without its group": lambda n: [share_current(n), share_member(n), epoch(n, kind=11)],
    "share: a member before its assignment": lambda n: [
        share_member(n), share_current(n), gone(share_member(n)),
    ],
    "share: its group while members remain": lambda n: [
        epoch(n, kind=11), share_member(n), gone(epoch(n, kind=11)),
    ],
    "share: after offsets": lambda n: [_commit(n), epoch(n, kind=11)],
    "share: member of a consumer group": lambda n: [epoch(n), share_member(n)],
    "streams: in order": lambda n: [epoch(n, kind=17), streams_member(n)],
    "streams: after offsets": lambda n: [_commit(n), epoch(n, kind=17)],
    "streams: after a classic group": lambda n: [_commit(n), classic(n), epoch(n, kind=17)],
    "streams: a member before its assignment": lambda n: [streams_member(n), gone(streams_member(n))],
    "streams: its group while members remain": lambda n: [
        epoch(n, kind=17), streams_member(n), gone(epoch(n, kind=17)),
    ],
}  # fmt: skip
"""Share and streams groups (from 4.1 on), each in the partition of a plain group that is asked instead."""


@dataclass(frozen=True)
class Replayed:
    """One story: what the lint says, and what the broker answers: error code and offset (None: none).

    ``stopped_at`` is the offset at which the broker's log says that the load failed, where it says so."""

    verdict: GroupVerdict
    code: int
    offset: int | None
    stopped_at: int | None

    @property
    def agrees(self) -> bool:
        """Whether the broker does what the lint says; O4 keeps offsets, other losses lose them."""
        if self.verdict.outcome is LoadOutcome.FAILS_SHARD:
            said = self.verdict.record.src_offset if self.verdict.record else None
            return self.code == NOT_COORDINATOR and self.stopped_at in {None, said}
        lost = self.verdict.outcome is LoadOutcome.LOADS_WITH_LOSS and self.verdict.rule != "O4"
        return (self.code, self.offset, self.stopped_at) == (0, None if lost else 77, None)


def _elsewhere(group: str) -> int:
    return (partition_of(group, PARTITIONS) + PARTITIONS // 2) % PARTITIONS


def groups_of(stories: Iterable[str]) -> dict[str, str]:
    """Story → a group whose partition no other story has, nor the copies of one."""
    found: dict[str, str] = {}
    taken: set[int] = set()
    for number, story in enumerate(stories):
        names = (f"s{number}-{n}" for n in range(9999))
        found[story] = next(
            name
            for name in names
            if partition_of(name, PARTITIONS) not in taken
            and not (story in COPIES and _elsewhere(name) in taken)
        )
        taken.add(partition_of(found[story], PARTITIONS))
        if story in COPIES:
            taken.add(_elsewhere(found[story]))
    return found


def _written(stories: Mapping[str, str]) -> list[LogRecord]:
    records = []
    for story, group in stories.items():
        lines = [_commit(group)] if story in NEIGHBOURS else (STORIES | COPIES)[story](group)
        if story in NEIGHBOURS:
            lines += NEIGHBOURS[story](f"{group}-neighbour")
        home = partition_of(group, PARTITIONS)
        records += [record(line, offset, partition=home) for offset, line in enumerate(lines)]
        if story in COPIES:
            records.append(record(commit(group, offset=55, at=now()), 0, partition=_elsewhere(group)))
    return records


def _stories(release: str, coordinator: Coordinator) -> list[str]:
    if coordinator is Coordinator.OLD:
        return list(STORIES)
    newest = loader(release, coordinator).types >= {17}
    return [*COPIES, *STORIES, *(NEIGHBOURS if newest else ())]


def replay(
    home: Home, release: str, coordinator: Coordinator, properties: Mapping[str, str]
) -> dict[str, Replayed]:
    """Every story, written into a broker of this release, loaded by it, and linted. Ends the broker."""
    options = KraftOptions(
        release=release, properties={**properties, "offsets.topic.num.partitions": str(PARTITIONS)}
    )
    groups = groups_of(_stories(release, coordinator))
    written = _written(groups)
    try:
        cluster = start_kraft(home, options)
        _produce(cluster.bootstrap, written)
        (node,) = cluster.nodes
        for process in marked(home):
            stop(process, 60.0)
        log = home.logs / f"{node.name}.log"
        since = log.stat().st_size
        await_node(cluster, node, start_node(cluster, node))
        answers = _answers(cluster.bootstrap, list(groups.values()), lambda: _failed(log, since))
        failed = _failed(log, since)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)
    verdicts = lint([decode(one, partitions=PARTITIONS) for one in written], release, coordinator)
    return {
        story: Replayed(verdicts[group], *answers[group], failed.get(partition_of(group, PARTITIONS)))
        for story, group in groups.items()
    }


_FAILED = re.compile(
    rf"Failed to load metadata from {TOPIC}-(\d+) with epoch \d+ due to (?!.*(?:NotLeader|Stopped ))"
)
_STOPPED = re.compile(rf"Replaying record .* from {TOPIC}-(\d+) at offset (\d+)")


def _failed(log: Path, since: int) -> dict[int, int | None]:
    """Partition that could not be loaded → offset of the record that stopped it, where the log names it.

    ``since`` is the position in the broker's log from which it is read: its last start."""
    text = log.read_bytes()[since:].decode(errors="replace")
    found: dict[int, int | None] = {int(partition): None for partition in _FAILED.findall(text)}
    return found | {int(partition): int(offset) for partition, offset in _STOPPED.findall(text)}


def _produce(bootstrap: str, written: Iterable[LogRecord]) -> None:
    asked = KafkaCluster(bootstrap, timeout_s=30.0)
    try:
        wait_until(
            lambda: not asked.coordinators(["probe"])[1], _LOAD_S, "the offsets topic is there", every_s=0.2
        )
    finally:
        asked.close()
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "__admin_client"})
    failed: list[object] = []
    for one in written:
        producer.produce(
            TOPIC, one.value, one.key, one.partition,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )  # fmt: skip
    assert producer.flush(60.0) == 0
    assert failed == []


def _answers(
    bootstrap: str, groups: list[str], failed: Callable[[], Collection[int]]
) -> dict[str, tuple[int, int | None]]:
    """Error code and offset by group, once each is served or its partition is known not to load."""
    asked = KafkaCluster(bootstrap, timeout_s=30.0)
    found: dict[str, tuple[int, int | None]] = {}

    def settled() -> bool:
        found.update(_ask(asked, groups))
        broken = failed()
        return all(code == 0 or partition_of(g, PARTITIONS) in broken for g, (code, _) in found.items())

    try:
        wait_until(settled, _LOAD_S, "every partition is loaded, or known not to load", every_s=0.2)
        found.update(_ask(asked, groups))
    finally:
        asked.close()
    return found


def _ask(cluster: KafkaCluster, groups: list[str]) -> dict[str, tuple[int, int | None]]:
    (node,) = cluster.brokers()
    connection = cluster.broker(node.node_id)
    rows: dict[str, tuple[int, int | None]] = {}
    for request, part in fetch_offsets(connection, groups):
        for group, code, topics in fetched(part, connection.ask(request)):
            offsets = [each.committed_offset for topic in topics or () for each in topic.partitions]
            rows[group] = code, next((offset for offset in offsets if offset >= 0), None)
    return rows
