"""Made-up group names, topics and values of `__consumer_offsets`, those of a busy cluster.

15,000 groups, names of different lengths (one in a hundred beyond ASCII), three members a group. Values are
encoded from the tables of group-coordinator.md §§1.3 and 1.4 with a few lines of their own: not with the code
that is measured.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np

PARTITIONS, GROUPS, START_MS = 50, 15_000, 1_700_000_000_000
FAMILIES = ("etl-", "orders.settlement-", "risk_engine.positions-", "app-", "connect-sink-s3-", "zähler-")
TOPICS = (
    "orders",
    "payments.settled.v2",
    "clicks",
    "cdc.inventory.public.products",
    "logs-eu",
    "t",
    "trades",
)
SHARES: dict[int | str, float] = {
    "commit": 0.85, "classic": 0.04, 3: 0.025, 4: 0.005, 5: 0.02, 6: 0.02, 7: 0.02, 8: 0.02,
}  # fmt: skip
COMMITS = ("v1", "v3", "v3 noted", "v4", "v4 topic id")
COMMIT_SHARES = (0.10, 0.35, 0.10, 0.225, 0.225)
TOMBSTONES = 0.2
NOTE = b"spout-7/checkpoint 0001842 of 12"


def family_of(groups: Any) -> Any:
    """Index in `FAMILIES` of each group number."""
    return np.where(groups % 100 == 0, len(FAMILIES) - 1, groups % (len(FAMILIES) - 1))


def name_of(group: int) -> str:
    """The name of group number ``group``."""
    return f"{FAMILIES[int(family_of(np.int64(group)))]}{group:05d}"


def home_of(name: str) -> int:
    """The log partition of a group (§2)."""
    value = 0
    for unit in struct.unpack(f">{len(name.encode('utf-16-be')) // 2}H", name.encode("utf-16-be")):
        value = (31 * value + unit) & 0xFFFFFFFF
    value -= (value >> 31) << 32
    return (0 if value == -(1 << 31) else abs(value)) % PARTITIONS


@cache
def homes() -> tuple[int, ...]:
    """The log partition of each group number."""
    return tuple(home_of(name_of(group)) for group in range(GROUPS))


def string(text: bytes) -> bytes:
    """A string of the old layouts."""
    return struct.pack(">h", len(text)) + text


def _compact(text: bytes) -> bytes:
    return bytes([len(text) + 1]) + text


def _topic_id(topic: int) -> bytes:
    return bytes([topic + 1]) * 16


def _blob(topics: int, *, owned: bool) -> bytes:
    names = b"".join(
        string(TOPICS[n].encode()) + (b"\0\0\0\2\0\0\0\0\0\0\0\1" if owned else b"") for n in range(topics)
    )
    tail = b"\xff\xff\xff\xff" if owned else b"\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff"
    return struct.pack(">hi", 3, topics) + names + tail


def _classic(members: int) -> bytes:
    head = (
        b"\0\3"
        + string(b"consumer")
        + b"\0\0\0\5"
        + (string(b"range") + string(b"consumer-1") if members else b"\xff" * 4)
    )
    one = b""
    for number in range(members):
        subscription, assignment = _blob(1 + members, owned=False), _blob(members, owned=True)
        one += (
            string(b"consumer-%d" % number)
            + b"\xff\xff"
            + string(b"svc-%d" % number)
            + string(b"/10.20.30.%d" % number)
        )
        one += struct.pack(">ii", 300_000, 45_000)
        one += (
            struct.pack(">i", len(subscription))
            + subscription
            + struct.pack(">i", len(assignment))
            + assignment
        )
    return head + struct.pack(">qi", START_MS, members) + one


def _assigned(topics: int) -> bytes:
    body = b"".join(_topic_id(n) + b"\4\0\0\0\0\0\0\0\1\0\0\0\2" + b"\0" for n in range(topics))
    return bytes([topics + 1]) + body


def value_of(kind: int | str, variant: int) -> bytes:
    """A value of version 0 of types 3 to 8, or of v3 of type 2, with ``variant`` 0..3 deciding its size."""
    many = (0, 1, 3, 6)[variant]
    stamp = b"\1\0\x08" + struct.pack(">q", START_MS)
    values = {
        "classic": lambda: _classic(many),
        3: lambda: b"\0\0\0\0\0\6\1\0\x08" + bytes([0x11 * (variant + 1)]) * 8,
        4: lambda: b"\0\0" + bytes([many + 1]) + b"".join(_sized(n) for n in range(many)) + b"\0",
        5: lambda: _member(many),
        6: lambda: b"\0\0\0\0\0\6" + (stamp if variant % 2 else b"\0"),
        7: lambda: b"\0\0" + _assigned(many) + b"\0",
        8: lambda: b"\0\0\0\0\0\6\0\0\0\5\0" + _assigned(many) + b"\1\0",
    }
    return values[kind]()


def _sized(topic: int) -> bytes:
    return _topic_id(topic) + _compact(TOPICS[topic].encode()) + b"\0\0\0\x0c\1\0"


def _member(topics: int) -> bytes:
    names = b"".join(_compact(TOPICS[n].encode()) for n in range(topics))
    head = b"\0\0\0\0" + _compact(b"svc") + _compact(b"/10.20.30.4") + bytes([topics + 1]) + names
    return head + b"\1\0\4\x93\xe0" + _compact(b"uniform") + b"\1\0\1\0"


def commit(kind: str) -> tuple[bytes, int]:
    """A commit's value, and where its commit timestamp stands."""
    note = NOTE if kind in {"v3 noted", "v1"} else b""
    if kind == "v1":
        head = b"\0\1" + bytes(8) + string(note)
        return head + bytes(8) + struct.pack(">q", START_MS + 86_400_000), len(head)
    if kind.startswith("v3"):
        head = b"\0\3" + bytes(8) + b"\0\0\0\7" + string(note)
        return head + bytes(8), len(head)
    head = b"\0\4" + bytes(8) + b"\0\0\0\7" + _compact(note)
    return head + bytes(8) + (b"\1\0\x10" + _topic_id(3) if kind.endswith("id") else b"\0"), len(head)
