"""What an expansion is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.requests import option
from groupshift.moves.expansion.assess import MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionRequest:
    """One count."""

    to: int = option("Partitions that __consumer_offsets is to have.", minimum=1, maximum=MOST)
