"""Kills a process at a named point of an act: how tests prove that any instruction may be the last."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from enum import StrEnum

from groupshift.domain.moves import StageName
from groupshift.errors import Rejected
from groupshift.ports.crash import CrashPoint


class Whom(StrEnum):
    """Who dies: this process, or its parent first and this process with it (task and supervisor)."""

    SELF = "self"
    PARENT = "parent"


class KillAt:
    """`groupshift.ports.crash.CrashPoints` that sends SIGKILL at one point of one stage."""

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
