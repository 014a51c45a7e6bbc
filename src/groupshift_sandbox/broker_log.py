"""What of a broker's log matters when its release changes (docs/reference/group-coordinator.md §8.3)."""

from __future__ import annotations

import re
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
    "No MetadataVersion with",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLines:
    """How often a pattern occurred since a node's last start, and the first line with it."""

    pattern: str
    count: int
    first: str


_STARTS = "--- groupshift starts "
_FAILED = re.compile(
    r"Failed to load metadata from __consumer_offsets-(\d+) with epoch \d+ due to "
    r"(?!.*(?:NotLeader|Stopped ))"
)


def mark_start(log: Path, what: str) -> None:
    """Write into the log that the next start begins here."""
    log.touch(mode=0o600)
    with log.open("a") as out:
        out.write(f"{_STARTS}{what}\n")


def since_last_start(log: Path) -> str:
    """The log from the last mark on; all of it when there is none."""
    return log.read_bytes().decode(errors="replace").rpartition(_STARTS)[2]


def failed_partitions(log: Path) -> frozenset[int]:
    """Partitions of the offsets topic that the NEW coordinator could not load since the last start: their
    groups are answered NOT_COORDINATOR until the next one."""
    return frozenset(int(number) for number in _FAILED.findall(since_last_start(log)))


def lines_that_matter(log: Path) -> tuple[LogLines, ...]:
    """Those of `PATTERNS` that occur since the last start, in their order."""
    lines, matches = since_last_start(log).splitlines(), []
    for pattern in PATTERNS:
        matching = [line for line in lines if pattern in line]
        if matching:
            matches.append(LogLines(pattern=pattern, count=len(matching), first=matching[0]))
    return tuple(matches)
