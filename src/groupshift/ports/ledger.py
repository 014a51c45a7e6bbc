"""Reading what the members say they delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from groupshift.domain.ownership_history import Tenure
from groupshift.domain.partitions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """``deliveries`` of records, how many of them had been delivered ``again``, offsets between the first and
    the last one of a partition that were ``passed_over``, and the ``longest_pause_ms`` between two deliveries
    of a partition; ``source`` is where the ledgers are."""

    deliveries: int
    again: int
    passed_over: int
    longest_pause_ms: int
    source: str = ""


class Ledger(Protocol):
    """The records members write of every delivered record (one JSON object a line)."""

    def last_delivered(self, group: str) -> Mapping[TopicPartition, int]:
        """The highest offset delivered by any member of the group, present or gone, per partition.

        Partitions never delivered are absent; without ledgers the mapping is empty. A torn last line
        (its writer was killed or is writing) is not there yet. Raises `Broken` naming file and line
        for a complete line that is no ledger record.
        """
        ...

    def delivered_below(
        self, group: str, bounds: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """The highest offset below each of ``bounds`` that any member of the group was delivered; absent
        where there is none. Raises as above."""
        ...

    def delivered(self, group: str, from_ms: int, to_ms: int) -> Delivered | None:
        """What the members were handed between two times (epoch ms), in figures; None without a ledger of
        the group. Raises as above."""
        ...

    def tenures(self, group: str, from_ms: int, to_ms: int) -> Sequence[Tenure]:
        """Runs of deliveries by one member between two times (epoch ms), per partition: from the first to
        the last record before another member delivered. Empty without ledgers. Raises as above."""
        ...
