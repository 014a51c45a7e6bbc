"""Programs that a driver runs: argument templates, and one run with its output and exit code.

Values of a change are put into the arguments, never through a shell. Only the end of
its standard error is kept.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from groupshift.domain.secrets import struck_out
from groupshift.errors import Rejected
from groupshift.ports.driver import Change

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


FIELDS = ("change_id", "group", "slots", "to", "fence", "token", "undoes")
"""The names that a template may hold in braces; ``slots`` and ``undoes`` are lists."""
_PLACE = re.compile(r"\{(\w*)\}")
_SAFE = re.compile(r"(?!-)[A-Za-z0-9._:/@+=-]*")


def problems(name: str, template: tuple[str, ...], fields: Sequence[str] = FIELDS) -> tuple[str, ...]:
    """What is wrong with a template, one clause each; ``name`` is its key in the settings."""
    if not template or not template[0]:
        return (f"{name} is empty: name a program and its arguments",)
    unknown = [found for each in template for found in _PLACE.findall(each) if found not in fields]
    if _PLACE.search(template[0]):
        return (f"{name} takes its program {template[0]!r} from the change: name the program itself",)
    return tuple(f"{name} holds {{{each}}}, which is none of {', '.join(fields)}" for each in unknown)


def fill(template: tuple[str, ...], change: Change) -> list[str]:
    """The arguments of one call. An argument that is ``{slots}`` or ``{undoes}`` and nothing else becomes
    one argument for each value (none for an empty list); inside other text the values are joined by commas.

    Raises `Rejected` for a value that a program could take for an option or that holds anything but
    letters, digits and ``._:/@+=-``."""
    lists = {"slots": change.slots, "undoes": change.undoes}
    values = {
        "change_id": change.change_id,
        "group": change.group,
        "to": change.to.value,
        "fence": change.fence,
        "token": str(change.token),
    }
    return put(template, values, lists)


def put(
    template: tuple[str, ...], values: Mapping[str, str], lists: Mapping[str, Sequence[str]]
) -> list[str]:
    """As `fill`, of any values. Raises likewise."""
    for name, value in [*values.items(), *((n, each) for n, many in lists.items() for each in many)]:
        if not _SAFE.fullmatch(value):
            raise Rejected(
                f"{name} {value!r} cannot be handed to a program: only letters, digits and ._:/@+=- "
                "may be in it, and no - may be its first; rename it"
            )
    texts = {**values} | {name: ",".join(many) for name, many in lists.items()}
    arguments: list[str] = []
    for each in template:
        whole = _PLACE.fullmatch(each)
        if whole and whole[1] in lists:
            arguments += lists[whole[1]]
        else:
            arguments.append(_PLACE.sub(lambda found: texts[found[1]], each))
    return arguments
