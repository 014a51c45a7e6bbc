"""The machine's clock."""

from __future__ import annotations

import time


class SystemClock:
    """`groupshift.ports.clock.Clock` of this machine."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
