"""What an expansion is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from groupshift.domain.requests import option
from groupshift.moves.expansion.assess import MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionRequest:
    """One count, and how long groups may take to become empty."""

    to: int = option("Partitions that __consumer_offsets is to have.", minimum=1, maximum=MOST)
    drain: int = option(
        "Seconds in which the last member has to stop; else the run ends, and nothing is changed.",
        default=1_800,
        minimum=1,
        maximum=604_800,
    )
