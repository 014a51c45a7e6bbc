"""Simulated groups of both protocols, driven by the one engine."""

from __future__ import annotations

import pytest

from groupshift.domain.modes import MemberKind
from support.simulated_runs import Processes, make_processes


@pytest.fixture
def group() -> Processes:
    """Three classic members, six partitions."""
    return make_processes(MemberKind.PLAIN)
