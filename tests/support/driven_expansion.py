"""Runs of an expansion on the engine: begun, cut off where a test wants it, and gone on with."""

from __future__ import annotations

import pytest

from groupshift.domain.group_partition_and_count import partition_of
from groupshift.engine.progress import Progress
from groupshift.log.releases import Coordinator
from groupshift.moves.expansion.facts import ExpansionRequest
from groupshift.ports.clock import CrashPoint
from support.driven_moves import At, Driver, detail, where
from support.simulated_downgrade import Killed
from support.simulated_expansion import GROUPS

BOTH = pytest.mark.parametrize("kind", [Coordinator.OLD, Coordinator.NEW])
MOVING = [group for group in GROUPS if partition_of(group, 5) != partition_of(group, 8)]
STAYING = [group for group in GROUPS if group not in MOVING]
LATE = [
    name
    for name in (f"late{number}" for number in range(99))
    if partition_of(name, 5) == partition_of(name, 8) != partition_of(name, 12)
]
"""They stay at 8 partitions, and move at 12."""


def die() -> None:
    """The process ends."""
    raise Killed


def begun(driver: Driver, to: int = 8) -> str:
    """A run to ``to`` partitions."""
    return driver.begin(ExpansionRequest(to=to)).run


def killed(driver: Driver, run: str, kind: str, point: CrashPoint = CrashPoint.BEFORE_JOURNAL) -> None:
    """A process dies at a step, such as ``compare V`` or ``restart``; as a rule before the step is begun."""
    with pytest.raises(Killed):
        driver.go_on(run, At(kind, point, die))


def accepted(driver: Driver, run: str, shown: Progress, **changes: object) -> Progress:
    """A process that accepts what this one showed."""
    return driver.go_on(run, patience_s=5.0, accept=shown.step.key, **changes)


def accepting(driver: Driver, run: str, wanted: str = "finalised") -> list[Progress]:
    """Processes that accept what was shown, until the run ends so; at most ten."""
    found: list[Progress] = []
    accept = ""
    for _ in range(10):
        found.append(driver.go_on(run, patience_s=5.0, accept=accept, who="bob"))
        if where(found[-1])[0] == wanted:
            return found
        accept = found[-1].step.key
    raise AssertionError([(where(each), detail(each)) for each in found])
