"""What of a broker's log matters when its release changes (specs/group-coordinator.md, section 8.3)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PATTERNS = (
    "Error loading offsets",
    "Unknown message key",
    "Unknown record type",
    "Unknown group metadata message version",
    "Unknown offset message version",
    "Failed to load metadata from __consumer_offsets",
    "Tried to apply FeatureLevelRecord",
    "does not support finalized version",
    "only supports versions",
    "Can't read version",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines:
    """How often a pattern occurred since a node's last start, and the first line with it."""

    pattern: str
    count: int
    first: str


def log_size(log: Path) -> int:
    """Bytes that are there before the next start; 0 when there is no log yet."""
    return log.stat().st_size if log.exists() else 0


def lines_that_matter(log: Path, since: int) -> tuple[LogLines, ...]:
    """Those of `PATTERNS` that occur after ``since`` bytes, in their order."""
    with log.open("rb") as file:
        file.seek(since)
        lines = file.read().decode(errors="replace").splitlines()
    found = []
    for pattern in PATTERNS:
        matching = [line for line in lines if pattern in line]
        if matching:
            found.append(LogLines(pattern=pattern, count=len(matching), first=matching[0]))
    return tuple(found)
