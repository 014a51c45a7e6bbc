"""What the others seem to compute by."""

from __future__ import annotations

import pytest

from groupshift.domain.assignment import SCHEMES, Assignor, Scheme, TextForm
from groupshift.domain.partitions import TopicPartition
from groupshift.domain.reconcile import CoordinationView, Member
from groupshift.domain.registration import Registration
from groupshift.domain.waking_old_members import (
    scheme_advice,
    schemes_of_keepers,
    schemes_of_losers,
)

RANGE, BRACKET, DASH = SCHEMES.values()
C1, C2 = "g_c1", "g_c2"
BOTH = {"clicks": 1, "orders": 1}
RR3 = CoordinationView(
    registrations=dict.fromkeys((C1, C2), Registration(subscription=tuple(BOTH.items()))),
    migration_ids=(C1,),
    partitions={"clicks": (0, 1), "orders": (0, 1, 2)},
)
K0, K1, O0 = TopicPartition("clicks", 0), TopicPartition("clicks", 1), TopicPartition("orders", 0)


def computing(scheme: Scheme, consumer_id: str = C1) -> Member:
    """An aware member."""
    return Member(
        consumer_id=consumer_id, subscription=BOTH, aware=True, assignor=scheme.assignor, form=scheme.form
    )


@pytest.mark.parametrize(
    ("own", "kept", "theirs"), [(DASH, K0, (BRACKET,)), (BRACKET, K1, (RANGE, DASH)), (DASH, O0, ())]
)
def test_what_others_keep_is_theirs_by_another_scheme(own, kept, theirs) -> None:
    """RR3: dash gives k0 to c1 and k1 to c2, bracket the other way round; all give o0 to c1."""
    assert schemes_of_keepers(computing(own), RR3, [kept]) == theirs


@pytest.mark.parametrize(("own", "theirs"), [(DASH, (RANGE, BRACKET)), (BRACKET, (RANGE, DASH))])
def test_who_gives_up_wants_more_by_another_scheme(own, theirs) -> None:
    """It finds owned what it wants besides (c2: k0 by bracket, k1 by dash, o2 by range)."""
    free = {TopicPartition("orders", 1): f"{C2}-0"}
    assert schemes_of_losers(computing(own), RR3, free) == theirs


def test_who_gives_up_without_wanting_more_has_another_reason() -> None:
    """By no scheme do two members with one stream each want more of two partitions than one."""
    view = CoordinationView(
        registrations=dict.fromkeys((C1, C2), Registration(subscription=(("clicks", 1),))),
        partitions={"clicks": (0, 1)},
    )
    assert schemes_of_losers(computing(DASH), view, {K1: f"{C2}-0"}) == ()


def test_nothing_is_concluded_while_a_node_cannot_be_read() -> None:
    """The others compute nothing then, either."""
    view = CoordinationView(
        registrations=RR3.registrations, partitions=RR3.partitions, problems=("unreadable",)
    )
    assert schemes_of_keepers(computing(DASH), view, [K0]) == ()


def test_the_advice_names_both_configurations() -> None:
    """And without an explanation it asks for both keys."""
    member = computing(DASH)
    told = scheme_advice(member, [Scheme(Assignor.ROUND_ROBIN, TextForm.BRACKET), RANGE])
    assert "has partition.assignment.strategy=roundrobin, roundrobin.text.form=dash" in told
    assert "have partition.assignment.strategy=roundrobin, roundrobin.text.form=bracket or part" in told
    asked = scheme_advice(member, [])
    assert "one partition.assignment.strategy and roundrobin.text.form?" in asked
    assert "have" not in asked.partition("Here")[2]
