"""Ending a sandbox so that nothing of it is left, whatever happened before."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

from groupshift.adapters.drivers.process import ask
from groupshift.errors import Broken, Rejected, Transient
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import Running, descendants, is_running, known, marked, send, send_all, stop
from groupshift_sandbox.state import SandboxState, read_document

_SHUTDOWN_S = 90.0
_STRAYS_S = 15.0
_SERVERS = ("zookeeper", "kafka")  # others need them to end cleanly


def down(home: Home) -> int:
    """End every process of the sandbox: members first, then servers, last started first; returns how many.

    Finds them by the supervisor, by the state file and by the marks in their environment, so it also
    works after a failed or killed ``up``, with a dead supervisor, and twice. Data and logs stay.
    Raises `Broken` when a process survives SIGKILL."""
    state = SandboxState(home)
    names = list(state.processes())
    before = _all(home, names)
    _shut_members(home)
    _end_strays([process for process in _all(home, []) if process.pid not in _pids(home, names)])
    running = {name: process for name in names if (process := known(home, name)) is not None}
    for name, process in running.items():
        if name not in _SERVERS:
            send(process, signal.SIGTERM)  # all at once; each is waited for below
    for name in reversed(names):
        if name in running:
            stop(running[name])
        state.forget_process(name)
    _end_strays([process for process in (*before, *_all(home, [])) if is_running(process)])
    left = [process for process in (*before, *_all(home, [])) if is_running(process)]
    if left:
        raise Broken(f"process {left[0].pid} ({left[0].name}) did not end; end it by hand, then repeat")
    return len({process.pid for process in before})


def _pids(home: Home, names: Sequence[str]) -> set[int]:
    """The named processes and all they started, except what the supervisor did."""
    pids: set[int] = set()
    for name in names:
        process = known(home, name)
        if process is not None and is_running(process):
            pids.add(process.pid)
            if name != "supervisor":
                pids |= {child.pid for child in descendants(process.pid)}
    return pids


def _all(home: Home, names: Sequence[str]) -> list[Running]:
    """Everything alive: named, started by a named one, a remembered member, or marked."""
    by_pid = {process.pid: process for process in marked(home)}
    roots = [process for name in names if (process := known(home, name)) is not None]
    places = read_document(home.supervisor_file).get("places", {}).values()
    roots += [
        Running(name=place["name"], pid=int(place["pid"]), ticks=int(place["ticks"]))
        for place in places
        if place.get("pid") is not None
    ]
    for process in roots:
        if is_running(process):
            by_pid[process.pid] = process
            by_pid |= {child.pid: child for child in descendants(process.pid)}
    return list(by_pid.values())


def _shut_members(home: Home) -> None:
    supervisor = known(home, "supervisor")
    if supervisor is None or not is_running(supervisor):
        return
    try:
        ask(home.supervisor_socket, {"verb": "shutdown"}, _SHUTDOWN_S)
    except (Transient, Rejected):
        stop(supervisor)  # it cannot be asked: its members are ended as strays


def _end_strays(processes: Sequence[Running]) -> None:
    """SIGTERM to all at once, then SIGKILL to what is left."""
    for process in processes:
        send(process, signal.SIGTERM)
        send_all(process, signal.SIGCONT)
    end = time.monotonic() + _STRAYS_S
    while any(is_running(process) for process in processes) and time.monotonic() < end:
        time.sleep(0.05)
    for process in processes:
        send(process, signal.SIGKILL)
    end = time.monotonic() + _STRAYS_S
    while any(is_running(process) for process in processes) and time.monotonic() < end:
        time.sleep(0.05)
