"""What the reconciler's thread does next: events handed to it, and timers."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable


class Agenda:
    """Events from any thread, timers for the owning one. Times are seconds."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._due: dict[str, float] = {}

    def post(self, event: Callable[[], None]) -> None:
        """Hand over an event; from any thread."""
        self._events.put(event)

    def receive(self, timeout: float) -> None:
        """Wait for the first event up to ``timeout``; carry out all events that are there."""
        try:
            event = self._events.get(timeout=max(timeout, 0.0))
            while True:
                event()
                event = self._events.get_nowait()
        except queue.Empty:
            return

    def every(self, name: str, period: float) -> bool:
        """True once per period; an unknown timer is due at once."""
        now = time.monotonic()
        if now < self._due.get(name, 0.0):
            return False
        self._due[name] = now + period
        return True

    def begin(self, name: str, delay: float) -> None:
        """Set a timer that is not running."""
        self._due.setdefault(name, time.monotonic() + delay)

    def hasten(self, name: str, delay: float) -> None:
        """Let a timer be due no later than in ``delay``."""
        latest = time.monotonic() + delay
        self._due[name] = min(self._due.get(name, latest), latest)

    def plan(self, name: str, delay: float | None) -> None:
        """Set a timer anew, or forget it."""
        self.cancel(name)
        if delay is not None:
            self.begin(name, delay)

    def cancel(self, name: str) -> None:
        """Forget a timer."""
        self._due.pop(name, None)

    def left(self, name: str) -> float | None:
        """Until a timer is due; None when it does not run."""
        due = self._due.get(name)
        return None if due is None else max(0.0, due - time.monotonic())

    def idle(self, longest: float) -> float:
        """Until the first timer is due, at most ``longest``."""
        now = time.monotonic()
        return max(0.0, min([*self._due.values(), now + longest]) - now)
