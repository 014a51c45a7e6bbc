"""The verbs of a move of a cluster, and of its runs, over one of the sandbox."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from groupshift.cli.main import main
from groupshift_sandbox.layout import Cluster

_OF_A_MOVE = frozenset({"assess", "plan", "run"})
_DRIVES = frozenset({"continue", "roll-back"})
"""Verbs that take a run over from a process that was killed."""


class Verbs:
    """The verbs of one move, and ``status | continue | roll-back | report | watch`` of its latest run, whose
    nodes the sandbox replaces or restarts. ``fence`` is a program that is told ``out`` or ``in``, and the
    run, where something keeps clients out."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        move: str,
        fence: str = "",
    ) -> None:
        self._move = move
        self.nodes = folder / "nodes.toml"
        home = str(cluster.home.root)
        self.nodes.write_text(
            f'driver = "sandbox"\n[sandbox]\nhome = "{home}"\ncluster = "{cluster.options.name}"\n'
        )
        if fence:
            script = folder / "fence.py"
            script.write_text(fence)
            told = ", ".join(f'"{each}"' for each in (sys.executable, str(script)))
            both = f'keep_out = [{told}, "out", "{{run}}"]\nlet_in = [{told}, "in", "{{run}}"]\n'
            self.nodes.write_text(f"{self.nodes.read_text()}[fence]\n{both}")
        self._where = ["--bootstrap-servers", cluster.bootstrap, "--state", str(folder / "state")]
        self._capsys = capsys

    def all(self) -> list[dict[str, Any]]:
        """Every run of the move that is no preview, the latest one last."""
        _, found = self._said(["status", "--move", self._move, *self._where, "--json"])
        return sorted(found["runs"], key=lambda each: int(each["created_at_ms"]))

    def command(self, verb: str, *options: str) -> list[str]:
        """The arguments of a verb, with the latest run where it is one of runs."""
        named = [self._move, verb] if verb in _OF_A_MOVE else [verb, self.all()[-1]["run"]]
        taken = ["--take-over"] if verb in _DRIVES else []
        return [*named, *self._where, "--nodes", str(self.nodes), "--timeout", "60", *taken, *options]

    def process(self, verb: str, *options: str) -> list[str]:
        """The same of a process of its own."""
        return [sys.executable, "-m", "groupshift.cli.main", *self.command(verb, *options)]

    def killed(self, at: str, *options: str) -> None:
        """Begin a run with these options, or go on with the latest one where there are none, in a process of
        its own, which is killed at that point of a step."""
        done = subprocess.run(
            self.process("run" if options else "continue", "--execute", "--yes", *options),
            env={**os.environ, "GROUPSHIFT_TEST_HOOKS": "1", "GROUPSHIFT_CRASH_AT_STEP": at},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr

    def __call__(self, verb: str, *options: str) -> tuple[int, dict[str, Any]]:
        """Exit code and document; errors are an empty one."""
        return self._said([*self.command(verb, *options), "--json"])

    def _said(self, arguments: list[str]) -> tuple[int, dict[str, Any]]:
        self._capsys.readouterr()
        code = main(arguments)
        said = self._capsys.readouterr()
        return code, json.loads(said.out) if said.out.strip() else {"error": said.err}


def outcomes(document: Mapping[str, Any]) -> dict[str, str]:
    """The outcome of each step's last look, by its name without its number."""
    return {each["key"].partition(" ")[2]: each["outcome"] for each in document["steps"]}
