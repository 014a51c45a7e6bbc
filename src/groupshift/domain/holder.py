"""Who may change a group's mode: the run that claimed its migration last, as ZooKeeper remembers it.

``/consumers/<g>/migration/fence`` holds the migration and its fencing token. No consumer, old or new,
reads children of ``migration`` other than ``ids`` and ``mode`` (specs/zookeeper-coordination.md §1.1).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from groupshift.domain.foreign_json import load_object, whole_number
from groupshift.errors import Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A run's claim: ``token`` rises with each claim of the same ``migration``."""

    migration: str
    token: int

    def fences(self, other: Holder) -> bool:
        """Whether ``other`` is an earlier claim of the same migration.

        Claims of two migrations have no order: one open migration a group is the journal's promise."""
        return self.migration == other.migration and self.token > other.token

    def encode(self) -> bytes:
        """The payload of the fence node."""
        fields = {"migration": self.migration, "token": self.token}
        return json.dumps(fields, separators=(",", ":")).encode()

    def __str__(self) -> str:
        return f"run {self.token} of migration {self.migration}"


def parse_holder(data: bytes | None) -> Holder | None:
    """The holder that `Holder.encode` wrote; None for an absent or a foreign payload."""
    try:
        fields = load_object(data, "fence")
        token = whole_number(fields.get("token"), "token")
    except Rejected:
        return None
    migration = fields.get("migration")
    return Holder(migration=migration, token=token) if isinstance(migration, str) else None


def taken_over(what: str, by: str, at_ms: int) -> str:
    """What a run is told that lost its claim: by whom, when, and where to look now."""
    when = datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"run {by} took this {what} over at {when}: look there"
