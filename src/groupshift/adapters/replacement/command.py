"""Replacement driver `command`: programs of the deployer's own, asked with arguments and answering in JSON.

Two argument templates, ``start`` and ``observe``; none goes through a shell. `ANSWERS` says what each prints;
docs/downgrade.md is the contract for people.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.adapters.fleet.arguments import problems, put
from groupshift.adapters.fleet.program import Ran, masked, run_program
from groupshift.domain.foreign_json import FILE_BYTES, load_json
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.driver import Accepted, ForPerson, NodeState, NodeStatus, Replacement

FIELDS = {
    "start": ("change_id", "node", "release", "coordinator", "without", "properties", "fence", "token"),
    "observe": ("node",),
}
"""The names that each template may hold in braces; ``without`` and ``properties``
(``name=value`` each) are lists; release and coordinator are empty where a node is restarted as it is."""
ANSWERS = {
    "start": '{"change_id": "..."}, or {"instruction": "..."} when a person has to act',
    "observe": '{"state": "running|changing|down|unknown", "release": "...", "change_id": "...", '
    '"snapshot": 0}',
}
"""What each program prints on its standard output: one JSON object."""
_REJECTED, _CONFLICT = 2, 3


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
            f"let it print one JSON object and nothing else: {ANSWERS[name]}"
        )

    def _masked(self, text: str) -> str:
        return masked(text, self._secrets)
