"""What a member writes about itself: the registration and, when migration-aware, its migration id.

Source: docs/reference/zookeeper-coordination.md §§1.2, 2, 3 and 8.10 F6.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from groupshift.domain.foreign_json import NODE_BYTES, load_object, remedy, shown, whole_number
from groupshift.domain.modes import Mode, ModeNode
from groupshift.domain.topic_filter import LONGEST_NAME, compile_filter
from groupshift.domain.znodes import INTERNAL_TOPICS
from groupshift.errors import Rejected

FENCE = 1
"""Version of the owner-node fence (F1) that this implementation honours."""

MOST_STREAMS: Final = 10_000
"""Of one topic: far more than any topic has partitions for, and few enough to count out."""

MOST_STREAMS_TOGETHER: Final = 100_000
"""Of all topics of one registration."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_STAMP, _SOFTWARE = 20, 100
_TOPIC = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_NAME}}}")


class Pattern(StrEnum):
    """How the subscription of a registration is to be read."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """``ids/<cid>``: (topic or regex, streams) pairs as written, and how to read them.

    ``timestamp`` is epoch milliseconds as a decimal string: a JSON number there would abort the
    rebalance of every old member (§1.2). None when the node had none.
    """

    subscription: tuple[tuple[str, int], ...]
    pattern: Pattern = Pattern.STATIC
    timestamp: str | None = None

    @property
    def wildcard(self) -> bool:
        """True when the topics depend on which ones exist; an empty subscription counts as static."""
        return self.pattern is not Pattern.STATIC and bool(self.subscription)

    def topics(self, known: Collection[str], *, hidden: Collection[str] = INTERNAL_TOPICS) -> dict[str, int]:
        """Topic → streams after expanding a wildcard over the ``known`` topics (§3).

        ``hidden`` are the internal topics that no wildcard sees; it is the reader's setting. Raises
        `Rejected` for a wildcard that Java and Python read differently."""
        if not self.wildcard:
            return dict(self.subscription)
        regex, streams = self.subscription[0]
        matches = compile_filter(regex).fullmatch
        wanted = self.pattern is Pattern.WHITE_LIST
        return {
            topic: streams
            for topic in sorted(known)
            if len(topic) <= LONGEST_NAME and topic not in hidden and matches(topic) is wanted
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Awareness:
    """What a migration id says beyond the registration (F6).

    ``fence`` is absent in a member that does not honour owner nodes in Kafka mode. ``mode`` is the
    mode in effect at the member and ``acting_on`` the `ModeNode.identity` it acts on; both are
    absent until the member has acted. ``version`` is that of its software.
    """

    fence: int | None = None
    mode: Mode | None = None
    acting_on: str | None = None
    version: str | None = None


@remedy("stop or restart that member")
def parse_registration(data: bytes | None, where: str = "registration") -> Registration:
    """Read ``ids/<cid>``. Raises `Rejected`, naming ``where``, for what every reader refuses, and for more
    streams than anybody can use."""
    node = _load(data, where)
    subscription, pattern = node.get("subscription"), node.get("pattern")
    if not isinstance(subscription, dict) or not isinstance(pattern, str):
        raise Rejected(f"{where}: 'subscription' and 'pattern' are mandatory")
    static = pattern not in {Pattern.WHITE_LIST, Pattern.BLACK_LIST}
    together = 0
    for topic, streams in subscription.items():
        together += whole_number(streams, f"{where}: streams of {shown(topic)}", low=1, high=MOST_STREAMS)
        if static and not is_topic_name(topic):
            raise Rejected(f"{where}: {shown(topic)} can be no topic")
    if static and together > MOST_STREAMS_TOGETHER:
        many = f"{together} streams of {len(subscription)} topics"
        raise Rejected(f"{where}: {many}; at most {MOST_STREAMS_TOGETHER} are counted out")
    stamp = node.get("timestamp")
    return Registration(
        subscription=tuple(subscription.items()),
        pattern=Pattern.STATIC if static else Pattern(pattern),
        timestamp=str(stamp)[:_STAMP] if isinstance(stamp, str | int) else None,
    )


def is_topic_name(text: str) -> bool:
    """Whether a topic may have that name; no other has a node or brokers that know it."""
    return _TOPIC.fullmatch(text) is not None and text not in {".", ".."}


@remedy("stop or restart that member")
def parse_awareness(data: bytes | None, where: str = "migration id") -> Awareness:
    """Read what ``migration/ids/<cid>`` adds. Raises `Rejected` when it is not a JSON object."""
    node = _load(data, where)
    fence, software, mode = node.get("fence"), node.get("software"), node.get("mode")
    write = [node.get(name) for name in ("mode_czxid", "mode_mzxid")]
    numbers = [str(each) for each in write if isinstance(each, str | int) and not isinstance(each, bool)]
    return Awareness(
        fence=fence if type(fence) is int else None,
        mode=Mode(mode) if mode in tuple(Mode) else None,
        acting_on=":".join(numbers)
        if [0 < len(each) <= _STAMP for each in numbers] == [True, True]
        else None,
        version=software[:_SOFTWARE] if isinstance(software, str) else None,
    )


def encode_registration(registration: Registration, **more: object) -> bytes:
    """The bytes of ``ids/<cid>``, with ``more`` fields those of a migration id."""
    fields = {
        "version": 1,
        "subscription": dict(registration.subscription),
        "pattern": registration.pattern.value,
        "timestamp": registration.timestamp or "0",
        **more,
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def encode_awareness(
    registration: Registration, *, software: str, mode: Mode | None = None, node: ModeNode | None = None
) -> bytes:
    """The bytes of ``migration/ids/<cid>``: the registration, the fence and, once in effect, the mode.

    The zxids are strings: a number beyond 32 bits must never appear in these nodes (§1.2).
    """
    acting: dict[str, object] = {}
    if mode is not None and node is not None:
        acting = {"mode": mode.value, "mode_czxid": str(node.czxid), "mode_mzxid": str(node.mzxid)}
    return encode_registration(registration, fence=FENCE, software=software, **acting)


def consumer_id(group: str, name: str) -> str:
    """``<cid>``: group and underscore are part of it (§2). Raises `Rejected` for illegal characters."""
    for field, value in (("group.id", group), ("consumer.id", name)):
        if not _NAME.fullmatch(value):
            raise Rejected(f"{field} {value!r} may hold only letters, digits, '.', '_' and '-'; rename it")
    return f"{group}_{name}"


def _load(data: bytes | None, where: str) -> dict[str, Any]:
    """The object that a member wrote; as 1.0.1+ readers do, once more with each backslash doubled (§1.2)."""
    raw = data or b""
    try:
        return load_object(raw, where)
    except Rejected as wrong:
        if b"\\" in raw and 2 * len(raw) <= NODE_BYTES:
            with suppress(Rejected):
                return load_object(raw.replace(b"\\", b"\\\\"), where)
        raise wrong from None
