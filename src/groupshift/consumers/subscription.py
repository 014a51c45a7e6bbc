"""What an application may subscribe to: names with streams, one topic filter, or nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from groupshift.domain.registration import MOST_STREAMS, Pattern
from groupshift.domain.topic_filter import Blacklist, Whitelist, clean_filter, compile_filter
from groupshift.errors import Rejected

Topics = Mapping[str, int] | Sequence[str] | Whitelist | Blacklist
"""The argument of ``subscribe``."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Topic → streams, or with a wildcard ``pattern`` one cleaned expression → streams."""

    topics: Mapping[str, int]
    pattern: Pattern = Pattern.STATIC

    @property
    def streams(self) -> int:
        """How many streams there are, numbered from 0."""
        return max(self.topics.values(), default=0)

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that are known by name."""
        return tuple(sorted(self.topics)) if self.pattern is Pattern.STATIC else ()


def read_subscription(topics: Topics) -> Subscription:
    """Check the argument of ``subscribe``. Raises `Rejected` with what is wrong and what to write."""
    if isinstance(topics, Whitelist | Blacklist):
        pattern = Pattern.WHITE_LIST if isinstance(topics, Whitelist) else Pattern.BLACK_LIST
        compile_filter(topics.regex)
        found = Subscription(topics={clean_filter(topics.regex): topics.streams}, pattern=pattern)
    elif isinstance(topics, str):
        raise Rejected(f"subscribe: {topics!r} is one name; pass a list of names, or topic → streams")
    else:
        named = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        if bad := [each for each in named if not isinstance(each, str) or not _NAME.fullmatch(each)]:
            raise Rejected(f"subscribe: {bad[0]!r} is no topic name; for an expression pass Whitelist(…)")
        found = Subscription(topics=named)
    for topic, streams in found.topics.items():
        if isinstance(streams, bool) or not isinstance(streams, int) or not 1 <= streams <= MOST_STREAMS:
            raise Rejected(
                f"subscribe: {streams!r} streams of {topic!r}; a stream count is 1 or more, "
                f"and at most {MOST_STREAMS}"
            )
    if "" in found.topics:
        raise Rejected("subscribe: an empty topic filter matches nothing; write an expression")
    return found
