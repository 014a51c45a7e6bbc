"""What members tell, one JSON object a line, and who owned which partition when.

Every line has ``at_ms`` (epoch), ``member`` and ``event``:

* ``started``: ``client``, ``pid``, and ``jvm`` (its pid) where that is another process
* ``assigned``, ``revoked``, ``lost``: ``partitions`` ([topic, number]), those that were added or taken
* ``records``: ``topic``, ``partition``, ``first``, ``last``, ``count``: offsets that were delivered
* ``committed``: ``offsets`` ([topic, number, offset]), ``code`` (0: committed)
* ``error``: ``code``, ``name``, ``fatal`` (as the client calls it), ``said``
* ``closed``: ``code``; absent when the member was killed
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from groupshift.domain.partitions import TopicPartition, grouped
from groupshift_sandbox.ledger import Delivery
from groupshift_sandbox.ledger import delivered as counts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEvent:
    """One line; ``fields`` are those that its kind has."""

    at_ms: int
    member: str
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Of ``assigned``, ``revoked`` and ``lost``."""
        return [TopicPartition(str(topic), int(number)) for topic, number in self.fields["partitions"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A member owned a partition from ``from_ms`` to ``to_ms`` (None: it still does, or was killed)."""

    member: str
    from_ms: int
    to_ms: int | None


def read_events(path: Path) -> list[MemberEvent]:
    """All events of a member, in the order written; empty when there is no file yet. A last line without
    its end is one that the member was killed in."""
    try:
        lines = path.read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [_event(json.loads(line)) for line in lines if line.endswith("\n")]


def _event(line: dict[str, Any]) -> MemberEvent:
    return MemberEvent(
        at_ms=int(line.pop("at_ms")), member=line.pop("member"), event=line.pop("event"), fields=line
    )


def deliveries(events: Iterable[MemberEvent]) -> list[Delivery]:
    """Every record that was delivered, as often as it was, in the order of the events."""
    return [
        Delivery(
            member=each.member,
            partition=TopicPartition(str(each.fields["topic"]), int(each.fields["partition"])),
            offset=offset,
            at_ms=each.at_ms,
        )
        for each in events
        if each.event == "records"
        for offset in range(int(each.fields["first"]), int(each.fields["last"]) + 1)
    ]


def delivered(events: Iterable[MemberEvent]) -> dict[TopicPartition, list[int]]:
    """Every offset that was delivered, as often as it was, in order of offset."""
    counts = counts_of(deliveries(events))
    return {at: sorted(offsets.elements()) for at, offsets in counts.items()}


def owned(
    events: Iterable[MemberEvent], killed_ms: Mapping[str, int] | None = None
) -> dict[TopicPartition, list[Owned]]:
    """By partition, who owned it from when to when, in order of time. ``killed_ms`` says when members ended
    that could not tell it."""
    intervals_of = grouped(
        interval
        for member, own_events in grouped((each.member, each) for each in events).items()
        for interval in _owned_by(own_events, (killed_ms or {}).get(member))
    )
    return {at: sorted(intervals, key=lambda each: each.from_ms) for at, intervals in intervals_of.items()}


def _owned_by(events: Sequence[MemberEvent], killed_ms: int | None) -> Iterator[tuple[TopicPartition, Owned]]:
    since: dict[TopicPartition, int] = {}
    for each in events:
        if each.event == "assigned":
            since |= {at: since.get(at, each.at_ms) for at in each.partitions}
            continue
        ended = each.partitions if each.event in ("revoked", "lost") else ()
        for at in list(since) if each.event == "closed" else ended:
            if at in since:
                yield at, Owned(member=each.member, from_ms=since.pop(at), to_ms=each.at_ms)
    for at, from_ms in since.items():
        yield at, Owned(member=events[0].member, from_ms=from_ms, to_ms=killed_ms)


def gaps(intervals: Sequence[Owned]) -> list[tuple[int, int]]:
    """From when to when (epoch ms) nobody owned anything of these, which are in order of time, as `owned` has
    them; not before the first and not after the last. Overlapping owners leave none."""
    times: list[tuple[int, int]] = []
    until = intervals[0].to_ms if intervals else None
    for each in intervals[1:]:
        if until is None:
            break
        if each.from_ms > until:
            times.append((until, each.from_ms))
        until = None if each.to_ms is None else max(until, each.to_ms)
    return times


def unowned_ms(intervals: Sequence[Owned]) -> list[int]:
    """How long the `gaps` of a partition between its owners are, in ms."""
    return [to - since for since, to in gaps(intervals)]


def overlapping(intervals: Sequence[Owned]) -> list[tuple[Owned, Owned]]:
    """Pairs of different members of which the later one began before the former ended."""
    return [
        (former, later)
        for former, later in combinations(intervals, 2)
        if former.member != later.member and (former.to_ms is None or later.from_ms < former.to_ms)
    ]
