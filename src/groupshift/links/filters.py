"""Which groups and topics a link's sync takes: lists of regular expressions, as MirrorMaker has them.

An expression has to match the whole name, whatever is excluded is out, and an empty list matches nothing.
Lists are lists here, not texts with commas, so an expression may hold a comma. Expressions are those that
Java and Python read alike, and their cost is bounded: `groupshift.domain.topic_filter`. Names of topics are
those on the source.

Source: docs/reference/cross-cluster-offsets.md §9.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Final

from groupshift.domain.foreign_json import shown
from groupshift.domain.topic_filter import LONGEST_NAME, TopicFilter, compile_expression
from groupshift.errors import Rejected

ALL: Final = (".*",)
EXCLUDED_GROUPS: Final = ("console-consumer-.*", "connect-.*", "__.*")
"""MirrorMaker's default of ``groups.exclude``."""
EXCLUDED_TOPICS: Final = (r".*[\-\.]internal", r".*\.replica", "__.*")
"""MirrorMaker's default of ``topics.exclude``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What is taken: each field is a list of regular expressions.

    Raises:
        Rejected: a field is no list of texts, or an expression cannot be used; names field and expression.
    """

    groups: tuple[str, ...] = ALL
    groups_exclude: tuple[str, ...] = EXCLUDED_GROUPS
    topics: tuple[str, ...] = ALL
    topics_exclude: tuple[str, ...] = EXCLUDED_TOPICS

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
                raise Rejected(
                    f"{each.name}: {shown(str(value))} is no list of texts; write a list of regular "
                    'expressions, such as ["orders-.*"]'
                )
            object.__setattr__(self, each.name, tuple(value))
            for expression in value:
                _compiled(each.name, expression)

    def accepts_group(self, group: str) -> bool:
        """Whether the group is taken."""
        return not self.refusal_of_group(group)

    def accepts_topic(self, topic: str) -> bool:
        """Whether the source's topic is taken."""
        return not self.refusal_of_topic(topic)

    def refusal_of_group(self, group: str) -> str:
        """Return why the group is left out, as a clause; empty where it is taken."""
        return _refusal(group, "groups", self.groups, self.groups_exclude)

    def refusal_of_topic(self, topic: str) -> str:
        """Return why the source's topic is left out, as a clause; empty where it is taken."""
        return _refusal(topic, "topics", self.topics, self.topics_exclude)


def _refusal(name: str, field: str, include: tuple[str, ...], exclude: tuple[str, ...]) -> str:
    if len(name) > LONGEST_NAME:  # an exclusion could not be tried either
        return f"{shown(name)} has more than {LONGEST_NAME} characters, which no filter matches"
    excluding = _first_match(name, f"{field}_exclude", exclude)
    if excluding is not None:
        return f"{field}_exclude has {shown(excluding)}"
    if _first_match(name, field, include) is None:
        return f"{field} has no expression that matches it" if include else f"{field} is empty"
    return ""


def _first_match(name: str, field: str, expressions: tuple[str, ...]) -> str | None:
    """The first expression that matches the whole name. One by one is what joining them by ``|`` means, but
    for numbers of groups, which a join would shift."""
    return next((each for each in expressions if _compiled(field, each).fullmatch(name)), None)


@lru_cache(maxsize=1_024)
def _compiled(field: str, expression: str) -> TopicFilter:
    return compile_expression(expression, f"{field}: {shown(expression)}")
