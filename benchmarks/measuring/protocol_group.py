"""A group whose protocol a benchmark changes: with the tool, or by stopping and starting everybody."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groupshift.adapters.drivers.process import ProcessFleet
from groupshift.bootstrap.moves import Place, journal, opened, tools_of
from groupshift.domain.group_protocol import Protocol
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import RunState, SparkJob
from groupshift.engine.begin import begin, claim
from groupshift.engine.move import RunOptions, Tools
from groupshift.engine.progress import Ended
from groupshift.engine.questions_and_approvers import Answer, Question
from groupshift.engine.run import drive
from groupshift.moves.protocol.facts import ProtocolPorts, ProtocolRequest
from groupshift.moves.protocol.move import ProtocolMove
from groupshift.moves.protocol.plan_and_rollback import KIND
from groupshift.ports.driver import Change
from groupshift.settings import parse
from groupshift_sandbox.client_members.commands import CLIENTS
from groupshift_sandbox.client_members.events import delivered, overlapping, owned, read_events
from groupshift_sandbox.down import down
from groupshift_sandbox.fleet import FleetDefinition, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic, log_ends
from groupshift_sandbox.processes import known, stop, wait_until
from groupshift_sandbox.state import write_document
from groupshift_sandbox.up import UpOptions, start_producer, start_supervisor
from groupshift_testing.evidence import MemoryEvidence, MemoryProof
from measuring.owner_gaps import all_unowned_s, longest_gaps_s

MEMBERS, PARTITIONS, RATE = 5, 6, 20.0
PATIENCE_S = 240.0
_CLIENT = CLIENTS[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """The move over one group; before and after of an act are compared in this process instead of by
    Spark."""

    tools: Tools
    ports: ProtocolPorts
    proof: MemoryProof
    move: ProtocolMove = field(default_factory=ProtocolMove)

    def begin(self, group: str, to: Protocol) -> str:
        """Plan a run and return its name."""
        request = ProtocolRequest(group=group, to=to, soak=0)
        return begin(self.move, self.tools, self.ports, request, self._options(), execute=True).run

    def drive(self, run: str) -> None:
        """To its end. Fails when it has not moved."""
        record = self.tools.runs.find(run)
        progress = drive(claim(self.move, self.tools, self.ports, record, self._options()))
        assert isinstance(progress, Ended), progress
        assert progress.closing.state is RunState.MOVED, progress.closing.reason

    def _options(self) -> RunOptions:
        return RunOptions(
            who="bench", holder="bench", waits_for_people=True, submit=self._submit, decide=_agreed
        )

    def _submit(self, job: SparkJob) -> None:
        self.proof.run(job)


def _agreed(question: Question) -> Answer | None:
    """Approve a plan, never a doubt."""
    if Choice.APPROVE not in question.answers:
        return None
    return Answer(choice=Choice.APPROVE, who="bench", fingerprint=question.fingerprint)


@dataclass(slots=True, kw_only=True)
class KafkaGroup:
    """A running group with its own supervisor and producer; `protocol_group` makes one. ``began_ms`` are the
    moments at which its protocol began to be changed."""

    home: Home
    bootstrap: str
    name: str
    tool: Tool
    began_ms: list[int] = field(default_factory=list)

    @property
    def _driver(self) -> ProcessFleet:
        return ProcessFleet(self.home.supervisor_socket)

    def move(self, to: Protocol) -> float:
        """With the tool, one member after the other; how many seconds it took. Fails when it was not."""
        run = self.tool.begin(self.name, to)
        self.began_ms.append(_now())
        self.tool.drive(run)
        return (_now() - self.began_ms[-1]) / 1000

    def restart(self, to: Protocol) -> float:
        """Without the tool: SIGTERM to all, and when all have ended all are started with the other protocol;
        how many seconds until every partition had an owner."""
        self.began_ms.append(_now())
        number = len(self.began_ms)
        self.change(f"stop-{number}", MemberKind.VACANT)
        self.change(f"start-{number}", KIND[to])
        self.await_owned()
        return (_now() - self.began_ms[-1]) / 1000

    def change(self, change_id: str, to: MemberKind) -> None:
        """Every place by the fleet driver; waits until it is done."""
        slots = tuple(slot.name for slot in self._driver.slots(self.name))
        change = Change(change_id=change_id, group=self.name, slots=slots, to=to, fence="bench", token=1)
        self._driver.start(change)
        wait_until(lambda: self._driver.observe(change).done, PATIENCE_S, f"{change_id} done", every_s=0.1)

    def await_owned(self) -> None:
        """Wait until every partition has one owner."""

        def whole() -> bool:
            now = [[each for each in found if each.to_ms is None] for found in self.owners().values()]
            return [len(each) for each in now] == [1] * PARTITIONS

        wait_until(whole, PATIENCE_S, "every partition has an owner", every_s=0.2)

    def owners(self) -> dict[TopicPartition, list[Any]]:
        """Who owned each partition from when to when."""
        return dict(owned(self._events()))

    def figures(self) -> dict[str, Any]:
        """Ends the producer, waits until all it wrote is delivered, and draws everything up; seconds."""
        producer = known(self.home, "producer")
        assert producer is not None
        stop(producer, 60.0)
        ended = _now()
        ends = log_ends(self.bootstrap, self.name, PARTITIONS)
        wait_until(lambda: not self._missing(ends), PATIENCE_S, "all records are delivered", every_s=0.5)
        owners, moments = self.owners(), [*self.began_ms, ended]
        twice = [pair for intervals in owners.values() for pair in overlapping(intervals)]
        return {
            "moves": len(self.began_ms),
            "unowned_s": longest_gaps_s(owners, moments),
            "all_unowned_s": all_unowned_s(owners, moments),
            "records": sum(ends.values()),
            "lost": self._missing(ends),
            "overlaps": len(twice),
        }

    def _missing(self, ends: Mapping[TopicPartition, int]) -> int:
        came = delivered(self._events())
        return sum(len(set(range(end)) - set(came.get(at, ()))) for at, end in ends.items())

    def _events(self) -> list[Any]:
        files = sorted(self.home.members.glob("*.events.jsonl"))
        return [event for file in files for event in read_events(file)]


@contextmanager
def protocol_group(root: Path, bootstrap: str, name: str, *, static: bool) -> Iterator[KafkaGroup]:
    """Five classic members of confluent-kafka with the assignor range and stock settings, and a writer."""
    home = Home(root / name).create()
    create_topic(bootstrap, name, PARTITIONS)
    slots = tuple(
        SlotDefinition(
            name=f"m{number}", kind=MemberKind.VACANT, client=_CLIENT, assignor="range",
            remote_assignor="range", instance_id=f"{name}-m{number}" if static else "",
        )
        for number in range(1, MEMBERS + 1)
    )  # fmt: skip
    definition = FleetDefinition(group=name, topics=(name,), bootstrap=bootstrap, slots=slots, stop_s=120.0)
    write_document(home.fleet_file, definition.to_json())
    try:
        start_supervisor(home)
        with _tool(home, bootstrap, name) as tool:
            group = KafkaGroup(home=home, bootstrap=bootstrap, name=name, tool=tool)
            group.change("begin", MemberKind.PLAIN)
            group.await_owned()
            start_producer(home, UpOptions(topic=name, partitions=PARTITIONS, rate=RATE), bootstrap)
            yield group
    finally:
        ended = down(home)
        sys.stdout.write(f"  {name}: {ended} processes ended\n")


@contextmanager
def _tool(home: Home, bootstrap: str, group: str) -> Iterator[Tool]:
    """The move over this group; connections are closed. Nothing is sealed: evidence is kept in memory."""
    settings = parse(
        {
            "kafka": {"bootstrap_servers": bootstrap},
            "fleet": {"driver": "process", "socket": str(home.supervisor_socket)},
            "journal": {"url": f"sqlite:///{home.root}/journal.db"},
            "evidence": {"root": str(home.root / "evidence")},
            "thresholds": {"patience_s": 150, "settle_s": int(PATIENCE_S), "commit_interval_ms": 1000},
        }
    )
    evidence, request = MemoryEvidence(), ProtocolRequest(group=group, to=Protocol.CONSUMER)
    with journal(settings) as runs, opened(ProtocolMove(), Place(settings=settings), request) as ports:
        yield Tool(
            tools=replace(tools_of(runs, settings), seal=None),
            ports=replace(ports, evidence=evidence),
            proof=MemoryProof(evidence),
        )


def _now() -> int:
    return time.time_ns() // 1_000_000
