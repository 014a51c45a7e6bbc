"""Time as an argument, and crash points: places where a test may kill the process.

Every step must survive a kill at each of them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class Clock(Protocol):
    """Wall clock and waiting; tests pass a clock of their own."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""

    def sleep(self, seconds: float) -> None:
        """Wait; only loops with a deadline may call it."""


class CrashPoint(StrEnum):
    """Where, in the act of a step."""

    BEFORE_JOURNAL = "before_journal"
    AFTER_JOURNAL = "after_journal"
    AFTER_ACT = "after_act"
    AFTER_READ_BACK = "after_read_back"


class StepCrashPoints(Protocol):
    """Called at each point; does nothing outside tests."""

    def reached(self, step: str, point: CrashPoint) -> None:
        """The step of this key has come to ``point``."""


class NoStepCrash:
    """The implementation outside tests."""

    def reached(self, step: str, point: CrashPoint) -> None:
        """Do nothing."""
