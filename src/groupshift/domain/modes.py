"""Coordination modes of a KIP-125 group: the mode node, who is aware, the mode in effect, who may change it.

Source: KIP-125 "Coordination Mode Toggle"; docs/reference/zookeeper-coordination.md §§8.3, 8.10 (F6, F7).

The process that claimed the group's run last may change the mode, as ZooKeeper remembers it:
``/consumers/<g>/migration/fence`` holds the run and its fencing token. No consumer, old or new,
reads children of ``migration`` other than ``ids`` and ``mode`` (docs/reference/zookeeper-coordination.md
§1.1).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum

from groupshift.domain.foreign_json import load_json
from groupshift.domain.plain import built
from groupshift.errors import Rejected


class Mode(StrEnum):
    """Which coordination system decides who owns a partition."""

    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


class Isolation(StrEnum):
    """What a reader is given (``isolation.level``)."""

    READ_COMMITTED = "read_committed"
    """Nothing of aborted transactions, and nothing behind the last stable offset. librdkafka's default."""
    READ_UNCOMMITTED = "read_uncommitted"
    """Every record but markers. The old consumer knows nothing else; the default of Java clients."""


class MemberKind(StrEnum):
    """What a member of a group is, as far as a move is concerned."""

    ZOOKEEPER = "old"
    """Registered below ``ids`` only: the old Scala consumer, or any with migration disabled."""
    AWARE = "aware"
    """Registered below ``ids`` and ``migration/ids``: obeys the mode node."""
    PLAIN = "plain"
    """Known to the Kafka group coordinator only: an ordinary Kafka consumer of the classic protocol."""
    NATIVE = "native"
    """A Kafka consumer that speaks the consumer protocol (KIP-848)."""
    VACANT = "vacant"
    """Nobody: the place of the fleet is kept empty until its next change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeNode:
    """``/consumers/<g>/migration/mode`` as read: ``data`` is None when the node is absent.

    ``version`` is the znode's data version (for compare-and-set), ``czxid``/``mzxid`` identify this
    very write; all are -1 when absent.
    """

    data: bytes | None
    version: int = -1
    czxid: int = -1
    mzxid: int = -1

    @property
    def identity(self) -> str:
        """``<czxid>:<mzxid>`` in decimal: what members publish as the write they act on (F6)."""
        return f"{self.czxid}:{self.mzxid}"

    @property
    def requested(self) -> Mode:
        """The mode this node asks for; exact comparison, anything but ``kafka`` is ZooKeeper."""
        return Mode.KAFKA if self.data == b"kafka" else Mode.ZOOKEEPER

    @property
    def malformed(self) -> bool:
        """True when the node holds something that neither KIP-125 value equals exactly."""
        return self.data is not None and self.data not in (b"", b"kafka", b"zookeeper")


ABSENT_MODE = ModeNode(data=None)


def effective_mode(node: ModeNode, ids: Collection[str], migration_ids: Collection[str]) -> Mode:
    """The mode every member must obey: §8.3's table.

    ``ids`` and ``migration_ids`` are the children of the two directories. Kafka only when the node
    says exactly ``kafka`` and every child of ``ids`` is also in ``migration_ids``.
    """
    aware = set(ids) <= set(migration_ids)
    return node.requested if aware else Mode.ZOOKEEPER


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A claim of a run: ``token`` rises with each claim of the same ``run``."""

    run: str
    token: int

    def fences(self, other: Holder) -> bool:
        """Whether ``other`` is an earlier claim of the same run.

        Claims of two runs have no order: one open run a group is the journal's promise."""
        return self.run == other.run and self.token > other.token

    def encode(self) -> bytes:
        """The payload of the fence node."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    def __str__(self) -> str:
        return f"claim {self.token} of run {self.run}"


def parse_holder(data: bytes | None) -> Holder | None:
    """The holder that `Holder.encode` wrote; None for an absent or a foreign payload."""
    try:
        holder: Holder = built(Holder, load_json(data, "fence"))
    except (Rejected, TypeError):
        return None
    return holder


def taken_over(what: str, by: str, at_ms: int) -> str:
    """What a run is told that lost its claim: by whom, when, and where to look now."""
    when = datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"run {by} took this {what} over at {when}: look there"
