"""The drivers `command`: programs of the deployer replace members or nodes and answer in JSON.

Each driver takes argument templates; none goes through a shell:

* the fleet driver ``start``, ``observe`` and ``undo``. `ANSWERS` says what each program prints;
  docs/fleet-drivers.md is the contract for people;
* the replacement driver ``start`` and ``observe``. `NODE_ANSWERS` says what each program prints;
  docs/downgrade.md is the contract for people;
* the fence (`groupshift.ports.driver.ClientFence`) ``keep_out`` and ``let_in``. The deployer decides what
  they do: an ACL, a quota, a listener that is closed. docs/expansion.md is the contract for people.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.adapters.drivers.program import Ran, fill, masked, problems, put, run_program
from groupshift.domain.foreign_json import FILE_BYTES, load_json, shown_value
from groupshift.domain.modes import MemberKind
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.driver import (
    Accepted,
    BrokerReplacement,
    Change,
    ChangeStatus,
    ForPerson,
    NodeState,
    NodeStatus,
    Pending,
    Replacement,
    Slot,
    SlotState,
    Started,
    settled,
)
from groupshift.settings import CommandSettings

_KINDS, _STATES = "|".join(MemberKind), "|".join(SlotState)
ANSWERS = {
    "start": '{"change_id": "..."}, or {"instruction": "..."} when a person has to act',
    "observe": f'{{"slots": [{{"name": "...", "kind": "{_KINDS}", "state": "{_STATES}"}}]}}',
    "undo": '{"change_id": "..."}, or {"instruction": "..."} when a person has to act',
}
"""What each program prints on its standard output: one JSON object."""
_REJECTED, _CONFLICT = 2, 3


class CommandFleet:
    """`groupshift.ports.driver.FleetDriver` over programs.

    A program that exits with 2 refuses (`Rejected`), with 3 says that the run is fenced (`Conflict`);
    any other failure, or silence for ``timeout_s``, is `Transient`: the same call is made again, so each
    program has to be idempotent by the change id."""

    def __init__(self, settings: CommandSettings, environment: Mapping[str, str] = os.environ) -> None:
        self._settings = settings
        self._templates = {"start": settings.start, "observe": settings.observe, "undo": settings.undo}
        wrong = [
            each for name, argv in self._templates.items() for each in problems(f"fleet.command.{name}", argv)
        ]
        if wrong:
            raise Rejected(f"the driver command cannot be used: {'; '.join(wrong)}; correct the settings")
        kept = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", *settings.environment}
        self._environment = {name: value for name, value in environment.items() if name in kept}
        self._secrets = tuple(environment[name] for name in settings.environment if environment.get(name))

    def slots(self, group: str) -> tuple[Slot, ...]:
        """What ``observe`` says of this group, in its order, asked with an empty change."""
        return self._observed(Change(change_id="", group=group, slots=(), to=MemberKind.OLD))

    def start(self, change: Change) -> Started | Pending:
        """Run ``start``, or ``undo`` for a change that takes others back."""
        known = {slot.name for slot in self.slots(change.group)}
        unknown = sorted(set(change.slots) - known)
        if known and unknown:
            raise Rejected(f"slot {unknown[0]!r} is unknown to the program of fleet.command.observe")
        name = "undo" if change.undoes else "start"
        answer = self._ask(name, change)
        if isinstance(answer.get("instruction"), str):
            return Pending(change_id=change.change_id, instruction=self._masked(answer["instruction"]))
        if answer.get("change_id") != change.change_id:
            said = f"change_id {answer.get('change_id')!r} instead of {change.change_id!r}"
            raise Rejected(self._unusable(name, said))
        return Started(change_id=change.change_id)

    def took_up(self, change: Change) -> bool:
        """As the program says with ``taken_up``; where it says nothing, when any slot carries the id."""
        answer = self._ask("observe", change)
        told = answer.get("taken_up")
        if isinstance(told, bool):
            return told
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
            raise Rejected(self._unusable("observe", f"slots that cannot be read ({error!r})")) from error

    def _ask(self, name: str, change: Change) -> Mapping[str, Any]:
        """One program's answer."""
        ran = run_program(fill(self._templates[name], change), self._environment, self._settings.timeout_s)
        self._demand_success(name, ran)
        try:
            answer = load_json(ran.output, "it", at_most=FILE_BYTES)
        except Rejected as error:
            raise Rejected(self._unusable(name, f"no JSON that is read here ({error})")) from error
        if not isinstance(answer, dict):
            raise Rejected(self._unusable(name, f"JSON of type {type(answer).__name__}"))
        return answer

    def _demand_success(self, name: str, ran: Ran) -> None:
        if ran.code == 0:
            return
        said = self._masked(ran.trouble) or "nothing on its standard error"
        how = "did not end in time" if ran.code is None else f"ended with {ran.code}"
        sentence = f"the program of fleet.command.{name} ({self._templates[name][0]}) {how}: {said}"
        if ran.code == _REJECTED:
            raise Rejected(sentence)
        if ran.code == _CONFLICT:
            raise Conflict(sentence)
        raise Transient(f"{sentence}; look at what it says and run the same command again")

    def _unusable(self, name: str, said: str) -> str:
        return (
            f"the program of fleet.command.{name} ({self._templates[name][0]}) printed {self._masked(said)}; "
            f"let it print one JSON object and nothing else: {ANSWERS[name]}"
        )

    def _masked(self, text: str) -> str:
        return masked(text, self._secrets)

    def _slot(self, told: Mapping[str, Any]) -> Slot:
        """Names and ids stay as they are: they go back to the programs."""
        return Slot(
            name=str(told["name"]),
            kind=MemberKind(told["kind"]),
            state=SlotState(told["state"]),
            member_id=_text(told.get("member_id")),
            change_id=_text(told.get("change_id")),
            trouble=self._masked(str(told.get("trouble") or "")),
        )


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{shown_value(value)} is no text")
    return value


FIELDS = {
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
        self._programs = programs
        self._templates = {"start": programs.start, "observe": programs.observe}
        wrong = [
            each
            for name, argv in self._templates.items()
            for each in problems(f"command.{name}", argv, FIELDS[name])
        ]
        if wrong:
            raise Rejected(f"the driver command cannot be used: {'; '.join(wrong)}; correct its file")
        kept = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", *programs.environment}
        self._environment = {name: value for name, value in environment.items() if name in kept}
        self._secrets = tuple(environment[name] for name in programs.environment if environment.get(name))

    def start(self, replacement: Replacement) -> Accepted | ForPerson:
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
        answer = self._ask("start", values, lists)
        if isinstance(answer.get("instruction"), str):
            return ForPerson(change_id=replacement.change_id, instruction=self._masked(answer["instruction"]))
        if answer.get("change_id") != values["change_id"]:
            said = f"change_id {answer.get('change_id')!r} instead of {values['change_id']!r}"
            raise Rejected(self._unusable("start", said))
        return Accepted(change_id=replacement.change_id)

    def observe(self, node_id: int) -> NodeStatus:
        """Run ``observe``."""
        answer = self._ask("observe", {"node": str(node_id)}, {})
        try:
            snapshot = answer.get("snapshot")
            return NodeStatus(
                node_id=node_id,
                state=NodeState(answer["state"]),
                release=str(answer.get("release") or ""),
                change_id=str(answer.get("change_id") or ""),
                snapshot=None if snapshot is None else int(snapshot),
                trouble=self._masked(str(answer.get("trouble") or "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Rejected(self._unusable("observe", f"what cannot be read ({error!r})")) from error

    def _ask(
        self, name: str, values: Mapping[str, str], lists: Mapping[str, tuple[str, ...]]
    ) -> Mapping[str, Any]:
        argv = put(self._templates[name], values, lists)
        ran = run_program(argv, self._environment, self._programs.timeout_s, key=f"command.{name}")
        self._demand_success(name, ran)
        try:
            answer = load_json(ran.output, "it", at_most=FILE_BYTES)
        except Rejected as error:
            raise Rejected(self._unusable(name, f"no JSON that is read here ({error})")) from error
        if not isinstance(answer, dict):
            raise Rejected(self._unusable(name, f"JSON of type {type(answer).__name__}"))
        return answer

    def _demand_success(self, name: str, ran: Ran) -> None:
        if ran.code == 0:
            return
        said = self._masked(ran.trouble) or "nothing on its standard error"
        how = "did not end in time" if ran.code is None else f"ended with {ran.code}"
        sentence = f"the program of command.{name} ({self._templates[name][0]}) {how}: {said}"
        if ran.code == _REJECTED:
            raise Rejected(sentence)
        if ran.code == _CONFLICT:
            raise Conflict(sentence)
        raise Transient(f"{sentence}; look at what it says and run the same command again")

    def _unusable(self, name: str, said: str) -> str:
        return (
            f"the program of command.{name} ({self._templates[name][0]}) printed {self._masked(said)}; "
            f"let it print one JSON object and nothing else: {NODE_ANSWERS[name]}"
        )

    def _masked(self, text: str) -> str:
        return masked(text, self._secrets)


_FIELDS = ("run",)
_FENCE_REJECTED = 2


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
        templates = {"keep_out": programs.keep_out, "let_in": programs.let_in}
        wrong = [
            each for name, argv in templates.items() for each in problems(f"fence.{name}", argv, _FIELDS)
        ]
        if wrong:
            raise Rejected(f"the fence cannot be used: {'; '.join(wrong)}; correct the file of --nodes")
        self._driver, self._templates, self._timeout_s = driver, templates, programs.timeout_s
        kept = {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", *programs.environment}
        self._environment = {name: value for name, value in environment.items() if name in kept}
        self._secrets = tuple(environment[name] for name in programs.environment if environment.get(name))

    def start(self, replacement: Replacement) -> Accepted | ForPerson:
        """See the driver."""
        return self._driver.start(replacement)

    def observe(self, node_id: int) -> NodeStatus:
        """See the driver."""
        return self._driver.observe(node_id)

    def keep_out(self, run: str) -> None:
        """See the port."""
        self._ask("keep_out", run)

    def let_in(self, run: str) -> None:
        """See the port."""
        self._ask("let_in", run)

    def _ask(self, name: str, run: str) -> None:
        argv = put(self._templates[name], {"run": run}, {})
        ran = run_program(argv, self._environment, self._timeout_s, key=f"fence.{name}")
        if ran.code == 0:
            return
        said = masked(ran.trouble, self._secrets) or "nothing on its standard error"
        how = "did not end in time" if ran.code is None else f"ended with {ran.code}"
        sentence = f"the program of fence.{name} ({self._templates[name][0]}) {how}: {said}"
        if ran.code == _FENCE_REJECTED:
            raise Rejected(sentence)
        raise Transient(f"{sentence}; look at what it says and run the same command again")
