"""What a look at a group tells the hazard book, and what people have to say themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.group_protocol import PROTOCOLS, BrokerSettings, KafkaGroup, Policy, Protocol, Way
from groupshift.domain.hazards import Met, Role, Trait
from groupshift.domain.protocol.preflight import ProtocolFacts
from groupshift.domain.rows import ClusterState, OffsetRow
from groupshift.domain.verdict import Verdict
from groupshift.domain.versions import line_of, version_in
from groupshift.moves.protocol.rules import hazard_facts, known_bugs
from support.protocol_groups import broker, classic, consumer, member, view

UP, DOWN = Protocol.CONSUMER, Protocol.CLASSIC


def facts(
    group: KafkaGroup,
    *at: BrokerSettings,
    to: Protocol = UP,
    way: Way = Way.ONLINE,
    named: dict[Role, tuple[Met, ...]] | None = None,
) -> ProtocolFacts:
    """A group that is assessed."""
    return ProtocolFacts(view=view(group, *at), to=to, way=way, versions=named or {})


def said(client: Role, text: str) -> dict[Role, tuple[Met, ...]]:
    """One client is named, so no other is there."""
    others: dict[Role, tuple[Met, ...]] = {Role.LIBRDKAFKA: (), Role.KAFKA_CLIENTS: (), Role.MIRROR_MAKER: ()}
    return {**others, client: (Met(where=client.value, version=version_in(text), said=text),)}


def verdicts(asked: ProtocolFacts) -> dict[str, Verdict]:
    """By hazard, without those that are not met."""
    return {each.rule: each.verdict for each in known_bugs(asked) if each.hint}


def test_the_line_of_each_broker_is_told_by_what_it_supports() -> None:
    """30 is 4.3, 21 is 3.9; nothing, or a number to come, stays unknown and is asked for."""
    brokers = (broker(metadata=30), broker(metadata=21), broker(), broker(metadata=99))
    told = hazard_facts(facts(classic(2), *brokers)).versions[Role.BROKER]
    assert [each.where for each in told] == ["broker 1", "broker 2", "broker 3", "broker 4"]
    assert [each.version for each in told] == [line_of(30), line_of(21), None, None]
    assert "H00" in verdicts(facts(classic(2), broker(), named=said(Role.KAFKA_CLIENTS, "4.1.0")))


def test_what_people_say_of_brokers_comes_first() -> None:
    """A line is 4.0.0 to 4.0.2; said to be 4.0.2, nothing of KAFKA-19862 is left to ask."""
    clients = said(Role.KAFKA_CLIENTS, "4.1.0")
    line = verdicts(facts(classic(2), broker(metadata=25), named=clients))
    assert line["H12"] is Verdict.INCONCLUSIVE
    for text, verdict in (("4.0.1", Verdict.FAIL), ("4.0.2", None)):
        named = clients | {Role.BROKER: (Met(where="broker", version=version_in(text)),)}
        assert verdicts(facts(classic(2), broker(metadata=25), named=named)).get("H12") is verdict


@pytest.mark.parametrize(
    ("group", "at", "trait", "told"),
    [
        (classic(2), broker(), Trait.ONLINE, True),
        (classic(0), broker(), Trait.ONLINE, False),
        (classic(2), broker(), Trait.NEW_COORDINATOR, True),
        (classic(2), broker(properties={PROTOCOLS: "classic"}), Trait.OLD_COORDINATOR, True),
        (classic(2), broker(untold="31"), Trait.NEW_COORDINATOR, None),
        (classic(2), broker(), Trait.POLICY_DISABLED, False),
        (classic(2), broker(Policy.DISABLED), Trait.POLICY_DISABLED, True),
        (classic(2), broker(None), Trait.POLICY_DISABLED, None),
        (classic(2), broker(), Trait.STATIC_MEMBERS, False),
        (consumer(1, members=(member(UP, instance_id="i"),)), broker(), Trait.STATIC_MEMBERS, True),
        (classic(0), broker(), Trait.STATIC_MEMBERS, None),
        (classic(2, protocol="cooperative-sticky"), broker(), Trait.COOPERATIVE_STICKY, True),
        (classic(2, members=(member(DOWN, user_data=8),)), broker(), Trait.ASSIGNMENT_DATA, True),
        (classic(2), broker(), Trait.STREAMS_GROUPS, None),
        (classic(2), broker(), Trait.COMMIT_METADATA, None),
    ],
)
def test_conditions_are_told_where_they_are_seen(
    group: KafkaGroup, at: BrokerSettings, trait: Trait, told: object
) -> None:
    """And left open where they are not: an empty group tells nothing of its members."""
    assert hazard_facts(facts(group, at)).traits.get(trait) is told


def test_offsets_tell_whether_commits_carry_metadata() -> None:
    """A NUL by itself is none (confluent-kafka adds it)."""
    for metadata, told in (("checkpoint\0", True), ("\0", False), ("", False), (None, False)):
        row = OffsetRow(group="g", topic="t", partition=0, offset=1, metadata=metadata)
        asked = replace(facts(classic(2)), state=ClusterState(cluster_id="c", taken_at_ms=1, offsets=[row]))
        assert hazard_facts(asked).traits[Trait.COMMIT_METADATA] is told


def test_a_client_that_never_joins_is_refused_before_it_does_not() -> None:
    """From 2.10 on librdkafka is silent on brokers before 4.0 (H24)."""
    named = said(Role.LIBRDKAFKA, "2.16")
    assert verdicts(facts(classic(2), broker(metadata=21, heartbeats=0), named=named))["H24"] is Verdict.FAIL
    assert "H24" not in verdicts(facts(classic(2), broker(metadata=30), named=named))


def test_each_direction_asks_for_its_own_hazards() -> None:
    """Policy disabled keeps classic members out only in a rollback (H19, H20)."""
    disabled = broker(Policy.DISABLED, metadata=30)
    back = verdicts(facts(consumer(2), disabled, to=DOWN))
    assert {"H19", "H20"} & set(back)
    assert not {"H19", "H20"} & set(verdicts(facts(classic(2), disabled)))
