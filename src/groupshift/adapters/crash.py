"""Kills a process at a named point of an act: how tests prove that any instruction may be the last."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from enum import StrEnum

from groupshift.domain.plan import StageName
from groupshift.errors import Rejected
from groupshift.ports.clock import CrashPoint


class Whom(StrEnum):
    """Who dies: this process, or its parent first and this process with it (task and supervisor)."""

    SELF = "self"
    PARENT = "parent"


class KillAt:
    """`groupshift.ports.clock.CrashPoints` that sends SIGKILL at one point of one stage."""

    def __init__(self, stage: StageName, point: CrashPoint, whom: Whom = Whom.SELF) -> None:
        self._stage, self._point, self._whom = stage, point, whom

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> KillAt | None:
        """From ``GROUPSHIFT_CRASH_AT=<stage>.<point>`` and ``GROUPSHIFT_CRASH_WHOM=self|parent``.

        None when no point is asked for; raises `Rejected` for one that does not exist."""
        text = environ.get("GROUPSHIFT_CRASH_AT", "")
        if not text:
            return None
        stage, _, point = text.partition(".")
        try:
            whom = Whom(environ.get("GROUPSHIFT_CRASH_WHOM", Whom.SELF.value))
            return cls(StageName(stage), CrashPoint(point), whom)
        except ValueError as error:
            raise Rejected(f"GROUPSHIFT_CRASH_AT {text!r} is no <stage>.<point>: {error}") from error

    def reached(self, stage: StageName, point: CrashPoint) -> None:
        """Kill, if this is the point."""
        if (stage, point) != (self._stage, self._point):
            return
        if self._whom is Whom.PARENT:
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class KillAtStep:
    """`groupshift.ports.clock.StepCrashPoints` that sends SIGKILL to this process at one point of the first
    step whose key holds a text."""

    def __init__(self, text: str, point: CrashPoint) -> None:
        self._text, self._point = text, point

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> KillAtStep | None:
        """From ``GROUPSHIFT_CRASH_AT_STEP=<text>.<point>``; None when no point is asked for.

        Raises `Rejected` for a point that does not exist."""
        asked = environ.get("GROUPSHIFT_CRASH_AT_STEP", "")
        if not asked:
            return None
        text, _, point = asked.rpartition(".")
        try:
            return cls(text, CrashPoint(point))
        except ValueError as error:
            raise Rejected(f"GROUPSHIFT_CRASH_AT_STEP {asked!r} is no <text>.<point>: {error}") from error

    def reached(self, step: str, point: CrashPoint) -> None:
        """Kill, if this is the point."""
        if self._text in step and point is self._point:
            os.kill(os.getpid(), signal.SIGKILL)
