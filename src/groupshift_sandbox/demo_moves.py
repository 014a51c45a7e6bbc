"""Demos of the moves ``protocol``, ``downgrade`` and ``expansion``: real servers, the commands that a person
types, and what came of it. Each command is shown before it runs."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from confluent_kafka import Consumer

from groupshift.adapters.kafka.broker_views import LivePlacementViews, LiveProtocolViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.system import SystemClock
from groupshift.bootstrap.connect import cluster_acts, group_snapshots
from groupshift.bootstrap.moves import journal
from groupshift.cli.main import main
from groupshift.domain.foreign_text_quoting import command
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.group_protocol import POLICY
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition, grouped
from groupshift.engine.status import status_of
from groupshift.errors import Broken, Transient
from groupshift.settings import load as settings_at
from groupshift_sandbox.client_members.commands import CLIENTS
from groupshift_sandbox.client_members.events import MemberEvent, deliveries, owned, read_events
from groupshift_sandbox.cluster_file import load as cluster_at
from groupshift_sandbox.committing import Commits, commit
from groupshift_sandbox.demo import TOPIC, Tell, drained
from groupshift_sandbox.demo_table import DemoResult, Proof, phases, repeated_at, rows, taken_over
from groupshift_sandbox.fleet import FleetDefinition, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.ledger import lost
from groupshift_sandbox.processes import wait_until
from groupshift_sandbox.state import write_document
from groupshift_sandbox.up import UpOptions, slots_of, start_producer, start_supervisor, write_settings

GROUP, NATIVE = "orders-app", "orders-native"
GROUPS = tuple(f"team-{number:02}" for number in range(24))
NOW, OLDER = "4.3.1", "3.9.2"
"""Releases of the demo of a downgrade."""
BEFORE, AFTER = 5, 10
"""Partitions of the offsets topic in the demo of an expansion."""
_PARTITIONS = 2
_READY_S = 300
_ANSWERS_S = 120.0
_TRANSIENT, _INTERRUPTED = 4, 130
_TRIES = 5
_TIMEOUT_S = 60.0
T = TypeVar("T")
Offsets = Mapping[tuple[str, int], tuple[int, str]]
"""Offset and metadata by group and partition."""


@dataclass(slots=True, kw_only=True)
class MoveDemo(ABC):
    """A move there and, where a way leads back, back. What it changes is ``what``; ``groups`` are those whose
    committed offsets have to stay equal, ``request`` are options of the move, ``more`` those of its run."""

    home: Home
    tell: Tell
    cluster: Cluster = field(init=False)
    name: ClassVar[str]
    what: ClassVar[str]
    request: ClassVar[tuple[str, ...]]
    more: ClassVar[tuple[str, ...]] = ()
    groups: ClassVar[tuple[str, ...]] = GROUPS
    returns: ClassVar[bool] = True

    @abstractmethod
    def prepare(self) -> None:
        """Start what the move works on."""

    @abstractmethod
    def state(self) -> str:
        """What the move changes, as it is now."""

    @abstractmethod
    def changed(self, start: str, there: str) -> bool:
        """Whether the state is what the move was asked for."""

    def proofs(self) -> Sequence[Proof]:
        """What else there is to show at the end."""
        return ()

    def events(self) -> Sequence[MemberEvent]:
        """What members of the demo told; empty where it has none."""
        return ()

    def move(self) -> DemoResult:
        """Assess, run, watch, and roll back. Raises `Broken` where a verb does not end as it should."""
        start, before = self.state(), self.committed()
        self.verb(self.name, "assess", *self.request, "--patience", str(_READY_S))
        self.verb(self.name, "run", *self.request, *self.more, "--execute", "--yes")
        with journal(settings_at(self.home.settings_file)) as runs:
            run = runs.recent(1, previews=False)[0].run
        there, after = self.state(), self.committed()
        self.verb("watch", run)
        back, again = "", None
        if self.returns:
            self.verb("roll-back", run, "--execute", "--yes")
            back, again = self.state(), self.committed()
        proofs = [
            Proof(
                what=self.what,
                start=start,
                there=there,
                back=back,
                holds=self.changed(start, there) and back in {"", start},
            ),
            *self.proofs(),
        ]
        if self.groups:
            proofs.append(_offsets(before, after, again))
        events = self.events()
        with journal(settings_at(self.home.settings_file)) as runs:
            made, verdict = phases(runs.find(run), runs.events(run)), status_of(runs, run).verdict
        return DemoResult(
            run=run,
            verdict=verdict,
            rows=tuple(rows(made, taken_over(owned(events)), deliveries(events))),
            proofs=tuple(proofs),
            report=command("groupshift", "report", run, "--settings", str(self.home.settings_file)),
            reports={"evidence": str(self.home.evidence / run)},
            consumers=bool(events),
        )

    def verb(self, *words: str) -> None:
        """Run a verb, again while a server does not answer in time. Raises `Broken` where it ends otherwise,
        `KeyboardInterrupt` when a person ended it."""
        nodes = self.home.root / "nodes.toml"
        more = ("--nodes", str(nodes)) if nodes.exists() else ()
        whole = (*words, "--settings", str(self.home.settings_file), *more)
        code = _TRANSIENT
        for number in range(_TRIES + 1):
            if number:
                self.tell("a server did not answer in time; the command is repeated, as it says itself")
            self.tell(f"$ {command('groupshift', *whole)}")
            code = main(whole)
            if code != _TRANSIENT:
                break
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise Broken(f"{command('groupshift', *words)} ended with exit code {code}; read what it printed")

    def committed(self) -> Offsets:
        """The committed offsets of the groups, as coordinators answer now."""
        if not self.groups:
            return {}
        settings = settings_at(self.home.settings_file)
        with closing(group_snapshots(settings.kafka, timeout_s=_TIMEOUT_S)) as reader:
            snapshot = _patiently(lambda: reader.take(list(self.groups)))
        return {(row.group, row.partition): (row.offset, row.metadata or "") for row in snapshot.offsets}

    def start(self, options: KraftOptions) -> None:
        """Start a cluster whose nodes this sandbox replaces, with a topic and the groups without members,
        each with offsets of its own."""
        self.cluster = start_kraft(self.home, options)
        create_topic(self.cluster.bootstrap, TOPIC, _PARTITIONS)
        write_settings(self.home, "", self.cluster.bootstrap)
        (self.home.root / "nodes.toml").write_text(
            f'driver = "sandbox"\n[sandbox]\nhome = "{self.home.root}"\ncluster = "{options.name}"\n'
        )
        self.tell(f"committing offsets of {len(self.groups)} groups")
        offsets: Commits = {
            group: {TopicPartition(TOPIC, at): (100 * number + at, group) for at in range(_PARTITIONS)}
            for number, group in enumerate(self.groups)
        }
        with closing(KafkaCluster(self.cluster.bootstrap, timeout_s=_TIMEOUT_S)) as connected:
            _patiently(lambda: commit(connected, offsets))


@dataclass(slots=True, kw_only=True)
class ProtocolDemo(MoveDemo):
    """Three members of a group go from the classic to the consumer protocol, one after the other, while
    records arrive, and all the way back."""

    members: int = 3
    partitions: int = 6
    name = "protocol"
    what = "group and its members"
    request = ("--group", GROUP, "--to", "consumer")
    more = ("--soak", "20")
    groups = ()

    def prepare(self) -> None:
        """Start a broker, a group and a producer."""
        self.tell(f"starting Kafka {NOW}")
        self.cluster = start_kraft(self.home, KraftOptions(heap="384m", properties={POLICY: "bidirectional"}))
        bootstrap = self.cluster.bootstrap
        create_topic(bootstrap, TOPIC, self.partitions)
        self.tell(f"starting {self.members} classic members in group {GROUP}")
        slots = tuple(
            SlotDefinition(name=f"m{number}", kind=MemberKind.PLAIN, client=CLIENTS[0])
            for number in range(1, self.members + 1)
        )
        fleet = FleetDefinition(group=GROUP, topics=(TOPIC,), bootstrap=bootstrap, slots=slots)
        write_document(self.home.fleet_file, fleet.to_json())
        start_supervisor(self.home)
        wait_until(self._whole, _READY_S, "every member runs, and every partition has an owner", every_s=0.5)
        options = UpOptions(topic=TOPIC, partitions=self.partitions)
        self.tell(
            f"starting the producer: {options.rate:g} records/s on each of {self.partitions} partitions"
        )
        start_producer(self.home, options, bootstrap)
        write_settings(self.home, "", bootstrap)

    def state(self) -> str:
        """The kind of the group."""
        cluster = KafkaCluster(self.cluster.bootstrap, timeout_s=_TIMEOUT_S)
        with closing(LiveProtocolViews(cluster, SystemClock())) as views:
            group = _patiently(lambda: views.look(GROUP).group)
        return f"{group.kind.value}, {len(group.members)} members"

    def changed(self, start: str, there: str) -> bool:
        """Of the other kind."""
        return "consumer" in there and "consumer" not in start

    def proofs(self) -> Sequence[Proof]:
        """What came of every record."""
        bootstrap = self.cluster.bootstrap
        ends = drained(self.home, bootstrap, self.partitions, lambda: deliveries(self.events()), self.tell)
        everything = deliveries(self.events())
        missing = len(lost(everything, ends))
        again = len(repeated_at(everything))
        whole = f"{sum(ends.values())} written, {missing} lost, {again} delivered again"
        return [Proof(what="records", back=whole, holds=not missing)]

    def events(self) -> Sequence[MemberEvent]:
        """See above."""
        files = sorted(self.home.members.glob("*.events.jsonl"))
        return [event for file in files for event in read_events(file)]

    def _whole(self) -> bool:
        slots, owners = slots_of(self.home), owned(self.events())
        now = {at: [each for each in intervals if each.to_ms is None] for at, intervals in owners.items()}
        at_rest = [intervals[0] for intervals in now.values() if len(intervals) == 1]
        return (
            bool(slots)
            and all(each["state"] == "running" for each in slots)
            and len(at_rest) == self.partitions
            and len({each.member for each in at_rest}) == min(self.members, self.partitions)
        )


@dataclass(slots=True, kw_only=True)
class DowngradeDemo(MoveDemo):
    """Two brokers and their controller go to an older release, one after the other, and back; every group
    answers the same after each node."""

    name = "downgrade"
    what = "release of each node"
    request = ("--to", OLDER, "--from", NOW)
    groups = (*GROUPS, NATIVE)

    def prepare(self) -> None:
        """Start the cluster, with groups that have committed, one of them of the consumer protocol."""
        self.tell(f"starting 2 brokers and a controller of Kafka {NOW}, with metadata that {OLDER} reads")
        arguments = ("--release-version", "3.9", "--feature", "group.version=1")
        properties = {
            "metadata.log.max.snapshot.interval.ms": "5000",
            "broker.session.timeout.ms": "12000",
            "offsets.topic.num.partitions": str(BEFORE),
        }
        self.start(
            KraftOptions(
                nodes=2, controllers=1, heap="320m", format_arguments=arguments, properties=properties
            )
        )
        member = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": NATIVE,
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        member.subscribe([TOPIC])
        try:
            wait_until(lambda: member.poll(0.2) is None and bool(member.assignment()), 90.0, "it has joined")
        finally:
            member.close()
        with closing(cluster_acts(settings_at(self.home.settings_file).kafka, timeout_s=_TIMEOUT_S)) as acts:
            acts.configure_group(NATIVE, {"consumer.session.timeout.ms": "50000"})

    def state(self) -> str:
        """The nodes of each release."""
        nodes = cluster_at(self.home, self.cluster.options.name).nodes
        nodes_of = grouped((each.release, str(each.node_id)) for each in nodes)
        return "; ".join(f"{release} on {', '.join(nodes)}" for release, nodes in sorted(nodes_of.items()))

    def changed(self, start: str, there: str) -> bool:
        """Every node."""
        return NOW in start and NOW not in there


@dataclass(slots=True, kw_only=True)
class ExpansionDemo(MoveDemo):
    """The offsets topic of three brokers gets more partitions, and every group keeps its offsets; no way
    leads back."""

    name = "expansion"
    what = "partitions of __consumer_offsets"
    request = ("--to", str(AFTER))
    returns = False

    def prepare(self) -> None:
        """Start the cluster, with groups that have committed."""
        self.tell(f"starting 3 brokers of Kafka {NOW}, whose offsets topic has {BEFORE} partitions")
        self.start(
            KraftOptions(nodes=3, heap="320m", properties={"offsets.topic.num.partitions": str(BEFORE)})
        )

    def state(self) -> str:
        """The count of partitions."""
        cluster = KafkaCluster(self.cluster.bootstrap, timeout_s=_TIMEOUT_S)
        with closing(LivePlacementViews(cluster, SystemClock())) as views:
            return _patiently(lambda: str(views.look().count))

    def changed(self, start: str, there: str) -> bool:
        """The count that was asked for."""
        return (start, there) == (str(BEFORE), str(AFTER))

    def proofs(self) -> Sequence[Proof]:
        """How many groups had to be carried over."""
        moving = sum(partition_of(each, BEFORE) != partition_of(each, AFTER) for each in GROUPS)
        return [Proof(what="groups whose partition is another one now", there=str(moving))]


DEMOS: Mapping[str, type[MoveDemo]] = {
    each.name: each for each in (ProtocolDemo, DowngradeDemo, ExpansionDemo)
}
"""The demos of moves by their names; coordination goes through Airflow (`groupshift_sandbox.demo`)."""


def _offsets(start: Offsets, there: Offsets, back: Offsets | None) -> Proof:
    """Committed offsets, equal to those of the start."""

    def compared(now: Offsets) -> str:
        same = sum(now.get(key) == value for key, value in start.items())
        return f"{same} of {len(start)} equal, {len(now) - len(start.keys() & now.keys())} more"

    return Proof(
        what="committed offsets",
        start=f"{len(start)} of {len({group for group, _ in start})} groups",
        there=compared(there),
        back="" if back is None else compared(back),
        holds=bool(start) and start == there and back in (None, start),
    )


def _patiently(work: Callable[[], T]) -> T:
    """What ``work`` returns; it is done again while a server does not answer in time. Raises what it raised
    last."""
    end = time.monotonic() + _ANSWERS_S
    while True:
        try:
            return work()
        except Transient:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
