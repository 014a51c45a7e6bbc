"""Audits and plans of placement, over memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupshift.domain.cluster import PlacementView, TopicView
from groupshift.domain.group_partition_and_count import partition_of
from groupshift.domain.verdict import Verdict
from groupshift.errors import Rejected
from groupshift.moves.expansion.facts import ExpansionRequest
from groupshift.moves.expansion.report import observed, overview, render
from groupshift.moves.expansion.rules import audit_placement, plan_expansion
from groupshift_testing.offset_brokers import MemoryPlacementViews
from support.downgrade_clusters import listed
from support.placement_clusters import Log, answering, at, leading, view

EIGHT = {1: 8, 2: 8, 3: 8}
GROUPS = [f"g{number}" for number in range(30)]
LISTED = {1: [listed(group, state="Empty") for group in GROUPS]}


def test_the_log_is_held_against_the_count_in_force() -> None:
    """Eight partitions and all count five: records at five are at home, and the audit says what comes."""
    views, log = MemoryPlacementViews(view(8, {1: 5, 2: 5, 3: 5})), Log(at(GROUPS, 5))
    found = audit_placement(views, log)
    assert found.facts.log is not None
    assert (found.facts.in_force, found.facts.log.count, found.facts.log.elsewhere) == (5, 5, ())
    assert not found.clean
    assert (views.looked_up, len(log.read_at)) == ([], 1)


@pytest.mark.parametrize("answered", [GROUPS, []])
def test_one_broker_that_was_restarted_is_told_from_one_that_was_not(answered: list[str]) -> None:
    """It leads everything and nobody committed since: whether it still answers for what lies at five decides.
    NEW only: the cache of OLD answers either way."""
    views = MemoryPlacementViews(view(8, {1: 5}), answered=frozenset(answered))
    found = audit_placement(views, Log(at(GROUPS, 5)))
    assert found.facts.in_force == (5 if answered else 8)
    failed = {each.rule for each in found.judgement.findings if each.verdict is Verdict.FAIL}
    assert failed == ({"X04"} if answered else {"X07"})
    old = MemoryPlacementViews(view(8, {1: 5}, release="3.4.1"))
    assert audit_placement(old, Log(at(GROUPS, 5))).facts.in_force == 5


@pytest.mark.parametrize("answered", [GROUPS, []])
def test_leaders_in_turn_hide_a_count_and_what_is_forgotten_tells(answered: list[str]) -> None:
    """Six became twelve on three brokers: every multiple of three leads to the same ones, for every name."""
    views = MemoryPlacementViews(view(12, {1: 6, 2: 6, 3: 6}), answered=frozenset(answered))
    assert views.view.counted == dict.fromkeys((1, 2, 3), (3, 6, 9, 12))
    found = audit_placement(views, Log(at(GROUPS, 6)))
    failed = {each.rule for each in found.judgement.findings if each.verdict is Verdict.FAIL}
    assert (found.facts.in_force, failed) == ((6, {"X04"}) if answered else (12, {"X07"}))


def test_what_one_broker_forgot_tells_nothing_of_the_others() -> None:
    """It leads everything; those that lead nothing may count as before."""
    led = leading(8, (1,))
    found = replace(view(8), topic=TopicView(leaders=led, replicas=(3,) * 8), answers=answering(EIGHT, led))
    audit = audit_placement(MemoryPlacementViews(found), Log(at(GROUPS, 5)))
    ((verdict, reason),) = [
        (each.verdict, each.reason) for each in audit.judgement.findings if each.rule == "X04"
    ]
    assert verdict is Verdict.INCONCLUSIVE
    assert "what broker 2, 3 answers fits 8 partitions" in reason


def test_groups_that_two_may_own_are_asked_about_at_each_broker() -> None:
    """What was inferred is proven by what each broker answers."""
    views = MemoryPlacementViews(view(8, {1: 5, 2: 5, 3: 8}))
    found = audit_placement(views, Log(at(GROUPS, 5)))
    assert set(views.looked_up) == set(found.facts.not_one_owner)
    assert dict(found.facts.view.owned) == dict(found.facts.not_one_owner)
    reasons = [each.reason for each in found.judgement.findings if each.rule == "X05"]
    two = sum(len(nodes) > 1 for nodes in found.facts.not_one_owner.values())
    assert f"({two} of {two} asked directly were)" in reasons[0]


def test_a_plan_names_movers_costs_and_load() -> None:
    """Before and after are of the same live records."""
    found = plan_expansion(MemoryPlacementViews(view(8, groups=LISTED)), Log(at(GROUPS, 8)), 16)
    moving = sorted(group for group in GROUPS if partition_of(group, 8) != partition_of(group, 16))
    assert ([each.group for each in found.facts.movers], found.clean) == (moving, True)
    assert [each.count for each in found.facts.costs] == [16, 24, 32]
    assert found.facts.log is not None
    before = found.facts.log.loads
    assert (len(before), len(found.facts.after)) == (8, 16)
    assert sum(each.live_bytes for each in before) == sum(each.live_bytes for each in found.facts.after)
    assert sum(each.groups for each in found.facts.after) == len(GROUPS)


def test_the_page_of_a_plan() -> None:
    """Load now and then on one scale, groups that move, what the rules say; nothing from outside, names as
    text."""
    odd = "<script>"
    listing = {1: [*LISTED[1], listed(odd, state="Empty")]}
    found = plan_expansion(MemoryPlacementViews(view(8, groups=listing)), Log(at([*GROUPS, odd], 8)), 12)
    text = render(ExpansionRequest(to=12), found)
    assert "__consumer_offsets from 8 to 12 partitions" in text
    assert "it may begin" in text
    assert f"{len(found.facts.movers)} of 31" in text
    assert text.count("<rect") == 3 * (8 + 12)
    assert "live records by partition" in text
    assert "<script>" not in text
    assert "http" not in text.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert "12 is no multiple of 8" in text


def test_what_an_assessment_shows_besides_its_findings() -> None:
    """What each broker uses, what counts cost, the load now and then, and the groups that move."""
    found = plan_expansion(MemoryPlacementViews(view(8, groups=LISTED)), Log(at(GROUPS, 8)), 16)
    brokers, costs, load, movers = overview(found)
    assert (brokers.title, len(brokers.rows)) == ("__consumer_offsets: 8 partitions", 3)
    assert [row[0] for row in costs.rows] == ["16 (asked for)", "24", "32"]
    assert [row[:2] for row in load.rows] == [("now", "8"), ("then", "16")]
    assert movers.sentences == (f"{len(found.facts.movers)} of {len(GROUPS)} groups move.",)
    assert [row[0] for row in movers.rows] == [each.group for each in found.facts.movers]


def test_an_assessment_as_data_has_every_group_and_partition() -> None:
    """What each broker uses, what counts cost, who moves, the load of every partition now and then."""
    found = plan_expansion(MemoryPlacementViews(view(8, groups=LISTED)), Log(at(GROUPS, 8)), 16)
    data = observed(ExpansionRequest(to=16), found).data
    assert (data["from"], data["to"], data["partitions"]) == (8, 16, 8)
    assert data["uses"] == {"1": [8], "2": [8], "3": [8]}
    assert (data["costs"], data["moving"]) == (found.facts.costs, found.facts.movers)
    assert (len(data["load"]["now"]), len(data["load"]["then"])) == (8, 16)
    assert sum(each.groups for each in data["load"]["then"]) == len(GROUPS)


@pytest.mark.parametrize(
    ("cluster", "to", "said"),
    [
        (view(8), 8, "--to 8: __consumer_offsets has 8 partitions already .* name more, such as 16"),
        (view(8), 5, "--to 5: __consumer_offsets has 8 partitions already"),
        (view(8, {1: 5, 2: 5, 3: 5}), 5, "--to 5: .* name more, such as 10"),
        (view(0), 8, "--to 8: there is no offsets topic to expand; set offsets.topic.num.partitions=8"),
    ],
)
def test_counts_that_a_topic_cannot_be_given(cluster: PlacementView, to: int, said: str) -> None:
    """One sentence with the field, the value and the remedy."""
    with pytest.raises(Rejected, match=said):
        plan_expansion(MemoryPlacementViews(cluster), Log(), to)


def test_the_count_of_the_topic_may_be_planned_where_nobody_uses_it() -> None:
    """The way out of the latent bomb."""
    bomb = view(8, {1: 5, 2: 5, 3: 5}, groups=LISTED)
    found = plan_expansion(MemoryPlacementViews(bomb), Log(at(GROUPS, 5)), 8)
    assert (found.facts.before, found.facts.to, found.clean) == (5, 8, True)
