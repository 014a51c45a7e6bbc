"""Starting and stopping real processes without losing one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from groupshift.errors import Broken, Transient
from groupshift_sandbox import processes
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import (
    Command,
    Running,
    descendants,
    free_port,
    is_running,
    known,
    marked,
    send,
    session_of,
    spawn,
    start,
    start_ticks,
    stop,
    wait_until,
)
from groupshift_sandbox.state import SandboxState

FOREVER = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('up', flush=True); time.sleep(600)"
)
WITH_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{FOREVER}'])"


@pytest.fixture
def home(tmp_path):
    """An empty home whose processes are ended after the test."""
    made = Home(tmp_path / "home").create()
    yield made
    for process in marked(made):
        stop(process, 0.1)


def _python(name: str, code: str) -> Command:
    return Command(name=name, argv=[sys.executable, "-c", code])


def test_what_is_started_is_found_by_its_marks_at_once(home):
    """Whoever is killed the moment it started something: the next finds it (one in three was missed)."""
    for count in range(40):
        process = spawn(_python(f"p{count}", FOREVER), home, home.logs / "p.log")
        assert marked(home, f"p{count}") == [process]
        send(process, signal.SIGKILL)


def test_a_process_runs_in_its_own_session_and_is_written_down(home):
    """Pid and start ticks are in the state file; its standard input is empty."""
    process = start(home, _python("one", "import sys; print(repr(sys.stdin.read())); " + FOREVER))
    assert known(home, "one") == process
    assert os.getsid(process.pid) == process.pid
    log = home.logs / "one.log"
    wait_until(lambda: log.exists() and log.read_text() in ("", "''\n"), 60, "log written")
    stop(process)
    assert not is_running(process)


def test_a_process_that_ignores_sigterm_is_killed_at_the_deadline(home):
    """Stop returns with nothing left."""
    process = start(home, _python("stubborn", STUBBORN))
    wait_until(lambda: "up" in (home.logs / "stubborn.log").read_text(), 60, "handler set")
    stop(process, 0.2)
    assert session_of(process.pid) == []


def test_a_paused_process_is_stopped_cleanly(home):
    """SIGSTOP does not keep it from ending."""
    process = start(home, _python("paused", FOREVER))
    send(process, signal.SIGSTOP)
    stop(process, 5.0)
    assert not is_running(process)


def test_what_a_process_started_ends_with_it(home):
    """The child in the same session is gone too, also when the leader died first."""
    process = start(home, _python("parent", WITH_CHILD))
    wait_until(lambda: len(session_of(process.pid)) == 2, 60, "child started")
    assert len(descendants(process.pid)) == 1
    send(process, signal.SIGKILL)
    wait_until(lambda: not is_running(process), 60, "leader killed")
    stop(process)
    assert session_of(process.pid) == []


def test_a_pid_used_again_is_not_signalled(home):
    """Same pid, other start time: somebody else's process."""
    process = start(home, _python("mine", FOREVER))
    other = Running(name="other", pid=process.pid, ticks=process.ticks - 1)
    assert not is_running(other)
    assert not send(other, signal.SIGKILL)
    stop(other, 0.1)
    assert is_running(process)


def test_a_process_that_was_not_written_down_is_found_by_its_marks(home):
    """As after a kill -9 between the start and the note."""
    process = spawn(_python("lost", FOREVER), home, home.logs / "lost.log")
    assert known(home, "lost") is None
    # A process that has just begun to run its program shows an empty environment for a moment.
    wait_until(lambda: marked(home, "lost") != [], 60, "the kernel shows the marks")
    assert marked(home, "lost") == [process]
    assert marked(home, "other") == []


def test_a_missing_program_is_named(home):
    """One sentence with the program and the process."""
    with pytest.raises(Broken, match="program 'no-such-program' of ghost is not on PATH"):
        start(home, Command(name="ghost", argv=["no-such-program"]))


def test_a_condition_that_never_holds_ends_at_its_deadline():
    """The sentence says what was waited for."""
    with pytest.raises(Transient, match=r"the moon is blue: not within 0\.1 s"):
        wait_until(lambda: False, 0.1, "the moon is blue")


def test_a_dead_pid_has_no_start_ticks(home):
    """A child that ended is reaped, not taken for alive."""
    process = start(home, _python("short", "pass"))
    wait_until(lambda: start_ticks(process.pid) is None, 60, "ended")
    assert not is_running(process)


def test_free_ports_are_free():
    """A port in use is not given out."""
    assert len({free_port() for _ in range(20)}) > 1


def test_a_port_that_was_given_is_not_given_again_before_anything_listens(monkeypatch):
    """Neither here nor in another process: all of a small range are taken, none is bound."""
    few = (31_980, 31_990)
    monkeypatch.setattr(processes, "_PORTS", few)
    given: list[int] = []
    with pytest.raises(Transient, match="no free port"):
        given.extend(free_port() for _ in range(few[0], few[1] + 1))
    assert len(set(given)) == len(given) > 0
    script = (
        "from groupshift.errors import Transient\nfrom groupshift_sandbox import processes\n"
        f"processes._PORTS = {few}\n"
        "try:\n    print(processes.free_port())\nexcept Transient:\n    print(0)"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(other.stdout) not in given


def test_concurrent_changes_of_the_state_file_are_all_kept(home):
    """Writers take turns, and every file ever seen is complete."""
    state = SandboxState(home)
    threads = [
        threading.Thread(target=state.put_process, args=(f"p{n}",), kwargs={"pid": n, "ticks": n})
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(entry["pid"] for entry in state.processes().values()) == list(range(20))
    assert home.state_file.stat().st_mode & 0o077 == 0


def test_a_damaged_state_file_is_named(home):
    """It is never silently taken for an empty one."""
    home.state_file.write_text("{")
    with pytest.raises(Broken, match="is not valid JSON"):
        SandboxState(home).processes()
    home.state_file.write_text(json.dumps([]))
    with pytest.raises(Broken, match="does not hold a JSON object"):
        SandboxState(home).processes()
    home.state_file.unlink()
