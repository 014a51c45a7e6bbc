"""The levels of ``metadata.version``: their names, and which of them changed what the metadata log holds.

Kafka lowers it only where no such change is undone; an unsafe downgrade is refused by every release.
Source: specs/group-coordinator.md §5.5, and ``MetadataVersion`` of the released 3.9.2 and 4.4.0, where
the marks of 4.4 stand too.
"""

from __future__ import annotations

from dataclasses import dataclass

METADATA = "metadata.version"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLevel:
    """One level: the number that is finalised, its name, and whether it changed the metadata log (then
    nothing goes back to below it)."""

    level: int
    name: str
    changes: bool


_TABLE = (
    (1, "3.0-IV1", True),
    (2, "3.1-IV0", False),
    (3, "3.2-IV0", True),
    (4, "3.3-IV0", False),
    (5, "3.3-IV1", True),
    (6, "3.3-IV2", True),
    (7, "3.3-IV3", True),
    (8, "3.4-IV0", True),
    (9, "3.5-IV0", False),
    (10, "3.5-IV1", False),
    (11, "3.5-IV2", True),
    (12, "3.6-IV0", False),
    (13, "3.6-IV1", True),
    (14, "3.6-IV2", True),
    (15, "3.7-IV0", True),
    (16, "3.7-IV1", False),
    (17, "3.7-IV2", True),
    (18, "3.7-IV3", False),
    (19, "3.7-IV4", False),
    (20, "3.8-IV0", False),
    (21, "3.9-IV0", False),
    (22, "4.0-IV0", False),
    (23, "4.0-IV1", True),
    (24, "4.0-IV2", False),
    (25, "4.0-IV3", False),
    (26, "4.1-IV0", False),
    (27, "4.1-IV1", False),
    (28, "4.2-IV0", False),
    (29, "4.2-IV1", False),
    (30, "4.3-IV0", True),
    (31, "4.4-IV0", False),
    (32, "4.4-IV1", True),
    (33, "4.4-IV2", True),
)
LEVELS = {number: MetadataLevel(level=number, name=name, changes=changes) for number, name, changes in _TABLE}
"""Every level up to 4.4.0's, by number."""

NEWEST = max(LEVELS)


def name_of(level: int) -> str:
    """``4.3-IV0 (30)``; of a level that we do not know its number."""
    known = LEVELS.get(level)
    return f"{known.name} ({level})" if known else f"level {level}"


def changes_between(lower: int, upper: int) -> tuple[str, ...]:
    """Names of the levels above ``lower`` and up to ``upper`` that changed the metadata log, in order; a
    level that we do not know counts as one that did."""
    return tuple(
        name_of(level)
        for level in range(lower + 1, upper + 1)
        if level not in LEVELS or LEVELS[level].changes
    )
