"""The reconciler's decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.assignment import Assignor
from groupshift.domain.modes import Mode, ModeNode
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView, Member, Situation, decide
from groupshift.domain.registration import Pattern, Registration

ME, OTHER = "g_m1", "g_m2"
KAFKA = ModeNode(data=b"kafka", version=1, czxid=5, mzxid=9)


def parts(*numbers: int) -> frozenset[TopicPartition]:
    """Partitions of the one topic."""
    return frozenset(TopicPartition("t", number) for number in numbers)


def view(*, unaware: tuple[str, ...] = (), **changes: object) -> CoordinationView:
    """Two members with one stream each on four partitions, both aware."""
    registration = Registration(subscription=(("t", 1),))
    base = CoordinationView(
        registrations=dict.fromkeys((ME, OTHER, *unaware), registration),
        migration_ids=(ME, OTHER),
        partitions={"t": (0, 1, 2, 3)},
        ids_pzxid=77,
    )
    return replace(base, **changes)


def situation(seen: CoordinationView, **changes: object) -> Situation:
    """As seen by the first member."""
    member = Member(consumer_id=ME, subscription={"t": 1}, aware=True)
    return replace(Situation(member=member, view=seen), **changes)


def held(*numbers: int, thread: str = f"{ME}-0") -> dict[TopicPartition, str]:
    """Owner nodes held."""
    return dict.fromkeys(sorted(parts(*numbers)), thread)


def test_a_new_member_takes_its_share_and_nothing_else() -> None:
    """Range over both members' threads; the decision names what it rests on."""
    decision = decide(situation(view()))
    assert decision.mode is Mode.ZOOKEEPER
    assert dict(decision.take) == held(0, 1)
    assert decision.release == ()
    assert (decision.ids_pzxid, decision.node.identity) == (77, "-1:-1")


def test_only_the_difference_moves() -> None:
    """What is held and wanted stays untouched."""
    decision = decide(situation(view(), held=held(1, 2)))
    assert set(decision.release) == parts(2)
    assert dict(decision.take) == held(0)


def test_a_partition_that_changes_its_thread_is_released_and_taken() -> None:
    """The owner node's payload names the stream."""
    decision = decide(situation(view(), held=held(0, 1, thread=f"{ME}-1")))
    assert set(decision.release) == parts(0, 1)
    assert dict(decision.take) == held(0, 1)


def test_kafka_mode_follows_the_kafka_assignment() -> None:
    """And nothing between generations."""
    toggled = situation(view(mode=KAFKA), held=held(0, 1), kafka_assignment=parts(1, 2))
    assert set(decide(toggled).release) == parts(0)
    assert dict(decide(toggled).take) == held(2)
    between = decide(replace(toggled, kafka_assignment=None))
    assert set(between.release) == parts(0, 1)
    assert between.take == ()


@pytest.mark.parametrize("data", [b"zookeeper", b"KAFKA", b"kafka\n", b"", None])
def test_anything_but_kafka_is_zookeeper(data: bytes | None) -> None:
    """§8.3."""
    assert decide(situation(view(mode=replace(KAFKA, data=data)))).mode is Mode.ZOOKEEPER


def test_one_member_that_is_not_aware_keeps_all_in_zookeeper_mode() -> None:
    """It gets its share by the old rules."""
    decision = decide(situation(view(mode=KAFKA, unaware=("g_old",)), kafka_clients=frozenset({ME})))
    assert decision.mode is Mode.ZOOKEEPER
    assert dict(decision.take) == held(0, 1)


def test_a_consumer_of_the_old_protocol_ignores_the_mode() -> None:
    """It has no Kafka assignment to follow."""
    member = Member(consumer_id=ME, subscription={"t": 1}, aware=False)
    assert decide(situation(view(mode=KAFKA), member=member)).mode is Mode.ZOOKEEPER


def test_members_without_the_fence_keep_zookeeper_mode_and_are_named() -> None:
    """F6."""
    decision = decide(situation(view(mode=KAFKA, unfenced=frozenset({OTHER})), kafka_clients=frozenset({ME})))
    assert decision.mode is Mode.ZOOKEEPER
    assert OTHER in decision.alarms[0]


def test_a_member_that_starts_beside_plain_consumers_takes_nothing_of_theirs() -> None:
    """D11, also for a restarted member: an old member joined, the node says kafka, a plain one consumes."""
    starting = situation(view(mode=KAFKA, unaware=("g_old",)))
    asking = decide(starting)
    assert (asking.list_kafka_group, asking.take) == (True, ())
    beside = decide(replace(starting, kafka_clients=frozenset({ME, "plain-1"})))
    assert (beside.mode, beside.take) == (Mode.KAFKA, ())
    assert "plain-1" in beside.alarms[-1]


def test_leaving_kafka_mode_asks_who_is_in_the_kafka_group() -> None:
    """D11: plain consumers cannot be seen in ZooKeeper."""
    leaving = situation(view(), acting=Mode.KAFKA, held=held(0), kafka_assignment=parts(0))
    asking = decide(leaving)
    assert (asking.list_kafka_group, asking.mode, asking.release) == (True, Mode.KAFKA, ())
    known = decide(replace(leaving, kafka_clients=frozenset({ME, OTHER})))
    assert (known.list_kafka_group, known.mode) == (False, Mode.ZOOKEEPER)


def test_plain_consumers_hold_the_group_in_kafka_mode() -> None:
    """With an alarm; also when an old member joins."""
    seen = view(unaware=("g_old",))
    clients = frozenset({ME, OTHER, "g_plain"})
    decision = decide(
        situation(seen, acting=Mode.KAFKA, held=held(0), kafka_assignment=parts(0), kafka_clients=clients)
    )
    assert (decision.mode, decision.release, decision.take) == (Mode.KAFKA, (), ())
    assert "g_plain" in decision.alarms[0]


def test_a_lost_registration_is_renewed_before_anything_else() -> None:
    """Without it no assignment counts me in."""
    seen = view()
    others = {OTHER: seen.registrations[OTHER]}
    decision = decide(situation(replace(seen, registrations=others), held=held(0)))
    assert (decision.register, decision.release, decision.take) == (True, (), ())


def test_a_node_that_nobody_can_read_freezes_the_assignment_and_is_reported() -> None:
    """Old members fail their rebalance on it; ours keep what they hold."""
    decision = decide(situation(view(problems=("ids/x is no JSON",)), held=held(3)))
    assert (decision.release, decision.take, decision.alarms) == ((), (), ("ids/x is no JSON",))


def test_wildcards_of_other_members_count_for_my_topics() -> None:
    """The Scala console consumer always registers a white list."""
    seen = view()
    scala = Registration(subscription=(("t", 1),), pattern=Pattern.WHITE_LIST)
    mixed = replace(seen, registrations={**seen.registrations, OTHER: scala})
    assert dict(decide(situation(mixed)).take) == held(0, 1)


def test_round_robin_counts_every_topic_of_the_group() -> None:
    """Also one that only another member consumes."""
    seen = view(partitions={"t": (0, 1), "u": (0, 1)})
    both = Registration(subscription=(("t", 1), ("u", 1)))
    seen = replace(seen, registrations={ME: both, OTHER: both})
    member = Member(consumer_id=ME, subscription={"t": 1, "u": 1}, aware=True, assignor=Assignor.ROUND_ROBIN)
    mine = decide(situation(seen, member=member))
    other = decide(situation(seen, member=replace(member, consumer_id=OTHER)))
    taken = [partition for partition, _ in (*mine.take, *other.take)]
    assert len(taken) == len(set(taken)) == 4


def wild(pattern: Pattern, regex: str = "t.*") -> tuple[Member, Registration]:
    """This member with one stream for a wildcard."""
    member = Member(consumer_id=ME, subscription={regex: 1}, aware=True, pattern=pattern)
    return member, Registration(subscription=((regex, 1),), pattern=pattern)


@pytest.mark.parametrize(("pattern", "regex"), [(Pattern.WHITE_LIST, "t.*"), (Pattern.BLACK_LIST, "u")])
def test_an_own_wildcard_takes_part_in_every_topic_that_matches(pattern: Pattern, regex: str) -> None:
    """§3.2: streams shared by all matching topics; internal and other topics are not seen."""
    member, registration = wild(pattern, regex)
    seen = view(
        registrations={ME: registration, OTHER: Registration(subscription=(("t", 1), ("u", 1)))},
        partitions={"t": (0, 1), "t2": (0,), "u": (0,), "__consumer_offsets": (0,)},
    )
    decision = decide(situation(seen, member=member))
    assert dict(decision.take) == {TopicPartition("t", 0): f"{ME}-0", TopicPartition("t2", 0): f"{ME}-0"}


def test_a_topic_that_kafka_assigned_before_zookeeper_shows_it_is_not_dropped() -> None:
    """L5: the wildcard decides by name."""
    member, registration = wild(Pattern.WHITE_LIST)
    seen = view(mode=KAFKA, registrations={ME: registration, OTHER: registration}, partitions={})
    new = TopicPartition("tnew", 0)
    decision = decide(situation(seen, member=member, kafka_assignment=frozenset({new})))
    assert dict(decision.take) == {new: f"{ME}-0"}


def test_an_empty_subscription_owns_nothing_and_follows_every_mode() -> None:
    """It is in no Kafka group, so it cannot know who is; holding nothing, it need not."""
    member = Member(consumer_id=ME, subscription={}, aware=True)
    seen = view(
        registrations={ME: Registration(subscription=()), OTHER: Registration(subscription=(("t", 1),))}
    )
    decision = decide(situation(seen, member=member, acting=Mode.KAFKA))
    assert (decision.mode, decision.take, decision.list_kafka_group) == (Mode.ZOOKEEPER, (), False)


def test_partitions_of_a_deleted_topic_are_released() -> None:
    """Its node is gone: no partitions."""
    assert set(decide(situation(view(partitions={"t": ()}), held=held(0, 1))).release) == parts(0, 1)
