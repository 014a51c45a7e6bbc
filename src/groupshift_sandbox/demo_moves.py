"""Demos of the moves ``protocol``, ``downgrade`` and ``expansion``: real servers, the commands that a person
types, and what came of it. Each command is shown before it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeVar

from confluent_kafka import Consumer

from groupshift.adapters.drivers.process import ask
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.views import LivePlacementViews, LiveProtocolViews
from groupshift.adapters.system import SystemClock
from groupshift.bootstrap.connect import cluster_acts, group_snapshots
from groupshift.bootstrap.moves import journal
from groupshift.cli.main import main
from groupshift.domain.foreign_text import command
from groupshift.domain.group_protocol import POLICY
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.placement import partition_of
from groupshift.engine.status import status_of
from groupshift.errors import Broken, Transient
from groupshift.settings import load as settings_at
from groupshift_sandbox.client_members.commands import CLIENTS
from groupshift_sandbox.client_members.events import MemberEvent, delivered, owned, read_events
from groupshift_sandbox.cluster_file import load as cluster_at
from groupshift_sandbox.committing import Commits, commit
from groupshift_sandbox.demo_table import Row, phases, rows, taken_over
from groupshift_sandbox.fleet import FleetDefinition, SlotDefinition
from groupshift_sandbox.home import Home
from groupshift_sandbox.kafka import create_topic, log_ends
from groupshift_sandbox.kraft import KraftOptions, start_kraft
from groupshift_sandbox.layout import Cluster
from groupshift_sandbox.ledger import Delivery
from groupshift_sandbox.processes import known, stop, wait_until
from groupshift_sandbox.state import write_document
from groupshift_sandbox.up import (
    UpOptions,
    fresh,
    require_unused,
    start_producer,
    start_supervisor,
    write_settings,
)

GROUP, TOPIC, NATIVE = "orders-app", "orders", "orders-native"
GROUPS = tuple(f"team-{number:02}" for number in range(24))
NOW, OLDER = "4.3.1", "3.9.2"
"""Releases of the demo of a downgrade."""
BEFORE, AFTER = 5, 10
"""Partitions of the offsets topic in the demo of an expansion."""
_PARTITIONS = 2
_READY_S = 300
_DELIVERED_S = 120.0
_TRANSIENT, _INTERRUPTED = 4, 130
_TRIES = 5
_TIMEOUT_S = 60.0
Tell = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Something that the demo looked at by itself: at the start, after the move, and after its rollback
    (empty: there was none); ``holds`` is whether it was as it should be."""

    what: str
    start: str
    there: str
    back: str = ""
    holds: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """``verdict`` is that of the run's end; ``consumers``: the rows tell what happened to consumers."""

    run: str
    verdict: str
    rows: tuple[Row, ...]
    proofs: tuple[Proof, ...]
    report: str
    evidence: str
    consumers: bool = False

    @property
    def passed(self) -> bool:
        """Whether everything is as it should be."""
        held = all(each.holds for each in self.proofs)
        return held and self.verdict == "pass" and all(each.phase.verdict == "pass" for each in self.rows)


@dataclass(slots=True)
class Verbs:
    """The command line on one sandbox. ``nodes`` is the file of who replaces nodes; empty: nobody has to."""

    home: Home
    tell: Tell
    nodes: str = ""

    def __call__(self, *words: str, expected: int = 0) -> None:
        """Run a verb. Raises `Broken` where it ends with another exit code, `KeyboardInterrupt` when a person
        ended it."""
        code = self._code(*words)
        for _ in range(_TRIES):
            if code != _TRANSIENT:
                break
            self.tell("a server did not answer in time; the command is repeated, as it says itself")
            code = self._code(*words)
        if code != expected:
            raise Broken(f"{command('groupshift', *words)} ended with exit code {code}; read what it printed")

    def _code(self, *words: str) -> int:
        nodes = ("--nodes", self.nodes) if self.nodes and words[0] != "report" else ()
        whole = (*words, "--settings", str(self.home.settings_file), *nodes)
        self.tell(f"$ {command('groupshift', *whole)}")
        code = main(whole)
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        return code

    def latest(self) -> str:
        """The name of the run that was begun last."""
        with journal(settings_at(self.home.settings_file)) as runs:
            return runs.recent(1, previews=False)[0].run

    def result(self, run: str, proofs: Sequence[Proof], members: Sequence[MemberEvent] = ()) -> MoveResult:
        """What the journal, the demo's own looks and the members (if any) tell of a run."""
        with journal(settings_at(self.home.settings_file)) as runs:
            events, status = runs.events(run), status_of(runs, run)
            made = phases(runs.find(run), events)
        return MoveResult(
            run=run,
            verdict=status.verdict,
            rows=tuple(rows(made, taken_over(owned(members)), _deliveries(members))),
            proofs=tuple(proofs),
            report=command("groupshift", "report", run, "--settings", str(self.home.settings_file)),
            evidence=str(self.home.evidence / run),
            consumers=bool(members),
        )


@dataclass(slots=True)
class ProtocolDemo:
    """Three members of a group go from the classic to the consumer protocol, one after the other, while
    records arrive, and all the way back."""

    home: Home
    tell: Tell
    members: int = 3
    partitions: int = 6
    soak_s: int = 20
    bootstrap: str = ""

    def prepare(self) -> None:
        """Start a broker, a group and a producer."""
        self.tell(f"starting Kafka {NOW}")
        cluster = start_kraft(self.home, KraftOptions(heap="384m", properties={POLICY: "bidirectional"}))
        self.bootstrap = cluster.bootstrap
        create_topic(self.bootstrap, TOPIC, self.partitions)
        self.tell(f"starting {self.members} classic members in group {GROUP}")
        slots = tuple(
            SlotDefinition(name=f"m{number}", kind=MemberKind.PLAIN, client=CLIENTS[0])
            for number in range(1, self.members + 1)
        )
        fleet = FleetDefinition(group=GROUP, topics=(TOPIC,), bootstrap=self.bootstrap, slots=slots)
        write_document(self.home.fleet_file, fleet.to_json())
        start_supervisor(self.home)
        wait_until(self._whole, _READY_S, "every member runs, and every partition has an owner", every_s=0.5)
        options = UpOptions(topic=TOPIC, partitions=self.partitions)
        self.tell(
            f"starting the producer: {options.rate:g} records/s on each of {self.partitions} partitions"
        )
        start_producer(self.home, options, self.bootstrap)
        write_settings(self.home, "", self.bootstrap)

    def move(self) -> MoveResult:
        """There, and back."""
        verbs = Verbs(self.home, self.tell)
        arguments = ("--group", GROUP, "--to", "consumer")
        start = self._kinds()
        verbs("protocol", "assess", *arguments, "--patience", str(_READY_S))
        verbs("protocol", "run", *arguments, "--soak", str(self.soak_s), "--execute", "--yes")
        run, there = verbs.latest(), self._kinds()
        verbs("watch", run)
        verbs("roll-back", run, "--execute", "--yes")
        back = self._kinds()
        ends = self._drained()
        offsets_of = delivered(self._events())
        lost = sum(end - len(set(offsets_of.get(at, ()))) for at, end in ends.items())
        twice = sum(len(each) - len(set(each)) for each in offsets_of.values())
        whole = f"{sum(ends.values())} written, {lost} lost, {twice} delivered again"
        proofs = (
            Proof(
                what="group and its members",
                start=start,
                there=there,
                back=back,
                holds="consumer" in there and "consumer" not in back and start == back,
            ),
            Proof(what="records", start="", there="", back=whole, holds=not lost),
        )
        return verbs.result(run, proofs, self._events())

    def _whole(self) -> bool:
        try:
            slots = ask(self.home.supervisor_socket, {"verb": "slots"})["slots"]
        except Transient:
            return False
        owners = owned(self._events())
        now = {at: [each for each in intervals if each.to_ms is None] for at, intervals in owners.items()}
        at_rest = [at for at, intervals in now.items() if len(intervals) == 1]
        used = {intervals[0].member for intervals in now.values() if len(intervals) == 1}
        return (
            all(each["state"] == "running" for each in slots)
            and len(at_rest) == self.partitions
            and len(used) == min(self.members, self.partitions)
        )

    def _events(self) -> list[MemberEvent]:
        files = sorted(self.home.members.glob("*.events.jsonl"))
        return [event for file in files for event in read_events(file)]

    def _kinds(self) -> str:
        cluster = KafkaCluster(self.bootstrap, timeout_s=_TIMEOUT_S)
        with closing(LiveProtocolViews(cluster, SystemClock())) as views:
            group = _patiently(lambda: views.look(GROUP).group)
        return f"{group.kind.value}, {len(group.members)} members"

    def _drained(self) -> dict[TopicPartition, int]:
        """End the producer, and wait until every record was delivered to somebody; the log ends."""
        producer = known(self.home, "producer")
        if producer is not None:
            stop(producer, 40.0)
        ends = log_ends(self.bootstrap, TOPIC, self.partitions)
        self.tell("producer stopped; waiting until every record is delivered")

        def everything() -> bool:
            offsets_of = delivered(self._events())
            return all(len(set(offsets_of.get(at, ()))) == end for at, end in ends.items())

        try:
            wait_until(everything, _DELIVERED_S, "every record is delivered", every_s=0.5)
        except Transient:
            self.tell("not every record was delivered; the table says how many")
        return ends


@dataclass(slots=True)
class DowngradeDemo:
    """Two brokers and their controller go to an older release, one after the other, and back; every group
    answers the same after each node."""

    home: Home
    tell: Tell
    cluster: Cluster = field(init=False)

    def prepare(self) -> None:
        """Start the cluster, with groups that have committed, one of them of the consumer protocol."""
        self.tell(f"starting 2 brokers and a controller of Kafka {NOW}, with metadata that {OLDER} reads")
        arguments = ("--release-version", "3.9", "--feature", "group.version=1")
        properties = {
            "metadata.log.max.snapshot.interval.ms": "5000",
            "broker.session.timeout.ms": "12000",
            "offsets.topic.num.partitions": str(BEFORE),
        }
        options = KraftOptions(
            nodes=2, controllers=1, heap="320m", format_arguments=arguments, properties=properties
        )
        self.cluster = _started(self.home, options, (*GROUPS, NATIVE), self.tell)
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

    def move(self) -> MoveResult:
        """There, and back."""
        verbs = Verbs(self.home, self.tell, _nodes(self.home))
        arguments = ("--to", OLDER, "--from", NOW)
        start, before = _committed(self.cluster, (*GROUPS, NATIVE)), self._releases()
        verbs("downgrade", "assess", *arguments, "--patience", str(_READY_S))
        verbs("downgrade", "run", *arguments, "--execute", "--yes")
        run = verbs.latest()
        there, older = _committed(self.cluster, (*GROUPS, NATIVE)), self._releases()
        verbs("watch", run)
        verbs("roll-back", run, "--execute", "--yes")
        back, again = _committed(self.cluster, (*GROUPS, NATIVE)), self._releases()
        proofs = (
            Proof(
                what="release of each node",
                start=before,
                there=older,
                back=again,
                holds=before == again and NOW not in older,
            ),
            _offsets(start, there, back),
        )
        return verbs.result(run, proofs)

    def _releases(self) -> str:
        nodes_of: dict[str, list[str]] = {}
        for each in cluster_at(self.home, self.cluster.options.name).nodes:
            nodes_of.setdefault(each.release, []).append(str(each.node_id))
        return "; ".join(f"{release} on {', '.join(nodes)}" for release, nodes in sorted(nodes_of.items()))


@dataclass(slots=True)
class ExpansionDemo:
    """The offsets topic of three brokers gets more partitions, and every group keeps its offsets."""

    home: Home
    tell: Tell
    cluster: Cluster = field(init=False)

    def prepare(self) -> None:
        """Start the cluster, with groups that have committed."""
        self.tell(f"starting 3 brokers of Kafka {NOW}, whose offsets topic has {BEFORE} partitions")
        options = KraftOptions(nodes=3, heap="320m", properties={"offsets.topic.num.partitions": str(BEFORE)})
        self.cluster = _started(self.home, options, GROUPS, self.tell)

    def move(self) -> MoveResult:
        """There; no way leads back."""
        verbs = Verbs(self.home, self.tell, _nodes(self.home))
        arguments = ("--to", str(AFTER))
        start, before = _committed(self.cluster, GROUPS), self._count()
        verbs("expansion", "assess", *arguments, "--patience", str(_READY_S))
        verbs("expansion", "run", *arguments, "--execute", "--yes")
        run = verbs.latest()
        verbs("watch", run)
        there, after = _committed(self.cluster, GROUPS), self._count()
        moving = sum(partition_of(each, BEFORE) != partition_of(each, AFTER) for each in GROUPS)
        proofs = (
            Proof(
                what="partitions of __consumer_offsets",
                start=str(before),
                there=str(after),
                holds=(before, after) == (BEFORE, AFTER),
            ),
            Proof(what="groups whose partition is another one now", start="", there=str(moving)),
            _offsets(start, there),
        )
        return verbs.result(run, proofs)

    def _count(self) -> int:
        cluster = KafkaCluster(self.cluster.bootstrap, timeout_s=_TIMEOUT_S)
        with closing(LivePlacementViews(cluster, SystemClock())) as views:
            return _patiently(lambda: views.look().count)


DEMOS: Mapping[str, Callable[[Home, Tell], ProtocolDemo | DowngradeDemo | ExpansionDemo]] = {
    "protocol": ProtocolDemo,
    "downgrade": DowngradeDemo,
    "expansion": ExpansionDemo,
}
"""The demos of moves by their names; coordination goes through Airflow (`groupshift_sandbox.demo`)."""


def demonstrate(move: str, home: Home, tell: Tell) -> MoveResult:
    """Run the demo of a move in a fresh home; the caller ends the sandbox. Raises `Rejected` while one is up
    there, `Transient` when something does not start in time, `Broken` where a verb does not end as it
    should."""
    require_unused(home)
    fresh(home)
    demo = DEMOS[move](home, tell)
    demo.prepare()
    return demo.move()


def _started(home: Home, options: KraftOptions, groups: Sequence[str], tell: Tell) -> Cluster:
    """A cluster with a topic and these groups without members, each with offsets of its own."""
    cluster = start_kraft(home, options)
    create_topic(cluster.bootstrap, TOPIC, _PARTITIONS)
    write_settings(home, "", cluster.bootstrap)
    tell(f"committing offsets of {len(groups)} groups")
    offsets: Commits = {
        group: {TopicPartition(TOPIC, at): (100 * number + at, group) for at in range(_PARTITIONS)}
        for number, group in enumerate(groups)
    }
    with closing(KafkaCluster(cluster.bootstrap, timeout_s=_TIMEOUT_S)) as connected:
        _patiently(lambda: commit(connected, offsets))
    return cluster


def _nodes(home: Home) -> str:
    """The file of who replaces nodes: this sandbox."""
    file = home.root / "nodes.toml"
    file.write_text(f'driver = "sandbox"\n[sandbox]\nhome = "{home.root}"\ncluster = "kraft"\n')
    return str(file)


def _committed(cluster: Cluster, groups: Sequence[str]) -> dict[tuple[str, int], tuple[int, str]]:
    """Offset and metadata by group and partition, as coordinators answer now."""
    settings = settings_at(cluster.home.settings_file)
    with closing(group_snapshots(settings.kafka, timeout_s=_TIMEOUT_S)) as reader:
        snapshot = _patiently(lambda: reader.take(list(groups)))
    return {(row.group, row.partition): (row.offset, row.metadata or "") for row in snapshot.offsets}


def _offsets(
    start: Mapping[tuple[str, int], object],
    there: Mapping[tuple[str, int], object],
    back: Mapping[tuple[str, int], object] | None = None,
) -> Proof:
    """Committed offsets, equal to those of the start."""

    def said(now: Mapping[tuple[str, int], object]) -> str:
        same = sum(now.get(key) == value for key, value in start.items())
        return f"{same} of {len(start)} equal, {len(now) - len(start.keys() & now.keys())} more"

    return Proof(
        what="committed offsets",
        start=f"{len(start)} of {len({group for group, _ in start})} groups",
        there=said(there),
        back="" if back is None else said(back),
        holds=bool(start) and start == there and back in (None, start),
    )


def _deliveries(events: Sequence[MemberEvent]) -> list[Delivery]:
    return [
        Delivery(
            member=each.member,
            partition=TopicPartition(str(each.fields["topic"]), int(each.fields["partition"])),
            offset=offset,
            at_ms=each.at_ms,
        )
        for each in events
        if each.event == "records"
        for offset in range(int(each.fields["first"]), int(each.fields["last"]) + 1)
    ]


def _patiently(work: Callable[[], T]) -> T:
    """What ``work`` returns; it is done again while a server does not answer in time. Raises what it raised
    last."""
    end = time.monotonic() + _DELIVERED_S
    while True:
        try:
            return work()
        except Transient:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
