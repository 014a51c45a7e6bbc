"""The table of answers, row by row: what real brokers did (docs/reference/coordinator-on-real-brokers.md
§C)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.group_protocol import (
    AWAY,
    POLICY,
    PROTOCOLS,
    BrokerSettings,
    KafkaGroup,
    Kind,
    Policy,
    Protocol,
    Way,
)
from groupshift.domain.protocol.answers import (
    TABLE,
    WHEN,
    AnswerOutcome,
    Case,
    CoordinatorAnswer,
    CoordinatorEvent,
    forecast,
    predict,
    way_back,
)
from support.protocol_groups import broker, classic, consumer, member

ALL = tuple(Policy)
NATIVE, CLASSIC, LAST = (
    CoordinatorEvent.NATIVE_JOINS,
    CoordinatorEvent.CLASSIC_JOINS,
    CoordinatorEvent.LAST_NATIVE_LEAVES,
)


def answer(
    event: CoordinatorEvent, group: KafkaGroup, at: BrokerSettings | None = None, **other: object
) -> CoordinatorAnswer:
    """What is predicted."""
    return predict(event, Case(group=group, broker=at or broker(), **other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "outcome", "code"),
    [
        (Policy.BIDIRECTIONAL, AnswerOutcome.CONVERTS, 0),
        (Policy.UPGRADE, AnswerOutcome.CONVERTS, 0),
        (Policy.DOWNGRADE, AnswerOutcome.REFUSED, 69),
        (Policy.DISABLED, AnswerOutcome.REFUSED, 69),
    ],
)
def test_a_native_member_and_a_live_classic_group(policy: Policy, outcome: AnswerOutcome, code: int) -> None:
    """First row of the verified table."""
    found = answer(NATIVE, classic(), broker(policy))
    assert (found.outcome, found.code) == (outcome, code)
    assert found.kind is (Kind.CONSUMER if outcome is AnswerOutcome.CONVERTS else None)
    assert (policy.value in found.reason, bool(found.client)) == (True, found.refused)


@pytest.mark.parametrize("policy", ALL)
def test_empty_groups_convert_under_every_policy(policy: Policy) -> None:
    """Second and last row: both ways, also a group of Connect (seen on 3.9.2 to 4.3.1)."""
    there = answer(NATIVE, classic(0), broker(policy))
    assert (there.outcome, there.kind) == (AnswerOutcome.CONVERTS, Kind.CONSUMER)
    assert answer(NATIVE, classic(0, protocol_type="connect"), broker(policy)).kind is Kind.CONSUMER
    back = answer(CLASSIC, consumer(0), broker(policy))
    assert (back.outcome, back.kind) == (AnswerOutcome.CONVERTS, Kind.CLASSIC)


@pytest.mark.parametrize(
    ("policy", "outcome", "code"),
    [
        (Policy.BIDIRECTIONAL, AnswerOutcome.ADMITTED, 0),
        (Policy.UPGRADE, AnswerOutcome.ADMITTED, 0),
        (Policy.DOWNGRADE, AnswerOutcome.ADMITTED, 0),
        (Policy.DISABLED, AnswerOutcome.REFUSED, 23),
    ],
)
def test_a_classic_member_and_a_live_consumer_group(
    policy: Policy, outcome: AnswerOutcome, code: int
) -> None:
    """Third row."""
    found = answer(CLASSIC, consumer(), broker(policy))
    assert (found.outcome, found.code) == (outcome, code)


def test_a_release_before_4_3_admits_a_classic_member_in_spite_of_disabled() -> None:
    """KAFKA-20640: seen on 3.9.2, 4.0.2, 4.1.2, 4.2.1, which answer no error and never convert it."""
    before = broker(Policy.DISABLED, properties={POLICY: "disabled", PROTOCOLS: "classic,consumer"})
    found = answer(CLASSIC, consumer(), before)
    assert (found.outcome, found.code) == (AnswerOutcome.ADMITTED, 0)
    assert "KAFKA-20640" in found.reason


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        (Policy.BIDIRECTIONAL, AnswerOutcome.CONVERTS),
        (Policy.UPGRADE, AnswerOutcome.STAYS),
        (Policy.DOWNGRADE, AnswerOutcome.CONVERTS),
        (Policy.DISABLED, AnswerOutcome.STAYS),
    ],
)
def test_the_last_native_member_leaves_classic_ones(policy: Policy, outcome: AnswerOutcome) -> None:
    """Fourth row."""
    found = answer(LAST, consumer(1, 2), broker(policy))
    assert found.outcome is outcome
    assert found.kind is (Kind.CLASSIC if outcome is AnswerOutcome.CONVERTS else Kind.CONSUMER)


@pytest.mark.parametrize("policy", ALL)
def test_the_last_native_member_leaves_nobody(policy: Policy) -> None:
    """Fifth row: type consumer, state Empty."""
    found = answer(LAST, consumer(1), broker(policy))
    assert (found.outcome, found.kind) == (AnswerOutcome.EMPTIED, Kind.CONSUMER)


def test_a_static_native_member_keeps_the_group_until_its_session_ends() -> None:
    """Epoch -2 (scenario 27)."""
    static = consumer(1, 2)
    static = replace(static, members=(replace(static.members[0], instance_id="i"), *static.members[1:]))
    found = answer(LAST, static)
    assert (found.outcome, found.kind) == (AnswerOutcome.LATER, Kind.CLASSIC)


@pytest.mark.parametrize(("bytes_", "since"), [(31, 6), (23, 6)])
def test_data_of_the_assignor_stops_the_conversion_from_4_0_on(bytes_: int, since: int) -> None:
    """Seen with cooperative-sticky of librdkafka: 69 on 4.0.2 and 4.3.1, no check in 3.9.2."""
    members = (member(Protocol.CLASSIC), member(Protocol.CLASSIC, 2, user_data=bytes_))
    sticky = classic(protocol="cooperative-sticky", members=members)
    found = answer(NATIVE, sticky)
    assert (found.outcome, found.code) == (AnswerOutcome.REFUSED, 69)
    assert "cooperative-sticky" in found.reason
    assert answer(NATIVE, sticky, broker(descriptions=since - 1)).outcome is AnswerOutcome.CONVERTS
    assert answer(NATIVE, replace(sticky, members=(), state="Empty")).outcome is AnswerOutcome.CONVERTS


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (classic(protocol_type="connect"), "connect"),
        (classic(members=(member(Protocol.CLASSIC, unreadable="short"),)), "cannot be read"),
        (KafkaGroup(group="g", kind=Kind.SHARE), "share"),
        (KafkaGroup(group="g", kind=Kind.STREAMS), "streams"),
    ],
)
def test_groups_that_no_native_member_can_join(group: KafkaGroup, said: str) -> None:
    """All of them 69."""
    found = answer(NATIVE, group)
    assert (found.outcome, found.code) == (AnswerOutcome.REFUSED, 69)
    assert said in found.reason


def test_a_group_that_is_as_large_as_allowed() -> None:
    """Above the limit 69, at it 81 for the one that comes; both limits are read at the broker."""
    limits = broker().properties | {"group.consumer.max.size": "2", "group.max.size": "2"}
    small = broker(properties=limits)
    assert answer(NATIVE, classic(1), small).outcome is AnswerOutcome.CONVERTS
    assert answer(NATIVE, classic(2), small).code == 81
    assert answer(NATIVE, classic(3), small).code == 69
    assert answer(NATIVE, consumer(2), small).code == 81
    assert answer(CLASSIC, consumer(2), small).code == 81
    assert answer(CLASSIC, classic(2), small).code == 81
    assert answer(LAST, consumer(1, 3), small).outcome is AnswerOutcome.STAYS
    assert answer(LAST, consumer(1, 2), small).outcome is AnswerOutcome.CONVERTS


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (broker(heartbeats=-1), "older than 3.7"),
        (broker(properties={PROTOCOLS: "classic"}), PROTOCOLS),
        (broker(features={}), "finalised at 0"),
        (broker(features={"group.version": 0}), "group.version"),
    ],
)
def test_a_broker_that_does_not_serve_native_members(at: BrokerSettings, said: str) -> None:
    """35; a classic member converts an empty group all the same (seen with group.version 0)."""
    found = answer(NATIVE, classic(), at)
    assert (found.outcome, found.code) == (AnswerOutcome.REFUSED, 35)
    assert said in found.reason
    assert answer(CLASSIC, consumer(0), at).outcome is AnswerOutcome.CONVERTS


def test_the_early_access_of_3_7_converts_nothing() -> None:
    """Not even an empty group, but makes new ones."""
    early = broker(heartbeats=0, listings=4, descriptions=5)
    assert [answer(NATIVE, group, early).code for group in (classic(), classic(0))] == [69, 69]
    assert answer(NATIVE, KafkaGroup(group="g", kind=Kind.ABSENT), early).outcome is AnswerOutcome.CREATED


def test_instance_ids_of_native_members_are_theirs_until_they_leave() -> None:
    """111 for a second one; a static member that closed (epoch -2) is replaced, a classic one at once."""
    held = consumer(1, members=(member(Protocol.CONSUMER, instance_id="i", epoch=4),))
    assert answer(NATIVE, held, instance_id="i").code == 111
    assert answer(NATIVE, held, instance_id="j").outcome is AnswerOutcome.ADMITTED
    away = replace(held, members=(replace(held.members[0], epoch=AWAY),))
    assert answer(NATIVE, away, instance_id="i").outcome is AnswerOutcome.ADMITTED
    both = replace(held, members=(*held.members, member(Protocol.CLASSIC, 2, instance_id="k")))
    assert answer(NATIVE, both, instance_id="k").outcome is AnswerOutcome.ADMITTED
    assert answer(CLASSIC, both, instance_id="i").kind is Kind.CLASSIC
    assert answer(CLASSIC, both, broker(Policy.UPGRADE), instance_id="i").kind is Kind.CONSUMER
    before_4_0 = broker(heartbeats=0)  # KAFKA-17317
    assert answer(CLASSIC, both, before_4_0, instance_id="i").kind is Kind.CONSUMER


def test_classic_members_must_share_an_assignor() -> None:
    """23 else, in a classic group and in one of type consumer."""
    others = (frozenset({"range"}), frozenset({"range", "roundrobin"}))
    for group in (classic(), consumer(1, 2)):
        assert answer(CLASSIC, group, offers=frozenset({"roundrobin"}), others=others).code == 23
        assert answer(CLASSIC, group, offers=frozenset({"range"}), others=others).code == 0
        assert answer(CLASSIC, group, offers=frozenset({"range"})).code == 0


def test_what_is_not_told_is_not_guessed() -> None:
    """A policy that the broker keeps to itself, members whose protocol it does not name, types to come."""
    unknown = AnswerOutcome.UNKNOWN
    assert answer(NATIVE, classic(), broker(None)).outcome is unknown
    assert answer(CLASSIC, consumer(), broker(None)).outcome is unknown
    assert answer(LAST, consumer(1, 1), broker(None)).outcome is unknown
    assert answer(LAST, consumer(members=(member(None),))).outcome is unknown
    future = KafkaGroup(group="g", kind=Kind.UNKNOWN)
    assert {answer(event, future).outcome for event in (NATIVE, CLASSIC)} == {unknown}
    assert answer(NATIVE, classic(0), broker(None)).outcome is AnswerOutcome.CONVERTS


def test_share_and_streams_groups_and_classic_members() -> None:
    """23, but an empty group of streams converts."""
    share, streams = (KafkaGroup(group="g", kind=kind) for kind in (Kind.SHARE, Kind.STREAMS))
    assert answer(CLASSIC, share).code == 23
    assert answer(CLASSIC, streams).kind is Kind.CLASSIC
    assert answer(CLASSIC, replace(streams, state="Stable")).code == 23


def test_a_whole_move_online_and_offline() -> None:
    """Offline only the emptied group counts; online to classic the last native member counts too."""
    upgrade = broker(Policy.UPGRADE)
    assert [a.outcome for a in forecast(Protocol.CONSUMER, Way.ONLINE, classic(), upgrade)] == ["converts"]
    down = forecast(Protocol.CLASSIC, Way.ONLINE, consumer(3), upgrade)
    assert [a.outcome for a in down] == ["admitted", "stays consumer"]
    assert [a.outcome for a in forecast(Protocol.CLASSIC, Way.OFFLINE, consumer(3), upgrade)] == ["converts"]
    disabled = broker(Policy.DISABLED)
    assert [a.code for a in forecast(Protocol.CLASSIC, Way.ONLINE, consumer(3), disabled)] == [23, 0]
    assert [a.outcome for a in forecast(Protocol.CONSUMER, Way.OFFLINE, classic(), disabled)] == ["converts"]
    assert [a.outcome for a in way_back(classic(3), upgrade)] == ["admitted", "stays consumer"]


def test_a_member_is_stopped_before_its_successor_joins() -> None:
    """So a group that is as large as allowed can be moved; who stands in the way is not taken to be gone."""
    small = broker(properties=broker().properties | {"group.consumer.max.size": "2"})
    (joined,) = forecast(Protocol.CONSUMER, Way.ONLINE, classic(2), small)
    assert joined.outcome is AnswerOutcome.CONVERTS
    members = (member(Protocol.CLASSIC, 1, user_data=8), member(Protocol.CLASSIC, 2))
    for order in (members, members[::-1]):
        (refused,) = forecast(Protocol.CONSUMER, Way.ONLINE, classic(2, members=order), broker())
        assert refused.number == "PN12"
    (alone,) = forecast(Protocol.CONSUMER, Way.ONLINE, classic(1), broker(Policy.DISABLED))
    assert alone.number == "PN06"


def test_a_group_of_one_is_empty_between() -> None:
    """Its only native member leaves first; the classic one then converts the empty group (scenario 25)."""
    found = forecast(Protocol.CLASSIC, Way.ONLINE, consumer(1), broker())
    assert [(a.event, a.kind) for a in found] == [(LAST, Kind.CONSUMER), (CLASSIC, Kind.CLASSIC)]


def test_the_rows_have_numbers_of_their_own() -> None:
    """In the order in which they are asked; each but the last of an event has a condition."""
    numbers = [row.number for rows in TABLE.values() for row in rows]
    assert len(numbers) == len(set(numbers))
    for rows in TABLE.values():
        assert [int(row.number[2:]) for row in rows] == list(range(1, len(rows) + 1))
    assert set(WHEN) == set(numbers) - {rows[-1].number for rows in TABLE.values()}
