"""The drivers `command`: programs of the deployer replace members or nodes and answer in JSON.

Values of a change are put into the arguments, never through a shell. Only the end of a program's standard
error is kept. `DeployerPrograms` are the programs of one driver, as its `Contract` says:

* the fleet driver ``start``, ``observe`` and ``undo``; docs/reference/fleet-drivers.md is the contract for
  people;
* the replacement driver ``start`` and ``observe``; docs/reference/node-drivers.md is the contract for people;
* the fence (`groupshift.ports.driver.ClientFence`) ``keep_out`` and ``let_in``. The deployer decides what
  they do: an ACL, a quota, a listener that is closed. The same page is the contract for people.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from groupshift.domain.facts import Slot, SlotState
from groupshift.domain.foreign_json import FILE_BYTES, load_object
from groupshift.domain.foreign_text_quoting import struck_out
from groupshift.domain.modes import MemberKind
from groupshift.domain.plain import built
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.driver import (
    BrokerReplacement,
    Change,
    ChangeStatus,
    ForPerson,
    NodeState,
    NodeStatus,
    Replacement,
    Started,
    require_known,
    settled,
)
from groupshift.settings import CommandSettings

_T = TypeVar("_T")
Terms = Mapping[str, str | tuple[str, ...]]
"""What the arguments of a program may hold, by name: values, and lists of them."""
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
            trouble = b""
            with suppress(subprocess.TimeoutExpired):  # something that left the session keeps the pipe open
                trouble = process.communicate(timeout=_LAST_WORDS_S)[1]
            return Ran(code=None, output="", trouble=_tail(trouble))
    return Ran(code=process.returncode, output=output.decode(errors="replace"), trouble=_tail(trouble))


def _tail(written: bytes) -> str:
    lines = written.decode(errors="replace").strip().splitlines()[-_TAIL_LINES:]
    return " / ".join(line.strip() for line in lines if line.strip())[-_TAIL_CHARACTERS:]


_PLACE = re.compile(r"\{(\w*)\}")
_SAFE = re.compile(r"(?!-)[A-Za-z0-9._:/@+=-]*")


def problems(name: str, template: tuple[str, ...], fields: Sequence[str]) -> tuple[str, ...]:
    """What is wrong with a template, one clause each; ``name`` is its key in the settings."""
    if not template or not template[0]:
        return (f"{name} is empty: name a program and its arguments",)
    unknown = [place for each in template for place in _PLACE.findall(each) if place not in fields]
    if _PLACE.search(template[0]):
        return (f"{name} takes its program {template[0]!r} from the change: name the program itself",)
    return tuple(f"{name} holds {{{each}}}, which is none of {', '.join(fields)}" for each in unknown)


def put(template: tuple[str, ...], values: Terms) -> list[str]:
    """The arguments of one call. An argument that is one list in braces and nothing else becomes one argument
    for each of its values (none for an empty list); inside other text the values are joined by commas.

    Raises `Rejected` for a value that a program could take for an option or that holds anything but
    letters, digits and ``._:/@+=-``."""
    for name, value in values.items():
        wrong = [each for each in ([value] if isinstance(value, str) else value) if not _SAFE.fullmatch(each)]
        if wrong:
            raise Rejected(
                f"{name} {wrong[0]!r} cannot be handed to a program: only letters, digits and ._:/@+=- "
                "may be in it, and no - may be its first; rename it"
            )
    texts = {name: value if isinstance(value, str) else ",".join(value) for name, value in values.items()}
    arguments: list[str] = []
    for each in template:
        whole = _PLACE.fullmatch(each)
        alone = values[whole[1]] if whole else ""
        if whole and not isinstance(alone, str):
            arguments += alone
        else:
            arguments.append(_PLACE.sub(lambda place: texts[place[1]], each))
    return arguments


_KEPT = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"})
_REJECTED, _CONFLICT = 2, 3
"""Exit codes of a program that refuses, and of one that says that the run is fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What is agreed with the programs of a driver.

    They are configured below ``key``, in ``where``. ``fields`` are the names that each template may hold in
    braces; ``answers`` say what each program prints on its standard output; ``refusals`` are the exit codes
    of a program that need not be called again."""

    key: str
    where: str
    fields: Mapping[str, Sequence[str]]
    answers: Mapping[str, str] = field(default_factory=dict)
    refusals: Mapping[int, type[Rejected | Conflict]] = field(
        default_factory=lambda: {_REJECTED: Rejected, _CONFLICT: Conflict}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Programs of a file of ``--nodes``: the argument templates of the driver's and of the fence's (``{run}``
    is the run's id), seconds that each may take, and names of variables that they are given of our
    environment besides PATH and the like."""

    start: tuple[str, ...] = ()
    observe: tuple[str, ...] = ()
    keep_out: tuple[str, ...] = ()
    let_in: tuple[str, ...] = ()
    timeout_s: float = 600.0
    environment: tuple[str, ...] = ()


class DeployerPrograms:
    """The programs of one driver. ``configured`` has the argument template of each as an attribute of the
    program's name.

    A program that exits with one of the contract's ``refusals`` refuses; any other failure, or silence for
    ``timeout_s``, is `Transient`: the same call is made again, so each program has to be idempotent."""

    def __init__(
        self, contract: Contract, configured: Programs | CommandSettings, environment: Mapping[str, str]
    ) -> None:
        self._contract, self._timeout_s, passed_on = contract, configured.timeout_s, configured.environment
        self._templates = {name: getattr(configured, name) for name in contract.fields}
        wrong = [
            each
            for name, argv in self._templates.items()
            for each in problems(f"{contract.key}.{name}", argv, contract.fields[name])
        ]
        if wrong:
            raise Rejected(f"{contract.key} cannot be used: {'; '.join(wrong)}; correct {contract.where}")
        kept = {*_KEPT, *passed_on}
        self._environment = {name: value for name, value in environment.items() if name in kept}
        self._secrets = tuple(environment[name] for name in passed_on if environment.get(name))

    def run(self, name: str, values: Terms) -> str:
        """What one program printed. Raises `Rejected`, `Conflict`, `Transient` as the class says."""
        key, argv = f"{self._contract.key}.{name}", put(self._templates[name], values)
        ran = run_program(argv, self._environment, self._timeout_s, key=key)
        if ran.code == 0:
            return ran.output
        said = self.masked(ran.trouble) or "nothing on its standard error"
        how = "did not end in time" if ran.code is None else f"ended with {ran.code}"
        sentence = f"the program of {key} ({self._templates[name][0]}) {how}: {said}"
        if ran.code is not None and ran.code in self._contract.refusals:
            raise self._contract.refusals[ran.code](sentence)
        raise Transient(f"{sentence}; look at what it says and run the same command again")

    def ask(self, name: str, values: Terms, read: Callable[[Mapping[str, Any]], _T]) -> _T:
        """What ``read`` makes of the JSON object that one program answers. Raises as `run`, and `Rejected`
        for another answer, in which ``read`` may also raise `KeyError`, `TypeError` and `ValueError`."""
        output = self.run(name, values)
        try:
            return read(load_object(output, "it", at_most=FILE_BYTES))
        except (Rejected, KeyError, TypeError, ValueError) as error:
            wrong = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise Rejected(
                f"the program of {self._contract.key}.{name} ({self._templates[name][0]}) printed what "
                f"cannot be read ({self.masked(wrong)}); let it print one JSON object and nothing else: "
                f"{self._contract.answers[name]}"
            ) from error

    def start(self, name: str, values: Terms, change_id: str) -> Started | ForPerson:
        """Let the program ``name`` take a change up, or say what a person has to do. Raises as `ask`, also
        when its answer names another change."""

        def taken_up(answer: Mapping[str, Any]) -> Started | ForPerson:
            if isinstance(answer.get("instruction"), str):
                return ForPerson(change_id=change_id, instruction=self.masked(answer["instruction"]))
            if answer.get("change_id") != change_id:
                raise ValueError(f"change_id {answer.get('change_id')!r} instead of {change_id!r}")
            return Started(change_id=change_id)

        return self.ask(name, values, taken_up)

    def masked(self, text: str) -> str:
        """What a program said to people, without the values of the variables that it was given of our
        environment."""
        return struck_out(text, self._secrets)


_STARTED = '{"change_id": "..."}, or {"instruction": "..."} when a person has to act'
_KINDS, _STATES = "|".join(MemberKind), "|".join(SlotState)
_OBSERVER = "the program of fleet.command.observe"
FIELDS = ("change_id", "group", "slots", "to", "fence", "token", "undoes")
"""The names that a template may hold in braces; ``slots`` and ``undoes`` are lists."""
_FLEET = Contract(
    key="fleet.command",
    where="the settings",
    fields=dict.fromkeys(("start", "observe", "undo"), FIELDS),
    answers={
        "start": _STARTED,
        "observe": f'{{"slots": [{{"name": "...", "kind": "{_KINDS}", "state": "{_STATES}"}}]}}',
        "undo": _STARTED,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observed:
    """What ``observe`` prints. Names and ids stay as they are: they go back to the programs."""

    slots: tuple[Slot, ...]
    taken_up: bool | None = None


class CommandFleet:
    """`groupshift.ports.driver.FleetDriver` over programs.

    A program that exits with 2 refuses (`Rejected`), with 3 says that the run is fenced (`Conflict`);
    any other failure, or silence for ``timeout_s``, is `Transient`: the same call is made again, so each
    program has to be idempotent by the change id."""

    def __init__(self, settings: CommandSettings, environment: Mapping[str, str] = os.environ) -> None:
        self._programs = DeployerPrograms(_FLEET, settings, environment)

    def slots(self, group: str) -> tuple[Slot, ...]:
        """What ``observe`` says of this group, in its order, asked with an empty change."""
        return self._observed(Change(change_id="", group=group, slots=(), to=MemberKind.ZOOKEEPER)).slots

    def start(self, change: Change) -> Started | ForPerson:
        """Run ``start``, or ``undo`` for a change that takes others back."""
        if slots := self.slots(change.group):
            require_known((slot.name for slot in slots), change, _OBSERVER)
        return self._programs.start(
            "undo" if change.undoes else "start", terms(change, FIELDS), change.change_id
        )

    def took_up(self, change: Change) -> bool:
        """As the program says with ``taken_up``; where it says nothing, when any slot carries the id."""
        observed = self._observed(change)
        if observed.taken_up is not None:
            return observed.taken_up
        return any(slot.change_id == change.change_id for slot in observed.slots)

    def observe(self, change: Change) -> ChangeStatus:
        """Done when every slot of the change runs its kind and carries its id; never, as far as this driver
        knows, where the program lists no slots: the caller then decides by the group view."""
        slots = self._observed(change).slots
        if not slots:
            said = f"waiting for {change.to.value} members in the group: the program lists no slots"
            return ChangeStatus(change_id=change.change_id, done=False, detail=said)
        return settled(slots, change, _OBSERVER)

    def _observed(self, change: Change) -> _Observed:
        return self._programs.ask("observe", terms(change, FIELDS), self._read)

    def _read(self, answer: Mapping[str, Any]) -> _Observed:
        """What ``observe`` printed: a name may be a number, trouble null or whatever says why."""
        slots = [
            {**each, "name": str(each["name"]), "trouble": self._programs.masked(_words(each, "trouble"))}
            for each in answer["slots"]
        ]
        observed: _Observed = built(_Observed, {**answer, "slots": slots})
        return observed


def terms(source: object, fields: Sequence[str]) -> dict[str, str | tuple[str, ...]]:
    """Return what arguments may hold of these fields; a tuple is a list."""
    values = ((name, getattr(source, name)) for name in fields)
    return {name: value if isinstance(value, tuple) else str(value) for name, value in values}


_NODES = Contract(
    key="command",
    where="the file of --nodes",
    fields={
        "start": ("change_id", "node", "release", "coordinator", "without", "properties", "fence", "token"),
        "observe": ("node",),
    },
    answers={
        "start": _STARTED,
        "observe": '{"state": "running|changing|down|unknown", "release": "...", "change_id": "...", '
        '"snapshot": 0}',
    },
)
"""In a template ``without`` and ``properties`` (``name=value`` each) are lists; release and coordinator are
empty where a node is restarted as it is."""


class CommandReplacement:
    """`groupshift.ports.driver.BrokerReplacement` over programs.

    A program that exits with 2 refuses (`Rejected`), with 3 says that the run is fenced (`Conflict`); any
    other failure, or silence, is `Transient`: the same call is made again, so ``start`` has to be
    idempotent by the change id."""

    def __init__(self, programs: Programs, environment: Mapping[str, str] = os.environ) -> None:
        self._programs = DeployerPrograms(_NODES, programs, environment)

    def start(self, replacement: Replacement) -> Started | ForPerson:
        """Run ``start``."""
        values = terms(replacement, ("change_id", "release", "without", "fence", "token")) | {
            "node": str(replacement.node_id),
            "coordinator": replacement.coordinator or "",
            "properties": tuple(f"{name}={value}" for name, value in sorted(replacement.properties.items())),
        }
        return self._programs.start("start", values, replacement.change_id)

    def observe(self, node_id: int) -> NodeStatus:
        """Run ``observe``; what it answers as null, it does not tell. A snapshot may be the text in the name
        of its file: JSON has no number with leading zeros."""

        def read(answer: Mapping[str, Any]) -> NodeStatus:
            snapshot = answer.get("snapshot")
            return NodeStatus(
                node_id=node_id,
                state=NodeState(answer["state"]),
                release=_words(answer, "release"),
                change_id=_words(answer, "change_id"),
                snapshot=None if snapshot is None else int(snapshot),
                trouble=self._programs.masked(_words(answer, "trouble")),
            )

        return self._programs.ask("observe", {"node": str(node_id)}, read)


def _words(answer: Mapping[str, Any], name: str) -> str:
    """What a program says to people below this name; empty where it says nothing."""
    return str(answer.get(name) or "")


_FENCE = Contract(
    key="fence",
    where="the file of --nodes",
    fields={"keep_out": ("run",), "let_in": ("run",)},
    refusals={_REJECTED: Rejected},
)


class FencedReplacement:
    """``driver``, and programs that keep clients out. One that exits with 2 refuses (`Rejected`), any other
    failure is `Transient`: the same call is made again, so both have to be idempotent."""

    def __init__(
        self, driver: BrokerReplacement, programs: Programs, environment: Mapping[str, str] = os.environ
    ) -> None:
        self.start, self.observe = driver.start, driver.observe
        self._programs = DeployerPrograms(_FENCE, programs, environment)

    def keep_out(self, run: str) -> None:
        """See the port."""
        self._programs.run("keep_out", {"run": run})

    def let_in(self, run: str) -> None:
        """See the port."""
        self._programs.run("let_in", {"run": run})
