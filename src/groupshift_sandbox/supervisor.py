"""The supervisor: a daemon that keeps a fleet's slots occupied and replaces their occupants on request.

``python -m groupshift_sandbox.supervisor --home HOME`` reads ``fleet.json``, answers one JSON line to each
JSON line on ``supervisor.sock``, and writes ``supervisor.json`` before and after everything it does. Its
members live in sessions of their own: they outlive it, and the next supervisor finds them by pid and start
ticks, or by their marks when it was killed between the start and the note. SIGTERM ends the daemon only;
the verb ``shutdown`` ends the members too.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupshift.adapters.drivers.process import socket_address
from groupshift.domain.facts import SlotState
from groupshift.domain.modes import MemberKind
from groupshift.errors import GroupshiftError, Rejected
from groupshift_sandbox.fleet import (
    Action,
    FleetDefinition,
    FleetMemory,
    FleetSlot,
    Observed,
    Verb,
    next_actions,
)
from groupshift_sandbox.home import Home
from groupshift_sandbox.members import demand_startable, is_ready, member_command, member_id
from groupshift_sandbox.processes import Running, is_running, marked, send, send_all, spawn, stop
from groupshift_sandbox.state import read_document, write_document

_TURN_S = 0.05
_SIGNALS = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL, "STOP": signal.SIGSTOP, "CONT": signal.SIGCONT}


@dataclass(slots=True)
class _Timing:
    """What is only worth knowing while this daemon lives."""

    since: float
    alive: bool = False
    ready: bool = False
    asked_at: float | None = None
    deaths: int = 0


class Supervisor:
    """Observes, decides (`next_actions`), acts; `turn` is one round, `answer` one request."""

    def __init__(self, home: Home, now: Callable[[], float] = time.monotonic) -> None:
        self._home, self._now = home, now
        self.definition = FleetDefinition.from_json(read_document(home.fleet_file))
        for slot in self.definition.slots:
            demand_startable(self.definition, [slot.name], slot.kind)
        remembered = read_document(home.supervisor_file)
        self.memory = FleetMemory.from_json(remembered) if remembered else FleetMemory.new(self.definition)
        self._timings = {name: _Timing(since=now() - 60) for name in self.memory.places}
        self.ended = False
        self._adopt()

    def _adopt(self) -> None:
        """Find members started by a former daemon that could not note their pid any more."""
        for place in self.memory.places.values():
            if place.pid is None and place.incarnation:
                leaders = [process for process in marked(self._home, place.occupant) if _leads(process)]
                if leaders:
                    place.pid, place.ticks = leaders[0].pid, leaders[0].ticks
        self._note()

    def _note(self) -> None:
        write_document(self._home.supervisor_file, self.memory.to_json())

    def _process(self, place: FleetSlot) -> Running | None:
        if place.pid is None or place.ticks is None:
            return None
        return Running(name=place.occupant, pid=place.pid, ticks=place.ticks)

    def _observe(self, place: FleetSlot) -> Observed:
        timing, process = self._timings[place.name], self._process(place)
        alive = process is not None and is_running(process)
        if timing.alive and not alive:
            timing.deaths = 0 if timing.ready else timing.deaths + 1
            timing.since, timing.ready = self._now(), False
        timing.alive = alive
        timing.ready = alive and (timing.ready or is_ready(self._home, place))
        return Observed(
            alive=alive,
            ready=timing.ready,
            since_s=self._now() - timing.since,
            stopping_s=None if timing.asked_at is None else self._now() - timing.asked_at,
            deaths=timing.deaths,
        )

    def turn(self) -> None:
        """One round of observe, decide, act."""
        observed = {name: self._observe(place) for name, place in self.memory.places.items()}
        for action in next_actions(self.memory, observed, self.definition.stop_s):
            self._act(action)

    def _act(self, action: Action) -> None:
        place, timing = self.memory.places[action.slot], self._timings[action.slot]
        process = self._process(place)
        if action.verb is Verb.TERMINATE and process is not None:
            timing.asked_at = self._now()
            send(process, signal.SIGTERM)
            send_all(process, signal.SIGCONT)
        elif action.verb is Verb.KILL and process is not None:
            send_all(process, signal.SIGKILL)
        elif action.verb is Verb.LAUNCH:
            self._launch(place, timing)
        elif action.verb is Verb.COMPLETE:
            if place.wanted is MemberKind.VACANT:
                self._sweep(place)
            self.memory.applied(place)
            self._note()

    def _launch(self, place: FleetSlot, timing: _Timing) -> None:
        self._sweep(place)
        place.incarnation += 1
        place.kind, place.pid, place.ticks = place.wanted, None, None
        self._note()
        timing.since, timing.asked_at = self._now(), None
        try:
            command = member_command(self._home, self.definition, place)
        except GroupshiftError as error:
            sys.stderr.write(f"{place.occupant} could not be started: {error}\n")
            timing.deaths += 1
            return
        process = spawn(command, self._home, self._home.logs / f"{place.occupant}.log")
        place.pid, place.ticks = process.pid, process.ticks
        self._note()
        timing.alive, timing.ready = True, False

    def _sweep(self, place: FleetSlot) -> None:
        """End what a dead leader may have left in its session."""
        former = self._process(place)
        if former is not None:
            send_all(former, signal.SIGKILL)

    def _state(self, place: FleetSlot) -> SlotState:
        process, timing = self._process(place), self._timings[place.name]
        if process is None or not is_running(process):
            return SlotState.CHANGING if place.pending is not None and not place.held else SlotState.DOWN
        ready = timing.ready and timing.asked_at is None
        return SlotState.RUNNING if ready and place.pending is None else SlotState.CHANGING

    def slots(self) -> list[dict[str, Any]]:
        """Every slot as the socket's verb ``slots`` answers it, by name."""
        return [
            {
                "name": name,
                "kind": place.kind.value,
                "state": self._state(place).value,
                "member_id": member_id(self.definition, place) if _was_occupied(place) else None,
                "change_id": place.change_id,
                "pid": place.pid,
                "held": place.held,
            }
            for name, place in sorted(self.memory.places.items())
        ]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request. Raises `Rejected` for what it does not understand."""
        verb = request.get("verb")
        if verb == "slots":
            return {"group": self.definition.group, "slots": self.slots()}
        if verb == "changes":
            return {"changes": sorted(self.memory.changes)}
        if verb == "change":
            accepted = self._change(request)
            return {"change_id": request["change_id"], "repeated": not accepted}
        if verb in {"hold", "release"}:
            self.memory.place(str(request.get("slot"))).held = verb == "hold"
            self._note()
            return {"slot": request["slot"], "held": verb == "hold"}
        if verb == "signal":
            return self._signal(str(request.get("slot")), str(request.get("signal")))
        if verb == "shutdown":
            self._stop_members()
            self.ended = True
            return {"ended": True}
        raise Rejected(f"verb {verb!r} is unknown: slots, changes, change, hold, release, signal, shutdown")

    def _change(self, request: dict[str, Any]) -> bool:
        try:
            change_id, slots = str(request["change_id"]), [str(name) for name in request["slots"]]
            to = MemberKind(request["to"])
            fence, token = str(request.get("fence", "")), int(request.get("token", 0))
        except (KeyError, TypeError, ValueError) as error:
            raise Rejected(
                f"a change needs change_id, slots and to ({', '.join(MemberKind)}): {error}"
            ) from error
        demand_startable(self.definition, slots, to)
        self.memory.demand_newest(fence, token)
        accepted = self.memory.accept(change_id, slots, to)
        self.memory.fences[fence] = token
        self._note()
        return accepted

    def _signal(self, slot: str, name: str) -> dict[str, Any]:
        place = self.memory.place(slot)
        process = self._process(place)
        if name not in _SIGNALS:
            raise Rejected(f"signal {name!r} is unknown; use one of {', '.join(_SIGNALS)}")
        if process is None or not is_running(process):
            raise Rejected(f"slot {slot!r} has no living member to signal")
        if name == "TERM":
            send(process, signal.SIGTERM)
        else:
            send_all(process, _SIGNALS[name])
        return {"slot": slot, "signal": name, "pid": process.pid}

    def _stop_members(self) -> None:
        processes = [process for place in self.memory.places.values() if (process := self._process(place))]
        for process in processes:
            send(process, signal.SIGTERM)
        for process in processes:
            stop(process)


def _was_occupied(place: FleetSlot) -> bool:
    return place.incarnation > 0 and place.kind is not MemberKind.VACANT


def _leads(process: Running) -> bool:
    """True for the first process of a session: the member itself, not what it started."""
    try:
        return os.getsid(process.pid) == process.pid
    except ProcessLookupError:
        return False


def reply(supervisor: Supervisor, line: bytes) -> bytes:
    """The answer line for one request line; errors come as ``{"error", "family"}``."""
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            raise Rejected("a request is one JSON object a line")
        answer = supervisor.answer(request)
    except GroupshiftError as error:
        answer = {"error": str(error), "family": type(error).__name__.lower()}
    except ValueError as error:
        answer = {"error": f"the request is not valid JSON: {error}", "family": "rejected"}
    return json.dumps(answer).encode() + b"\n"


async def serve(home: Home) -> None:
    """Run until SIGTERM (members stay) or ``shutdown`` (members end first)."""
    supervisor, ended = Supervisor(home), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(reply(supervisor, line))
            await writer.drain()
        writer.close()

    home.supervisor_socket.unlink(missing_ok=True)
    with socket_address(home.supervisor_socket) as address:
        server = await asyncio.start_unix_server(talk, address)
    home.supervisor_socket.chmod(0o600)
    while not ended.is_set() and not supervisor.ended:
        supervisor.turn()
        await asyncio.sleep(_TURN_S)
    server.close()
    home.supervisor_socket.unlink(missing_ok=True)


@contextmanager
def alone(home: Home) -> Iterator[None]:
    """Hold the home's supervisor lock. Raises `Rejected` when another supervisor holds it."""
    with home.supervisor_file.with_suffix(".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Rejected(f"another supervisor already serves {home.root}") from error
        yield


def main(argv: list[str]) -> int:
    """Parse and serve; a second supervisor of the same home is refused."""
    parser = argparse.ArgumentParser(prog="groupshift-supervisor", description=__doc__)
    parser.add_argument("--home", required=True, type=Path)
    home = Home(parser.parse_args(argv).home.resolve()).create()
    try:
        with alone(home):
            asyncio.run(serve(home))
    except GroupshiftError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
