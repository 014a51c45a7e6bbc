"""Damaged and hostile logs end with an error of ours, in little time and memory (S5, S6)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

INPUTS = int(os.environ.get("GROUPSHIFT_FUZZ", "10000"))


@pytest.mark.parametrize("kind", ["endure", "endure_others"])
def test_spoiled_logs_and_records_end_with_an_error_of_ours(kind: str) -> None:
    """As many as GROUPSHIFT_FUZZ says, 10,000 without it; a process of its own, for it must survive them."""
    program = f"from support.hostile_logs import {kind}; print({kind}({INPUTS}))"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, "tests"])},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    read, refused = map(int, ended.stdout.split())
    assert read + refused >= INPUTS
    assert refused > 0
