"""A TCP relay between a member and a server, with faults on demand.

``python -m groupshift_sandbox.relay --listen PORT --target HOST:PORT --control SOCKET`` accepts on
127.0.0.1 and connects each client to the target. The control socket takes one JSON object a line and
answers one: ``{"verb":"cut"}`` closes every connection and refuses new ones, ``{"verb":"stall"}`` keeps
connections open but holds all bytes, ``{"verb":"delay","ms":N}`` delivers each byte N ms late in both
directions, ``{"verb":"throttle","bytes_per_s":N}`` limits each direction of each connection,
``{"verb":"restore"}`` undoes all of them (held bytes are delivered), ``{"verb":"state"}`` changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from groupshift.adapters.drivers.process import socket_address

_CHUNK = 65_536
_HELD = 64 * 1024 * 1024  # bytes a direction may hold while delayed or stalled


@dataclass(slots=True)
class Fault:
    """What the relay does to traffic now."""

    cut: bool = False
    stalled: bool = False
    delay_ms: float = 0.0
    bytes_per_s: float | None = None


class Relay:
    """Listens, relays, and changes its fault when told."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.fault = Fault()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one client until either side ends."""
        if self.fault.cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        try:
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._copy(reader, far_writer))
                directions.create_task(self._copy(far_reader, writer))
        except* OSError:
            pass  # one side went away: the other is closed below
        finally:
            self._writers -= pair
            for side in pair:
                side.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=_HELD // _CHUNK)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._read(reader, held))
            both.create_task(self._write(held, writer))

    async def _read(self, reader: asyncio.StreamReader, held: asyncio.Queue[tuple[float, bytes]]) -> None:
        while True:
            chunk = await reader.read(_CHUNK)
            await held.put((asyncio.get_running_loop().time(), chunk))
            if not chunk:
                return

    async def _write(self, held: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            read_at, chunk = await held.get()
            await self._hold(read_at)
            if not chunk:
                with contextlib.suppress(OSError):
                    writer.write_eof()
                return
            writer.write(chunk)
            await writer.drain()
            if self.fault.bytes_per_s:
                await asyncio.sleep(len(chunk) / self.fault.bytes_per_s)

    async def _hold(self, read_at: float) -> None:
        """Wait until bytes read at ``read_at`` are due; a restore shortens the wait."""
        while True:
            await self._flowing.wait()
            left = read_at + self.fault.delay_ms / 1000 - asyncio.get_running_loop().time()
            if left <= 0:
                return
            await asyncio.sleep(min(left, 0.02))

    def apply(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one verb; answers the fault in force, or ``error``."""
        verb = request.get("verb")
        if verb == "cut":
            self.fault.cut = True
            for writer in list(self._writers):
                writer.transport.abort()
        elif verb == "stall":
            self.fault.stalled = True
            self._flowing.clear()
        elif verb == "delay":
            self.fault.delay_ms = float(request["ms"])
        elif verb == "throttle":
            self.fault.bytes_per_s = float(request["bytes_per_s"])
        elif verb == "restore":
            self.fault = Fault()
            self._flowing.set()
        elif verb != "state":
            return {"error": f"verb {verb!r} is unknown; use cut, stall, delay, throttle, restore or state"}
        return {**asdict(self.fault), "connections": len(self._writers) // 2}

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one control connection."""
        while line := await reader.readline():
            try:
                answer = self.apply(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                answer = {"error": f"request {line.decode(errors='replace').strip()!r} is unusable: {error}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()


async def serve(wanted: argparse.Namespace) -> None:
    """Relay until SIGTERM."""
    host, _, port = wanted.target.rpartition(":")
    relay = Relay((host, int(port)))
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    wanted.control.unlink(missing_ok=True)
    server = await asyncio.start_server(relay.accept, "127.0.0.1", wanted.listen)
    with socket_address(wanted.control) as address:
        control = await asyncio.start_unix_server(relay.control, address)
    await ended.wait()
    server.close()
    control.close()
    relay.apply({"verb": "cut"})
    wanted.control.unlink(missing_ok=True)


def main(argv: list[str]) -> None:
    """Parse and serve."""
    parser = argparse.ArgumentParser(prog="groupshift-relay", description=__doc__)
    parser.add_argument("--listen", required=True, type=int)
    parser.add_argument("--target", required=True)
    parser.add_argument("--control", required=True, type=Path)
    asyncio.run(serve(parser.parse_args(argv)))


if __name__ == "__main__":
    main(sys.argv[1:])
