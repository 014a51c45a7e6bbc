"""A simulated group: members in places, two offset stores, a mode node, and the other ports over it.

It is good enough to run a whole move. It settles at once: whoever reads it sees every partition assigned
evenly to the running members. Faults are plain attributes: stop a place, lower an offset, write the mode node
behind everyone's back. The other ports: mode switch, fleet driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from groupshift.domain.facts import Slot, SlotState
from groupshift.domain.group import GroupView, Member, Owner
from groupshift.domain.group_protocol import KafkaGroup, KafkaMember
from groupshift.domain.modes import ABSENT_MODE, Holder, MemberKind, Mode, ModeNode, effective_mode
from groupshift.domain.ownership_history import OwnershipInterval
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.rows import LogEndRow, OffsetRow
from groupshift.errors import Conflict, Rejected
from groupshift.ports.clock import Clock
from groupshift.ports.driver import (
    Change,
    ChangeStatus,
    ForPerson,
    Started,
    settled,
)

FIRST_SESSION = 100


@dataclass(slots=True)
class Occupant:
    """Who is in a place: its kind, how often it was started, whether it runs; ``held`` keeps it down."""

    kind: MemberKind
    incarnation: int = 1
    running: bool = True
    held: bool = False
    fence: int | None = 1


@dataclass(slots=True)
class World:
    """One group with its topics, as ZooKeeper, Kafka and the fleet know it."""

    clock: Clock
    group: str = "orders-app"
    places: dict[str, Occupant] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=lambda: {"orders": 6})
    mode: ModeNode = ABSENT_MODE
    holder: Holder | None = None
    znode: dict[TopicPartition, int] = field(default_factory=dict)
    kafka: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    kafka_state: str = "Stable"
    strangers: tuple[str, ...] = ()
    idle: set[TopicPartition] = field(default_factory=set)
    zxid: int = 1000
    mode_writes: int = 0

    @classmethod
    def of(cls, clock: Clock, kind: MemberKind = MemberKind.ZOOKEEPER, members: int = 3) -> World:
        """A healthy group of one kind with offsets in ZooKeeper."""
        world = cls(clock=clock, places={f"m{n}": Occupant(kind) for n in range(1, members + 1)})
        for partition in world.all_partitions():
            world.ends[partition] = 100
            world.znode[partition] = 90
            if kind is not MemberKind.ZOOKEEPER:
                world.kafka[partition] = 90
        return world

    def all_partitions(self) -> list[TopicPartition]:
        """Every partition, sorted."""
        return [TopicPartition(t, p) for t, count in sorted(self.partitions.items()) for p in range(count)]

    def identity(self, place: str) -> str:
        """The member id (old, aware) or client id (plain) of a place's occupant."""
        return f"{self.group}_{place}-{self.places[place].incarnation}"

    def tick(self, records: int = 10) -> None:
        """Records are produced, consumed and committed, as the kind of each partition's owner does it."""
        owners = self._assignment()
        for partition in self.all_partitions():
            if partition in self.idle:
                continue
            self.ends[partition] = self.ends.get(partition, 0) + records
            kind = self.places[owners[partition]].kind if partition in owners else None
            if kind in {MemberKind.AWARE, MemberKind.PLAIN}:
                self.kafka[partition] = self.ends[partition]
            if kind in {MemberKind.ZOOKEEPER, MemberKind.AWARE}:
                self.znode[partition] = self.ends[partition]

    def write_mode(self, data: bytes | None) -> ModeNode:
        """Set, create or (None) delete the mode node, whoever does it."""
        self.zxid += 1
        self.mode_writes += 1
        if data is None:
            self.mode = ABSENT_MODE
        elif self.mode.data is None:
            self.mode = ModeNode(data=data, version=0, czxid=self.zxid, mzxid=self.zxid)
        else:
            self.mode = replace(self.mode, data=data, version=self.mode.version + 1, mzxid=self.zxid)
        return self.mode

    def read(self, group: str) -> GroupView:
        """`groupshift.ports.cluster.GroupReader`."""
        if group != self.group:
            return GroupView(group=group, taken_at_ms=self.clock.now_ms(), exists=False, mode=ABSENT_MODE)
        registered = self._running(MemberKind.ZOOKEEPER, MemberKind.AWARE)
        members = self._members()
        return GroupView(
            group=group,
            taken_at_ms=self.clock.now_ms(),
            exists=True,
            mode=self.mode,
            ids=tuple(sorted(self.identity(place) for place in registered)),
            migration_ids=tuple(sorted(self.identity(place) for place in self._running(MemberKind.AWARE))),
            ids_pzxid=sum(occupant.incarnation for occupant in self.places.values()),
            members=tuple(sorted(members, key=lambda member: member.member_id)),
            owners=self._owners(),
            kafka=self._kafka_group(),
            zookeeper_offsets=self._committed(self.znode),
            kafka_offsets=self._committed(self.kafka),
            log_ends=tuple(
                LogEndRow(topic=p.topic, partition=p.partition, log_start=0, log_end=self.ends.get(p, 0))
                for p in self.all_partitions()
            ),
            problems=self.problems,
        )

    def last_delivered(self, group: str) -> dict[TopicPartition, int]:
        """`groupshift.ports.evidence.Ledger`."""
        return {p: end - 1 for p, end in self.ends.items()} if group == self.group else {}

    def delivered_below(self, group: str, bounds: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """`groupshift.ports.evidence.Ledger`: every record was delivered."""
        delivered = self.last_delivered(group)
        return {at: min(delivered[at], bound - 1) for at, bound in bounds.items() if at in delivered}

    def delivered(self, group: str, from_ms: int, to_ms: int) -> None:
        """`groupshift.ports.evidence.Ledger`: as `intervals`."""

    def intervals(self, group: str, from_ms: int, to_ms: int) -> Sequence[OwnershipInterval]:  # noqa: ARG002 - the port
        """`groupshift.ports.evidence.Ledger`: simulated members keep no ledgers of single deliveries."""
        return ()

    def _running(self, *kinds: MemberKind) -> list[str]:
        return [n for n, o in sorted(self.places.items()) if o.running and o.kind in kinds]

    def _effective(self) -> Mode:
        ids = [self.identity(place) for place in self._running(MemberKind.ZOOKEEPER, MemberKind.AWARE)]
        aware = [self.identity(place) for place in self._running(MemberKind.AWARE)]
        return effective_mode(self.mode, ids, aware)

    def _members(self) -> list[Member]:
        subscription = tuple((topic, 1) for topic in sorted(self.partitions))
        members = []
        for number, (place, occupant) in enumerate(sorted(self.places.items())):
            aware = occupant.kind is MemberKind.AWARE
            plain = occupant.kind is MemberKind.PLAIN
            if occupant.running:
                members.append(
                    Member(
                        member_id=self.identity(place) + ("-uuid" if plain else ""),
                        kind=occupant.kind,
                        client_id=None if occupant.kind is MemberKind.ZOOKEEPER else self.identity(place),
                        subscription=subscription,
                        fence=occupant.fence if aware else None,
                        mode=self._effective() if aware else None,
                        acting_on=self.mode.identity if aware else None,
                        session_id=None if plain else FIRST_SESSION + number,
                    )
                )
        strange = [
            Member(member_id=name, kind=MemberKind.PLAIN, client_id=name, subscription=subscription)
            for name in self.strangers
        ]
        return [*members, *strange]

    def _assignment(self) -> dict[TopicPartition, str]:
        """Partition to place, in contiguous even shares over the running places."""
        places = self._running(*MemberKind)
        partitions = self.all_partitions()
        if not places:
            return {}
        low, more = divmod(len(partitions), len(places))
        sizes = [low + (1 if n < more else 0) for n in range(len(places))]
        names = [place for place, size in zip(places, sizes, strict=True) for _ in range(size)]
        return dict(zip(partitions, names, strict=True))

    def _owners(self) -> tuple[Owner, ...]:
        numbers = {place: number for number, place in enumerate(sorted(self.places))}
        return tuple(
            Owner(
                partition=partition,
                thread_id=f"{self.identity(place)}-0",
                czxid=self.zxid,
                session_id=FIRST_SESSION + numbers[place],
            )
            for partition, place in self._assignment().items()
            if self.places[place].kind is not MemberKind.PLAIN
        )

    def _kafka_group(self) -> KafkaGroup:
        joined = self._running(MemberKind.AWARE, MemberKind.PLAIN)
        if not joined and not self.strangers:
            return KafkaGroup(state="Empty" if self.kafka else "Dead")
        assignment = self._assignment()
        ours = [
            KafkaMember(
                member_id=f"{self.identity(place)}-uuid",
                client_id=self.identity(place),
                host="127.0.0.1",
                assigned=frozenset(p for p, owner in assignment.items() if owner == place),
            )
            for place in joined
        ]
        strange = [KafkaMember(member_id=name, client_id=name, host="127.0.0.1") for name in self.strangers]
        return KafkaGroup(state=self.kafka_state, protocol="range", members=(*ours, *strange))

    def _committed(self, offsets: dict[TopicPartition, int]) -> tuple[OffsetRow, ...]:
        return tuple(
            OffsetRow(group=self.group, topic=p.topic, partition=p.partition, offset=offset)
            for p, offset in sorted(offsets.items())
        )


@dataclass(slots=True)
class MemoryModeSwitch:
    """`groupshift.ports.changes.ModeSwitch` of a simulated group, and of others by their names."""

    world: World
    others: Mapping[str, World] = field(default_factory=dict)

    def of(self, group: str) -> World:
        """The group of this name."""
        return self.others.get(group, self.world)

    def read(self, group: str) -> ModeNode:
        """See the port."""
        return self.of(group).read(group).mode

    def take(self, group: str, holder: Holder) -> None:
        """See the port."""
        known = self.of(group).holder
        if known and known.fences(holder):
            raise Conflict(f"{holder} may not change the mode of {group} any more: {known} does")
        self.of(group).holder = holder

    def compare_and_set(
        self, group: str, expected: ModeNode, to: Mode, *, holder: Holder | None = None
    ) -> ModeNode:
        """See the port."""
        self._demand_holder(group, holder)
        node = self._demand(group, expected)
        wanted = to.value.encode()
        return node if node.data == wanted else self.of(group).write_mode(wanted)

    def delete(self, group: str, expected: ModeNode, *, holder: Holder | None = None) -> None:
        """See the port."""
        if self.of(group).mode.data is not None:
            self._demand_holder(group, holder)
            self._demand(group, expected)
            self.of(group).write_mode(None)

    def _demand_holder(self, group: str, holder: Holder | None) -> None:
        now = self.of(group).holder
        if holder is not None and holder != now:
            raise Conflict(f"{holder} may not change the mode of {group} any more: {now} does")

    def _demand(self, group: str, expected: ModeNode) -> ModeNode:
        node = self.read(group)
        if (node.identity, node.version) != (expected.identity, expected.version):
            raise Conflict(f"the mode node of {group} is no longer version {expected.version}")
        return node


@dataclass(slots=True)
class MemoryFleet:
    """`groupshift.ports.driver.FleetDriver`: applies a change at once, except in held places.

    ``pending`` makes it a driver that only instructs people; ``knows`` False one that knows no slots."""

    world: World
    applied: dict[str, int] = field(default_factory=dict)
    pending: bool = False
    fences: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, tuple[tuple[str, ...], MemberKind]] = field(default_factory=dict)
    placed: dict[str, str] = field(default_factory=dict)

    def slots(self, group: str) -> tuple[Slot, ...]:
        """See the port."""
        if self.pending or group != self.world.group:
            return ()
        return tuple(
            Slot(
                name=name,
                kind=occupant.kind,
                state=SlotState.RUNNING if occupant.running else SlotState.DOWN,
                member_id=self.world.identity(name),
                change_id=self.placed.get(name),
            )
            for name, occupant in sorted(self.world.places.items())
        )

    def start(self, change: Change) -> Started | ForPerson:
        """See the port."""
        if change.token < self.fences.get(change.fence, 0):
            raise Conflict(f"token {change.token} of {change.fence} is void: a newer run was here since")
        unknown = [name for name in change.slots if name not in self.world.places]
        if unknown and not self.pending:
            raise Rejected(f"slot {unknown[0]} is unknown")
        if self.pending:
            text = f"deploy {change.to} members on {', '.join(change.slots)}"
            return ForPerson(change_id=change.change_id, instruction=text)
        if self.accepted.setdefault(change.change_id, (change.slots, change.to)) != (change.slots, change.to):
            raise Rejected(f"change {change.change_id} was accepted before for something else")
        self.fences[change.fence] = change.token
        if change.change_id not in self.applied:
            self.applied[change.change_id] = 0
            self.placed |= dict.fromkeys(change.slots, change.change_id)
            self.deploy(
                [name for name in change.slots if self.world.places[name].kind != change.to], change.to
            )
        self.applied[change.change_id] += 1
        return Started(change_id=change.change_id)

    def deploy(self, slots: Sequence[str], to: MemberKind) -> None:
        """What the driver does, or a person in its place."""
        for name in slots:
            occupant = self.world.places[name]
            if not occupant.held:
                occupant.kind, occupant.running = to, to is not MemberKind.VACANT
                occupant.incarnation += 1
        self.world.tick()

    def took_up(self, change: Change) -> bool:
        """See the port."""
        return change.change_id in self.accepted

    def observe(self, change: Change) -> ChangeStatus:
        """See the port."""
        if self.pending:
            return ChangeStatus(change_id=change.change_id, done=False, detail="waiting for a person")
        return settled(self.slots(change.group), change, "the simulated fleet")


class Killed(BaseException):
    """Stands for SIGKILL in tests: no handler of the code under test may catch it."""
