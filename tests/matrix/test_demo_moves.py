"""`groupshift demo MOVE` on real servers: everything as it should be, and nothing of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from groupshift_sandbox.demo_moves import DEMOS
from groupshift_sandbox.home import Home
from groupshift_sandbox.processes import marked

pytestmark = pytest.mark.timeout(3_600)


@pytest.mark.parametrize("move", sorted(DEMOS))
def test_the_demo_of_a_move(move: str, tmp_path: Path) -> None:
    """It ends with 0, a row for each phase and what it looked at by itself."""
    home = tmp_path / "home"
    done = subprocess.run(
        [sys.executable, "-m", "groupshift.cli.main", "demo", move],
        env={**os.environ, "GROUPSHIFT_HOME": str(home), "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=3_500,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}{done.stderr[-6000:]}"
    assert "Every verdict is pass." in done.stdout
    assert f"$ groupshift {move} run " in done.stdout
    assert marked(Home(home)) == []
