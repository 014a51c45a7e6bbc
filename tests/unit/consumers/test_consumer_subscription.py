"""What an application may subscribe to."""

from __future__ import annotations

import pytest

from groupshift.consumers import Blacklist, Whitelist
from groupshift.consumers.consumer import read_subscription
from groupshift.domain.registration import Pattern
from groupshift.errors import Rejected


def test_names_have_one_stream_each_unless_told() -> None:
    """As in the old consumer's map."""
    assert read_subscription(["a", "b"]) == ({"a": 1, "b": 1}, Pattern.STATIC)
    assert read_subscription({"a": 3}) == ({"a": 3}, Pattern.STATIC)


def test_a_filter_is_published_cleaned() -> None:
    """§1.2: the cleaned expression, one stream count for all that match."""
    assert read_subscription(Whitelist(' "a.*, b" ', streams=2)) == ({"a.*|b": 2}, Pattern.WHITE_LIST)
    assert read_subscription(Blacklist("a")) == ({"a": 1}, Pattern.BLACK_LIST)


def test_nothing_is_a_subscription_too() -> None:
    """§1.2: a member that owns nothing."""
    assert read_subscription({}) == read_subscription([]) == ({}, Pattern.STATIC)


@pytest.mark.parametrize(
    "topics",
    [
        "orders",
        ["^a.*"],
        [""],
        {"a": 0},
        {"a": True},
        {"a": "1"},
        [5],
        Whitelist("a", streams=0),
        Whitelist(""),
        Whitelist("a*+"),
        Blacklist(" "),
    ],
)
def test_anything_else_is_refused(topics: object) -> None:
    """With what is wrong."""
    with pytest.raises(Rejected, match=r"subscribe|filter"):
        read_subscription(topics)
