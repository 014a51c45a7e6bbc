"""Time as an argument."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall clock and waiting; tests pass a clock of their own."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; only loops with a deadline may call it."""
        ...
