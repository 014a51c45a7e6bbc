"""Scenarios of the group coordinator on a real 4.3.1 with real consumers: there, and back.

23 and 31d are in `test_protocol_answers`, 29 in `test_silent_members`, 26 to 31b in `tests/matrix`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pytest

from groupshift.domain.group_protocol import Kind
from groupshift_sandbox.kafka import create_topic
from groupshift_sandbox.layout import Cluster
from support.coordinator_members import CLASSIC, NATIVE, Members, epochs, generations, records_of
from support.protocol_story import story

PARTITIONS = 6


@pytest.fixture
def members(kraft: Cluster, group: str) -> Iterator[Members]:
    """Of a group and a topic of this test's own."""
    topic = f"rolled-{group}"
    create_topic(kraft.bootstrap, topic, PARTITIONS)
    found = Members(kraft.bootstrap, group, topic, PARTITIONS)
    try:
        yield found
    finally:
        found.close()


COMMITTED = [100 + number for number in range(PARTITIONS)]


def kind_of(members: Members) -> tuple[Kind, str]:
    """Type and state of the group, as its coordinator tells them."""
    with story(members.bootstrap) as told:
        found = told.look(members.group)
    return found.kind, found.state


def test_coordinator_22_classic_members_roll_to_consumer(members: Members) -> None:
    """The type flips at the first native join, the epoch is the generation and then one more, each partition
    has one owner after every change, and the offsets stay."""
    for name in ("a", "b", "c"):
        members.join(name, CLASSIC)
    members.commit(100)
    (*_, generation) = generations(records_of(members.bootstrap, members.group))
    members.leave("a")
    (*_, generation) = generations(records_of(members.bootstrap, members.group))
    members.join("a", NATIVE)
    assert kind_of(members)[0] is Kind.CONSUMER
    assert epochs(records_of(members.bootstrap, members.group))[:2] == [generation, generation + 1]
    for name in ("b", "c"):
        members.leave(name)
        members.join(name, NATIVE)
    assert kind_of(members) == (Kind.CONSUMER, "Stable")
    assert members.committed() == COMMITTED


def test_coordinator_24_native_members_roll_to_classic(members: Members) -> None:
    """Classic after the last native leave, in one batch: tombstones of types 8, 7, 6, 5, 4, 3, then the one
    record of type 2; the offsets stay."""
    for name in ("a", "b", "c"):
        members.join(name, NATIVE)
    members.commit(100)
    for name in ("a", "b"):
        members.leave(name)
        members.join(name, CLASSIC)
        assert kind_of(members)[0] is Kind.CONSUMER
    members.leave("c")
    with story(members.bootstrap) as told:
        told.await_group(members.group, lambda found: found.kind is Kind.CLASSIC)
    records = records_of(members.bootstrap, members.group)
    first = next(each for each in records if each.record_type == 2 and not each.is_tombstone)
    before = records[: records.index(first)]
    batch = [each for each in before if each.record_ts == before[-1].record_ts]
    tombstones = [kind for kind, _ in groupby(each.record_type for each in batch if each.is_tombstone)]
    assert tombstones[-6:] == [8, 7, 6, 5, 4, 3]
    assert before[-1].is_tombstone
    members.join("c", CLASSIC)
    assert kind_of(members) == (Kind.CLASSIC, "Stable")
    assert members.committed() == COMMITTED


def test_coordinator_25_one_native_member_stops_and_starts_as_classic(members: Members) -> None:
    """Of type consumer and Empty in between, then classic in its first generation; the offsets stay."""
    members.join("a", NATIVE)
    members.commit(100)
    members.leave("a")
    with story(members.bootstrap) as told:
        told.await_group(members.group, lambda found: (found.kind, found.state) == (Kind.CONSUMER, "Empty"))
    assert members.committed() == COMMITTED
    members.join("a", CLASSIC)
    assert kind_of(members) == (Kind.CLASSIC, "Stable")
    assert generations(records_of(members.bootstrap, members.group))[0] in {0, 1}
    assert generations(records_of(members.bootstrap, members.group))[-1] == 1
    assert members.committed() == COMMITTED
