"""A machine in one thread: simulated threads that run one at a time, and a clock that moves when told.

The consumers' own threads run unchanged: while `simulated` is in force, the modules of
`groupshift.consumers` and of the memory adapters find these threads, queues and this clock under the
names ``threading``, ``queue``, ``time`` and ``monotonic``. Who runs, and for how many calls, is decided
from outside: every schedule can be drawn, and drawn again.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

PACKAGES = ("groupshift.consumers", "groupshift_testing")
LONG = 1_000
"""Calls in one go that no honest pass of a member needs."""


class SimulatedThread:
    """`threading.Thread` for code that is run by a `Machine`."""

    def __init__(self, *, target: Callable[..., Any], args: Any = (), name: str = "", daemon: bool = True):  # noqa: ARG002 (as there)
        self.name = name
        self.finished = False
        self.ready: Callable[[], bool] | None = None
        self.until: float | None = None
        self._greenlet = greenlet(lambda: self._run(target, args))

    def _run(self, target: Callable[..., Any], args: Any) -> None:
        try:
            target(*args)
        finally:
            self.finished = True

    def start(self) -> None:
        """From now on it can be run."""
        self._greenlet.parent = MACHINE.main
        MACHINE.threads.append(self)

    def join(self, timeout: float | None = None) -> None:
        """Nobody waits here: the world lets it run to its end."""

    def is_alive(self) -> bool:
        """Until its function has returned."""
        return not self.finished

    def awake(self, now: float) -> bool:
        """Whether there is something to do."""
        if self.finished:
            return False
        return self.ready is None or self.ready() or (self.until is not None and now >= self.until)

    def switch(self) -> None:
        """Run it until it gives way."""
        self._greenlet.switch()

    def kill(self) -> None:
        """End it where it stands: nothing of it goes on, whatever it would still like to do."""
        if not self._greenlet.dead:
            MACHINE.killing += 1
            self._greenlet.throw()
            MACHINE.killing -= 1


class Machine:
    """The clock in seconds, and the threads. Only the main greenlet decides who runs."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.main = getcurrent()
        self.threads: list[SimulatedThread] = []
        self.running: SimulatedThread | None = None
        self.killing = 0
        self._left = 0

    def run(self, thread: SimulatedThread, calls: int) -> bool:
        """Let ``thread`` make up to ``calls`` calls; True when it used them all."""
        if self.running is not None or calls < 1 or not thread.awake(self.now):
            return False
        self.running, self._left = thread, calls
        try:
            thread.switch()
        finally:
            self.running = None
        return self._left <= 0

    def point(self) -> None:
        """A call is about to leave the process: others may come first."""
        self.end_if_killed()
        if self.running is None:
            return
        self._left -= 1
        if self._left <= 0:
            self.main.switch()
            self.end_if_killed()

    def wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Give way until ``ready`` or until the time has passed; True when ready."""
        self.end_if_killed()
        thread = self.running
        if ready() or thread is None:
            return ready()
        if timeout is not None and timeout <= 0:
            self.point()
            return ready()
        thread.ready, thread.until = ready, None if timeout is None else self.now + timeout
        while not thread.awake(self.now):
            self.main.switch()
            self.end_if_killed()
        thread.ready = thread.until = None
        return ready()

    def end_if_killed(self) -> None:
        """Nothing goes on after the end."""
        if self.killing:
            raise GreenletExit

    def end(self) -> None:
        """End every thread where it stands."""
        for thread in self.threads:
            thread.kill()


class SimulatedQueue:
    """`queue.SimpleQueue` whose readers give way instead of blocking."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        """Add at the end."""
        self._items.append(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002 (as there)
        """The first, or `queue.Empty`."""
        if block:
            MACHINE.wait(lambda: bool(self._items), timeout)
        return self.get_nowait()

    def get_nowait(self) -> Any:
        """The first, or `queue.Empty`."""
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def empty(self) -> bool:
        """Nothing in it."""
        return not self._items

    def qsize(self) -> int:
        """How many."""
        return len(self._items)


class SimulatedTimer(SimulatedThread):
    """`threading.Timer`."""

    def __init__(self, interval: float, function: Callable[..., Any], args: Any = ()) -> None:
        def later() -> None:
            if not MACHINE.wait(lambda: self._cancelled, interval):
                function(*args)

        self._cancelled = False
        super().__init__(target=later)

    def cancel(self) -> None:
        """Do not call."""
        self._cancelled = True


class _Threading:
    """The module `threading`, but for what would start a real thread."""

    Thread, Timer = SimulatedThread, SimulatedTimer

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


MACHINE = Machine()
_TIME = SimpleNamespace(
    monotonic=lambda: MACHINE.now,
    time=lambda: 1_700_000_000.0 + MACHINE.now,
    sleep=lambda seconds: MACHINE.wait(lambda: False, seconds),
)
_QUEUE = SimpleNamespace(SimpleQueue=SimulatedQueue, Empty=queue.Empty)
_SHIMS = {"time": _TIME, "monotonic": _TIME.monotonic, "queue": _QUEUE, "threading": _Threading()}


def _raise_again(*_message: object, **_more: object) -> None:
    """In place of a logger's `exception`: what a thread survives in real life is a finding here."""
    error = sys.exception()
    if error is not None:
        raise error


@contextmanager
def simulated() -> Iterator[None]:
    """While this is in force, the consumers live in `MACHINE`."""
    modules = [m for n, m in sys.modules.items() if n.startswith(PACKAGES) and m is not None]
    kept = [(m, name, getattr(m, name)) for m in modules for name in _SHIMS if name in vars(m)]
    for module, name, _ in kept:
        setattr(module, name, _SHIMS[name])
    loggers = {id(m._LOG): m._LOG for m in modules if "_LOG" in vars(m)}.values()
    for logger in loggers:
        logger.exception = _raise_again
    try:
        yield
    finally:
        for logger in loggers:
            del logger.exception
        for module, name, real in kept:
            setattr(module, name, real)


def new_machine() -> Machine:
    """A fresh machine in place of the last one, whose threads end."""
    global MACHINE  # noqa: PLW0603 (one at a time)
    MACHINE.end()
    MACHINE = Machine()
    return MACHINE
