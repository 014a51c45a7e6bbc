"""The drivers `command`: programs of the deployer replace members or nodes and answer in JSON.

Each driver takes argument templates; none goes through a shell:

* the fleet driver ``start``, ``observe`` and ``undo``. `ANSWERS` says what each program prints;
  docs/reference/fleet-drivers.md is the contract for people;
* the replacement driver ``start`` and ``observe``. `NODE_ANSWERS` says what each program prints;
  docs/reference/node-drivers.md is the contract for people;
* the fence (`groupshift.ports.driver.ClientFence`) ``keep_out`` and ``let_in``. The deployer decides what
  they do: an ACL, a quota, a listener that is closed. The same page is the contract for people.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.adapters.drivers.program import Contract, DeployerPrograms
from groupshift.domain.foreign_json import shown_value
from groupshift.domain.modes import MemberKind
from groupshift.errors import Rejected
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

    def start(self, change: Change) -> Started | Pending:
        """Run ``start``, or ``undo`` for a change that takes others back."""
        known = {slot.name for slot in self.slots(change.group)}
        unknown = sorted(set(change.slots) - known)
        if known and unknown:
            raise Rejected(f"slot {unknown[0]!r} is unknown to the program of fleet.command.observe")
        name = "undo" if change.undoes else "start"
        answer = self._ask(name, change)
        instruction = self._programs.instruction(name, answer, change.change_id)
        if instruction is not None:
            return Pending(change_id=change.change_id, instruction=instruction)
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
            raise self._programs.unusable("observe", f"slots that cannot be read ({error!r})") from error

    def _ask(self, name: str, change: Change) -> Mapping[str, Any]:
        """One program's answer."""
        return self._programs.ask(name, *terms(change))

    def _slot(self, told: Mapping[str, Any]) -> Slot:
        """Names and ids stay as they are: they go back to the programs."""
        return Slot(
            name=str(told["name"]),
            kind=MemberKind(told["kind"]),
            state=SlotState(told["state"]),
            member_id=_text(told.get("member_id")),
            change_id=_text(told.get("change_id")),
            trouble=self._programs.masked(str(told.get("trouble") or "")),
        )


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


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{shown_value(value)} is no text")
    return value


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
        answer = self._programs.ask("start", values, lists)
        instruction = self._programs.instruction("start", answer, replacement.change_id)
        if instruction is not None:
            return ForPerson(change_id=replacement.change_id, instruction=instruction)
        return Accepted(change_id=replacement.change_id)

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

    def start(self, replacement: Replacement) -> Accepted | ForPerson:
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
