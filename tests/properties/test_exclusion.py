"""F1's argument, searched for a counterexample: toggles, rebalances, expiries, in any order."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from groupshift.consumers.delivery import Delivery
from groupshift.consumers.group_state import Parts, Policy
from groupshift.consumers.reconciler import Reconciler
from groupshift.domain.modes import Mode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import Member
from groupshift.ports.consumer import Reset
from groupshift_testing.coordination import MemoryCoordination, MemoryZookeeper
from groupshift_testing.membership import MemoryFetch, MemoryKafkaGroup, MemoryMembership

PARTITIONS = {"t": tuple(range(5))}
NUMBERS = st.integers(0, 2)


class SimulatedMember:
    """A whole member whose threads are steps: its reconciler is not started but driven."""

    def __init__(self, zookeeper, group, ends, number):
        self.name = f"g_m{number}"
        streams = {"t": 2 if number == 0 else 1}  # unequal: a toggle moves partitions (N6)
        self.delivery = Delivery(store_on_delivery=True)
        self.link = MemoryCoordination(zookeeper, self.name)
        self.membership = MemoryMembership(group, self.name)
        self.fetch = MemoryFetch(ends)
        self.reconciler = Reconciler(
            Member(consumer_id=self.name, subscription=streams, aware=True),
            Parts(
                coordination=self.link, membership=self.membership, fetch=self.fetch, delivery=self.delivery
            ),
            Policy(reset=Reset.EARLIEST, auto_commit=True, commit_every_s=3600.0, drain_s=0.0),
        )
        self.link.start(self.reconciler, 1.0)
        self.silent = False
        self.hand = []

    def step(self):
        """One pass of the reconciler over what has happened."""
        self.reconciler._loop.receive(0)
        self.reconciler._attempt()

    def commit(self):
        """The timer of the auto commit."""
        self.reconciler._loop.plan("commit", None)
        self.reconciler._loop.hasten("commit", 0)
        self.step()

    def pump(self):
        """The fetcher's thread hands on what it has in hand, then fetches: between the two, anything may
        have happened."""
        self.delivery.offer(self.hand)
        self.hand = self.fetch.poll(3, 0)

    def take(self):
        """The application asks for a record."""
        return self.delivery.take(None, 1, 0)


class Exclusion(RuleBasedStateMachine):
    """Three members, one group; the invariant is checked at every delivery."""

    @initialize()
    def start(self):
        self.ends = {TopicPartition("t", number): 4 for number in PARTITIONS["t"]}
        self.zookeeper = MemoryZookeeper(partitions=PARTITIONS)
        self.group = MemoryKafkaGroup(partitions=PARTITIONS)
        self.members = [SimulatedMember(self.zookeeper, self.group, self.ends, n) for n in range(3)]
        self.delivered = defaultdict(set)
        self.sessions_lost = 0
        self.settle()

    @rule()
    def settle(self):
        """Everyone gets a few turns; the next fault then meets a group that consumes."""
        for _ in range(3):
            for number, member in enumerate(self.members):
                member.step()
                member.pump()
                self.deliver(number)
            self.group.complete()

    @rule(number=NUMBERS)
    def reconcile(self, number):
        self.members[number].step()

    @rule(number=NUMBERS)
    def commit(self, number):
        self.members[number].commit()

    @rule(number=NUMBERS)
    def fetch(self, number):
        self.members[number].pump()

    @rule(number=NUMBERS)
    def deliver(self, number):
        member = self.members[number]
        for record in member.take():
            partition = TopicPartition(record.topic(), record.partition())
            thread, session = self.zookeeper.owners[partition]
            assert (thread.rpartition("-")[0], session) == (member.name, member.link.session_id())
            assert self.sessions_lost or record.offset() not in self.delivered[partition]
            self.delivered[partition].add(record.offset())

    @rule(mode=st.sampled_from(Mode))
    def toggle(self, mode):
        self.zookeeper.toggle(mode)

    @rule(number=st.integers(0, 4))
    def produce(self, number):
        self.ends[TopicPartition("t", number)] += 2

    @rule()
    def rebalance(self):
        self.group.revoke()

    @rule()
    def complete_rebalance(self):
        self.group.complete()

    @rule(number=NUMBERS)
    def evict(self, number):
        self.members[number].membership.evict()

    @precondition(lambda self: not any(member.silent for member in self.members))
    @rule(number=NUMBERS)
    def silence(self, number):
        self.members[number].silent = True
        self.members[number].link.suspend()

    @rule(expired=st.booleans())
    def reconnect(self, expired):
        for member in self.members:
            if member.silent:
                member.silent = False
                self.sessions_lost += expired
                member.link.reconnect(expired=expired)

    @invariant()
    def offsets_never_pass_what_was_delivered(self):
        for partition, node in getattr(self, "zookeeper", MemoryZookeeper(partitions={})).offsets.items():
            assert set(range(node.value)) <= self.delivered[partition]

    def teardown(self):
        """Left alone, the group settles: each partition one owner, in the mode that was asked for."""
        if not hasattr(self, "members"):
            return
        self.reconnect(expired=False)
        for _ in range(12):
            self.settle()
        for _ in range(sum(self.ends.values())):
            for number, member in enumerate(self.members):
                member.pump()
                self.deliver(number)
        assert set(self.zookeeper.owners) == set(self.ends)
        assert {member.reconciler.mode for member in self.members} == {self.zookeeper.mode.requested}
        assert self.delivered == {partition: set(range(end)) for partition, end in self.ends.items()}


TestExclusion = Exclusion.TestCase
TestExclusion.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_settled_member_sleeps_until_there_is_something_to_do(mode):
    """Whatever timer is due, one pass deals with it: the loop never spins on a timer nobody asks for."""
    machine = Exclusion()
    machine.start()
    for wanted in (Mode.KAFKA, mode):
        machine.toggle(wanted)
        for _ in range(4):
            machine.settle()
    for member in machine.members:
        loop = member.reconciler._loop
        loop._due = dict.fromkeys(loop._due, 0.0)  # a long time passes
        member.step()
        assert member.reconciler.mode is mode
        assert member.reconciler._sleep_s() > 0


def test_a_revocation_is_not_acknowledged_while_its_partitions_may_still_be_held():
    """D3: without a link nothing can be released, so the Kafka group must not go on as if it were."""
    machine = Exclusion()
    machine.start()
    machine.toggle(Mode.KAFKA)
    for _ in range(4):
        machine.settle()
    member = machine.members[0]
    assert member.reconciler.held()
    member.link.suspend()
    released = member.reconciler.revoked()
    member.step()
    assert not released.is_set()
    member.link.reconnect(expired=False)
    member.step()
    assert released.is_set()
    assert not member.reconciler.held()


def test_a_partition_without_a_start_does_not_stop_the_commits_of_the_others():
    """O3: one leaderless partition that was never committed; the rest goes on and is committed."""
    machine = Exclusion()
    machine.ends = {TopicPartition("t", number): 4 for number in PARTITIONS["t"]}
    machine.zookeeper = MemoryZookeeper(partitions=PARTITIONS)
    machine.group = MemoryKafkaGroup(partitions=PARTITIONS)
    member = SimulatedMember(machine.zookeeper, machine.group, machine.ends, 0)
    resolve, lost = member.fetch.offsets_at, TopicPartition("t", 0)
    member.fetch.offsets_at = lambda asked, to: {p: at for p, at in resolve(asked, to).items() if p != lost}
    for _ in range(4):
        member.step()
        member.pump()
        member.pump()
        while member.take():
            pass
    member.commit()
    committed = {partition for partition, node in machine.zookeeper.offsets.items() if node.value == 4}
    assert committed == set(machine.ends) - {lost}
