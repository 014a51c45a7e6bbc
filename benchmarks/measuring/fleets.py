"""Members as child processes of a benchmark: one in each, or many."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from groupshift.domain.modes import MemberKind
from groupshift_sandbox.fleet import FleetDefinition, FleetSlot, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.members import is_ready, member_command
from groupshift_sandbox.processes import Command, Running, is_running, send, start, wait_until

SETTLED_S = 60.0
_CROWD_S = 180.0


@dataclass(slots=True, kw_only=True)
class Fleet:
    """The slots of a definition, one process each."""

    home: Home
    definition: FleetDefinition
    places: list[FleetSlot] = field(default_factory=list)
    visits: int = 0

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self.definition.slots)

    def start(self) -> None:
        """Start all at once, as new incarnations, and wait until each says it runs."""
        self.places = [
            FleetSlot(name=slot.name, kind=slot.kind, wanted=slot.kind, incarnation=self._next(slot.name))
            for slot in self.definition.slots
        ]
        for place in self.places:
            process = start(self.home, member_command(self.home, self.definition, place))
            place.pid, place.ticks = process.pid, process.ticks
        wait_until(lambda: all(is_ready(self.home, place) for place in self.places), SETTLED_S, "members run")

    def visit(self, slot: str, release: str) -> Running:
        """Start one old member beside the fleet; its registration says when it is there."""
        definition = replace(
            self.definition,
            slots=(SlotDefinition(name=slot, release=release, kind=MemberKind.ZOOKEEPER),),
        )
        self.visits += 1
        place = FleetSlot(
            name=slot, kind=MemberKind.ZOOKEEPER, wanted=MemberKind.ZOOKEEPER, incarnation=self.visits
        )
        return start(self.home, member_command(self.home, definition, place))

    def stop(self) -> None:
        """SIGTERM to all at once; wait for the end of each."""
        living = [Running(name=p.occupant, pid=p.pid or 0, ticks=p.ticks or 0) for p in self.places]
        for process in living:
            send(process, signal.SIGTERM)
        wait_until(lambda: not any(is_running(process) for process in living), SETTLED_S, "members ended")

    def _next(self, slot: str) -> int:
        return max((place.incarnation for place in self.places if place.name == slot), default=0) + 1


@dataclass(slots=True, kw_only=True)
class Crowd:
    """``count`` members in each of ``processes`` processes (`measuring.crowd`)."""

    home: Home
    definition: FleetDefinition
    processes: int
    count: int
    running: list[Running] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many members there are."""
        return self.processes * self.count

    def start(self) -> None:
        """All at once; waits until each process says that its members have subscribed."""
        for number in range(self.processes):
            argv = [
                sys.executable,
                str(Path(__file__).with_name("crowd.py")),
                "--group",
                self.definition.group,
            ]
            argv += ["--topic", self.definition.topics[0], "--zookeeper", self.definition.zookeeper]
            argv += ["--bootstrap", self.definition.bootstrap, "--ledgers", str(self.home.ledgers)]
            argv += ["--first", str(number * self.count + 1), "--count", str(self.count)]
            self.running.append(start(self.home, Command(name=f"crowd-{number}", argv=argv)))
        wait_until(self._ready, _CROWD_S, f"{self.size} members have subscribed")

    def _ready(self) -> bool:
        return all("ready" in (self.home.logs / f"{each.name}.log").read_text() for each in self.running)

    def stop(self) -> None:
        """SIGTERM to all."""
        for process in self.running:
            send(process, signal.SIGTERM)
        wait_until(lambda: not any(map(is_running, self.running)), _CROWD_S, "all ended")
