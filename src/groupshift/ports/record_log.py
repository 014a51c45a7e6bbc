"""Asking the logs of topics whether they hold records at certain offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from groupshift.domain.log_gaps import Gap, GapRead


class RecordLog(Protocol):
    """Reads only the ranges that are asked for, as a consumer of each range's isolation level would be given
    them, and changes nothing: no group is joined, nothing is committed."""

    def read(self, gaps: Sequence[Gap]) -> Sequence[GapRead]:
        """What the log says of each, in their order. What cannot be read is said, never raised: a gap without
        an answer is not proven."""
        ...


class NobodyAsksTheLog:
    """There is no log to ask: whatever was passed over counts as it did before."""

    def read(self, _gaps: Sequence[Gap]) -> Sequence[GapRead]:
        """Nothing is known of any."""
        return ()
