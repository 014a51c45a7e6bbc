"""Invariants of the table of answers, for any group at any broker."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groupshift.domain.group_protocol import (
    ASSIGNMENT_INTERVAL,
    CLASSIC_SIZE,
    CONSUMER_SIZE,
    DOWNGRADING,
    POLICY,
    PROTOCOLS,
    UPGRADING,
    BrokerSettings,
    KafkaGroup,
    KafkaMember,
    Kind,
    Policy,
    Protocol,
    Way,
)
from groupshift.domain.protocol.answers import (
    AnswerOutcome,
    Case,
    CoordinatorEvent,
    emptied,
    forecast,
    predict,
    way_back,
)

NAMES = st.sampled_from(["i1", "i2", None])
ASSIGNORS = st.frozensets(st.sampled_from(["range", "roundrobin", "cooperative-sticky"]), max_size=2)
POLICIES = st.one_of(
    st.sampled_from([policy.value for policy in Policy]), st.sampled_from(["", "Upgrade", "?"])
)
SIZES = st.sampled_from(["1", "2", "3", "2147483647", "", "many"])
BROKERS = st.builds(
    BrokerSettings,
    heartbeats=st.integers(-1, 1),
    listings=st.integers(0, 5),
    descriptions=st.integers(0, 6),
    features=st.dictionaries(st.just("group.version"), st.integers(0, 1)),
    properties=st.fixed_dictionaries(
        {},
        optional={
            POLICY: POLICIES,
            PROTOCOLS: st.sampled_from(["classic", "classic,consumer", " Classic , Consumer ,streams", ""]),
            CONSUMER_SIZE: SIZES,
            CLASSIC_SIZE: SIZES,
            ASSIGNMENT_INTERVAL: st.just("1000"),
        },
    ),
)
MEMBERS = st.builds(
    KafkaMember,
    member_id=st.uuids().map(str),
    client_id=st.just("c"),
    instance_id=NAMES,
    speaks=st.sampled_from([None, *Protocol]),
    epoch=st.sampled_from([None, -2, 0, 7]),
    user_data=st.sampled_from([0, 31]),
    unreadable=st.sampled_from(["", "short"]),
)
GROUPS = st.builds(
    KafkaGroup,
    group=st.just("g"),
    kind=st.sampled_from(Kind),
    protocol_type=st.sampled_from(["", "consumer", "connect"]),
    protocol=st.sampled_from(["", "range"]),
    members=st.lists(MEMBERS, max_size=4).map(tuple),
)
CASES = st.builds(
    Case,
    group=GROUPS,
    broker=BROKERS,
    offers=ASSIGNORS,
    others=st.lists(ASSIGNORS, max_size=2).map(tuple),
    instance_id=NAMES,
)
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@PATIENT
@given(event=st.sampled_from(CoordinatorEvent), case=CASES)
def test_there_is_always_one_answer_and_it_agrees_with_itself(event: CoordinatorEvent, case: Case) -> None:
    """A code where, and only where, a member is refused; a reason without a blank left in it."""
    found = predict(event, case)
    assert found.event is event
    assert found.refused == (found.code != 0) == bool(found.client)
    assert found.reason
    assert "{" not in found.reason
    if found.outcome in {AnswerOutcome.STAYS, AnswerOutcome.EMPTIED}:
        assert found.kind is Kind.CONSUMER
    if found.outcome in {AnswerOutcome.CONVERTS, AnswerOutcome.CREATED}:
        wanted = {CoordinatorEvent.NATIVE_JOINS: Kind.CONSUMER}.get(event, Kind.CLASSIC)
        assert found.kind is wanted


@PATIENT
@given(case=CASES, policy=st.sampled_from(Policy))
def test_a_live_group_never_changes_its_type_against_the_policy(case: Case, policy: Policy) -> None:
    """Whatever else is the case."""
    properties = {**case.broker.properties, POLICY: policy.value}
    broker = BrokerSettings(heartbeats=1, listings=5, descriptions=6, properties=properties)
    asked = Case(group=case.group, broker=broker, instance_id=case.instance_id)
    for event, allowed in (
        (CoordinatorEvent.NATIVE_JOINS, (policy in UPGRADING)),
        (CoordinatorEvent.CLASSIC_JOINS, (policy in DOWNGRADING)),
        (CoordinatorEvent.LAST_NATIVE_LEAVES, (policy in DOWNGRADING)),
    ):
        found = predict(event, asked)
        if not case.group.empty and found.outcome in {AnswerOutcome.CONVERTS, AnswerOutcome.LATER}:
            assert allowed, (event, found)


@PATIENT
@given(case=CASES, policy=st.sampled_from(Policy))
def test_policies_do_not_matter_to_an_empty_group(case: Case, policy: Policy) -> None:
    """Nor whether the policy is told."""
    for event in (CoordinatorEvent.NATIVE_JOINS, CoordinatorEvent.CLASSIC_JOINS):
        properties = {**case.broker.properties, POLICY: policy.value}
        empty = emptied(case.group)
        told = BrokerSettings(
            heartbeats=case.broker.heartbeats,
            listings=case.broker.listings,
            descriptions=case.broker.descriptions,
            features=case.broker.features,
            properties=properties,
        )
        with_it = predict(event, Case(group=empty, broker=told))
        without = predict(event, Case(group=empty, broker=case.broker))
        assert with_it == without


@PATIENT
@given(to=st.sampled_from(Protocol), way=st.sampled_from(Way), group=GROUPS, broker=BROKERS)
def test_every_move_has_a_forecast(to: Protocol, way: Way, group: KafkaGroup, broker: BrokerSettings) -> None:
    """One or two answers; the rollback too."""
    assert 1 <= len(forecast(to, way, group, broker)) <= 2
    assert 1 <= len(way_back(group, broker)) <= 2
