"""Reading what the members say they delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from groupshift.domain.chronicle import Tenure
from groupshift.domain.partitions import TopicPartition


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

    def tenures(self, group: str, from_ms: int, to_ms: int) -> Sequence[Tenure]:
        """Runs of deliveries by one member between two times (epoch ms), per partition: from the first to
        the last record before another member delivered. Empty without ledgers. Raises as above."""
        ...
