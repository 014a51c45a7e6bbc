"""How long a toggle takes and how long a partition is unowned: the mode node against stop-all/start-all.

One fleet of five `MigratingConsumer` processes on real ZooKeeper and Kafka (stock broker delays), a
producer at 20 records/s on each partition. In zookeeper mode the range assignor decides, in kafka mode
the round-robin one, so a toggle really moves partitions. Once with 6 partitions, once with 60.

* t0: the compare-and-set of the mode node returned. t1 of a partition: the first record delivered by its
  owner after the toggle. `all_owned_s` of a toggle is the latest t1 - t0 over all partitions.
* `unowned_s` of a moved partition: from the deletion of its owner node to the creation of the next one,
  by ZooKeeper's transaction log.
* A crowd: the same toggles with 50 members, ten in a process, and 200 partitions at 5 records/s.
* A Scala member comes and goes while the mode is kafka (scenarios 23 and 24): figures without an aim.
* The peer: SIGTERM to all members, wait for their end, start all again; unowned time read the same way.

Run: make bench BENCH=toggle
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from measuring import Aim, fresh_home, percentile, report
from measuring.firsts import Firsts
from measuring.fleets import SETTLED_S, Crowd, Fleet

from groupshift.adapters.groups import LiveGroupReader
from groupshift.adapters.kafka.cluster import observer
from groupshift.adapters.kafka.groups import KafkaGroups
from groupshift.adapters.system import SystemClock
from groupshift.adapters.zookeeper.ensemble import ZookeeperGroups
from groupshift.adapters.zookeeper.mode_brake_and_rights import ZookeeperModeSwitch
from groupshift.adapters.zookeeper.session import ZookeeperConnection
from groupshift.audit.ownership import history
from groupshift.audit.txnlog import merge, parse
from groupshift.domain.group import GroupView
from groupshift.domain.modes import MemberKind, Mode
from groupshift_sandbox.artifacts import ALL, jars
from groupshift_sandbox.demo_table import hand_overs
from groupshift_sandbox.fleet import FleetDefinition, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import KafkaOptions, create_topic, start_kafka
from groupshift_sandbox.ledger import Delivery, overlaps, read_ledger, read_ledgers
from groupshift_sandbox.legacy import seed_offsets
from groupshift_sandbox.processes import stop, wait_until
from groupshift_sandbox.up import UpOptions, start_producer
from groupshift_sandbox.zookeeper import start_zookeeper

GROUP, TOPIC, MEMBERS, RATE, RELEASE = "bench", "orders", 5, 20.0, "1.1.1"
QUIET_S = 1.5
PROPERTIES: Mapping[str, Mapping[str, str]] = {
    MemberKind.AWARE: {
        "coordination.migration.partition.assignment.strategy": "roundrobin",
        "auto.commit.interval.ms": "1000",
    }
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Five members in a process each or, as a crowd, 50 members in five processes; ``rate`` is records/s on
    each partition."""

    partitions: int
    rate: float = RATE
    crowd: bool = False


class Bench:
    """One fleet, one topic: toggles and restarts, then what the logs say about them."""

    def __init__(self, home: Home, size: Size) -> None:
        self.partitions = size.partitions
        self.home = home.create()
        zookeeper = start_zookeeper(home)
        bootstrap = start_kafka(home, zookeeper, KafkaOptions()).address
        create_topic(bootstrap, TOPIC, size.partitions)
        seed_offsets(zookeeper, GROUP, TOPIC, size.partitions)
        options = UpOptions(partitions=size.partitions, rate=size.rate, group=GROUP, topic=TOPIC)
        start_producer(home, options, bootstrap)
        self.fleet = fleet_of(home, size, zookeeper, bootstrap)
        connection = ZookeeperConnection(zookeeper)
        kafka = KafkaGroups(observer(bootstrap))
        self.groups = LiveGroupReader(ZookeeperGroups(connection), kafka, SystemClock())
        self.mode = ZookeeperModeSwitch(connection)
        self.toggles: list[tuple[int, int, int]] = []  # began to write, t0, settled
        self.restarts: list[tuple[int, int]] = []
        self.visits: list[tuple[int, int, int]] = []  # started, stopped, back in kafka mode

    def settled(self, mode: Mode) -> bool:
        """F7 holds, every member is in this mode, and every partition has one owner."""
        view: GroupView = self.groups.read(GROUP)
        owners = view.owners_by_partition
        return (
            len(view.migration_ids) == self.fleet.size
            and view.kafka.state == "Stable"
            and len(view.kafka.members) == self.fleet.size
            and len(owners) == self.partitions
            and all(len(each) == 1 for each in owners.values())
            and all(member.mode is mode for member in view.members)
        )

    def await_settled(self, mode: Mode) -> None:
        """Wait until settled, then let it consume for a moment."""
        wait_until(lambda: self.settled(mode), 3 * SETTLED_S, f"settled in {mode} mode", every_s=0.25)
        end = time.monotonic() + QUIET_S
        wait_until(lambda: time.monotonic() > end, QUIET_S + 5, "quiet")

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

    def visit(self) -> None:
        """A Scala member comes (the group leaves kafka mode) and goes (it returns), scenarios 23 and 24."""
        assert isinstance(self.fleet, Fleet)
        came, member = _now(), self.fleet.visit("scala", RELEASE)
        wait_until(lambda: self.with_guest(came), SETTLED_S, "the guest has its share", every_s=0.25)
        end = time.monotonic() + QUIET_S
        wait_until(lambda: time.monotonic() > end, QUIET_S + 5, "quiet")
        left = _now()
        stop(member, 20.0)
        self.await_settled(Mode.KAFKA)
        self.visits.append((came, left, _now()))

    def with_guest(self, since_ms: int) -> bool:
        """One old member more, with a share, and all in zookeeper mode."""
        view: GroupView = self.groups.read(GROUP)
        old = [member.member_id for member in view.members if member.kind is MemberKind.ZOOKEEPER]
        owners = {each for every in view.owners_by_partition.values() for each in every}
        ours = [member for member in view.members if member.kind is MemberKind.AWARE]
        flowing = any(each.at_ms >= since_ms for name in old for each in self._guest_ledger(name))
        whole = len(view.owners_by_partition) == self.partitions
        return (
            bool(old) and whole and flowing and all(m.mode is Mode.ZOOKEEPER for m in ours) and bool(owners)
        )

    def _guest_ledger(self, member: str) -> list[Delivery]:
        return read_ledger(self.home.ledgers / f"{member.removeprefix(GROUP + '_')}.jsonl")

    def run(self, toggles: int, restarts: int, visits: int = 0) -> None:
        """``toggles`` each way, then ``restarts`` and ``visits`` in kafka mode."""
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
        for number in range(visits):
            self.visit()
            print(
                f"  {self.partitions} partitions: {number + 1}/{visits} visits of a Scala member", flush=True
            )
        self.fleet.stop()

    def figures(self) -> dict[str, Any]:
        """What the ledgers and ZooKeeper's log say; seconds, lists raw."""
        logs = sorted((self.home.zookeeper / "version-2").glob("log.*"))
        intervals = history(merge(parse(p.read_bytes(), p.name) for p in logs), GROUP).intervals
        deliveries = read_ledgers(self.home.ledgers, GROUP)
        changes = hand_overs(intervals)
        firsts = Firsts(intervals, deliveries)
        moved = [[c for c in changes if began <= c.at_ms < end] for began, _, end in self.toggles]
        peer = [c for t0, end in self.restarts for c in changes if t0 <= c.at_ms < end]
        return {
            "partitions": self.partitions,
            "toggles": len(self.toggles),
            "moved_per_toggle": [len(each) for each in moved],
            "all_owned_s": [firsts.all_owned_s(t0, end) for _, t0, end in self.toggles],
            "unowned_s": [c.unowned_ms / 1000 for each in moved for c in each],
            "stop_all_unowned_s": [c.unowned_ms / 1000 for c in peer],
            "visits": [firsts.visit(changes, *each) for each in self.visits],
            "overlaps": len(overlaps(deliveries)),
            "deliveries": len(deliveries),
        }


def fleet_of(home: Home, size: Size, zookeeper: str, bootstrap: str) -> Fleet | Crowd:
    """Not started."""
    names = [] if size.crowd else [f"m{number + 1}" for number in range(MEMBERS)]
    definition = FleetDefinition(
        group=GROUP,
        topics=(TOPIC,),
        zookeeper=zookeeper,
        bootstrap=bootstrap,
        slots=tuple(SlotDefinition(name=name, release="", kind=MemberKind.AWARE) for name in names),
        properties=PROPERTIES,
    )
    if size.crowd:
        return Crowd(home=home, definition=definition, processes=5, count=10)
    return Fleet(home=home, definition=definition)


def _now() -> int:
    return int(time.time() * 1000)


def aims(small: dict[str, Any], large: dict[str, Any], crowd: dict[str, Any]) -> list[Aim]:
    """The figures that are aimed at."""
    peer = percentile(small["stop_all_unowned_s"], 0.95)
    ratio = percentile(small["unowned_s"], 0.95) / peer
    values = (
        ("p95_all_owned_s", percentile(small["all_owned_s"], 0.95), 1.0),
        ("p95_unowned_s", percentile(small["unowned_s"], 0.95), 1.0),
        ("p95_all_owned_60_s", percentile(large["all_owned_s"], 0.95), 2.0),
        ("p95_unowned_60_s", percentile(large["unowned_s"], 0.95), 2.0),
        ("ratio_to_stop_all", ratio, 0.2),
        ("p95_all_owned_200_s", percentile(crowd["all_owned_s"], 0.95), 5.0),
        ("overlaps", small["overlaps"] + large["overlaps"] + crowd["overlaps"], 0),
    )
    return [Aim(name=name, value=value, aim=aim) for name, value, aim in values]


def measure(size: Size, toggles: int, restarts: int, visits: int) -> dict[str, Any]:
    """One fleet from nothing to figures; leaves no process and no file."""
    with fresh_home() as home:
        bench = Bench(home, size)
        bench.run(toggles, restarts, visits)
        return bench.figures()


def main() -> int:
    """Measure; see `measuring.report`."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--toggles", type=int, default=20, help="toggles each way")
    arguments.add_argument("--restarts", type=int, default=5, help="stop-all/start-all rounds")
    arguments.add_argument("--visits", type=int, default=5, help="comings and goings of a Scala member")
    options = arguments.parse_args()
    for artifact in ALL:
        jars(artifact)
    small = measure(Size(partitions=6), options.toggles, options.restarts, options.visits)
    large = measure(Size(partitions=60), options.toggles, options.restarts, 0)
    crowd = measure(Size(partitions=200, rate=5.0, crowd=True), max(options.toggles // 4, 1), 0, 0)
    for figure in small["visits"][0] if small["visits"] else ():
        print(f"{figure:26} {percentile([each[figure] for each in small['visits']], 0.5):8.3f} median")
    return report("toggle", aims(small, large, crowd), [small, large, crowd])


if __name__ == "__main__":
    sys.exit(main())
