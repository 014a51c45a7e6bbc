"""Work for one thread: events and timers of the reconciler, and calls to the owner of a client.

confluent-kafka lets one thread at a time into a consumer and does not queue the others fairly: a thread
that polls in a loop starves every other caller (observed with 2.16.1). So each client here belongs to
one thread at a time, and everyone else hands it calls.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from groupshift.errors import Transient


def daemon(name: str, target: Callable[[], object]) -> threading.Thread:
    """A thread that keeps no process alive; it is not started yet."""
    return threading.Thread(target=target, name=f"groupshift-{name}", daemon=True)


class Events:
    """Events from any thread, carried out by the owning one, in order."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

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


class EventLoop(Events):
    """Timers for the owning thread beside the events. Times are seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._due: dict[str, float] = {}

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
        """Set a timer anew; None: forget it."""
        self._due.pop(name, None)
        if delay is not None:
            self.begin(name, delay)

    def left(self, name: str) -> float | None:
        """Until a timer is due; None when it does not run."""
        due = self._due.get(name)
        return None if due is None else max(0.0, due - time.monotonic())

    def idle(self, longest: float) -> float:
        """Until the first timer is due, at most ``longest``."""
        now = time.monotonic()
        return max(0.0, min([*self._due.values(), now + longest]) - now)


T = TypeVar("T")


class Calls(Events):
    """Calls whose result the caller may wait for; `serve` carries them out."""

    def __init__(self) -> None:
        super().__init__()
        self._arrived = threading.Event()

    def hand(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call and return at once."""
        result: Future[T] = Future()

        def carry_out() -> None:
            if result.set_running_or_notify_cancel():
                try:
                    result.set_result(call())
                except BaseException as error:  # noqa: BLE001 (handed to whoever waits for the result)
                    result.set_exception(error)

        self.post(carry_out)
        self._arrived.set()
        return result

    def ask(self, call: Callable[[], T], timeout: float, what: str) -> T:
        """Queue a call and wait. Raises what it raises, or `Transient` naming ``what`` after ``timeout`` s.

        A call that was not begun by then is not carried out any more."""
        result = self.hand(call)
        try:
            return result.result(timeout)
        except TimeoutError:
            result.cancel()
            raise Transient(f"{what}: no answer within {timeout:g} s") from None

    def wait(self, timeout: float) -> None:
        """Return when a call may be waiting, at the latest after ``timeout`` seconds; from any thread."""
        self._arrived.wait(timeout)

    def serve(self, timeout: float = 0) -> None:
        """On the owning thread: wait up to ``timeout`` seconds for a call, then carry out all there are."""
        self._arrived.clear()
        self.receive(timeout)
