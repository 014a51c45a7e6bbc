"""The order of files for several workers: what takes longest begins first, so that no worker is left with it
alone at the end (with ``--no-loadscope-reorder``, which would begin with the most tests); no file waits for
more than one test of another; and all files that hold a Spark session stay in one worker, which pays once
for what it takes to load its classes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from support.parts import FILE_SECONDS, ROOT

SPARK = "tests/spark"
HOLD_A_SESSION = frozenset(
    f"tests/live/test_{name}.py"
    for name in ("bad_evidence", "compare_real", "log_sources", "logs_of_releases")
)
"""Beside those of `SPARK`, whose session is the first and lasts until one of these ends it."""


def longest_first(items: list[pytest.Item]) -> None:
    """Sort by the seconds that each file took in the last landing; a file that is new there begins first."""
    seconds = json.loads(FILE_SECONDS.read_text())
    places = {file: place for place, file in enumerate(in_order((item.path for item in items), seconds))}
    items.sort(key=lambda item: places[item.path])


def in_order(files: Iterable[Path], seconds: Mapping[str, float]) -> list[Path]:
    """The files as they begin, each once; ``seconds`` are by path below the repository."""
    took = {each: seconds.get(_name(each), float("inf")) for each in files}
    units = dict.fromkeys(map(unit_of, map(_name, took)), 0.0)
    for each, its in took.items():
        units[unit_of(_name(each))] += its

    def place(file: Path) -> tuple[float, str, bool, float]:
        unit = unit_of(_name(file))
        return -units[unit], unit * (unit == SPARK), _name(file) in HOLD_A_SESSION, -took[file]

    return sorted(took, key=place)


def unit_of(test: str) -> str:
    """What stays in one worker: the file of a test, or all that hold a session."""
    file = test.partition("::")[0]
    return SPARK if file.startswith(f"{SPARK}/") or file in HOLD_A_SESSION else file


def _name(file: Path) -> str:
    return str(file.relative_to(ROOT))


class OneFileAhead(LoadFileScheduling):
    """A worker gets its next file when the last test of its present one is to begin, which waits for that.

    xdist gives it while two tests are left: a file waited 11 minutes behind a long one of two tests. What is
    left of a worker that died may be a file without tests: whoever gets it gets the next one, too."""

    def _reschedule(self, node: WorkerController) -> None:
        if node not in self.registered_collections:
            return  # it was started for one that died, and does not know its tests yet
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 1:
            self._assign_work_unit(node)
        if not self.workqueue:
            super()._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
