"""Since when a group has not changed: what ZooKeeper's transaction ids tell, and what earlier scans saw.

ZooKeeper keeps no time of a deletion, but the directory's pzxid says after which transaction it was. Every
node that was written later carries a transaction id and a time, so the first of them bounds the moment from
above: the group is at least as long at rest as that.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from groupshift.domain.group import GroupView


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTimes:
    """Transaction ids of what counts as a change (a member came or went, the mode was written, a partition
    changed hands), and (zxid, epoch ms) of every write known from the group's nodes."""

    changes: tuple[int, ...] = ()
    stamps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Since when (epoch ms) each half of a group is at rest; 0: it was never seen to change."""

    zookeeper_ms: int = 0
    kafka_ms: int = 0

    @property
    def since_ms(self) -> int:
        """Since when the whole group is."""
        return max(self.zookeeper_ms, self.kafka_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What the last scan saw of a group: its `fingerprint`, and since when it was at rest then."""

    fingerprint: str
    rest: Rest


def last_change_ms(times: NodeTimes, now_ms: int) -> int | None:
    """No later than this (epoch ms) was the last change; None when no node tells of any. All nodes had been
    read at ``now_ms``."""
    if not times.changes:
        return None
    last = max(times.changes)
    return min((at for zxid, at in times.stamps if zxid >= last and at <= now_ms), default=now_ms)


def fingerprint(view: GroupView, times: NodeTimes) -> str:
    """``<ZooKeeper half>.<Kafka half>``: equal as long as nobody came or went and nothing changed hands."""
    registered = (
        sorted((member.member_id, str(member.session_id)) for member in view.members if member.session_id),
        view.mode.identity,
        sorted(times.changes),
        sorted((*owner.partition, owner.thread_id, owner.czxid) for owner in view.owners),
    )
    joined = sorted((member.member_id, sorted(member.assignment)) for member in view.kafka.members)
    return f"{_short(registered)}.{_short(joined)}"


def _short(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def rest_of(now_ms: int, seen: str, known_ms: int | None, before: Sighting | None) -> Rest:
    """Since when both halves are at rest; ``seen`` is the fingerprint now, ``known_ms`` `last_change_ms`.

    Of ZooKeeper the last scan and the nodes both give a moment at which the last change was over: the earlier
    one counts. A change that only Kafka saw has no time: it counts from the scan that met it."""
    if before is None:
        return Rest(zookeeper_ms=now_ms if known_ms is None else known_ms)
    (nodes, _, joined), (old_nodes, _, old_joined) = seen.partition("."), before.fingerprint.partition(".")
    kafka_ms = before.rest.kafka_ms if joined == old_joined else now_ms
    if nodes != old_nodes:
        return Rest(zookeeper_ms=now_ms if known_ms is None else known_ms, kafka_ms=kafka_ms)
    bounds = [before.rest.zookeeper_ms, *([] if known_ms is None else [known_ms])]
    return Rest(zookeeper_ms=min(bounds), kafka_ms=kafka_ms)
