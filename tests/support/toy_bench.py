"""The command line over the toy move: a settings file, a real journal, the toy's file, a clock of its own.

The toy is found by its entry point, as a stranger's move would be. What Spark would do is done at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from groupshift.cli import run_place, verbs
from groupshift.cli.main import main
from groupshift.cli.run_driving import Teller
from groupshift.domain.run import Step
from groupshift.ports.runs import RunRecord, Runs
from groupshift_testing.clock import ManualClock

ENGINE = Path(__file__).resolve().parents[1] / "engine"
PATHS = (str(ENGINE), str(ENGINE / "installed"))
PROCESS = """
import signal
import sys
from groupshift.cli import run_place
from groupshift.cli.main import main
from toy_move.target import spark

signal.signal(signal.SIGINT, signal.default_int_handler)  # '&' of a shell has it ignored
run_place.JournalSession.submit = lambda _session, job: spark(job)
sys.exit(main())
"""
"""A process of the command line in which Spark's part is done at once."""


@dataclass
class ToyBench:
    """One toy and its journal. ``plugs``: a person does what is asked for as soon as the process waits."""

    folder: Path
    clock: ManualClock = field(default_factory=ManualClock)
    plugs: bool = True
    asked: list[str] = field(default_factory=list)
    """What a person was asked to do and did not do yet."""

    def __post_init__(self) -> None:
        from toy_move.target import Target

        self.target = Target(file=self.folder / "toy.db", folder=self.folder / "evidence")
        self.target.make()
        self.settings = self.folder / "settings.toml"
        self.write_settings()
        self.clock.on_sleep.append(self._waits)

    def write_settings(self, more: str = "") -> None:
        """Write the settings file, with ``more`` sections."""
        self.settings.write_text(
            '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[fleet]\ndriver = "manual"\n'
            f'[journal]\nurl = "sqlite:///{self.folder / "journal.db"}"\n'
            f'[evidence]\nroot = "{self.folder / "evidence"}"\n{more}'
        )

    def _waits(self, _seconds: float) -> None:
        if self.plugs and self.asked:
            _, value, _, name = self.asked.pop().split()
            self.target.write(name, value)

    def request(self, *more: str) -> list[str]:
        """Options that name this toy."""
        return ["--file", str(self.target.file), *more]

    def call(self, *arguments: str) -> int:
        """Type a command in this process, at this place; returns the exit code."""
        return main([*arguments, "--settings", str(self.settings)])

    def process(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Start a process of the command line, its streams pipes unless told otherwise."""
        paths = os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")])
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-c", PROCESS, *arguments, "--settings", str(self.settings)]
        return subprocess.Popen(
            command, text=True, env={**os.environ, "PYTHONPATH": paths}, **{**pipes, **more}
        )

    def runs(self) -> Runs:
        """The journal; whoever asks closes it."""
        from groupshift.adapters.sqlalchemy.runs import SqlRuns

        return SqlRuns(f"sqlite:///{self.folder / 'journal.db'}")

    def records(self) -> tuple[RunRecord, ...]:
        """All runs, newest first."""
        runs = self.runs()
        try:
            return runs.recent(99)
        finally:
            runs.close()

    @property
    def run(self) -> str:
        """The latest run."""
        return self.records()[0].run


def toy_bench(monkeypatch: pytest.MonkeyPatch, folder: Path) -> ToyBench:
    """Return a toy, with the command line built anew so that it has the toy's verbs."""
    for path in PATHS:
        monkeypatch.syspath_prepend(path)
    from toy_move.target import spark

    bench = ToyBench(folder=folder)
    make, instruct = run_place.tools_of, Teller.instruct

    def asks(teller: Teller, step: Step, text: str) -> None:
        bench.asked.append(text)
        instruct(teller, step, text)

    monkeypatch.setattr(Teller, "instruct", asks)
    monkeypatch.setattr(
        run_place, "tools_of", lambda runs, settings: replace(make(runs, settings), clock=bench.clock)
    )
    monkeypatch.setattr(run_place.JournalSession, "submit", lambda _session, job: spark(job))
    monkeypatch.setattr(verbs, "app", verbs.built())
    return bench


def document(text: str) -> dict[str, Any]:
    """The JSON document that a verb printed."""
    found: dict[str, Any] = json.loads(text)
    return found


def words(text: str) -> str:
    """A text on one line: a terminal may break it anywhere."""
    return " ".join(text.split())


__all__: Sequence[str] = ("ToyBench", "document", "toy_bench", "words")
