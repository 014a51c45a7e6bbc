"""Join and crash of one member: ours against the old Scala consumer, and against plain Kafka consumers.

Four groups of two members stand side by side, each on a topic of its own with 12 partitions that get 20
records/s each: Scala 1.1.1; `MigratingConsumer` in zookeeper mode; the same in kafka mode; plain
confluent-kafka. In every round a third member joins each group in turn and, once it has its share, is killed
with SIGKILL. All session timeouts are 6 s.

* `join_s`: from the creation of the third member's registration (ZooKeeper's log) until the last partition
  that moved was delivered by its new owner. What a JVM needs to start is not in it.
* `crash_s`: from the SIGKILL until the last partition of the dead was delivered by somebody else.
* `kafka_join_unowned_s`: kafka mode, partitions that do not move at the join: time without an owner node.

Run: make bench BENCH=rebalance
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kazoo.client import KazooClient
from measuring import Aim, fresh_home, median, report
from measuring.ledgers import recent

from groupshift.audit.ownership import Interval, history
from groupshift.audit.txnlog import Created, Transaction, merge, parse
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.znodes import GroupPaths
from groupshift_sandbox.artifacts import ALL, jars
from groupshift_sandbox.faults import kill
from groupshift_sandbox.fleet import FleetDefinition, FleetSlot, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions, create_topic, start_kafka
from groupshift_sandbox.ledger import Delivery, read_ledger
from groupshift_sandbox.legacy import seed_offsets
from groupshift_sandbox.members import is_ready, member_command, member_id
from groupshift_sandbox.processes import Command, Running, start, wait_until
from groupshift_sandbox.zookeeper import start_zookeeper

PARTITIONS, RATE, SETTLED_S = 12, 20.0, 90.0
RELEASE = "1.1.1"
SCALA, OURS, KAFKA, PLAIN = "scala", "ours", "kafka", "plain"
KINDS = {
    SCALA: MemberKind.ZOOKEEPER, OURS: MemberKind.AWARE, KAFKA: MemberKind.AWARE, PLAIN: MemberKind.PLAIN
}  # fmt: skip
_ZOOKEEPER = {"zookeeper.session.timeout.ms": "6000"}
_ASSIGNOR = {"partition.assignment.strategy": "cooperative-sticky"}
_OVERRIDE = {f"coordination.migration.{key}": value for key, value in _ASSIGNOR.items()}
_SESSION = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
PROPERTIES = {
    SCALA: _ZOOKEEPER,
    OURS: _ZOOKEEPER | _SESSION,
    KAFKA: _ZOOKEEPER | _SESSION | _OVERRIDE,
    PLAIN: _SESSION | _ASSIGNOR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Epoch ms: the third ``member`` had its share at ``joined``, was killed at ``killed``, and the others
    had everything at ``ended``."""

    member: str
    began: int
    joined: int
    killed: int
    ended: int


@dataclass(slots=True, kw_only=True)
class Group:
    """One contender: its members as child processes and what was done to them."""

    name: str
    home: Home
    definition: FleetDefinition
    places: dict[str, FleetSlot] = field(default_factory=dict)
    processes: dict[str, Running] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)

    @property
    def topic(self) -> str:
        """Its only topic."""
        return self.definition.topics[0]

    def start(self, slot: str) -> str:
        """A new incarnation; waits until it runs; its member id."""
        kind = KINDS[self.name]
        place = self.places.setdefault(slot, FleetSlot(name=slot, kind=kind, wanted=kind))
        place.incarnation += 1
        process = start(self.home, member_command(self.home, self.definition, place))
        place.pid, place.ticks = process.pid, process.ticks
        self.processes[slot] = process
        wait_until(lambda: is_ready(self.home, place), SETTLED_S, f"{place.occupant} runs")
        return member_id(self.definition, place)

    def await_shares(self, slots: Sequence[str], since_ms: int) -> None:
        """Wait until exactly these members deliver, each an even share, and every partition flows."""
        wanted = {member_id(self.definition, self.places[slot]) for slot in slots}

        def even() -> bool:
            last: dict[TopicPartition, Delivery] = {}
            for slot in self.places:
                for each in recent(self.home.ledgers / f"{self.places[slot].occupant}.jsonl"):
                    if each.at_ms >= since_ms and each.at_ms >= last.get(each.partition, each).at_ms:
                        last[each.partition] = each
            holders = [each.member for each in last.values()]
            shares = {holder: holders.count(holder) for holder in holders}
            flowing = all(each.at_ms > _now() - 1000 for each in last.values())
            even_share = all(share == PARTITIONS // len(wanted) for share in shares.values())
            return flowing and set(shares) == wanted and len(last) == PARTITIONS and even_share

        wait_until(even, SETTLED_S, f"{self.name}: {', '.join(slots)} have even shares", every_s=0.3)

    def run_round(self) -> None:
        """The third joins, gets its share, and is killed."""
        began = _now()
        member = self.start(f"{self.name}-3")
        self.await_shares([f"{self.name}-{number}" for number in (1, 2, 3)], began)
        joined = _now()
        end = time.monotonic() + random.uniform(1.0, 3.0)  # noqa: S311 (at no particular phase of its timers)
        wait_until(lambda: time.monotonic() > end, 5, "a quiet moment")
        killed = _now()
        kill(self.processes[f"{self.name}-3"])
        self.await_shares([f"{self.name}-{number}" for number in (1, 2)], killed)
        self.rounds.append(Round(member=member, began=began, joined=joined, killed=killed, ended=_now()))


@dataclass(frozen=True, slots=True)
class Reading:
    """Logs of one group: deliveries by partition in order of time, owner intervals, registrations."""

    deliveries: Mapping[TopicPartition, list[Delivery]]
    intervals: Sequence[Interval]
    registered: Mapping[str, int]

    def join_s(self, one: Round) -> float:
        """See the module's head."""
        since = self.registered.get(one.member, one.began)
        firsts = [
            min(each.at_ms for each in found)
            for every in self.deliveries.values()
            if (found := [d for d in every if d.member == one.member and since <= d.at_ms <= one.killed])
        ]
        return (max(firsts) - since) / 1000

    def crash_s(self, one: Round) -> float:
        """See the module's head."""
        latest = 0
        for every in self.deliveries.values():
            times = [each.at_ms for each in every]
            at = bisect_right(times, one.killed)
            if at and every[at - 1].member == one.member:
                after = [each.at_ms for each in every[at:] if each.member != one.member]
                latest = max(latest, after[0])
        return (latest - one.killed) / 1000

    def unowned_s(self, one: Round) -> float:
        """Longest time without owner, of the partitions that the third member did not get."""
        since = self.registered[one.member]
        moved = {each.partition for each in self.intervals if each.member_id == one.member}
        longest = 0.0
        by_partition: dict[TopicPartition, list[Interval]] = defaultdict(list)
        for each in self.intervals:
            if each.partition not in moved and (each.end_ms is None or each.end_ms >= since):
                by_partition[each.partition].append(each)
        for every in by_partition.values():
            for before, after in pairwise(every):
                if before.end_ms is not None and before.end_ms <= one.joined:
                    longest = max(longest, (after.start_ms - before.end_ms) / 1000)
        return longest


def reading(group: Group, transactions: Sequence[Transaction]) -> Reading:
    """All that was written about one group."""
    by_partition: dict[TopicPartition, list[Delivery]] = defaultdict(list)
    prefix = f"{group.name}-"
    for path in group.home.ledgers.glob(f"{prefix}*.jsonl"):
        for each in read_ledger(path):
            by_partition[each.partition].append(each)
    for every in by_partition.values():
        every.sort(key=lambda each: each.at_ms)
    ids = GroupPaths(group.definition.group).ids + "/"
    registered = {
        change.path.removeprefix(ids): each.time_ms
        for each in transactions
        for change in each.changes
        if isinstance(change, Created) and change.path.startswith(ids)
    }
    intervals = history(transactions, group.definition.group).intervals
    return Reading(by_partition, intervals, registered)


def _now() -> int:
    return int(time.time() * 1000)


def make_group(name: str, home: Home, zookeeper: str, bootstrap: str) -> Group:
    """Topic, producer, offsets and mode of one contender; no member yet."""
    group, topic = f"bench-{name}", f"orders-{name}"
    create_topic(bootstrap, topic, PARTITIONS)
    if name == SCALA:
        seed_offsets(zookeeper, group, topic, PARTITIONS)
    if name == KAFKA:
        client = KazooClient(zookeeper)
        client.start()
        client.create(GroupPaths(group).mode, Mode.KAFKA.value.encode(), makepath=True)
        client.stop()
        client.close()
    argv = [sys.executable, "-m", "groupshift_sandbox.producer", "--bootstrap", bootstrap, "--topic", topic]
    argv += ["--partitions", str(PARTITIONS), "--rate", str(RATE)]
    start(home, Command(name=f"producer-{name}", argv=argv))
    slots = [
        SlotDefinition(name=f"{name}-{number}", release=RELEASE, kind=KINDS[name]) for number in (1, 2, 3)
    ]
    definition = FleetDefinition(
        group=group, topics=(topic,), zookeeper=zookeeper, bootstrap=bootstrap, slots=tuple(slots),
        properties={KINDS[name]: PROPERTIES[name]},
    )  # fmt: skip
    return Group(name=name, home=home, definition=definition)


def measure(home: Home, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Contender → figure → one value for each round."""
    zookeeper = start_zookeeper(home.create())
    bootstrap = start_kafka(home, zookeeper, KafkaOptions()).address
    groups = [make_group(name, home, zookeeper, bootstrap) for name in KINDS]
    for group in groups:
        began = _now()
        for number in (1, 2):
            group.start(f"{group.name}-{number}")
        group.await_shares([f"{group.name}-{number}" for number in (1, 2)], began)
    for number in range(rounds):
        for group in groups if number % 2 == 0 else reversed(groups):
            group.run_round()
        print(f"  round {number + 1} of {rounds}", flush=True)
    logs = sorted((home.zookeeper / "version-2").glob("log.*"))
    transactions = list(merge(parse(path.read_bytes(), path.name) for path in logs))
    return {group.name: figures(group, reading(group, transactions)) for group in groups}


def figures(group: Group, read: Reading) -> dict[str, list[float]]:
    """The figures of one contender."""
    found = {"crash_s": [read.crash_s(each) for each in group.rounds]}
    if group.name != PLAIN:
        found["join_s"] = [read.join_s(each) for each in group.rounds]
    if group.name == KAFKA:
        found["unowned_s"] = [read.unowned_s(each) for each in group.rounds]
    return found


def aims(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Iterable[Aim]:
    """Ratios of medians."""

    def ratio(figure: str, ours: str, peer: str) -> float:
        return median(found[ours][figure]) / median(found[peer][figure])

    yield Aim(name="join_ratio", value=ratio("join_s", OURS, SCALA), aim=0.5)
    yield Aim(name="crash_ratio", value=ratio("crash_s", OURS, SCALA), aim=1.1)
    yield Aim(name="kafka_join_unowned_s", value=max(found[KAFKA]["unowned_s"]), aim=0.0)
    yield Aim(name="kafka_crash_ratio", value=ratio("crash_s", KAFKA, PLAIN), aim=1.1)


def main() -> int:
    """Measure; see `measuring.report`."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=20)
    options = arguments.parse_args()
    for artifact in ALL:
        jars(artifact)
    with fresh_home() as home:
        found = measure(home, options.rounds)
    medians: dict[str, Any] = {
        name: {figure: median(values) for figure, values in each.items()} for name, each in found.items()
    }
    print(medians)
    return report("rebalance", aims(found), found)


if __name__ == "__main__":
    sys.exit(main())
