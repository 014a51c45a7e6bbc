"""Which topics look mirrored under another name."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("source", "committed", "more", "expected"),
    [
        ({"orders"}, {"source.orders"}, set(), {"orders": ("source.orders",)}),
        ({"orders"}, set(), {"eu-1.orders"}, {"orders": ("eu-1.orders",)}),  # nothing committed there yet
        ({"orders"}, {"a.b.orders"}, set(), {"orders": ("a.b.orders",)}),  # an alias with dots
        ({"eu.orders"}, {"source.eu.orders"}, set(), {"eu.orders": ("source.eu.orders",)}),
        ({"source.orders"}, {"source.source.orders"}, set(), {"source.orders": ("source.source.orders",)}),
        ({"orders"}, {"source-orders"}, set(), {"orders": ("source-orders",)}),  # other separators
        ({"orders"}, {"source_orders"}, set(), {"orders": ("source_orders",)}),
        ({"orders"}, {"orders.replica"}, set(), {"orders": ("orders.replica",)}),
        ({"orders"}, {"orders", "source.orders"}, set(), {"orders": ("source.orders",)}),  # which is it?
        ({"orders"}, {"orders"}, set(), {}),  # the identity policy
        ({"orders"}, {"orders"}, {"source.orders"}, {}),  # nobody reads the other one
        ({"orders"}, {"reorders"}, set(), {}),
        ({"orders", "old.orders"}, {"orders", "old.orders"}, set(), {}),  # both are the source's own
        ({"orders", "old.orders"}, {"old.orders"}, set(), {}),
        ({"orders"}, {".orders"}, set(), {}),
        (set(), {"source.orders"}, set(), {}),
    ],
)
def test_f12_a_topic_under_the_name_of_a_mirror_is_seen(
    source: set[str], committed: set[str], more: set[str], expected: dict[str, tuple[str, ...]]
) -> None:
    """An alias and a separator before the name, or behind it; never another topic of the source."""
    from groupshift.domain.equality_rules import mirrored_names

    assert mirrored_names(source, committed, committed | more) == expected
