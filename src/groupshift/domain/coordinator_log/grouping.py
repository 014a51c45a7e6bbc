"""The winners of one group → its family, epoch, members and subscriptions.

Source: specs/group-coordinator.md §1.7 (family), §1.4 (fields), §1.5 (member bytes).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from groupshift.domain.coordinator_log.embedded import CONSUMER
from groupshift.domain.coordinator_log.records import Decoded
from groupshift.domain.coordinator_log.state import Commit, GroupFamily, GroupState
from groupshift.domain.coordinator_log.types import TYPES

HEADS = {2: GroupFamily.CLASSIC, 3: GroupFamily.CONSUMER, 11: GroupFamily.SHARE, 17: GroupFamily.STREAMS}
"""The type whose live record makes a group one of a family."""
_CLASSIC, _EXPRESSION, _TOPOLOGY = 2, 16, 23
_MEMBERS = frozenset({5, 10, 19})


def group_state(group_id: str, commits: Iterable[Commit], others: Iterable[Decoded]) -> GroupState:
    """One group out of the winners in its own partition: commits, and records of the other types."""
    commits = sorted(commits, key=lambda one: (one.topic, one.partition))
    others = sorted(others, key=lambda one: (one.record_type or 0, one.raw_key))
    live = [record for record in others if not record.is_tombstone]
    families = frozenset(TYPES[record.record_type].family.value for record in live if record.record_type)
    head = next((record for record in live if record.record_type in HEADS), None)
    value = (head.decoded if head else None) or {}
    return GroupState(
        group_id=group_id,
        partition=commits[0].src_partition if commits else others[0].src_partition,
        family=_family(families, commits),
        families=families,
        headless=bool(live) and head is None,
        protocol_type=value.get("protocolType", CONSUMER if families == {"consumer"} else ""),
        epoch=value.get("generation", value.get("epoch")),
        state_timestamp=value.get("currentStateTimestamp", -1),
        members=_members(live),
        subscribed=_subscribed(live),
        commits=tuple(commits),
        records=tuple(live),
        removed=tuple(record for record in others if record.is_tombstone),
    )


def _family(families: frozenset[str], commits: Iterable[Commit]) -> GroupFamily:
    if len(families) > 1:
        return GroupFamily.ANOMALY
    if families:
        return GroupFamily(next(iter(families)))
    return GroupFamily.SIMPLE if any(one.live for one in commits) else GroupFamily.GONE


def _classic_members(record: Decoded) -> list[dict[str, Any]]:
    members: list[dict[str, Any]] = (record.decoded or {}).get("members", [])
    return members if record.record_type == _CLASSIC else []


def _members(live: Iterable[Decoded]) -> tuple[str, ...]:
    """Ids of members: from the one record of a classic group, or of one record each."""
    found = {record.member_id for record in live if record.record_type in _MEMBERS}
    classic = {member["memberId"] for record in live for member in _classic_members(record)}
    return tuple(sorted({one for one in found if one is not None} | classic))


def _subscribed(live: Iterable[Decoded]) -> frozenset[str] | None:
    """The topics of all members; None when one member's cannot be read."""
    topics: set[str] = set()
    for record in live:
        wanted = _wanted(record)
        if wanted is None:
            return None
        topics |= wanted
    return frozenset(topics)


def _wanted(record: Decoded) -> set[str] | None:
    value = record.decoded
    if value is None:
        return None if record.record_type in _MEMBERS or record.record_type in HEADS else set()
    if record.record_type in _MEMBERS:
        return set(value.get("subscribedTopicNames", ()))
    if record.record_type == _EXPRESSION:
        return set(value["topics"])
    if record.record_type == _TOPOLOGY:
        return {
            topic
            for part in value.get("subtopologies", ())
            for topic in (*part["sourceTopics"], *(one["name"] for one in part["repartitionSourceTopics"]))
        }
    topics: set[str] = set()
    for member in _classic_members(record):
        subscription = member.get("embedded", {}).get("subscription", {})
        if "problem" in subscription:
            return None
        topics.update(subscription.get("topics", ()))
    return topics
