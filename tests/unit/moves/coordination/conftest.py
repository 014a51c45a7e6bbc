"""A simulated group of the old consumer, driven by the one engine."""

from __future__ import annotations

import pytest

from support.coordination_runs import CoordinationProcesses, make_coordination


@pytest.fixture
def group() -> CoordinationProcesses:
    """Three old members, six partitions."""
    return make_coordination()
