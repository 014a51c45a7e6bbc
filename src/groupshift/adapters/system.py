"""The machine: its clock, signals, folders and locks of this user, crash points that kill the process, and
Python's collector.

Folders: one below the temporary one that nobody else writes to, and the cache. A crash point kills the
process at a named point of a step: so tests prove that any instruction may be the last.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any

from groupshift.errors import Rejected
from groupshift.ports.clock import CrashPoint


class SystemClock:
    """`groupshift.ports.clock.Clock` of this machine."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks a process to end: Ctrl-C, a service that is stopped, a terminal that is closed."""


@contextmanager
def signalled(handler: Callable[[int, FrameType | None], Any], *signals: signal.Signals) -> Iterator[None]:
    """Within the block these signals call ``handler``, as `signal.signal` calls it; afterwards whom they did
    before. In a thread that is not the main one nothing is changed: Python gives that one all signals."""
    main = threading.current_thread() is threading.main_thread()
    former = {each: signal.signal(each, handler) for each in signals if main}
    try:
        yield
    finally:
        for each, before in former.items():
            signal.signal(each, before)


@contextmanager
def signals_wait() -> Iterator[None]:
    """Within the block Ctrl-C, SIGTERM and SIGHUP wait for its end where they would raise KeyboardInterrupt;
    sent again, they interrupt it. For what an exception must not leave half done: SQLAlchemy takes a commit
    that was cut off for a fault of its own. A signal that raises nothing has its effect at once."""
    came: list[int] = []
    raising = [each for each in ENDS if signal.getsignal(each) is signal.default_int_handler]

    def first(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        signal.signal(number, signal.default_int_handler)

    with ExitStack() as after:
        after.callback(lambda: list(map(signal.raise_signal, came)))
        after.enter_context(signalled(first, *raising))
        yield


_pauses: list[None] = []


@contextmanager
def collector_paused() -> Iterator[None]:
    """Within the block Python's cyclic collector rests; it goes on when no thread is in such a block. Where
    hundreds of thousands of rows are made that stay, it walks all of them again and again (a third of the
    time of a snapshot of 15,000 groups)."""
    _pauses.append(None)
    gc.disable()
    try:
        yield
    finally:
        _pauses.pop()
        if not _pauses:
            gc.enable()


class Whom(StrEnum):
    """Who dies: this process, or its parent first and this process with it (task and supervisor)."""

    SELF = "self"
    PARENT = "parent"


class KillAtStep:
    """`groupshift.ports.clock.StepCrashPoints` that sends SIGKILL to this process, or to its parent and
    itself, at one point of each step whose key holds a text."""

    def __init__(self, text: str, point: CrashPoint, whom: Whom = Whom.SELF) -> None:
        self._text, self._point, self._whom = text, point, whom

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> KillAtStep | None:
        """From ``GROUPSHIFT_CRASH_AT_STEP=<text>.<point>`` and ``GROUPSHIFT_CRASH_WHOM=self|parent``.

        None when no point is asked for.

        Raises `Rejected` for a point that does not exist."""
        if not (setting := environ.get("GROUPSHIFT_CRASH_AT_STEP", "")):
            return None
        text, _, point = setting.rpartition(".")
        try:
            return cls(text, CrashPoint(point), Whom(environ.get("GROUPSHIFT_CRASH_WHOM", Whom.SELF)))
        except ValueError as error:
            raise Rejected(f"GROUPSHIFT_CRASH_AT_STEP {setting!r} is no <text>.<point>: {error}") from error

    def reached(self, step: str, point: CrashPoint) -> None:
        """Kill, if this is the point."""
        if self._text not in step or point is not self._point:
            return
        if self._whom is Whom.PARENT:
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def cache_root() -> Path:
    """``GROUPSHIFT_CACHE``, by default ``groupshift`` below the user's cache folder: jars, Ivy, Java shim."""
    if named := os.environ.get("GROUPSHIFT_CACHE"):
        return Path(named).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve() / "groupshift"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``<path>.lock``; the kernel frees it when the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def own_folder(name: str) -> Path | None:
    """The folder ``name-<user>``, made when it is missing; None where it cannot be had: somebody else's, one
    that others may write to, a link, or no place to write at all."""
    owner = os.getuid()
    folder = Path(tempfile.gettempdir()) / f"{name}-{owner}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    if status.st_uid != owner or status.st_mode & 0o022 or folder.is_symlink():
        return None
    return folder
