"""A crash point that ends each process at another place."""

from __future__ import annotations

from groupshift.ports.clock import CrashPoint
from support.simulated_downgrade import Killed


class KillOnce:
    """Ends the process at each point of each step that it did not end one at yet."""

    def __init__(self) -> None:
        self.killed: list[tuple[str, CrashPoint]] = []

    def reached(self, step: str, point: CrashPoint) -> None:
        """See the port."""
        if (step, point) not in self.killed:
            self.killed.append((step, point))
            raise Killed
