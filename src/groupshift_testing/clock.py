"""A clock that only moves when somebody sleeps."""

from __future__ import annotations

from collections.abc import Callable


class ManualClock:
    """`groupshift.ports.clock.Clock`: starts at ``now_ms``; ``on_sleep`` is told the seconds slept."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self.on_sleep: list[Callable[[float], None]] = []

    def now_ms(self) -> int:
        """Epoch milliseconds; every look takes one."""
        self._now_ms += 1
        return self._now_ms

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self._now_ms += int(seconds * 1000)
        for listener in self.on_sleep:
            listener(seconds)
