"""Short words in which the tables of the hazard book are written."""

from __future__ import annotations

from groupshift.domain.equality_rules import Comparison
from groupshift.domain.versions import Fix, Span, Version

UP = Comparison.PROTOCOL
BACK = Comparison.PROTOCOL_BACK
DOWN = Comparison.DOWNGRADE
ZOOKEEPER = Comparison.COORDINATION
EXPANSION = Comparison.EXPANSION
CLUSTER = Comparison.CLUSTER

BOTH_WAYS = frozenset({UP, BACK})
GROUPS = frozenset({UP, BACK, DOWN})

JIRA = "https://issues.apache.org/jira/browse/"
KAFKA = "https://github.com/apache/kafka/pull/"
RDKAFKA = "https://github.com/confluentinc/librdkafka/"


def until(before: str, *, last: str, since: str = "", fix: Fix = Fix.RELEASED) -> Span:
    """A range that ends: ``before`` is the first version not affected, ``last`` the newest that is."""
    return Span(
        since=Version.parse(since) if since else None,
        last=Version.parse(last),
        before=Version.parse(before),
        fix=fix,
    )


def since(first: str, *, last: str) -> Span:
    """A range without an end: ``last`` is the newest release that was looked at."""
    return Span(since=Version.parse(first) if first else None, last=Version.parse(last))
