"""Four minutes of random faults on a mixed group; the slice of `make test`: `tests/live/test_chaos.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupshift_sandbox.chaos.run import ChaosOptions
from groupshift_sandbox.home import Home
from support.chaos_endured import assert_endured


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [3, 82])
def test_chaos(tmp_path: Path, seed: int) -> None:
    """Nothing is lost, delivered beside its owner, or left unowned."""
    assert_endured(Home(tmp_path / "home"), ChaosOptions(seed=seed, seconds=240.0))
