"""The drivers `command`: programs of the deployer replace members or nodes and answer in JSON.

Values of a change are put into the arguments, never through a shell. Only the end of a program's standard
error is kept. `DeployerPrograms` are the programs of one driver, as its `Contract` says:

* the fleet driver ``start``, ``observe`` and ``undo``. `ANSWERS` says what each program prints;
  docs/reference/fleet-drivers.md is the contract for people;
* the replacement driver ``start`` and ``observe``. `NODE_ANSWERS` says what each program prints;
  docs/reference/node-drivers.md is the contract for people;
* the fence (`groupshift.ports.driver.ClientFence`) ``keep_out`` and ``let_in``. The deployer decides what
  they do: an ACL, a quota, a listener that is closed. The same page is the contract for people.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from groupshift.domain.foreign_json import FILE_BYTES, load_json
from groupshift.domain.foreign_text import struck_out
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
    Slot,
    SlotState,
    Started,
    settled,
)
from groupshift.settings import CommandSettings

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

    def taken_up(self, name: str, answer: Mapping[str, Any], change_id: str) -> Started | ForPerson:
        """What the program ``name`` did: it took the change up, or says what a person has to do.

        Raises `Rejected` when its answer names another change."""
        if isinstance(answer.get("instruction"), str):
            return ForPerson(change_id=change_id, instruction=self.masked(answer["instruction"]))
        if answer.get("change_id") != change_id:
            raise self.unusable(name, f"change_id {answer.get('change_id')!r} instead of {change_id!r}")
        return Started(change_id=change_id)

    def unusable(self, name: str, said: str) -> Rejected:
        """The error for an answer that is none."""
        return Rejected(
            f"the program of {self._key(name)} ({self._templates[name][0]}) printed {self.masked(said)}; "
            f"let it print one JSON object and nothing else: {self._contract.answers[name]}"
        )

    def masked(self, text: str) -> str:
        """What a program said to people, without the values of the variables that it was given of our
        environment."""
        return struck_out(text, self._secrets)

    def _key(self, name: str) -> str:
        return f"{self._contract.key}.{name}"


_KINDS, _STATES = "|".join(MemberKind), "|".join(SlotState)
ANSWERS = {
    "start": '{"change_id": "..."}, or {"instruction": "..."} when a person has to act',
    "observe": f'{{"slots": [{{"name": "...", "kind": "{_KINDS}", "state": "{_STATES}"}}]}}',
    "undo": '{"change_id": "..."}, or {"instruction": "..."} when a person has to act',
}
"""What each program prints on its standard output: one JSON object."""
FIELDS = ("change_id", "group", "slots", "to", "fence", "token", "undoes")
"""The names that a template may hold in braces; ``slots`` and ``undoes`` are lists."""
_FLEET = Contract(
    key="fleet.command",
    what="the driver command",
    where="the settings",
    fields=dict.fromkeys(ANSWERS, FIELDS),
    answers=ANSWERS,
    correct="fleet.command",
)


class CommandFleet:
    """`groupshift.ports.driver.FleetDriver` over programs.

    A program that exits with 2 refuses (`Rejected`), with 3 says that the run is fenced (`Conflict`);
    any other failure, or silence for ``timeout_s``, is `Transient`: the same call is made again, so each
    program has to be idempotent by the change id."""

    def __init__(self, settings: CommandSettings, environment: Mapping[str, str] = os.environ) -> None:
        self._programs = DeployerPrograms(_FLEET, settings, environment)

    def slots(self, group: str) -> tuple[Slot, ...]:
        """What ``observe`` says of this group, in its order, asked with an empty change."""
        return self._observed(Change(change_id="", group=group, slots=(), to=MemberKind.OLD))

    def start(self, change: Change) -> Started | ForPerson:
        """Run ``start``, or ``undo`` for a change that takes others back."""
        known = {slot.name for slot in self.slots(change.group)}
        unknown = sorted(set(change.slots) - known)
        if known and unknown:
            raise Rejected(f"slot {unknown[0]!r} is unknown to the program of fleet.command.observe")
        name = "undo" if change.undoes else "start"
        return self._programs.taken_up(name, self._ask(name, change), change.change_id)

    def took_up(self, change: Change) -> bool:
        """As the program says with ``taken_up``; where it says nothing, when any slot carries the id."""
        answer = self._ask("observe", change)
        taken_up = answer.get("taken_up")
        if isinstance(taken_up, bool):
            return taken_up
        return any(slot.change_id == change.change_id for slot in self._read(answer))

    def observe(self, change: Change) -> ChangeStatus:
        """Done when every slot of the change runs its kind and carries its id; never, as far as this driver
        knows, where the program lists no slots: the caller then decides by the group view."""
        slots = self._observed(change)
        if not slots:
            said = f"waiting for {change.to.value} members in the group: the program lists no slots"
            return ChangeStatus(change_id=change.change_id, done=False, detail=said)
        return settled(slots, change, "the program of fleet.command.observe")

    def _observed(self, change: Change) -> tuple[Slot, ...]:
        return self._read(self._ask("observe", change))

    def _read(self, answer: Mapping[str, Any]) -> tuple[Slot, ...]:
        try:
            return tuple(self._slot(each) for each in answer["slots"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._programs.unusable("observe", f"slots that cannot be read ({error!r})") from error

    def _ask(self, name: str, change: Change) -> Mapping[str, Any]:
        """One program's answer."""
        return self._programs.ask(name, *terms(change))

    def _slot(self, fields: Mapping[str, Any]) -> Slot:
        """Names and ids stay as they are: they go back to the programs."""
        trouble = self._programs.masked(str(fields.get("trouble") or ""))
        slot: Slot = built(Slot, {**fields, "name": str(fields["name"]), "trouble": trouble})
        return slot


def terms(change: Change) -> tuple[Mapping[str, str], Mapping[str, tuple[str, ...]]]:
    """The values and the lists that the arguments of a program may hold."""
    values = {
        "change_id": change.change_id,
        "group": change.group,
        "to": change.to.value,
        "fence": change.fence,
        "token": str(change.token),
    }
    return values, {"slots": change.slots, "undoes": change.undoes}


NODE_FIELDS = {
    "start": ("change_id", "node", "release", "coordinator", "without", "properties", "fence", "token"),
    "observe": ("node",),
}
"""The names that each template may hold in braces; ``without`` and ``properties``
(``name=value`` each) are lists; release and coordinator are empty where a node is restarted as it is."""
NODE_ANSWERS = {
    "start": '{"change_id": "..."}, or {"instruction": "..."} when a person has to act',
    "observe": '{"state": "running|changing|down|unknown", "release": "...", "change_id": "...", '
    '"snapshot": 0}',
}
"""What each program prints on its standard output: one JSON object."""
_NODES = Contract(
    key="command",
    what="the driver command",
    where="its file",
    fields=NODE_FIELDS,
    answers=NODE_ANSWERS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The argument templates, seconds that each may take, and names of variables that they are given of
    our environment besides PATH and the like."""

    start: tuple[str, ...]
    observe: tuple[str, ...]
    timeout_s: float = 600.0
    environment: tuple[str, ...] = ()


class CommandReplacement:
    """`groupshift.ports.driver.BrokerReplacement` over programs.

    A program that exits with 2 refuses (`Rejected`), with 3 says that the run is fenced (`Conflict`); any
    other failure, or silence, is `Transient`: the same call is made again, so ``start`` has to be
    idempotent by the change id."""

    def __init__(self, programs: Programs, environment: Mapping[str, str] = os.environ) -> None:
        self._programs = DeployerPrograms(_NODES, programs, environment)

    def start(self, replacement: Replacement) -> Started | ForPerson:
        """Run ``start``."""
        values = {
            "change_id": replacement.change_id,
            "node": str(replacement.node_id),
            "release": replacement.release,
            "coordinator": replacement.coordinator.value if replacement.coordinator else "",
            "fence": replacement.fence,
            "token": str(replacement.token),
        }
        properties = tuple(f"{name}={value}" for name, value in sorted(replacement.properties.items()))
        lists = {"without": replacement.without, "properties": properties}
        answer = self._programs.ask("start", values, lists)
        return self._programs.taken_up("start", answer, replacement.change_id)

    def observe(self, node_id: int) -> NodeStatus:
        """Run ``observe``."""
        answer = self._programs.ask("observe", {"node": str(node_id)}, {})
        try:
            snapshot = answer.get("snapshot")
            return NodeStatus(
                node_id=node_id,
                state=NodeState(answer["state"]),
                release=str(answer.get("release") or ""),
                change_id=str(answer.get("change_id") or ""),
                snapshot=None if snapshot is None else int(snapshot),
                trouble=self._programs.masked(str(answer.get("trouble") or "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._programs.unusable("observe", f"what cannot be read ({error!r})") from error


_FENCE = Contract(
    key="fence",
    what="the fence",
    where="the file of --nodes",
    fields={"keep_out": ("run",), "let_in": ("run",)},
    refusals={2: Rejected},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FencePrograms:
    """The argument templates (``{run}`` is the run's id), seconds that each may take, and names of variables
    that they are given of our environment besides PATH and the like."""

    keep_out: tuple[str, ...]
    let_in: tuple[str, ...]
    timeout_s: float = 600.0
    environment: tuple[str, ...] = ()


class FencedReplacement:
    """``driver``, and programs that keep clients out. One that exits with 2 refuses (`Rejected`), any other
    failure is `Transient`: the same call is made again, so both have to be idempotent."""

    def __init__(
        self, driver: BrokerReplacement, programs: FencePrograms, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._driver = driver
        self._programs = DeployerPrograms(_FENCE, programs, environment)

    def start(self, replacement: Replacement) -> Started | ForPerson:
        """See the driver."""
        return self._driver.start(replacement)

    def observe(self, node_id: int) -> NodeStatus:
        """See the driver."""
        return self._driver.observe(node_id)

    def keep_out(self, run: str) -> None:
        """See the port."""
        self._programs.run("keep_out", {"run": run}, {})

    def let_in(self, run: str) -> None:
        """See the port."""
        self._programs.run("let_in", {"run": run}, {})
