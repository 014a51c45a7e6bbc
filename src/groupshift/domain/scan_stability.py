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
class Sighting:
    """What the last scan saw of a group: epoch ms, `fingerprint`, and since when it was stable then."""

    taken_at_ms: int
    fingerprint: str
    stable_since_ms: int


def last_change_ms(times: NodeTimes, now_ms: int) -> int | None:
    """No later than this (epoch ms) was the last change; None when no node tells of any."""
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


def stable_since_ms(now_ms: int, seen: str, known_ms: int | None, before: Sighting | None) -> int:
    """Since when (epoch ms) the group is at rest; ``seen`` is its fingerprint, ``known_ms`` `last_change_ms`.

    Both scan and nodes give moments at which the last change was over: the earlier one counts as long as the
    fingerprint is that of the last scan. A change of the Kafka half alone has no time: it counts as now."""
    if before is None:
        return now_ms if known_ms is None else known_ms
    if before.fingerprint == seen:
        return before.stable_since_ms if known_ms is None else min(before.stable_since_ms, known_ms)
    same_kafka = before.fingerprint.partition(".")[2] == seen.partition(".")[2]
    return known_ms if same_kafka and known_ms is not None else now_ms
