"""What of a sandbox runs, and where it answers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from groupshift.adapters.drivers.process import ask
from groupshift.errors import Rejected, Transient
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import is_running, known
from groupshift_sandbox.state import SandboxState


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """One process of the state file: ``state`` is running, ended or starting."""

    name: str
    state: str
    pid: int | None
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatus:
    """``slots`` are the supervisor's own answer, empty when it does not answer."""

    home: str
    settings: str
    processes: tuple[ProcessStatus, ...]
    addresses: dict[str, str]
    group: str | None = None
    slots: tuple[dict[str, Any], ...] = ()

    @property
    def up(self) -> bool:
        """True when there are processes and all of them run."""
        return bool(self.processes) and all(process.state == "running" for process in self.processes)


def status(home: Home) -> SandboxStatus:
    """Look, change nothing."""
    state = SandboxState(home)
    processes = []
    for name, entry in state.processes().items():
        process = known(home, name)
        living = "starting" if process is None else "running" if is_running(process) else "ended"
        processes.append(
            ProcessStatus(name=name, state=living, pid=entry.get("pid"), log=str(entry.get("log", "")))
        )
    group: str | None = None
    slots: tuple[dict[str, Any], ...] = ()
    with suppress(Transient, Rejected):
        answer = ask(home.supervisor_socket, {"verb": "slots"})
        group, slots = str(answer["group"]), tuple(answer["slots"])
    return SandboxStatus(
        home=str(home.root),
        settings=str(home.settings_file),
        processes=tuple(processes),
        addresses=state.addresses(),
        group=group,
        slots=slots,
    )
