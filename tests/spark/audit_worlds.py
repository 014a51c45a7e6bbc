"""Made-up clusters for the audit in Spark: hundreds of groups, everything that can be wrong."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from groupshift.audit.inputs import KEPT, Terms, ZookeeperGroup
from groupshift.audit.offsets import Reading
from groupshift.domain.commit_places import FORMER, TopicNow, Topics
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.modes import Mode
from groupshift.domain.rows import ClusterState, GroupRow, LogEndRow, OffsetRow, ProblemRow
from groupshift.log import LogRecord
from groupshift_testing.log_encoder import encode_key, encode_value
from support.coordinator_story import Line, classic, commit, consumer_group, gone
from support.coordinator_vectors import U

PARTITIONS = 40
MUTE = frozenset({3, 17})
"""Partitions of the log of which nothing is answered."""
NOW = 1_800_000_000_000
MINUTE = 60_000
_TIMES = (NOW - 60 * MINUTE, NOW - 59 * MINUTE, NOW - 9_000, NOW - 5_000, NOW - 2_000)
_ODD = 0.04
TOPICS = Topics(
    now={
        "t1": TopicNow(topic="t1", topic_id=U, epochs={0: 2, 1: 7}),
        "t2": TopicNow(topic="t2", topic_id="pnZcymezThatEe9XU5FPyw", epochs={0: 2, 1: 7, 2: 7, 3: -1}),
    },
    ends={("t1", 1, 3): 4, ("t2", 1, 3): 4, ("t2", 2, 3): -1},
)
"""Partitions 2 and 3 of t1 are not there, records of version 4 in t2 are of a former topic."""


@dataclass(kw_only=True)
class World:
    """Three sources in the making; ``chance`` decides all."""

    chance: random.Random
    retention_ms: int | None
    lines: dict[int, list[tuple[Line, int, str]]] = field(default_factory=lambda: defaultdict(list))
    answers: list[OffsetRow] = field(default_factory=list)
    zookeeper: dict[str, ZookeeperGroup] = field(default_factory=dict)
    asked: list[GroupRow] = field(default_factory=list)
    problems: list[ProblemRow] = field(default_factory=list)

    def group(self, name: str) -> None:
        """One group with some offsets."""
        home, roll = partition_of(name, PARTITIONS), self.chance.random
        if roll() < 0.4:
            made = consumer_group(name) if roll() < 0.5 else [classic(name, *(["m"] * (roll() < 0.5)))]
            self.lines[home].extend((line, NOW - 61 * MINUTE, "") for line in made)
        if roll() < 0.93:
            self.asked.append(GroupRow(group=name, type="classic", state="Empty"))
        if roll() < _ODD:
            self.problems.append(ProblemRow(group=name, problem=f"{name} is in trouble"))
        nodes: dict[tuple[str, int], int] = {}
        for number in range(self.chance.randint(1, 4)):
            at = ("t1" if roll() < 0.7 else "t2", number)
            last = self.key(name, home, at)
            if roll() < 0.75:
                nodes[at] = last if last is not None and roll() < 0.6 else self.chance.randint(0, 9)
        if roll() < 0.75:
            self.zookeeper[name] = self.side(name, nodes)

    def side(self, name: str, nodes: dict[tuple[str, int], int]) -> ZookeeperGroup:
        """The group in ZooKeeper."""
        members = self.chance.randint(0, 2)
        return ZookeeperGroup(
            mode=self.chance.choice(list(Mode)),
            members=members,
            aware=self.chance.randint(0, members),
            offsets=nodes,
            problems=(f"a node of {name} cannot be read",) if self.chance.random() < 0.2 else (),
        )

    def key(self, name: str, home: int, at: tuple[str, int]) -> int | None:
        """The records of one key, and what is answered of it; returns the last offset in the log."""
        roll, pick = self.chance.random, self.chance.choice
        often = KEPT + self.chance.randint(-2, 90) if roll() < _ODD else self.chance.randint(0, 4)
        said: list[int | None] = [self.write(name, home, at) for _ in range(often)]
        last = said[-1] if said else None
        if roll() < 0.15:
            for away in self.chance.sample(range(PARTITIONS), 2):
                self.write(name, away, at)
        answer = pick([last, last, last, last, *said, self.chance.randint(-1, 9), None])
        if answer is not None and home not in MUTE:
            self.answers.append(
                OffsetRow(
                    group=name,
                    topic=at[0],
                    partition=at[1],
                    offset=answer,
                    leader_epoch=pick([None, None, -1, -1, -1, 3]),
                    metadata=pick(["", "", "", None, "x"]),
                )
            )
        return last

    def write(self, name: str, where: int, at: tuple[str, int]) -> int | None:
        """One record; returns the offset that it commits."""
        roll, pick = self.chance.random, self.chance.choice
        offset = -1 if roll() < _ODD else self.chance.randint(0, 9)
        kind, key, version, value = commit(
            name,
            *at,
            offset=offset,
            at=pick((*_TIMES, -1)),
            version=pick([0, 1, 2, 3, 3, 3, 4]),
            kind=pick([0, 1, 1]),
        )
        line: Line = kind, key, version, {**(value or {}), "metadata": pick(["", "", "", "x"])}
        harm = pick(["cut", "newer", "left"]) if roll() < _ODD else ""
        if roll() < 0.15:
            line, harm = gone(line), ""
        self.lines[where].append((line, pick(_TIMES), harm))
        return None if line[3] is None or harm == "cut" else offset

    def stray(self, name: str, partition: int, epoch: int, topic_id: str | None = None) -> None:
        """A group whose one commit, which all sources agree about, is not its topic's."""
        home = partition_of(name, PARTITIONS)
        kind, key, version, value = commit(name, "t1", partition, offset=5, at=_TIMES[0], version=3)
        self.lines[home].append(
            ((kind, key, version, {**(value or {}), "leaderEpoch": epoch}), _TIMES[0], "")
        )
        self.asked.append(GroupRow(group=name, type="classic", state="Empty"))
        if home not in MUTE:
            self.answers.append(
                OffsetRow(
                    group=name,
                    topic="t1",
                    partition=partition,
                    offset=5,
                    leader_epoch=epoch,
                    metadata="",
                    topic_id=topic_id,
                )
            )

    def records(self) -> Iterator[LogRecord]:
        """The log, partition by partition."""
        for partition in range(PARTITIONS):
            for offset, (line, at, harm) in enumerate(self.lines[partition]):
                yield _record(line, partition, offset, at, harm)
        yield LogRecord(partition=5, offset=10**6, timestamp_ms=NOW, key=b"\0\1\0", value=b"")
        yield LogRecord(partition=5, offset=10**6 + 1, timestamp_ms=NOW, key=None, value=b"x")
        yield LogRecord(partition=6, offset=10**6, timestamp_ms=NOW, key=b"\0\x63\0\1g", value=b"x")

    def reading(self) -> Reading:
        """What was read within the bracket."""
        ends = [
            LogEndRow(topic=topic, partition=number, log_start=number, log_end=9 - number)
            for topic in ("t1", "t2")
            for number in range(3)
        ]
        sizes = {number: len(self.lines[number]) for number in range(PARTITIONS)}
        admin = ClusterState(
            cluster_id="c",
            taken_at_ms=NOW,
            groups=self.asked,
            offsets=self.answers,
            problems=self.problems,
            log_ends=ends,
            topics=TOPICS,
        )
        return Reading(
            admin=admin,
            zookeeper=self.zookeeper,
            opened={number: int(size * self.chance.uniform(0.5, 1.1)) for number, size in sizes.items()},
            closed=dict.fromkeys(range(PARTITIONS), 2 * 10**6),
            terms=Terms(now_ms=NOW, commit_interval_ms=5000, retention_ms=self.retention_ms),
        )


def world(seed: int, groups: int, retention_ms: int | None) -> tuple[list[LogRecord], Reading]:
    """A cluster with so many groups; records of one partition are mixed."""
    made = World(chance=random.Random(seed), retention_ms=retention_ms)
    for number in range(groups):
        made.group(f"grüppe-{number}" if number % 50 == 0 else f"group-{number}")
    for number in range(5 if groups else 0):
        made.stray(f"above-{number}", 0, 3)
        made.stray(f"low-{number}", 1, 3)
        made.stray(f"former-{number}", 1, 7, FORMER)
        made.stray(f"sound-{number}", 1, 7)
    for lines in made.lines.values():
        made.chance.shuffle(lines)
    return list(made.records()), made.reading()


def _record(line: Line, partition: int, offset: int, at: int, harm: str) -> LogRecord:
    number, key, version, value = line
    raw = LogRecord(
        partition=partition,
        offset=offset,
        timestamp_ms=at,
        key=encode_key(number, key),
        value=None if value is None else encode_value(number, version, value),
    )
    return replace(raw, **_harmed(raw, harm))


def _harmed(raw: LogRecord, harm: str) -> dict[str, Any]:
    if harm == "cut":
        return {"value": (raw.value or b"")[:7]}
    if harm == "newer":
        return {"value": b"\0\7" + (raw.value or b"")[2:]}
    return {"key": (raw.key or b"") + b"\0"} if harm == "left" else {}
