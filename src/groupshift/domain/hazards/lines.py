"""Which line of releases a broker in KRaft mode belongs to, by the newest metadata.version that it supports.

A broker does not tell its version. ApiVersions tells the range of ``metadata.version``, whose upper end is
one number a line: 8 is 3.4, 33 is 4.4. Within a line nothing tells the releases apart, so a bug that was
fixed inside one is asked for. Read off ``MetadataVersion.latestProduction`` of 3.4.1, 3.5.2, 3.7.2, 3.9.2,
4.0.2, 4.1.2, 4.3.1 and 4.4.0; 3.6, 3.8 and 4.2 are those of specs/group-coordinator.md §5.5.
"""

from __future__ import annotations

from groupshift.domain.hazards.versions import Span, met

_LINES = {
    8: "3.4",
    11: "3.5",
    14: "3.6",
    19: "3.7",
    20: "3.8",
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
    33: "4.4",
}


def line_of(newest_metadata: int) -> Span | None:
    """The line of a broker that supports ``metadata.version`` up to this level; None where it is none that we
    know: a newer release, or one with unstable features switched on."""
    line = met(_LINES.get(newest_metadata, ""))
    return line if isinstance(line, Span) else None
