"""A group of real Kafka members under a supervisor, with a producer of numbered records: what a move of the
group's protocol is tried on, and what its members tell of it afterwards."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.adapters.drivers.process import ProcessFleet, ask
from groupshift.adapters.kafka.broker_views import LiveProtocolViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.system import SystemClock
from groupshift.domain.group_protocol import POLICY, KafkaGroup
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Transient
from groupshift.ports.driver import Change, ChangeStatus, Started
from groupshift_sandbox.client_members.commands import CLIENTS, ClientMember, command
from groupshift_sandbox.client_members.events import (
    MemberEvent,
    Owned,
    delivered,
    gaps,
    overlapping,
    owned,
    read_events,
)
from groupshift_sandbox.down import down
from groupshift_sandbox.fleet import FleetDefinition, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import CONSUMER_PROTOCOL, KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.processes import Running, marked, stop, wait_until
from groupshift_sandbox.state import write_document
from groupshift_sandbox.up import UpOptions, start_producer, start_supervisor, write_settings

PATIENCE_S = 180.0
STOP_S = 120.0
CONFLUENT = CLIENTS[0]
T = TypeVar("T")


def patiently(work: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """What ``work`` returns; it is done again while a broker or the supervisor does not answer in time, for
    on a machine with too much to do either may get no processor for ten seconds. ``work`` must be safe to
    repeat. Raises what it raised last."""
    end = time.monotonic() + patience_s
    while True:
        try:
            return work()
        except (Transient, KafkaException):
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """``clients`` has one entry for each place (m1, m2, ...); ``kind`` is that of the first members;
    ``static`` members have the instance id ``<group>-<place>``; ``rate`` is records/s on each partition;
    ``properties`` are the members' own by kind (``{"plain": {...}, "native": {...}}``)."""

    group: str = "orders-app"
    topic: str = "orders"
    partitions: int = 6
    clients: tuple[str, ...] = (CONFLUENT,) * 3
    kind: MemberKind = MemberKind.PLAIN
    assignor: str = ""
    remote_assignor: str = ""
    static: bool = False
    commit: str = "auto"
    rate: float = 20.0
    properties: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the places."""
        return tuple(f"m{number}" for number in range(1, len(self.clients) + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the members told. ``lost`` are offsets that nobody was delivered; ``repeated`` says how often
    each of the others came beyond the first time, and ``repeated_within`` are those that came twice while one
    member owned the partition, so that no hand-over explains it; ``unowned_ms`` are the gaps between owners
    by partition, ``all_unowned_ms`` those in which no partition had one; ``overlaps`` are two owners at one
    time; ``fatal`` are errors after which a member gets nothing more, also where it does not call them so."""

    lost: Mapping[TopicPartition, Sequence[int]]
    repeated: Mapping[TopicPartition, Mapping[int, int]]
    repeated_within: Mapping[TopicPartition, Sequence[int]]
    unowned_ms: Mapping[TopicPartition, Sequence[int]]
    all_unowned_ms: Sequence[int]
    overlaps: Sequence[tuple[TopicPartition, Owned, Owned]]
    fatal: Sequence[MemberEvent]

    @property
    def longest_unowned_ms(self) -> int:
        """0 when every partition always had an owner."""
        return max((gap for gaps in self.unowned_ms.values() for gap in gaps), default=0)


def account(
    events: Sequence[MemberEvent],
    ends: Mapping[TopicPartition, int],
    killed_ms: Mapping[str, int] | None = None,
) -> Account:
    """Hold ``events`` of all members against the log ends. ``killed_ms`` is as `events.owned` has it."""
    came = {at: Counter(offsets) for at, offsets in delivered(events).items()}
    owners = owned(events, killed_ms)
    unowned = {at: gaps(owners.get(at, ())) for at in ends}
    whole = gaps(sorted((one for each in owners.values() for one in each), key=lambda x: x.from_ms))
    return Account(
        lost={
            at: found
            for at, end in ends.items()
            if (found := sorted(set(range(end)) - set(came.get(at, ()))))
        },
        repeated={
            at: more for at, seen in came.items() if (more := {o: n - 1 for o, n in seen.items() if n > 1})
        },
        repeated_within=_repeated_within(events),
        unowned_ms={at: [to - since for since, to in found] for at, found in unowned.items()},
        all_unowned_ms=[to - since for since, to in whole],
        overlaps=[(at, *pair) for at, intervals in owners.items() for pair in overlapping(intervals)],
        fatal=[each for each in events if each.event == "error" and _ends_it(each)],
    )


def _repeated_within(events: Sequence[MemberEvent]) -> dict[TopicPartition, list[int]]:
    """By partition, offsets that came twice to one member without its having given the partition up."""
    seen: dict[tuple[str, TopicPartition], set[int]] = defaultdict(set)
    found: dict[TopicPartition, list[int]] = defaultdict(list)
    for each in events:
        if each.event in {"revoked", "lost"}:
            for at in each.partitions:
                seen.pop((each.member, at), None)
        if each.event == "records":
            at = TopicPartition(each.fields["topic"], int(each.fields["partition"]))
            came = range(int(each.fields["first"]), int(each.fields["last"]) + 1)
            found[at] += [offset for offset in came if offset in seen[each.member, at]]
            seen[each.member, at] |= set(came)
    return {at: offsets for at, offsets in found.items() if offsets}


def _ends_it(error: MemberEvent) -> bool:
    """Whether nothing comes after it: _FATAL (-150) of a message is one, though `fatal` is false."""
    return bool(error.fields["fatal"]) or error.fields["code"] == KafkaError._FATAL


class ProtocolFleet:
    """A running fleet; `fleet_at` makes one. ``driver`` is what the tool uses; ``home`` is its own, apart
    from the brokers'."""

    def __init__(self, home: Home, bootstrap: str, options: FleetOptions) -> None:
        self.home, self.bootstrap, self.options = home, bootstrap, options
        self.driver = ProcessFleet(home.supervisor_socket)
        self._views = LiveProtocolViews(KafkaCluster(bootstrap, timeout_s=60.0), SystemClock())
        self._producer: Running | None = None
        self._killed_ms: dict[str, int] = {}

    @property
    def partitions(self) -> list[TopicPartition]:
        """Of its topic."""
        return [TopicPartition(self.options.topic, number) for number in range(self.options.partitions)]

    def begin(self) -> None:
        """Start the supervisor, all members at once, and the producer; every partition gets an owner."""
        write_document(self.home.fleet_file, definition_of(self.bootstrap, self.options).to_json())
        for client in set(self.options.clients):
            fetch(self.home, client)
        start_supervisor(self.home)
        self.carry_out(self.change("begin", self.options.kind))
        self.await_owned()
        told = UpOptions(topic=self.options.topic, partitions=self.options.partitions, rate=self.options.rate)
        self._producer = start_producer(self.home, told, self.bootstrap)

    def end(self) -> None:
        """Members, producer and supervisor, by their ids."""
        self._views.close()
        down(self.home)

    def settings(self) -> Path:
        """A settings file for the tool: these brokers, this fleet, journal and evidence in its home. No
        ZooKeeper answers at the address that it names."""
        write_settings(self.home, "127.0.0.1:1", self.bootstrap)
        return self.home.settings_file

    def change(self, change_id: str, to: MemberKind, *slots: str, token: int = 1) -> Change:
        """A change of these slots, or of all."""
        named = slots or self.options.slots
        return Change(
            change_id=change_id, group=self.options.group, slots=named, to=to, fence="fleet", token=token
        )

    def carry_out(self, change: Change, deadline_s: float = PATIENCE_S) -> ChangeStatus:
        """Start it at the driver and wait until it is done."""
        assert patiently(lambda: self.driver.start(change)) == Started(change_id=change.change_id)

        def status() -> ChangeStatus:
            return patiently(lambda: self.driver.observe(change))

        wait_until(lambda: status().done, deadline_s, f"{change.change_id} done", every_s=0.1)
        return status()

    def kill(self, slot: str) -> None:
        """SIGKILL to the present occupant; the supervisor starts another."""
        occupant = self._occupants()[slot]
        ask(self.home.supervisor_socket, {"verb": "signal", "slot": slot, "signal": "KILL"})
        self._killed_ms[occupant] = time.time_ns() // 1_000_000

    def _occupants(self) -> dict[str, str]:
        places = json.loads(self.home.supervisor_file.read_text())["places"]
        return {name: f"{name}-{place['incarnation']}" for name, place in places.items()}

    def look(self) -> KafkaGroup:
        """The group as its coordinator tells it."""
        return patiently(lambda: self._views.look(self.options.group).group)

    def await_group(self, holds: Callable[[KafkaGroup], bool], what: str) -> KafkaGroup:
        """Wait until the group is so, and give it."""
        seen: list[KafkaGroup] = []

        def met() -> bool:
            seen.append(self.look())
            return holds(seen[-1])

        wait_until(met, PATIENCE_S, f"group {self.options.group} {what}", every_s=0.2)
        return seen[-1]

    def events(self) -> list[MemberEvent]:
        """Of all members so far, those that are gone included."""
        files = sorted(self.home.members.glob("*.events.jsonl"))
        return [event for file in files for event in read_events(file)]

    def owners(self) -> dict[TopicPartition, list[str]]:
        """Who owns each partition now, by its occupant's name (``m1-1``)."""
        found = owned(self.events(), self._killed_ms)
        return {
            at: [each.member for each in found.get(at, ()) if each.to_ms is None] for at in self.partitions
        }

    def await_owned(self) -> None:
        """Wait until every partition has exactly one owner."""
        wait_until(
            lambda: all(len(each) == 1 for each in self.owners().values()),
            PATIENCE_S,
            "every partition has an owner",
            every_s=0.2,
        )

    def ends(self) -> dict[TopicPartition, int]:
        """The log ends now."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "protocol-fleet-ends"})

        def told() -> dict[TopicPartition, int]:
            return {at: int(consumer.get_watermark_offsets(_as_asked(at), timeout=60.0)[1]) for at in wanted}

        wanted = self.partitions
        try:
            return patiently(told)
        finally:
            consumer.close()

    def committed(self) -> dict[TopicPartition, int]:
        """The group's committed offsets now; below 0 where there is none."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.options.group})
        asked = [_as_asked(at) for at in self.partitions]
        try:
            found = patiently(lambda: consumer.committed(asked, timeout=60.0))
            return {TopicPartition(each.topic, each.partition): int(each.offset) for each in found}
        finally:
            consumer.close()

    def await_written(self, more: int) -> None:
        """Wait until every partition has got this many records from now on."""
        before = self.ends()
        wait_until(
            lambda: all(end >= before[at] + more for at, end in self.ends().items()),
            PATIENCE_S,
            f"{more} more records on every partition",
            every_s=0.5,
        )

    def settle(self) -> Account:
        """End the producer, wait until every record was delivered to somebody, and draw up the account.

        Raises `Transient`, naming how many are missing, when they are not."""
        if self._producer is not None:
            stop(self._producer, 40.0)
        ends = self.ends()
        missing = Counter[str]()

        def complete() -> bool:
            lost = account(self.events(), ends, self._killed_ms).lost
            missing["records"] = sum(map(len, lost.values()))
            return not lost

        wait_until(complete, PATIENCE_S, f"all of {sum(ends.values())} records are delivered", every_s=0.5)
        return account(self.events(), ends, self._killed_ms)


def _as_asked(at: TopicPartition) -> KafkaPartition:
    return KafkaPartition(at.topic, at.partition)


def definition_of(bootstrap: str, options: FleetOptions) -> FleetDefinition:
    """What the supervisor runs: places that are empty at first, so that all are filled at once."""
    slots = tuple(
        SlotDefinition(
            name=name,
            kind=MemberKind.VACANT,
            client=client,
            assignor=options.assignor,
            remote_assignor=options.remote_assignor,
            instance_id=f"{options.group}-{name}" if options.static else "",
            commit=options.commit,
        )
        for name, client in zip(options.slots, options.clients, strict=True)
    )
    return FleetDefinition(
        group=options.group,
        topics=(options.topic,),
        bootstrap=bootstrap,
        slots=slots,
        properties=options.properties,
        stop_s=STOP_S,
    )


def fetch(home: Home, client: str) -> None:
    """What this client needs, so that no supervisor waits for it."""
    command(home, ClientMember(client=client, group="g", name="fetched", topic="t", bootstrap="127.0.0.1:1"))


@contextmanager
def protocol_cluster(
    folder: Path, release: str = "4.3.1", properties: Mapping[str, str] | None = None, nodes: int = 1
) -> Iterator[Cluster]:
    """Brokers of a release whose policy is bidirectional; every process of them is ended."""
    home = Home(folder / "cluster").create()
    wanted = {**CONSUMER_PROTOCOL} if release.startswith("3.") else {POLICY: "bidirectional"}
    options = KraftOptions(
        release=release, nodes=nodes, heap="384m", properties={**wanted, **(properties or {})}
    )
    try:
        yield start_kraft(home, options)
    finally:
        for process in reversed(marked(home)):
            stop(process, 20.0)


@contextmanager
def fleet_at(bootstrap: str, folder: Path, options: FleetOptions = FleetOptions()) -> Iterator[ProtocolFleet]:
    """A fleet with its topic and producer at these brokers, of which every partition is owned."""
    create_topic(bootstrap, options.topic, options.partitions)
    fleet = ProtocolFleet(Home(folder / "fleet").create(), bootstrap, options)
    try:
        fleet.begin()
        yield fleet
    finally:
        fleet.end()
