"""What the pages show, as plain values; no HTML and no web framework here."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(at_ms: int | None) -> str:
    """Epoch milliseconds as UTC text, empty for None and for 0."""
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%F %T UTC") if at_ms else ""
