"""Fleet driver `process`: a client of the supervisor's socket."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from groupshift.domain.facts import Slot
from groupshift.domain.plain import built
from groupshift.errors import Conflict, Rejected, Transient
from groupshift.ports.driver import (
    Change,
    ChangeStatus,
    ForPerson,
    Started,
    settled,
)

_ANSWER_S = 10.0
_LONGEST_ADDRESS = 100  # bytes; the kernel takes 107 for the path of a Unix socket


def ask(path: Path, request: dict[str, Any], answer_s: float = _ANSWER_S) -> dict[str, Any]:
    """One request to the supervisor at ``path`` and its answer.

    Raises `Transient` when it cannot be reached or does not answer in time, `Rejected` for what it
    refuses and `Conflict` for a fenced run, each with the supervisor's own sentence."""
    try:
        with closing(socket.socket(socket.AF_UNIX)) as connection, socket_address(path) as address:
            connection.settimeout(answer_s)
            connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline()
    except OSError as error:
        raise Transient(f"{path} did not answer ({error}); see `groupshift sandbox status`") from error
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise Transient(f"the process behind {path} ended in the middle of its answer; try again") from error
    if "error" in answer:
        raise (Conflict if answer.get("family") == "conflict" else Rejected)(str(answer["error"]))
    return answer


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """An address for the Unix socket at ``path`` that the kernel takes however long the path is;
    valid inside the block."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class ProcessFleet:
    """`groupshift.ports.driver.FleetDriver` over the supervisor's Unix socket."""

    def __init__(self, socket_path: str | Path) -> None:
        self._path = Path(socket_path)

    def _slots(self) -> tuple[str, tuple[Slot, ...]]:
        answer = ask(self._path, {"verb": "slots"})
        slots: tuple[Slot, ...] = built(tuple[Slot, ...], answer["slots"])
        return str(answer["group"]), tuple(sorted(slots, key=lambda slot: slot.name))

    def slots(self, group: str) -> tuple[Slot, ...]:
        """All slots when the supervisor runs this group, else none."""
        served, slots = self._slots()
        return slots if served == group else ()

    def start(self, change: Change) -> Started | ForPerson:
        """Hand the change to the supervisor, which remembers its id and token."""
        served, _ = self._slots()
        if served != change.group:
            raise Rejected(f"the supervisor at {self._path} runs group {served!r}, not {change.group!r}")
        plain = {name: getattr(change, name) for name in ("change_id", "to", "fence", "token", "slots")}
        ask(self._path, {"verb": "change", **plain})
        return Started(change_id=change.change_id)

    def took_up(self, change: Change) -> bool:
        """The supervisor keeps the ids of all changes it accepted."""
        return change.change_id in ask(self._path, {"verb": "changes"})["changes"]

    def observe(self, change: Change) -> ChangeStatus:
        """Done when every slot of the change is running its kind and carries its id."""
        return settled(self._slots()[1], change, f"the supervisor at {self._path}")
