"""Filters of groups and topics: whole names, exclusion wins, an empty list matches nothing."""

from __future__ import annotations

from typing import Any

import pytest

from groupshift.errors import Rejected
from groupshift.links.link import Filters


@pytest.mark.parametrize(
    ("group", "accepted"),
    [
        ("billing", True),
        ("g-a,b", True),
        ("console-consumer-12", False),
        ("console-consumer", True),
        ("my-console-consumer-12", True),
        ("connect-sink", False),
        ("__transaction", False),
        ("_one", True),
    ],
)
def test_cluster_05_filters_of_groups_by_default(group: str, *, accepted: bool) -> None:
    """Everything but consoles, Connect and what begins with two underscores; the whole name counts."""
    assert Filters().accepts_group(group) is accepted


@pytest.mark.parametrize(
    ("topic", "accepted"),
    [
        ("orders", True),
        ("eu.orders", True),
        ("mm2-offset-syncs.backup.internal", False),
        ("connect-configs-internal", False),
        ("internal", True),
        ("orders.internals", True),
        ("orders.replica", False),
        ("ordersXreplica", True),
        ("__consumer_offsets", False),
    ],
)
def test_cluster_05_filters_of_topics_by_default(topic: str, *, accepted: bool) -> None:
    """Everything but internal topics and replicas."""
    assert Filters().accepts_topic(topic) is accepted


def test_cluster_05_filters_exclusion_wins() -> None:
    """Also over an expression that names the group itself."""
    filters = Filters(groups=("billing", "b.*"), groups_exclude=(".*ing",))
    assert not filters.accepts_group("billing")
    assert filters.accepts_group("bank")


def test_cluster_05_filters_match_the_whole_name() -> None:
    """An expression is not searched for, in either list."""
    filters = Filters(topics=("order", "pay.*"), topics_exclude=("pay",))
    names = ("order", "orders", "border", "pay", "payment")
    assert [topic for topic in names if filters.accepts_topic(topic)] == ["order", "payment"]


def test_cluster_05_filters_an_empty_list_matches_nothing() -> None:
    """Nothing is taken by an empty list, and nothing is left out by one."""
    assert not Filters(groups=()).accepts_group("billing")
    assert not Filters(topics=()).accepts_topic("orders")
    assert Filters(groups_exclude=()).accepts_group("connect-sink")
    assert Filters(topics_exclude=()).accepts_topic("__consumer_offsets")


def test_cluster_05_filters_a_comma_is_a_comma() -> None:
    """A group id with a comma can be named, or left out; it is not two groups."""
    filters = Filters(groups=("g-a,b", "g .x"), groups_exclude=("h,.*",))
    assert [g for g in ("g-a,b", "g-a", "b", "g yx", "gyx", "h,1") if filters.accepts_group(g)] == [
        "g-a,b",
        "g yx",
    ]


def test_cluster_05_filters_one_expression_does_not_change_another() -> None:
    """Numbers of groups and alternatives stay within their own expression."""
    filters = Filters(groups=("(a)x|b", r"(c)\1"), groups_exclude=())
    accepted = [group for group in ("ax", "b", "cc", "ca", "bx") if filters.accepts_group(group)]
    assert accepted == ["ax", "b", "cc"]


@pytest.mark.parametrize(
    ("filters", "group", "why"),
    [
        (Filters(), "billing", ""),
        (Filters(), "connect-sink", "groups_exclude has 'connect-.*'"),
        (Filters(groups=("a", "b")), "c", "groups has no expression that matches it"),
        (Filters(groups=()), "c", "groups is empty"),
        (Filters(), "g" * 250, "more than 249 characters, which no filter matches"),
    ],
)
def test_a_refusal_names_the_list_and_the_expression(filters: Filters, group: str, why: str) -> None:
    """So that a person sees why a group is not synced."""
    refusal = filters.refusal_of_group(group)
    assert (why in refusal) if why else refusal == ""


def test_a_refusal_of_a_topic_names_the_list_of_topics() -> None:
    """Not that of groups."""
    assert Filters().refusal_of_topic("a.replica") == r"topics_exclude has '.*\\.replica'"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"groups": "orders-.*"}, "groups: 'orders-.*' is no list of texts; write a list"),
        ({"topics_exclude": None}, "topics_exclude: 'None' is no list"),
        ({"topics": ("a", 3)}, "topics: .* is no list of texts"),
        ({"groups": ("(",)}, r"groups: '\(' is not a regular expression"),
        ({"topics_exclude": ("ok", "a++")}, r"topics_exclude: 'a\+\+': .* is not read alike by Java"),
        ({"groups": (r"(a+)+\1",)}, "can take too long to evaluate"),
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_used_is_refused_when_it_is_made(fields: dict[str, Any], says: str) -> None:
    """One sentence with the field, the expression and what to do."""
    with pytest.raises(Rejected, match=says):
        Filters(**fields)
