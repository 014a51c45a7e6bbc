"""The move ``protocol`` over real fleets, as Kafka's own consumer_protocol_migration_test has it.

Five members and six partitions, rolling and all at once, there and back, for every pair of way, membership,
assignor, client and broker.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import combinations, product
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from groupshift.domain.coordination import MemberKind
from groupshift.domain.judgement import Assessment
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.phases import Phase
from groupshift.domain.protocol.model import Kind, Protocol, Way
from groupshift.domain.protocol.planning import KIND
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected
from groupshift.sandbox.kraft import KraftCluster
from groupshift.sandbox.processes import wait_until
from protocol_fleet import CONFLUENT, PATIENCE_S, FleetOptions, ProtocolFleet, fleet_at, protocol_cluster
from protocol_move import ProtocolBench, bench_of

JAVA_NEW, JAVA_OLD = "kafka-clients 4.3.1", "kafka-clients 3.9.2"
COOPERATIVE = "cooperative-sticky"
SERVERS_OWN = {"range": "range", "roundrobin": "uniform", COOPERATIVE: "uniform"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One move of one fleet."""

    way: Way
    to: Protocol
    static: bool
    assignor: str
    client: str
    release: str

    @property
    def name(self) -> str:
        """As the test is called."""
        ids = "static" if self.static else "dynamic"
        client = self.client.replace(" ", "-")
        return f"{self.way}-to-{self.to}-{ids}-{self.assignor}-{client}-on-{self.release}"

    @property
    def refused_at_times(self) -> bool:
        """Librdkafka's cooperative assignor puts data into some assignments, which bars native members."""
        upgraded = self.way is Way.ONLINE and self.to is Protocol.CONSUMER
        return upgraded and self.client == CONFLUENT and self.assignor == COOPERATIVE

    @property
    def kinds(self) -> dict[str, Kind]:
        """The type of the group after each stage: one native member makes it a group of type consumer, and
        an empty one stays what it was."""
        new = Kind(self.to.value)
        if self.way is Way.ONLINE:
            return {"canary": Kind.CONSUMER, "roll": new}
        return {"empty": Kind(self.to.other.value), "fill": new}


def case(way: Way, to: Protocol, members: str, assignor: str, client: str, release: str) -> Case:
    """A row of the table."""
    return Case(way=way, to=to, static=members == "static", assignor=assignor, client=client, release=release)


ON, OFF = Way.ONLINE, Way.OFFLINE
UP, DOWN = Protocol.CONSUMER, Protocol.CLASSIC
CASES = (
    case(ON, UP, "dynamic", COOPERATIVE, CONFLUENT, "4.3.1"),
    case(ON, DOWN, "static", COOPERATIVE, CONFLUENT, "4.3.1"),
    case(OFF, UP, "static", "range", JAVA_NEW, "4.3.1"),
    case(OFF, DOWN, "static", "roundrobin", JAVA_OLD, "4.3.1"),
    case(ON, UP, "dynamic", "range", JAVA_NEW, "4.0.2"),
    case(ON, DOWN, "dynamic", "range", JAVA_OLD, "4.0.2"),
    case(OFF, UP, "static", "roundrobin", CONFLUENT, "4.0.2"),
    case(OFF, DOWN, "static", COOPERATIVE, JAVA_NEW, "4.0.2"),
    case(ON, UP, "static", "roundrobin", JAVA_OLD, "4.4.0"),
    case(ON, DOWN, "dynamic", "roundrobin", JAVA_NEW, "4.4.0"),
    case(OFF, UP, "dynamic", COOPERATIVE, JAVA_OLD, "4.4.0"),
    case(OFF, DOWN, "dynamic", "range", CONFLUENT, "4.4.0"),
)
"""Every two values of two columns meet in some row."""


@pytest.fixture
def group() -> str:
    """A group name of this test's own."""
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KraftCluster]:
    """A broker of the release, shared by its cases."""
    with protocol_cluster(tmp_path_factory.mktemp("cluster"), request.param) as running:
        yield running


def test_every_pair_of_values_is_moved_once() -> None:
    """Two values that no row has together would be moved by nobody."""
    rows = [tuple(str(getattr(each, one.name)) for one in fields(Case)) for each in CASES]
    way_and_to = [(f"{way} {to}", *rest) for way, to, *rest in rows]
    columns = [set(column) for column in zip(*way_and_to, strict=True)]
    assert [len(column) for column in columns] == [4, 2, 3, 3, 3]
    for one, other in combinations(range(len(columns)), 2):
        met = {(row[one], row[other]) for row in way_and_to}
        assert met == set(product(columns[one], columns[other]))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("cluster", "moved"),
    [pytest.param(each.release, each, id=each.name) for each in CASES],
    indirect=["cluster"],
)
def test_a_fleet_is_moved(cluster: KraftCluster, moved: Case, group: str, tmp_path: Path) -> None:
    """Assessed first, then moved: offsets only go forward, every record is delivered, one comes twice only
    where a partition changed hands, and the group is of the expected type after each stage."""
    options = options_of(moved, group)
    with fleet_at(cluster.bootstrap, tmp_path, options) as fleet, bench_of(fleet, tmp_path) as bench:
        fleet.await_group(lambda found: len(found.members) == 5, "has five members")
        fleet.await_written(20)
        way = moved.way
        if moved.refused_at_times:
            refused_beforehand(bench)
            way = Way.OFFLINE
        kinds = {"empty": Kind.CLASSIC, "fill": Kind.CONSUMER} if way is not moved.way else moved.kinds
        seen = looked_at(bench, kinds)
        run = bench.run(moved.to, way)
        seen.look("begun")
        closing = run.forward()
        assert (closing.phase, closing.verdict) == (Phase.MOVED, Verdict.PASS), closing.reason
        assert seen.kinds == kinds
        assert {slot.kind for slot in fleet.driver.slots(group)} == {KIND[moved.to]}
        fleet.await_owned()
        fleet.await_written(20)
        found = fleet.settle()
        seen.look("ended")
        ends = fleet.ends()
        wait_until(lambda: committed(fleet) == ends, PATIENCE_S, "every record is committed", every_s=0.5)
    print(f"{moved.name}: ms without an owner {dict(found.unowned_ms)}, all at once {found.all_unowned_ms}")
    assert (found.lost, found.repeated_within, found.overlaps) == ({}, {}, [])
    assert found.fatal == []
    assert seen.steps_back() == []


def options_of(moved: Case, group: str) -> FleetOptions:
    """Five members as they are before the move."""
    return FleetOptions(
        group=group,
        topic=f"moved-{group}",
        clients=(moved.client,) * 5,
        kind=KIND[moved.to.other],
        assignor=moved.assignor,
        remote_assignor=SERVERS_OWN[moved.assignor],
        static=moved.static,
    )


def refused_beforehand(bench: ProtocolBench) -> None:
    """Rebalance until assignments have data in them: then assess names the error, and nothing is planned."""
    fleet, request = bench.fleet, bench.request(Protocol.CONSUMER)
    bench.await_ready(bench.request(Protocol.CONSUMER, Way.OFFLINE))
    assert warned(bench.app.assess(request)) == [Verdict.INCONCLUSIVE], "P11 warns in any case"
    turns = iter(range(20))

    def has_data() -> bool:
        turn = next(turns)
        fleet.carry_out(fleet.change(f"out-{turn}", MemberKind.VACANT, "m1"))
        fleet.await_group(lambda found: len(found.members) == 4 and found.state == "Stable", "has lost one")
        fleet.carry_out(fleet.change(f"in-{turn}", MemberKind.PLAIN, "m1"))
        settled = fleet.await_group(
            lambda found: len(found.members) == 5 and found.state == "Stable", "is whole again"
        )
        return any(member.user_data for member in settled.members)

    wait_until(has_data, 2 * PATIENCE_S, "an assignment has data in it")
    found = bench.app.assess(request)
    failed = [each for each in found.findings if each.verdict is Verdict.FAIL]
    assert not found.ready
    assert [(each.rule, "69" in each.reason) for each in failed] == [("P08", True)], failed
    with pytest.raises(Rejected, match="69"):
        bench.app.plan(request)


def warned(found: Assessment) -> list[Verdict]:
    """What the rule of assignors says of data in assignments."""
    return [each.verdict for each in found.findings if each.rule == "P11" and "data" in each.reason]


def committed(fleet: ProtocolFleet) -> dict[TopicPartition, int]:
    """The group's committed offsets now."""
    consumer = Consumer({"bootstrap.servers": fleet.bootstrap, "group.id": fleet.options.group})
    try:
        asked = [KafkaPartition(at.topic, at.partition) for at in fleet.partitions]
        found = consumer.committed(asked, timeout=60.0)
        return {TopicPartition(each.topic, each.partition): int(each.offset) for each in found}
    finally:
        consumer.close()


@dataclass(slots=True)
class Seen:
    """Types and committed offsets after each stage, in order."""

    fleet: ProtocolFleet
    kinds: dict[str, Kind]
    offsets: list[tuple[str, dict[TopicPartition, int]]]

    def look(self, stage: str) -> None:
        """Write down the offsets of now."""
        self.offsets.append((stage, committed(self.fleet)))

    def steps_back(self) -> list[str]:
        """Where an offset was lower than at the look before, as a clause each."""
        pairs = zip(self.offsets, self.offsets[1:], strict=False)
        return [
            f"{at}: {before[at]} at {one}, {after[at]} at {other}"
            for (one, before), (other, after) in pairs
            for at in before
            if after[at] < before[at]
        ]


def looked_at(bench: ProtocolBench, stages: dict[str, Kind]) -> Seen:
    """Looks at the group whenever one of these stages has passed."""
    seen = Seen(bench.fleet, {}, [])

    def look(stage: str) -> None:
        seen.kinds[stage] = bench.fleet.look().kind
        seen.look(stage)

    for stage in stages:
        bench.watcher.at[f"judged {stage} after {Verdict.PASS}"] = lambda stage=stage: look(stage)
    return seen
