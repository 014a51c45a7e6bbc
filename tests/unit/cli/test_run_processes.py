"""Runs of the toy move in real processes: killed, taken over, interrupted, in a pipe, in a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.adapters.system import signalled
from groupshift.cli import run_driving
from groupshift.cli.main import UNREAD
from groupshift.cli.run_driving import INTERRUPTED, Teller
from groupshift.domain.run import RunState
from groupshift.ports.runs import EventKind
from support.toy_bench import ToyBench, document, toy_bench, words

PATIENT_S = 90.0


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyBench:
    """A toy; its person does nothing by itself."""
    return toy_bench(monkeypatch, tmp_path)


@pytest.fixture(autouse=True)
def hang_ups_are_heard() -> Iterator[None]:
    """Also where the tests themselves were started by ``nohup``."""
    with signalled(signal.SIG_DFL, signal.SIGHUP):
        yield


def until(met: Callable[[], bool], what: str) -> None:
    """Wait for a condition, not for a time."""
    deadline = time.monotonic() + PATIENT_S
    while not met():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def waits_for_a_person(bench: ToyBench) -> bool:
    """The run was begun and asked a person to do something."""
    if not (bench.folder / "journal.db").exists() or not bench.records():
        return False
    runs = bench.runs()
    try:
        return any(
            e.kind is EventKind.ACTED and e.step == "08 people/ask_person" for e in runs.events(bench.run)
        )
    finally:
        runs.close()


def stopped(bench: ToyBench) -> bool:
    """Whether the process that had the run said that it does nothing more."""
    runs = bench.runs()
    held = runs.held(bench.run)
    runs.close()
    return held is not None and held.stopped


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """The exit code, and what was said on both streams."""
    out, err = process.communicate(timeout=PATIENT_S)
    return process.returncode, out, err


def test_a_killed_process_is_taken_over_by_a_word(
    bench: ToyBench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody can know that it is gone; whoever says so goes on, and each act is made once."""
    first = bench.process("toy", "run", *bench.request(), "--execute", "--yes")
    until(lambda: waits_for_a_person(bench), "the run asks a person")
    first.kill()
    assert ended(first)[0] == -signal.SIGKILL
    run = bench.run
    assert bench.call("continue", run, "--execute", "--yes") == 3
    assert f"groupshift continue {run} --take-over --execute" in words(capsys.readouterr().err)
    bench.target.write("plugged", "yes")
    assert bench.call("continue", run, "--take-over", "--execute", "--yes") == 0
    acts = [what for what, _token in bench.target.acts() if not what.startswith("started")]
    assert acts == ["colour green", "size 2", "burned yes", "finish done"]


def test_a_process_that_is_taken_over_does_nothing_more(bench: ToyBench) -> None:
    """It ends with exit code 3 and says who took the run over, and where to look."""
    first = bench.process("toy", "run", *bench.request(), "--execute", "--yes")
    until(lambda: waits_for_a_person(bench), "the run asks a person")
    run = bench.run
    second = bench.process("continue", run, "--take-over", "--execute", "--yes")
    code, _out, said = ended(first)
    assert code == 3
    assert "took this run over" in said
    assert f"groupshift status {run}" in said
    bench.target.write("plugged", "yes")
    code, out, said = ended(second)
    assert code == 0, said
    assert "finalised" in out
    tokens = {token for _what, token in bench.target.acts()}
    assert tokens == {1, 2}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_u14_a_process_that_is_asked_to_end_leaves_the_run_in_order(
    bench: ToyBench, how: signal.Signals
) -> None:
    """Ctrl-C, a service that is stopped, a terminal that is closed: nobody has to take over."""
    first = bench.process("toy", "run", *bench.request(), "--execute", "--yes")
    until(lambda: waits_for_a_person(bench), "the run asks a person")
    first.send_signal(how)
    code, _out, said = ended(first)
    assert code == INTERRUPTED, said
    run = bench.run
    assert f"interrupted: run {run} of group toy is running" in words(said)
    assert words(said).split("next: ")[-1].startswith(f"groupshift continue {run} --execute")
    bench.target.write("plugged", "yes")
    assert bench.call("continue", run, "--execute", "--yes") == 0


def test_u14_a_process_that_is_asked_to_end_twice_leaves_the_run_in_order(bench: ToyBench) -> None:
    """Shell and kernel both tell that a terminal was closed: the second one meets what the first began."""
    first = bench.process("toy", "run", *bench.request(), "--execute", "--yes")
    until(lambda: waits_for_a_person(bench), "the run asks a person")
    for how in (signal.SIGHUP, signal.SIGTERM):  # two, so that Python does not take them for one
        first.send_signal(how)
    code, _out, said = ended(first)
    assert code in {INTERRUPTED, -signal.SIGTERM}, said  # the second may come when all is done
    assert stopped(bench)


def test_u14_a_second_signal_within_a_lock_of_python_leaves_the_run_in_order(
    bench: ToyBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own wait ends with an error where a second signal cuts off what it does about the first."""

    def cut_off(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("release unlocked lock")

    monkeypatch.setattr(Teller, "instruct", cut_off)
    assert bench.call("toy", "run", *bench.request(), "--execute", "--yes") == INTERRUPTED
    assert stopped(bench)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_u14_a_process_that_is_asked_to_end_while_it_claims_the_run_leaves_it_in_order(
    bench: ToyBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: signal.Signals
) -> None:
    """The claim is written before the signal has its effect: nobody has to take over."""
    bench.target.write("plugged", "yes")
    assert bench.call("toy", "run", *bench.request(), "--execute") == 6
    capsys.readouterr()
    claim = SqlRuns.claim

    def interrupted(*of: Any, **more: Any) -> int:
        signal.raise_signal(how)
        return claim(*of, **more)

    with monkeypatch.context() as patched:
        patched.setattr(SqlRuns, "claim", interrupted)
        assert bench.call("continue", bench.run, "--execute", "--yes") == INTERRUPTED
    assert f"groupshift continue {bench.run} --execute" in words(capsys.readouterr().err)
    runs = bench.runs()
    held = runs.held(bench.run)
    runs.close()
    assert held is not None
    assert (held.token, held.stopped) == (2, True)
    assert bench.call("continue", bench.run, "--execute", "--yes") == 0


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_u14_a_second_signal_waits_until_the_run_is_left(
    bench: ToyBench, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    """A service that is stopped, and then its terminal is closed: the first one's word is written whole."""
    bench.target.write("plugged", "yes")
    assert bench.call("toy", "run", *bench.request(), "--execute") == 6
    leave = run_driving.leave

    def asked_again(*of: Any) -> None:
        signal.raise_signal(how)
        leave(*of)

    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(run_driving, "drive", lambda _run: signal.raise_signal(signal.SIGTERM))
        patched.setattr(run_driving, "leave", asked_again)
        bench.call("continue", bench.run, "--execute", "--yes")
    assert stopped(bench)


def test_u14_a_terminal_that_is_gone_keeps_no_run(bench: ToyBench) -> None:
    """What is said of the interrupt goes nowhere; the run is left in order all the same."""
    ours, theirs = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = bench.process("toy", "run", *bench.request(), "--execute", "--yes", **streams)
    os.close(theirs)

    def waits() -> bool:
        if select.select([ours], [], [], 0)[0]:
            os.read(ours, 65536)  # its buffer is small, and who writes to a full one waits
        return waits_for_a_person(bench)

    until(waits, "the run asks a person")
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    process.wait(timeout=PATIENT_S)
    assert stopped(bench)


def test_u14_nohup_keeps_a_run_that_its_terminal_leaves(bench: ToyBench) -> None:
    """What starts it ignores the hang-up, so the run goes on to its end."""
    with signalled(signal.SIG_IGN, signal.SIGHUP):
        process = bench.process("toy", "run", *bench.request(), "--execute", "--yes")
    until(lambda: waits_for_a_person(bench), "the run asks a person")
    process.send_signal(signal.SIGHUP)
    bench.target.write("plugged", "yes")
    code, out, said = ended(process)
    assert code == 0, said
    assert "finalised" in out


def test_a_pipe_that_nobody_reads_stops_no_run(bench: ToyBench) -> None:
    """`groupshift … | head`: what is printed at the end goes nowhere, and that is no verdict."""
    bench.target.write("plugged", "yes")
    read, write = os.pipe()
    os.close(read)
    process = bench.process("toy", "run", *bench.request(), "--execute", "--yes", stdout=write)
    os.close(write)
    _out, said = process.communicate(timeout=PATIENT_S)
    assert process.returncode == UNREAD, said
    assert "Traceback" not in said
    assert bench.records()[0].state is RunState.FINALISED


def test_a_person_answers_in_a_real_terminal(bench: ToyBench) -> None:
    """The gate is asked on a pseudo-terminal; what is typed there is the answer."""
    bench.target.write("plugged", "yes")
    ours, theirs = pty.openpty()
    process = bench.process(
        "toy", "run", *bench.request(), "--execute", stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""

    def read_until(word: bytes) -> None:
        nonlocal said
        deadline = time.monotonic() + PATIENT_S
        while word not in said:
            assert time.monotonic() < deadline, said[-2000:]
            if select.select([ours], [], [], 0.2)[0]:
                said += os.read(ours, 65536)

    for answer in (b"approve\n", b"approve\n"):
        read_until(b"[approve/reject]")
        said = b""
        os.write(ours, answer)
    read_until(b"groupshift watch")
    process.wait(timeout=PATIENT_S)
    os.close(ours)
    assert process.returncode == 0
    assert bench.records()[0].state is RunState.FINALISED


def test_status_is_watched_until_nobody_drives_the_run(bench: ToyBench) -> None:
    """One document whenever something changed; the last one has the end."""
    first = bench.process("toy", "run", *bench.request(), "--execute", "--yes")
    until(lambda: waits_for_a_person(bench), "the run asks a person")
    watching = bench.process("status", bench.run, "--watch", "--json")
    lines: list[str] = []
    assert watching.stdout is not None
    while not lines or lines[-1].rstrip() != "}":
        lines.append(watching.stdout.readline())
    found = document("".join(lines))
    assert (found["driven"], found["state"]) == (True, "running")
    bench.target.write("plugged", "yes")
    assert ended(first)[0] == 0
    code, out, _said = ended(watching)
    assert code == 0
    assert '"state": "finalised"' in out
