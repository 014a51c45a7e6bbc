"""What can go wrong, on demand: kill -9, pause, expired ZooKeeper session, bad link, server restart."""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupshift.adapters.drivers.process import ask
from groupshift.errors import Rejected, Transient
from groupshift_sandbox import kafka, zookeeper
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import (
    Command,
    Running,
    await_start,
    known,
    send_all,
    session_of,
    start,
    stop,
    wait_until,
)
from groupshift_sandbox.state import SandboxState

_MASK = (1 << 48) - 1
_GONE_S = 60.0  # of real processes, on a machine with too much to do
_STOP_S = 90.0  # a broker that is killed instead leaves its node in ZooKeeper for a session
_SECRET = 0xB3415C00  # ZooKeeperServer.superSecret, the constant behind every session password


def kill(process: Running) -> None:
    """SIGKILL to the process and its whole session (a Scala member: recorder and JVM); waits for the end."""
    send_all(process, signal.SIGKILL)
    wait_until(lambda: not session_of(process.pid), _GONE_S, f"{process.name} killed")


def pause(process: Running) -> None:
    """SIGSTOP to the whole session."""
    send_all(process, signal.SIGSTOP)


def resume(process: Running) -> None:
    """SIGCONT to the whole session."""
    send_all(process, signal.SIGCONT)


@contextlib.contextmanager
def paused(process: Running) -> Iterator[None]:
    """Paused inside the block, resumed after it whatever happens."""
    pause(process)
    try:
        yield
    finally:
        resume(process)


def session_password(session_id: int) -> bytes:
    """The 16 bytes that ZooKeeper 3.4-3.9 gives to a session: java.util.Random seeded with the id xor a
    constant (ZooKeeperServer.generatePasswd), hence known for any session."""
    seed = ((session_id ^ _SECRET) ^ 0x5DEECE66D) & _MASK
    password = b""
    for _ in range(4):
        seed = (seed * 0x5DEECE66D + 0xB) & _MASK
        password += ((seed >> 16) & 0xFFFFFFFF).to_bytes(4, "little")
    return password


def expire_session(address: str, session_id: int) -> None:
    """End any client's session at the server ``host:port``: its ephemerals go, and the client is told
    "session expired" when it comes back.

    A second connection takes over the session and closes it in the same breath, so that the client
    cannot win it back in between. Raises `Transient` when the session still lives a minute later, or when
    the server does not tell."""
    host, _, port = address.rpartition(":")
    password = session_password(session_id)
    hello = struct.pack(">iqiQi", 0, 0, 30_000, session_id % (1 << 64), len(password)) + password + b"\0"
    close = struct.pack(">ii", 1, -11)
    with socket.create_connection((host, int(port)), timeout=_GONE_S) as connection:
        connection.sendall(b"".join(struct.pack(">i", len(frame)) + frame for frame in (hello, close)))
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(4096):
                pass
    name = f"0x{session_id & (1 << 64) - 1:x}"

    def expired() -> bool:
        sessions, whole, _ = zookeeper.four_letter(address, "dump").partition("Connections dump")
        return bool(whole) and name not in sessions

    wait_until(expired, _GONE_S, f"session {name} expired")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A running relay: clients connect to ``address``; the verbs are those of `groupshift_sandbox.relay`."""

    process: Running
    address: str
    control: Path

    def _ask(self, **request: Any) -> dict[str, Any]:
        return ask(self.control, request)

    def cut(self) -> None:
        """Close every connection and refuse new ones."""
        self._ask(verb="cut")

    def stall(self) -> None:
        """Keep connections open, deliver nothing."""
        self._ask(verb="stall")

    def delay(self, milliseconds: float) -> None:
        """Deliver every byte this much later, in both directions."""
        self._ask(verb="delay", ms=milliseconds)

    def throttle(self, bytes_per_s: float) -> None:
        """Limit each direction of each connection."""
        self._ask(verb="throttle", bytes_per_s=bytes_per_s)

    def restore(self) -> None:
        """Undo every fault; what was held is delivered."""
        self._ask(verb="restore")

    def state(self) -> dict[str, Any]:
        """The fault in force and the number of connections."""
        return self._ask(verb="state")


def start_relay(home: Home, name: str, *, listen: int, target: str) -> Link:
    """Start a relay process named ``name`` on 127.0.0.1:``listen`` before ``target``."""
    control = home.root / f"{name}.sock"
    argv = [sys.executable, "-m", "groupshift_sandbox.relay", "--listen", str(listen)]
    argv += ["--target", target, "--control", str(control)]
    process = start(home, Command(name=name, argv=argv))
    link = Link(process=process, address=f"127.0.0.1:{listen}", control=control)

    def answers() -> bool:
        try:
            return bool(link.state())
        except Transient:
            return False

    await_start(home, process, answers, 60.0)
    return link


def restart_server(home: Home, name: str) -> Running:
    """Stop ``zookeeper`` or ``kafka`` and start it again on the same port and data; waits until it answers.

    Raises `Rejected` when no such server was started."""
    process, entry = known(home, name), SandboxState(home).processes().get(name, {})
    address = SandboxState(home).addresses().get(name)
    if process is None or address is None or name not in (zookeeper.NAME, kafka.NAME):
        raise Rejected(f"server {name!r} was not started here; name {zookeeper.NAME!r} or {kafka.NAME!r}")
    stop(process, _STOP_S)
    again = start(home, Command(name=name, argv=entry["argv"]))
    await_server = zookeeper.await_zookeeper if name == zookeeper.NAME else kafka.await_kafka
    await_server(home, again, address)
    return again
