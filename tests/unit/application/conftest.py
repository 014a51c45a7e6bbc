"""The simulated move as a fixture."""

from __future__ import annotations

import pytest

from support.simulated_move import Bench, make_bench


@pytest.fixture
def bench() -> Bench:
    """Three old members, six partitions."""
    return make_bench()
