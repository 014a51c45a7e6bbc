"""Whether committed offsets belong to the topics that are there now: partition, leader epoch, topic id.

A broker takes a commit with any leader epoch, and answers it by name also where a topic of that name was made
anew. Source: docs/reference/epochs-and-topic-ids.md §§A, C.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupshift.domain.rows import OffsetRow

FORMER = "former"
"""The topic id of a commit that its coordinator answers by name and not by the topic's id: it belongs to a
topic that had the name before. Its own id is in the coordinator's log only."""
ZERO_ID = "A" * 22
"""The id that stands for none."""
Place = tuple[str, int, int]
"""Topic, partition, leader epoch."""
_NONE = -1


class Stray(StrEnum):
    """What is wrong with where a commit belongs."""

    FORMER_TOPIC = "former topic"
    """It was made to a topic that was deleted; another one has its name now."""
    NO_PARTITION = "no such partition"
    """The topic does not exist, or has fewer partitions."""
    EPOCH_ABOVE = "leader epoch too high"
    """A Java consumer waits for that epoch, and reads nothing until then."""
    EPOCH_LOW = "leader epoch too low"
    """That epoch ended before the offset: a Java consumer takes the log for truncated."""


EPOCHS = frozenset({Stray.EPOCH_ABOVE, Stray.EPOCH_LOW})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNow:
    """A topic as the brokers tell it now. ``exists`` False: they say that there is none. ``topic_id`` is
    empty where brokers tell none (before 2.8), ``epochs`` the current leader epoch of each partition (-1: not
    told)."""

    topic: str
    exists: bool = True
    topic_id: str = ""
    epochs: Mapping[int, int] = field(default_factory=dict)


_UNTOLD = TopicNow(topic="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """What was asked about topics: ``now`` by name (one that is missing is not known), ``ends`` the end
    offset of a leader epoch, by `Place` (-1: the leader knows no such epoch)."""

    now: Mapping[str, TopicNow] = field(default_factory=dict)
    ends: Mapping[Place, int] = field(default_factory=dict)

    def current_id(self, topic: str) -> str:
        """The id that this name has now; empty where that is not known."""
        return self.now.get(topic, _UNTOLD).topic_id

    def current_epoch(self, topic: str, partition: int) -> int:
        """The partition's leader epoch; -1 where that is not known."""
        return self.now.get(topic, _UNTOLD).epochs.get(partition, _NONE)

    def lacks(self, topic: str, partition: int) -> bool:
        """Whether the brokers say that there is no such partition."""
        return topic in self.now and not (self.now[topic].exists and partition in self.now[topic].epochs)

    def is_former(self, topic: str, topic_id: str | None) -> bool:
        """Whether this is the id of a topic that had the name before."""
        current = self.current_id(topic)
        return topic_id == FORMER or bool(topic_id and current and topic_id not in {current, ZERO_ID})

    def unrestorable(self, topic: str, partition: int, topic_id: str | None) -> str:
        """Why a commit of this partition cannot be made again as it is; empty where it can, or that is not
        known."""
        if not self.now.get(topic, _UNTOLD).exists:
            return "there is no such topic"
        if self.lacks(topic, partition):
            count = len(self.now[topic].epochs)
            return f"the topic has {count} partition{'s' if count != 1 else ''}"
        return "it belongs to a former topic of that name" if self.is_former(topic, topic_id) else ""

    def strays(self, row: OffsetRow) -> frozenset[Stray]:
        """Everything that is wrong with where a commit belongs; what is not known is not wrong."""
        if self.lacks(row.topic, row.partition):
            return frozenset({Stray.NO_PARTITION})
        kinds = {Stray.FORMER_TOPIC} if self.is_former(row.topic, row.topic_id) else set[Stray]()
        epoch = _NONE if row.leader_epoch is None else row.leader_epoch
        current = self.current_epoch(row.topic, row.partition)
        end = self.ends.get((row.topic, row.partition, epoch))
        if _NONE < current < epoch and (end is None or end < 0):
            kinds.add(Stray.EPOCH_ABOVE)
        if _NONE < epoch < current and end is not None and end < row.offset:
            kinds.add(Stray.EPOCH_LOW)
        return frozenset(kinds)

    def unproven(self, rows: Iterable[OffsetRow]) -> tuple[Place, ...]:
        """The leader epochs of these commits about whose end their leaders have to be asked: all but the
        current ones. A broker may tell an older one than the leader's."""
        places = {
            (row.topic, row.partition, row.leader_epoch)
            for row in rows
            if row.leader_epoch is not None
            and row.leader_epoch > _NONE
            and self.current_epoch(row.topic, row.partition) not in {_NONE, row.leader_epoch}
        }
        return tuple(sorted(places))
