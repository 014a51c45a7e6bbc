"""How long a toggle takes and how long a partition is unowned: the mode node against stop-all/start-all.

One fleet of five `MigratingConsumer` processes on real ZooKeeper and Kafka (stock broker delays), a
producer at 20 records/s on each partition. In zookeeper mode the range assignor decides, in kafka mode
the round-robin one, so a toggle really moves partitions. Once with 6 partitions, once with 60.

* t0: the compare-and-set of the mode node returned. t1 of a partition: the first record delivered by its
  owner after the toggle. `all_owned_s` of a toggle is the latest t1 - t0 over all partitions.
* `unowned_s` of a moved partition: from the deletion of its owner node to the creation of the next one,
  by ZooKeeper's transaction log.
* The peer: SIGTERM to all members, wait for their end, start all again; unowned time read the same way.

Run: make bench BENCH=toggle
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from measuring import Aim, fresh_home, percentile, report

from groupshift.adapters.clock import SystemClock
from groupshift.adapters.group_reader import LiveGroupReader
from groupshift.adapters.kafka.connection import KafkaConnection
from groupshift.adapters.kafka.groups import KafkaGroups
from groupshift.adapters.zookeeper.connection import ZookeeperConnection
from groupshift.adapters.zookeeper.groups import ZookeeperGroups
from groupshift.adapters.zookeeper.mode import ZookeeperModeSwitch
from groupshift.domain.coordination import MemberKind, Mode
from groupshift.domain.group import GroupView
from groupshift.domain.ownership import Interval, history
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.txnlog import merge, parse
from groupshift.sandbox.artifacts import ALL, jars
from groupshift.sandbox.demo_table import hand_overs
from groupshift.sandbox.fleet import FleetDefinition, Place, SlotDefinition
from groupshift.sandbox.home import Home
from groupshift.sandbox.kafka import KafkaOptions, create_topic, start_kafka
from groupshift.sandbox.ledger import Delivery, overlaps, read_ledgers
from groupshift.sandbox.members import is_ready, member_command
from groupshift.sandbox.processes import Running, is_running, send, start, wait_until
from groupshift.sandbox.up import UpOptions, start_producer
from groupshift.sandbox.zookeeper import start_zookeeper

GROUP, TOPIC, MEMBERS, RATE = "bench", "orders", 5, 20.0
SETTLED_S = 60.0
QUIET_S = 1.5
PROPERTIES = {
    MemberKind.AWARE: {
        "coordination.migration.partition.assignment.strategy": "roundrobin",
        "auto.commit.interval.ms": "1000",
    }
}


@dataclass(slots=True, kw_only=True)
class Fleet:
    """Five migration-aware members as child processes of this benchmark."""

    home: Home
    definition: FleetDefinition
    places: list[Place] = field(default_factory=list)

    def start(self) -> None:
        """Start all at once, as new incarnations, and wait until each says it runs."""
        self.places = [
            Place(name=slot.name, kind=slot.kind, wanted=slot.kind, incarnation=self._next(slot.name))
            for slot in self.definition.slots
        ]
        for place in self.places:
            process = start(self.home, member_command(self.home, self.definition, place))
            place.pid, place.ticks = process.pid, process.ticks
        wait_until(lambda: all(is_ready(self.home, place) for place in self.places), SETTLED_S, "members run")

    def stop(self) -> None:
        """SIGTERM to all at once; wait for the end of each."""
        living = [Running(name=p.occupant, pid=p.pid or 0, ticks=p.ticks or 0) for p in self.places]
        for process in living:
            send(process, signal.SIGTERM)
        wait_until(lambda: not any(is_running(process) for process in living), SETTLED_S, "members ended")

    def _next(self, slot: str) -> int:
        return max((place.incarnation for place in self.places if place.name == slot), default=0) + 1


class Bench:
    """One fleet, one topic: toggles and restarts, then what the logs say about them."""

    def __init__(self, home: Home, partitions: int) -> None:
        self.partitions = partitions
        self.home = home.create()
        zookeeper = start_zookeeper(home)
        broker = start_kafka(home, zookeeper, KafkaOptions())
        create_topic(broker.address, TOPIC, partitions)
        options = UpOptions(partitions=partitions, rate=RATE, group=GROUP, topic=TOPIC)
        start_producer(home, options, broker.address)
        slots = tuple(
            SlotDefinition(name=f"m{number + 1}", release="", kind=MemberKind.AWARE)
            for number in range(MEMBERS)
        )
        self.fleet = Fleet(
            home=home,
            definition=FleetDefinition(
                group=GROUP,
                topics=(TOPIC,),
                zookeeper=zookeeper,
                bootstrap=broker.address,
                slots=slots,
                properties=PROPERTIES,
            ),
        )
        connection = ZookeeperConnection(zookeeper)
        kafka = KafkaGroups(KafkaConnection(broker.address))
        self.groups = LiveGroupReader(ZookeeperGroups(connection), kafka, SystemClock())
        self.mode = ZookeeperModeSwitch(connection)
        self.toggles: list[tuple[int, int, int]] = []  # began to write, t0, settled
        self.restarts: list[tuple[int, int]] = []

    def settled(self, mode: Mode) -> bool:
        """F7 holds, every member is in this mode, and every partition has one owner."""
        view: GroupView = self.groups.read(GROUP)
        owners = view.owners_of()
        return (
            len(view.migration_ids) == MEMBERS
            and view.kafka.state == "Stable"
            and len(view.kafka.members) == MEMBERS
            and len(owners) == self.partitions
            and all(len(each) == 1 for each in owners.values())
            and all(member.mode is mode for member in view.members)
        )

    def await_settled(self, mode: Mode) -> None:
        """Wait until settled, then let it consume for a moment."""
        wait_until(lambda: self.settled(mode), SETTLED_S, f"settled in {mode} mode", every_s=0.25)
        end = time.monotonic() + QUIET_S
        wait_until(lambda: time.monotonic() > end, QUIET_S + 1, "quiet")

    def toggle(self, to: Mode) -> None:
        """Write the mode node, note t0, wait until settled."""
        node, began = self.mode.read(GROUP), _now()
        self.mode.compare_and_set(GROUP, node, to)
        t0 = _now()
        self.await_settled(to)
        self.toggles.append((began, t0, _now()))

    def restart(self, mode: Mode) -> None:
        """The peer: stop all, start all."""
        t0 = _now()
        self.fleet.stop()
        self.fleet.start()
        self.await_settled(mode)
        self.restarts.append((t0, _now()))

    def run(self, toggles: int, restarts: int) -> None:
        """``toggles`` each way, then ``restarts`` in kafka mode."""
        self.fleet.start()
        self.await_settled(Mode.ZOOKEEPER)
        for number in range(toggles):
            self.toggle(Mode.KAFKA)
            self.toggle(Mode.ZOOKEEPER)
            print(f"  {self.partitions} partitions: {number + 1}/{toggles} toggles each way", flush=True)
        self.toggle(Mode.KAFKA)
        for number in range(restarts):
            self.restart(Mode.KAFKA)
            print(f"  {self.partitions} partitions: {number + 1}/{restarts} stop-all/start-all", flush=True)
        self.fleet.stop()

    def figures(self) -> dict[str, Any]:
        """What the ledgers and ZooKeeper's log say; seconds, lists raw."""
        logs = sorted((self.home.zookeeper / "version-2").glob("log.*"))
        intervals = history(merge(parse(p.read_bytes(), p.name) for p in logs), GROUP).intervals
        deliveries = read_ledgers(self.home.ledgers, GROUP)
        changes = hand_overs(intervals)
        firsts = _Firsts(intervals, deliveries)
        moved = [[c for c in changes if began <= c.at_ms < end] for began, _, end in self.toggles]
        peer = [c for t0, end in self.restarts for c in changes if t0 <= c.at_ms < end]
        return {
            "partitions": self.partitions,
            "toggles": len(self.toggles),
            "moved_per_toggle": [len(each) for each in moved],
            "all_owned_s": [firsts.all_owned_s(t0, end) for _, t0, end in self.toggles],
            "unowned_s": [c.unowned_ms / 1000 for each in moved for c in each],
            "stop_all_unowned_s": [c.unowned_ms / 1000 for c in peer],
            "overlaps": len(overlaps(deliveries)),
            "deliveries": len(deliveries),
        }


class _Firsts:
    """First delivery of each partition by its owner from a moment on."""

    def __init__(self, intervals: tuple[Interval, ...], deliveries: list[Delivery]) -> None:
        self._intervals: dict[TopicPartition, list[Interval]] = defaultdict(list)
        for interval in intervals:
            self._intervals[interval.partition].append(interval)
        self._times: dict[tuple[TopicPartition, str], list[int]] = defaultdict(list)
        for delivery in deliveries:
            self._times[delivery.partition, delivery.member].append(delivery.at_ms)

    def all_owned_s(self, t0: int, end: int) -> float:
        """Latest first record over all partitions, in seconds after ``t0``; infinite if one has none."""
        return max((self._first(partition, t0, end) - t0) / 1000 for partition in self._intervals)

    def _first(self, partition: TopicPartition, t0: int, end: int) -> float:
        owned = [one for one in self._intervals[partition] if one.start_ms < end]
        owner = max(owned, key=lambda one: one.start_zxid)
        times = self._times[partition, owner.member_id]
        at = bisect_left(times, max(t0, owner.start_ms))
        return times[at] if at < len(times) else float("inf")


def _now() -> int:
    return int(time.time() * 1000)


def aims(small: dict[str, Any], large: dict[str, Any]) -> list[Aim]:
    """The figures that are aimed at."""
    peer = percentile(small["stop_all_unowned_s"], 0.95)
    ratio = percentile(small["unowned_s"], 0.95) / peer
    values = (
        ("p95_all_owned_s", percentile(small["all_owned_s"], 0.95), 1.0),
        ("p95_unowned_s", percentile(small["unowned_s"], 0.95), 1.0),
        ("p95_all_owned_60_s", percentile(large["all_owned_s"], 0.95), 2.0),
        ("p95_unowned_60_s", percentile(large["unowned_s"], 0.95), 2.0),
        ("ratio_to_stop_all", ratio, 0.2),
        ("overlaps", small["overlaps"] + large["overlaps"], 0),
    )
    return [Aim(name=name, value=value, aim=aim) for name, value, aim in values]


def measure(partitions: int, toggles: int, restarts: int) -> dict[str, Any]:
    """One fleet from nothing to figures; leaves no process and no file."""
    with fresh_home() as home:
        bench = Bench(home, partitions)
        bench.run(toggles, restarts)
        return bench.figures()


def main() -> int:
    """Measure; see `measuring.report`."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--toggles", type=int, default=20, help="toggles each way")
    arguments.add_argument("--restarts", type=int, default=5, help="stop-all/start-all rounds")
    options = arguments.parse_args()
    for artifact in ALL:
        jars(artifact)
    small, large = (measure(count, options.toggles, options.restarts) for count in (6, 60))
    return report("toggle", aims(small, large), [small, large])


if __name__ == "__main__":
    sys.exit(main())
