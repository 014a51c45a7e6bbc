"""Programs that a driver runs: argument templates, one run with its output and exit code, and its answer.

Values of a change are put into the arguments, never through a shell. Only the end of its standard error is
kept. `DeployerPrograms` are the programs of one driver, as its `Contract` says.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from groupshift.domain.foreign_json import FILE_BYTES, load_json
from groupshift.domain.secrets import struck_out
from groupshift.errors import Conflict, Rejected, Transient

_LAST_WORDS_S = 1.0
_TAIL_LINES, _TAIL_CHARACTERS = 5, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """``code`` None: it did not end in time and was killed with all it had started; ``trouble`` is the end
    of its standard error, on one line."""

    code: int | None
    output: str
    trouble: str


def run_program(argv: list[str], environment: Mapping[str, str], timeout_s: float, *, key: str) -> Ran:
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


_PLACE = re.compile(r"\{(\w*)\}")
_SAFE = re.compile(r"(?!-)[A-Za-z0-9._:/@+=-]*")


def problems(name: str, template: tuple[str, ...], fields: Sequence[str]) -> tuple[str, ...]:
    """What is wrong with a template, one clause each; ``name`` is its key in the settings."""
    if not template or not template[0]:
        return (f"{name} is empty: name a program and its arguments",)
    unknown = [found for each in template for found in _PLACE.findall(each) if found not in fields]
    if _PLACE.search(template[0]):
        return (f"{name} takes its program {template[0]!r} from the change: name the program itself",)
    return tuple(f"{name} holds {{{each}}}, which is none of {', '.join(fields)}" for each in unknown)


def put(
    template: tuple[str, ...], values: Mapping[str, str], lists: Mapping[str, Sequence[str]]
) -> list[str]:
    """The arguments of one call. An argument that is one list in braces and nothing else becomes one argument
    for each of its values (none for an empty list); inside other text the values are joined by commas.

    Raises `Rejected` for a value that a program could take for an option or that holds anything but
    letters, digits and ``._:/@+=-``."""
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


_KEPT = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"})
_REJECTED, _CONFLICT = 2, 3
"""Exit codes of a program that refuses, and of one that says that the run is fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What is agreed with the programs of a driver.

    They are configured below ``key`` for ``what``, in ``where``. ``fields`` are the names that each template
    may hold in braces; ``answers`` say what each program prints on its standard output; ``refusals`` are the
    exit codes of a program that need not be called again. ``correct`` names what to correct where there is no
    such program, if it is not the program's own key."""

    key: str
    what: str
    where: str
    fields: Mapping[str, Sequence[str]]
    answers: Mapping[str, str] = field(default_factory=dict)
    refusals: Mapping[int, type[Rejected | Conflict]] = field(
        default_factory=lambda: {_REJECTED: Rejected, _CONFLICT: Conflict}
    )
    correct: str = ""


class Configured(Protocol):
    """What people configure of programs, besides the argument template of each."""

    @property
    def timeout_s(self) -> float:
        """How long one may take."""
        ...

    @property
    def environment(self) -> tuple[str, ...]:
        """Names of the variables that they get besides PATH and the like; the values are secrets."""
        ...


class DeployerPrograms:
    """The programs of one driver. ``configured`` has the argument template of each as an attribute of the
    program's name.

    A program that exits with one of the contract's ``refusals`` refuses; any other failure, or silence for
    ``timeout_s``, is `Transient`: the same call is made again, so each program has to be idempotent."""

    def __init__(self, contract: Contract, configured: Configured, environment: Mapping[str, str]) -> None:
        self._contract, self._timeout_s, passed_on = contract, configured.timeout_s, configured.environment
        self._templates = {name: getattr(configured, name) for name in contract.fields}
        wrong = [
            each
            for name, argv in self._templates.items()
            for each in problems(self._key(name), argv, contract.fields[name])
        ]
        if wrong:
            raise Rejected(f"{contract.what} cannot be used: {'; '.join(wrong)}; correct {contract.where}")
        kept = {*_KEPT, *passed_on}
        self._environment = {name: value for name, value in environment.items() if name in kept}
        self._secrets = tuple(environment[name] for name in passed_on if environment.get(name))

    def run(self, name: str, values: Mapping[str, str], lists: Mapping[str, Sequence[str]]) -> str:
        """What one program printed. Raises `Rejected`, `Conflict`, `Transient` as the class says."""
        argv = put(self._templates[name], values, lists)
        ran = run_program(
            argv, self._environment, self._timeout_s, key=self._contract.correct or self._key(name)
        )
        if ran.code == 0:
            return ran.output
        said = self.masked(ran.trouble) or "nothing on its standard error"
        how = "did not end in time" if ran.code is None else f"ended with {ran.code}"
        sentence = f"the program of {self._key(name)} ({self._templates[name][0]}) {how}: {said}"
        refusal = None if ran.code is None else self._contract.refusals.get(ran.code)
        if refusal is not None:
            raise refusal(sentence)
        raise Transient(f"{sentence}; look at what it says and run the same command again")

    def ask(
        self, name: str, values: Mapping[str, str], lists: Mapping[str, Sequence[str]]
    ) -> Mapping[str, Any]:
        """The JSON object that one program answers. Raises as `run`, and `Rejected` for another answer."""
        output = self.run(name, values, lists)
        try:
            answer = load_json(output, "it", at_most=FILE_BYTES)
        except Rejected as error:
            raise self.unusable(name, f"no JSON that is read here ({error})") from error
        if not isinstance(answer, dict):
            raise self.unusable(name, f"JSON of type {type(answer).__name__}")
        return answer

    def instruction(self, name: str, answer: Mapping[str, Any], change_id: str) -> str | None:
        """What a person has to do, where the program ``name`` says so; None where it took the change up.

        Raises `Rejected` when its answer names another change."""
        if isinstance(answer.get("instruction"), str):
            return self.masked(answer["instruction"])
        if answer.get("change_id") != change_id:
            raise self.unusable(name, f"change_id {answer.get('change_id')!r} instead of {change_id!r}")
        return None

    def unusable(self, name: str, said: str) -> Rejected:
        """The error for an answer that is none."""
        return Rejected(
            f"the program of {self._key(name)} ({self._templates[name][0]}) printed {self.masked(said)}; "
            f"let it print one JSON object and nothing else: {self._contract.answers[name]}"
        )

    def masked(self, text: str) -> str:
        """What a program said to people, without secrets."""
        return masked(text, self._secrets)

    def _key(self, name: str) -> str:
        return f"{self._contract.key}.{name}"
