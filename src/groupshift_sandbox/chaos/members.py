"""The six members of a chaos run: who they are, and how they are started, stopped and reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupshift.domain.modes import MemberKind
from groupshift_sandbox.chaos.schedule import Fleet
from groupshift_sandbox.faults import Link, start_relay
from groupshift_sandbox.fleet import FleetDefinition, FleetSlot, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import Broker
from groupshift_sandbox.members import is_ready, member_command, member_id
from groupshift_sandbox.processes import Running, free_port, is_running, start

RELEASE = "1.1.1"
SESSION_MS = "6000"
PROPERTIES: Mapping[str, Mapping[str, str]] = {
    MemberKind.ZOOKEEPER: {"zookeeper.session.timeout.ms": SESSION_MS},
    MemberKind.AWARE: {
        "zookeeper.session.timeout.ms": SESSION_MS,
        "session.timeout.ms": SESSION_MS,
        # N6: with range on both sides a toggle moves no partition
        "coordination.migration.partition.assignment.strategy": "roundrobin,range",
        # what was not written down was not delivered: a kill between the two must not look like a loss
        "enable.auto.offset.store": "false",
        "wake.old.members.ms": "10000",
    },
}


@dataclass(slots=True)
class Members:
    """The fleet as processes; ``links`` are slot → (to ZooKeeper, to Kafka), for ours."""

    home: Home
    definition: FleetDefinition
    places: dict[str, FleetSlot]
    links: dict[str, tuple[Link, Link]]
    processes: dict[str, Running] = field(default_factory=dict)

    @classmethod
    def make(
        cls, home: Home, fleet: Fleet, *, group: str, topic: str, zookeeper: str, broker: Broker
    ) -> Members:
        """Start the relays; no member yet."""
        links = {
            slot: (
                start_relay(home, f"{slot}-zookeeper", listen=free_port(), target=zookeeper),
                start_relay(
                    home,
                    f"{slot}-kafka",
                    listen=listener.advertised_port,
                    target=f"127.0.0.1:{listener.port}",
                ),
            )
            for slot, listener in zip(fleet.ours, broker.relayed, strict=True)
        }
        slots = [SlotDefinition(name=name, release=RELEASE, kind=MemberKind.ZOOKEEPER) for name in fleet.old]
        slots += [
            SlotDefinition(
                name=name,
                release="",
                kind=MemberKind.AWARE,
                zookeeper=first.address,
                bootstrap=second.address,
            )
            for name, (first, second) in links.items()
        ]
        definition = FleetDefinition(
            group=group, topics=(topic,), zookeeper=zookeeper, bootstrap=broker.address,
            slots=tuple(slots), properties=PROPERTIES,
        )  # fmt: skip
        places = {slot.name: FleetSlot(name=slot.name, kind=slot.kind, wanted=slot.kind) for slot in slots}
        return cls(home=home, definition=definition, places=places, links=links)

    def member_id(self, slot: str) -> str:
        """The consumer id of the present occupant."""
        return member_id(self.definition, self.places[slot])

    def start(self, slot: str) -> None:
        """A new incarnation, unless one runs."""
        place = self.places[slot]
        if slot in self.processes and is_running(self.processes[slot]):
            return
        place.incarnation += 1
        process = start(self.home, member_command(self.home, self.definition, place))
        place.pid, place.ticks = process.pid, process.ticks
        self.processes[slot] = process

    def revive(self) -> list[str]:
        """Start again whoever ended by itself; an old member does when its first rebalances all fail."""
        dead = [slot for slot, process in self.processes.items() if not is_running(process)]
        for slot in dead:
            self.start(slot)
        return dead

    def ready(self, slot: str) -> bool:
        """Whether the present occupant runs and says so."""
        return is_running(self.processes[slot]) and is_ready(self.home, self.places[slot])

    def restore(self, slot: str) -> None:
        """Both links as they should be."""
        for link in self.links.get(slot, ()):
            link.restore()
