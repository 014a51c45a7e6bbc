"""Either end of the ranges in pyproject.toml: an environment with the lowest and one with the newest of
each, in which the fast suite runs and one slice on real servers.

    make matrix MATRIX=pins
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("tool", "spark", "sasl", "kubernetes", "sign", "postgres")
"""What the fast suite and the slice need; Airflow has a venv of its own in most places, and here none."""
FAST = ("tests/unit", "tests/properties", "tests/conformance")
LIVE = ("tests/live/test_adapters_group_reader.py", "tests/live/test_raw_login.py")


def run(argv: list[str], **more: str) -> None:
    """With what it said where it fails."""
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, check=False, timeout=3600
    )
    assert done.returncode == 0, f"{' '.join(argv)}:\n{done.stdout[-6000:]}{done.stderr[-2000:]}"


@pytest.fixture(scope="module", params=["lowest-direct", "highest"])
def interpreter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with this end of every range."""
    folder = tmp_path_factory.mktemp(request.param)
    wanted, uv = folder / "requirements.txt", str(Path(sys.executable).with_name("uv"))
    extras = [part for each in EXTRAS for part in ("--extra", each)]
    chosen = ["--group", "dev", "--resolution", request.param, "--python-version", "3.11"]
    run([uv, "pip", "compile", "pyproject.toml", *extras, *chosen, "-q", "-o", str(wanted)])
    run([uv, "venv", "-q", "--python", sys.executable, str(folder / "venv")])
    python = folder / "venv" / "bin" / "python"
    run([uv, "pip", "install", "-q", "--python", str(python), "-r", str(wanted)])
    run([uv, "pip", "install", "-q", "--python", str(python), "--no-deps", "-e", "."])
    return python


@pytest.mark.timeout(7200)
def test_the_fast_suite_passes(interpreter: Path) -> None:
    """Everything without a server."""
    pythonpath = str(ROOT / "src")
    run([str(interpreter), "-m", "pytest", "-q", "-m", "not airflow", *FAST], PYTHONPATH=pythonpath)


@pytest.mark.timeout(3600)
def test_a_slice_on_real_servers_passes(interpreter: Path) -> None:
    """ZooKeeper, Kafka, and every way to log in."""
    where = f"{interpreter.parent}:{os.environ['PATH']}"
    run([str(interpreter), "-m", "pytest", "-q", *LIVE], PYTHONPATH=str(ROOT / "src"), PATH=where)
