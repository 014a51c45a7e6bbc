"""Spark entry points, one ``main`` each."""

from __future__ import annotations

import sys
from collections.abc import Callable

from groupshift.errors import GroupshiftError


def ended(job: str, run: Callable[[], str]) -> int:
    """Run a job and print what it came to; returns the exit code, that of the error with which it ended."""
    try:
        print(f"{job}: {run()}")
    except GroupshiftError as error:
        print(f"{job}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def progress_of(job: str) -> Callable[[str, int, int], None]:
    """What prints the progress of a job: what is done, how much, and of how much."""
    return lambda what, done, total: print(f"{job}: {what} {done} of {total}", flush=True)
