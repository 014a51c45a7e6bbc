"""Processes of a test, ended with it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import Command, Running, start, stop


@contextlib.contextmanager
def started(home: Home) -> Iterator[Callable[[str, Sequence[str]], Running]]:
    """A function that starts ``argv`` under a name; afterwards all are ended, last started first."""
    running: list[Running] = []

    def run(name: str, argv: Sequence[str]) -> Running:
        running.append(start(home, Command(name=name, argv=argv)))
        return running[-1]

    try:
        yield run
    finally:
        for one in reversed(running):
            stop(one, 20.0)
