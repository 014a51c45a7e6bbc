"""Starting and stopping processes so that none is lost: sessions of their own, pid + start ticks, deadlines.

A process is identified by its pid and the kernel's start time of that pid (proc_pid_stat(5), field 22),
so a pid that was used again is never signalled. Every process carries two marks in its environment,
the sandbox and its name: what was started but not yet written down is found by them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from groupshift.errors import Broken, Transient
from groupshift_sandbox.home import Home
from groupshift_sandbox.state import SandboxState

MARK_SANDBOX = "GROUPSHIFT_SANDBOX"
MARK_PROCESS = "GROUPSHIFT_PROCESS"
_PORTS = (10_240, 32_000)  # below Linux' ephemeral ports: no outgoing connection takes one meanwhile
_CLAIMED: list[socket.socket] = []
_PROC = Path("/proc")
_MARKS_S = 1.0
_GONE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run: ``argv[0]`` is looked up on PATH; ``environment`` is added to ours, or is all there is
    when it is ``complete``."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A process that was started: ``ticks`` is its start time since boot in clock ticks."""

    name: str
    pid: int
    ticks: int


def wait_until(condition: Callable[[], bool], deadline_s: float, what: str, *, every_s: float = 0.02) -> None:
    """Return when ``condition()`` holds. Raises `Transient` ("<what> not within ...") at the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise Transient(f"{what}: not within {deadline_s:g} s")
        time.sleep(every_s)


def free_port() -> int:
    """A TCP port that nothing is bound to on 127.0.0.1 now, and that no other call gives while this process
    lives, here or in another process: between the choice and the bind nobody else of us takes it."""
    for _ in range(200):
        port = _PORTS[0] + secrets.randbelow(_PORTS[1] - _PORTS[0])
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            if _claim(port):
                return port
    raise Transient(f"no free port on 127.0.0.1 between {_PORTS[0]} and {_PORTS[1]}; stop what listens there")


def _claim(port: int) -> bool:
    """Take the port's name among the kernel's abstract sockets, whose holder's end gives it back."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0groupshift-port-{port}")
    except OSError:
        claim.close()
        return False
    _CLAIMED.append(claim)
    return True


def _status(pid: int) -> list[str] | None:
    """Fields of ``/proc/<pid>/stat`` from the state on, or None when the process is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def start_ticks(pid: int) -> int | None:
    """When ``pid`` was started, or None when it is gone or a zombie (a child of ours is reaped)."""
    status = _status(pid)
    if status is not None and status[0] == "Z":
        _reap(pid)
        return None
    return None if status is None else int(status[19])


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def is_running(process: Running) -> bool:
    """True while this very process lives; a stopped (SIGSTOP) one lives."""
    return start_ticks(process.pid) == process.ticks


def spawn(command: Command, home: Home, log: Path) -> Running:
    """Start ``command`` in a session of its own: stdin null, stdout and stderr appended to ``log``.

    Returns when its marks can be read (`marked` finds it), for whoever comes after us. Raises `Broken` when
    the program is not there."""
    program = shutil.which(command.argv[0])
    if program is None:
        raise Broken(f"program {command.argv[0]!r} of {command.name} is not on PATH; install it")
    marks = {MARK_SANDBOX: str(home.root), MARK_PROCESS: command.name}
    log.parent.mkdir(parents=True, exist_ok=True)
    pid = os.posix_spawn(
        program,
        [program, *command.argv[1:]],
        {**({} if command.complete else os.environ), **command.environment, **marks},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGPIPE],
    )
    _await_marks(pid)
    status = _status(pid)
    return Running(name=command.name, pid=pid, ticks=int(status[19]) if status else -1)


def _await_marks(pid: int) -> None:
    """The kernel lets a parent go on some microseconds before the child's environment can be read: wait for
    it (a program that is started without any, or ended, is not waited for longer than `_MARKS_S`)."""
    end = time.monotonic() + _MARKS_S
    while not marks_of(pid) and time.monotonic() < end:
        status = _status(pid)
        if status is None or status[0] == "Z":
            return
        time.sleep(0.001)


def start(home: Home, command: Command) -> Running:
    """`spawn`, written down in the state file before and after; the log is ``<home>/logs/<name>.log``."""
    state, log = SandboxState(home), home.logs / f"{command.name}.log"
    state.put_process(command.name, argv=list(command.argv), log=str(log))
    process = spawn(command, home, log)
    state.put_process(
        command.name, argv=list(command.argv), log=str(log), pid=process.pid, ticks=process.ticks
    )
    return process


def await_start(home: Home, process: Running, answers: Callable[[], bool], deadline_s: float) -> None:
    """Wait until a process that was started answers. Raises `Transient` when it ended, or is late."""

    def ready() -> bool:
        if not is_running(process):
            log = home.logs / f"{process.name}.log"
            raise Transient(f"{process.name} ended at start; its log is {log}")
        return answers()

    wait_until(ready, deadline_s, f"{process.name} answers", every_s=0.1)


def known(home: Home, name: str) -> Running | None:
    """The process of this name in the state file, or None when it was never (fully) started."""
    entry = SandboxState(home).processes().get(name)
    if entry is None or "pid" not in entry:
        return None
    return Running(name=name, pid=int(entry["pid"]), ticks=int(entry["ticks"]))


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def session_of(pid: int) -> list[int]:
    """Living processes of the session that ``pid`` leads or led."""
    living = []
    for candidate in _pids():
        status = _status(candidate)
        if status is not None and status[0] != "Z" and int(status[3]) == pid:
            living.append(candidate)
    return living


def descendants(pid: int) -> list[Running]:
    """Living processes that ``pid`` started, and those they started, in sessions of their own or not."""
    children: dict[int, list[int]] = {}
    for candidate in _pids():
        status = _status(candidate)
        if status is not None and status[0] != "Z":
            children.setdefault(int(status[1]), []).append(candidate)
    living, waiting = [], [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            ticks = start_ticks(child)
            if ticks is not None:
                living.append(Running(name=f"child {child}", pid=child, ticks=ticks))
            waiting.append(child)
    return living


def marks_of(pid: int) -> dict[str, str]:
    """The environment ``pid`` was started with; empty when it is gone or not ours to read."""
    try:
        raw = (_PROC / str(pid) / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    pairs = (item.partition("=") for item in raw.decode(errors="replace").split("\0"))
    return {key: value for key, _, value in pairs if key}


def marked(home: Home, name: str | None = None) -> list[Running]:
    """Living processes that carry this sandbox's mark (and ``name``'s): whoever forked them."""
    living = []
    for pid in _pids():
        marks = marks_of(pid)
        if marks.get(MARK_SANDBOX) != str(home.root) or name not in (None, marks.get(MARK_PROCESS)):
            continue
        ticks = start_ticks(pid)
        if ticks is not None and pid != os.getpid():
            living.append(Running(name=marks.get(MARK_PROCESS, "?"), pid=pid, ticks=ticks))
    return living


def send(process: Running, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (ProcessLookupError, FileNotFoundError):  # the latter while it is being reaped (Linux 6.18)
        return False
    try:
        if not is_running(process):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def on_end(handle: Callable[[], None]) -> None:
    """Call ``handle`` when this process is asked to end (SIGTERM, SIGINT)."""

    def forward(_number: int, _frame: FrameType | None) -> None:
        handle()

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)


def send_all(process: Running, number: signal.Signals) -> None:
    """Signal the process and everything in its session."""
    for pid in session_of(process.pid):
        ticks = start_ticks(pid)
        if ticks is not None:
            send(Running(name=process.name, pid=pid, ticks=ticks), number)


def stop(process: Running, deadline_s: float = 15.0) -> None:
    """SIGTERM, wait, then SIGKILL for the whole session; returns when nothing of it is left.

    A process that was paused is continued, so that it can end cleanly. Safe to repeat."""
    if send(process, signal.SIGTERM):
        send_all(process, signal.SIGCONT)
        end = time.monotonic() + deadline_s
        while is_running(process) and time.monotonic() < end:
            time.sleep(0.02)
    if is_running(process) or start_ticks(process.pid) is None:
        send_all(process, signal.SIGKILL)
        wait_until(lambda: not session_of(process.pid), _GONE_S, f"{process.name} (pid {process.pid}) gone")
