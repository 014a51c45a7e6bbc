"""One run of a program: its output, its exit code, and the end of what it complained about."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from groupshift.domain.secrets import struck_out
from groupshift.errors import Rejected

_LAST_WORDS_S = 1.0
_TAIL_LINES, _TAIL_CHARACTERS = 5, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """``code`` None: it did not end in time and was killed with all it had started; ``trouble`` is the end
    of its standard error, on one line."""

    code: int | None
    output: str
    trouble: str


def run_program(
    argv: list[str], environment: Mapping[str, str], timeout_s: float, *, key: str = "fleet.command"
) -> Ran:
    """Run ``argv`` in a session of its own, with nothing to read, for at most ``timeout_s``;
    ``key`` is where people configure it.

    Raises `Rejected` when there is no such program or it may not be run."""
    try:
        process = subprocess.Popen(
            argv,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise Rejected(f"program {argv[0]!r} cannot be run ({error}); correct {key}") from error
    with process:
        try:
            output, trouble = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):  # something that left the session keeps the pipe open
                trouble = process.communicate(timeout=_LAST_WORDS_S)[1]
                return Ran(code=None, output="", trouble=_tail(trouble))
            return Ran(code=None, output="", trouble="")
    return Ran(code=process.returncode, output=output.decode(errors="replace"), trouble=_tail(trouble))


def masked(text: str, secrets: Iterable[str]) -> str:
    """What a program said to people, without the values of the variables that it was given of our
    environment; the longest first, since one may hold another."""
    return struck_out(text, secrets)


def _tail(written: bytes) -> str:
    lines = written.decode(errors="replace").strip().splitlines()[-_TAIL_LINES:]
    return " / ".join(line.strip() for line in lines if line.strip())[-_TAIL_CHARACTERS:]
