"""What an approval was given for: if any of it changes, the approval is void.

Offsets and assignment are not in it: they change while a group lives (design/product.md, "approve").
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.domain.group import GroupView
from groupshift.domain.partitions import TopicPartition

Parts = Mapping[str, Mapping[str, str]]
"""Aspect → item → value, all texts: comparable item by item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """``parts`` hold the aspects members, subscriptions, partitions, mode, plan and evidence."""

    parts: Parts

    @property
    def text(self) -> str:
        """SHA-256 of the canonical JSON of all parts, in hex."""
        canonical = json.dumps(self.parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def changes(self, now: Fingerprint) -> tuple[str, ...]:
        """What differs in ``now``, one clause each; evidence taken since does not count."""
        return changes(self.parts, now.parts)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Fingerprint:
        """The fingerprint whose ``parts`` were journaled."""
        return cls(parts={aspect: dict(items) for aspect, items in data.items()})


def changes(then: Parts, now: Parts) -> tuple[str, ...]:
    """What differs in ``now`` of the aspects of ``then``, one clause each; evidence may grow."""
    return tuple(
        f"{aspect} {item}: {before} is now {today}"
        for aspect, items in then.items()
        for item, before, today in _differences(items, now[aspect], grows=aspect == "evidence")
    )


def _differences(
    then: Mapping[str, str], now: Mapping[str, str], *, grows: bool
) -> list[tuple[str, str, str]]:
    items = sorted(then) if grows else sorted({*then, *now})
    return [
        (item, then.get(item, "absent"), now.get(item, "absent"))
        for item in items
        if then.get(item) != now.get(item)
    ]


def members(view: GroupView) -> dict[str, str]:
    """The aspect ``members``: who is in the group, by id."""
    return {m.member_id: f"{m.kind} {m.version or 'unversioned'}" for m in view.members}


def fingerprint(view: GroupView, plan_hash: str, evidence: Mapping[str, str]) -> Fingerprint:
    """The fingerprint of a group now; ``evidence`` maps ``stage/moment`` to the manifest's digest."""
    return Fingerprint(
        parts={
            "members": members(view),
            "subscriptions": {
                m.member_id: f"{m.pattern} {','.join(f'{topic}:{n}' for topic, n in m.subscription)}"
                for m in view.members
            },
            "partitions": _counts(view.partitions),
            "mode": {"node": f"{view.mode.requested if view.mode.data else 'absent'} {view.mode.identity}"},
            "plan": {"hash": plan_hash},
            "evidence": dict(evidence),
        }
    )


def _counts(partitions: frozenset[TopicPartition]) -> dict[str, str]:
    topics = sorted({partition.topic for partition in partitions})
    return {topic: str(sum(1 for each in partitions if each.topic == topic)) for topic in topics}
