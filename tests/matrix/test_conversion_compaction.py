"""A group that is converted back to classic while its log is compacted: nothing is lost, half-way or after.

Three native members become classic ones by one. After each, the offsets topic is compacted, and it is proven
that it was: every record that was superseded before is gone. While the writer rests, the replay lint judges
the log, the broker is started again over it, and both are held against each other.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from groupshift.adapters.kafka.broker_views import LiveProtocolViews
from groupshift.adapters.kafka.cluster import KafkaCluster
from groupshift.adapters.kafka.cluster_changes import LiveClusterActs
from groupshift.adapters.system import SystemClock
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.group_protocol import Kind
from groupshift.domain.modes import MemberKind
from groupshift.domain.partitions import TopicPartition
from groupshift.errors import Transient
from groupshift.log import Decoded, decode
from groupshift.log.group_states import materialise
from groupshift.log.releases import Coordinator
from groupshift.log.replay import GroupVerdict, LoadOutcome, lint
from groupshift.moves.downgrade.plan_and_rollback import COMPACTING
from groupshift.spark.broker_source import Brokers
from groupshift.spark.copied_log import DirectLog
from groupshift_sandbox.broker_log import failed_partitions
from groupshift_sandbox.client_members.commands import CLIENTS
from groupshift_sandbox.layout import Cluster, to_release
from groupshift_sandbox.processes import Running, known, send, wait_until
from groupshift_sandbox.rolling import replace_node
from groupshift_sandbox.servers import log_of
from support.protocol_fleet import (
    CONFLUENT,
    PATIENCE_S,
    FleetOptions,
    ProtocolFleet,
    fleet_at,
    patiently,
    protocol_cluster,
)

RELEASE = "4.3.1"
CONFLUENT_OF_39 = CLIENTS[1]
"""The only confluent-kafka that joins a 3.9.2 as a native member."""
LOG_PARTITIONS = 2
PROPERTIES = {"offsets.topic.num.partitions": str(LOG_PARTITIONS), "log.cleaner.backoff.ms": "500"}
CONSUMER_TYPES = frozenset(range(3, 9))
"""Records of groups of type consumer: their metadata, epochs, members and assignments."""


@contextmanager
def story_at(folder: Path, release: str, client: str) -> Iterator[Story]:
    """Three native members of a client at a broker, and a log that is soon compacted."""
    options = FleetOptions(clients=(client,) * 3, kind=MemberKind.NATIVE, assignor="range")
    with (
        protocol_cluster(folder, release, PROPERTIES) as cluster,
        fleet_at(cluster.bootstrap, folder, options) as fleet,
        compacted_soon(cluster) as acts,
    ):
        told = Story(cluster=cluster, fleet=fleet, acts=acts)
        told.await_members(Kind.CONSUMER)
        fleet.await_written(20)
        yield told


@contextmanager
def compacted_soon(cluster: Cluster) -> Iterator[LiveClusterActs]:
    """With the offsets topic configured as the move ``downgrade`` does it before it compacts."""
    acts = LiveClusterActs(KafkaCluster(cluster.bootstrap, timeout_s=60.0))
    try:
        acts.configure_topic(COMPACTING)
        yield acts
    finally:
        acts.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a coordinator makes of the group, by itself or by the lint: its type and its offsets; ``whole`` is
    whether it loads without loss."""

    kind: Kind
    offsets: dict[TopicPartition, int]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A broker, the fleet, and what changes the offsets topic."""

    cluster: Cluster
    fleet: ProtocolFleet
    acts: LiveClusterActs

    @property
    def group(self) -> str:
        """The group that is converted."""
        return self.fleet.options.group

    def await_members(self, kind: Kind) -> None:
        """Wait until it has all members and is of this type."""
        count = len(self.fleet.options.slots)
        self.fleet.await_group(
            lambda found: (found.kind, len(found.members)) == (kind, count), f"is {kind} with {count} members"
        )

    def convert(self, slot: str, *, last: bool = False) -> None:
        """One member becomes a classic one, and the log is compacted."""
        self.fleet.carry_out(self.fleet.change(f"classic-{slot}", MemberKind.PLAIN, slot))
        self.await_members(Kind.CLASSIC if last else Kind.CONSUMER)
        self.fleet.await_written(20)
        print(f"{slot} is classic, {self.compact()}")

    def log(self) -> list[Decoded]:
        """Every record of the offsets topic now."""

        def read() -> list[Decoded]:
            log = DirectLog(Brokers(bootstrap_servers=self.cluster.bootstrap, timeout_s=60.0))
            return [decode(each, partitions=LOG_PARTITIONS) for each in log.read(log.position())]

        return patiently(read)

    def compact(self) -> str:
        """Compact, and prove it: no record of the group's partition that a later one has replaced by now is
        left. What is left, as a clause.

        The newest segment is never compacted, so something is written until it is not the newest any more."""
        doomed: set[int] = set()

        def replaced() -> bool:
            doomed.update(superseded(self.log(), self.group))
            return bool(doomed)

        def gone() -> bool:
            patiently(self.acts.force_compaction)
            return not doomed & {each.src_offset for each in at_home(self.log(), self.group)}

        wait_until(replaced, PATIENCE_S, "a record is replaced by a later one", every_s=0.1)
        wait_until(gone, 2 * PATIENCE_S, f"{len(doomed)} records are compacted away", every_s=1.0)
        left = at_home(self.log(), self.group)
        return f"{len(left)} of {left[-1].src_offset + 1} records are left"

    @contextmanager
    def writer_rests(self) -> Iterator[None]:
        """Nobody writes records, and members have committed all: offsets stay as they are."""
        writer = known(self.fleet.home, "producer")
        assert writer is not None
        assert send(writer, signal.SIGSTOP)
        try:
            wait_until(self.all_committed, PATIENCE_S, "everything is committed", every_s=0.5)
            yield
        finally:
            resumed(writer)

    def all_committed(self) -> bool:
        """Whether the group has committed the log's end of every partition."""
        return self.fleet.committed() == self.fleet.ends()

    def judged(self) -> Loaded:
        """By the lint, from the log as it lies there."""
        records = self.log()
        verdict = self.linted(records, RELEASE)
        state = materialise(records).groups[self.group]
        offsets = {TopicPartition(*at): offset for at, offset in state.offsets.items() if offset is not None}
        return Loaded(
            kind=Kind(state.family.value), offsets=offsets, whole=verdict.outcome is LoadOutcome.LOADS
        )

    def linted(self, records: list[Decoded], release: str) -> GroupVerdict:
        """What the lint says of the group under the NEW coordinator of a release."""
        return lint(records, release, Coordinator.NEW)[self.group]

    def restarted(self) -> Loaded:
        """By the broker, after it has loaded that log."""
        (node,) = self.cluster.nodes
        _, seen = replace_node(self.cluster, node.node_id, lambda same: same)
        whole = seen.count("Failed to load metadata from __consumer_offsets") == 0
        return Loaded(kind=self.fleet.look().kind, offsets=self.fleet.committed(), whole=whole)


def resumed(writer: Running) -> None:
    """Let it go on."""
    assert send(writer, signal.SIGCONT)


def at_home(log: list[Decoded], group: str) -> list[Decoded]:
    """The records of the partition that the group belongs to, in their order."""
    home = partition_of(group, LOG_PARTITIONS)
    return sorted((each for each in log if each.src_partition == home), key=lambda each: each.src_offset)


def superseded(log: list[Decoded], group: str) -> set[int]:
    """Offsets in the group's partition of records that a later one of the same key replaced."""
    latest: dict[bytes, int] = {}
    found = set()
    for each in at_home(log, group):
        if each.raw_key in latest:
            found.add(latest[each.raw_key])
        latest[each.raw_key] = each.src_offset
    return found


def live_types(log: list[Decoded], group: str) -> set[int | None]:
    """Types of the group's records, tombstones apart."""
    return {
        each.record_type for each in at_home(log, group) if each.group_id == group and not each.is_tombstone
    }


@pytest.mark.timeout(2400)
def test_nothing_is_lost_by_a_compaction_in_the_middle_of_a_conversion(tmp_path: Path) -> None:
    """The restarted broker and the lint agree after two of three members, and when all are classic."""
    with story_at(tmp_path, RELEASE, CONFLUENT) as story:
        fleet, (first, *others) = story.fleet, story.fleet.options.slots
        story.convert(first)
        for slot in others:
            last = slot == others[-1]
            kind = Kind.CLASSIC if last else Kind.CONSUMER
            story.convert(slot, last=last)
            with story.writer_rests():
                judged, ends = story.judged(), fleet.ends()
                assert judged == Loaded(kind=kind, offsets=ends, whole=True)
                assert story.restarted() == judged
            story.await_members(kind)
            fleet.await_owned()
            fleet.await_written(20)
        story.compact()
        assert not live_types(story.log(), story.group) & CONSUMER_TYPES
        found = fleet.settle()
        wait_until(story.all_committed, PATIENCE_S, "everything is committed", every_s=0.5)
        assert (found.lost, found.repeated_within, found.overlaps, found.fatal) == ({}, {}, [], [])


@pytest.mark.timeout(2400)
def test_the_new_coordinator_of_392_loads_such_a_log_only_where_the_lint_says_so(tmp_path: Path) -> None:
    """Half-way it depends on what compaction left: where the lint finds rule N5 (hazard H14), the restarted
    broker serves no group of that partition; else it has every offset. Nothing is gone either way: a 4.0.2
    over the same log has every offset, as the lint says."""
    with story_at(tmp_path, "3.9.2", CONFLUENT_OF_39) as story:
        for slot in story.fleet.options.slots[:2]:
            story.convert(slot)
        with story.writer_rests():
            ends, records = story.fleet.ends(), story.log()
            judged = story.linted(records, "3.9.2")
            fails = judged.outcome is LoadOutcome.FAILS_SHARD
            assert judged.rule == ("N5" if fails else "L0")
            print(f"3.9.2: the lint says {judged.rule}")
            assert story.linted(records, "4.0.2").outcome is LoadOutcome.LOADS
            home = partition_of(story.group, LOG_PARTITIONS)
            (node,) = story.cluster.nodes
            same, _ = replace_node(story.cluster, node.node_id, lambda same: same)
            log = log_of(same, node)
            if fails:
                wait_until(
                    lambda: failed_partitions(log) == {home},
                    PATIENCE_S,
                    "the broker says that this partition failed to load",
                    every_s=0.5,
                )
                views = LiveProtocolViews(KafkaCluster(same.bootstrap, timeout_s=10.0), SystemClock())
                with closing(views), pytest.raises(Transient, match="16"):
                    views.look(story.group)
            else:
                assert story.fleet.committed() == ends
                assert failed_partitions(log) == frozenset()
            replace_node(same, node.node_id, to_release("4.0.2"))
            assert story.fleet.committed() == ends
