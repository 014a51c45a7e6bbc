"""A named pipe in a file's place, at which nobody waits for ever."""

from __future__ import annotations

import os
import threading
from pathlib import Path

LET_GO_S = 65.0
"""Longer than the tests that put a pipe somewhere may take."""


def named_pipe(path: Path) -> None:
    """Make it. Whoever opens it to read waits in C code that no alarm of pytest ends: once the test's time is
    over the other end is opened, so that the alarm is heard and the test fails."""
    os.mkfifo(path)
    watch = threading.Timer(LET_GO_S, lambda: path.exists() and _let_go(path))
    watch.daemon = True
    watch.start()


def _let_go(path: Path) -> None:
    os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
