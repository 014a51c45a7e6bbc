"""The verbs ``run | status | back`` of a move that changes a cluster, over one of the sandbox."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from groupshift.cli.main import main
from groupshift_sandbox.layout import Cluster


class Runs:
    """The verbs of one cluster's move, its nodes replaced or restarted by the sandbox; ``fence`` is a program
    that is told ``out`` or ``in``, and the run, where something keeps clients out."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        move: str = "downgrade",
        fence: str = "",
    ) -> None:
        self._move = move
        self._nodes = folder / "nodes.toml"
        home = str(cluster.home.root)
        self._nodes.write_text(
            f'driver = "sandbox"\n[sandbox]\nhome = "{home}"\ncluster = "{cluster.options.name}"\n'
        )
        if fence:
            script = folder / "fence.py"
            script.write_text(fence)
            told = ", ".join(f'"{each}"' for each in (sys.executable, str(script)))
            both = f'keep_out = [{told}, "out", "{{run}}"]\nlet_in = [{told}, "in", "{{run}}"]\n'
            self._nodes.write_text(f"{self._nodes.read_text()}[fence]\n{both}")
        self._where = ["--bootstrap-servers", cluster.bootstrap, "--state", str(folder / "state")]
        self._capsys = capsys

    def killed(self, at: str, *options: str) -> None:
        """The verb in a process of its own, which is killed at that point of a step."""
        done = subprocess.run(
            self.command("run", "--execute", "--yes", *options),
            env={**os.environ, "GROUPSHIFT_TEST_HOOKS": "1", "GROUPSHIFT_CRASH_AT_STEP": at},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr

    def command(self, *options: str) -> list[str]:
        """The arguments of a process of its own."""
        argv = [sys.executable, "-m", "groupshift.cli.main", self._move, options[0], *self._where]
        return [*argv, "--nodes", str(self._nodes), "--timeout", "60", *options[1:]]

    def __call__(self, verb: str, *options: str) -> tuple[int, dict[str, Any]]:
        """Exit code and document; errors are an empty one."""
        slow = [] if verb == "status" else ["--timeout", "60"]
        nodes = [*slow, *(["--nodes", str(self._nodes)] if verb in {"run", "back"} else [])]
        self._capsys.readouterr()
        code = main([self._move, verb, *self._where, *nodes, "--json", *options])
        said = self._capsys.readouterr()
        return code, json.loads(said.out) if said.out.strip() else {"error": said.err}
