"""What the benchmarks have in common: percentiles, the machine's description, aims, and the kept result."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home

_RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A figure and what it has to be: at most ``aim``, or at least it."""

    name: str
    value: float
    aim: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the value is where it should be."""
        return self.value >= self.aim if self.at_least else self.value <= self.aim

    def data(self) -> dict[str, Any]:
        """As kept in the result."""
        sign = ">=" if self.at_least else "<="
        return {
            "name": self.name,
            "value": round(self.value, 3),
            "aim": f"{sign} {self.aim:g}",
            "holds": self.holds,
        }


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile of ``values``; ``share`` in 0..1; infinite without values."""
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * share) - 1] if ordered else float("inf")


def median(values: Sequence[float]) -> float:
    """The middle value, by nearest rank."""
    return percentile(values, 0.5)


def machine() -> dict[str, Any]:
    """What this was measured on."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


@contextmanager
def fresh_home() -> Iterator[Home]:
    """A sandbox home that leaves no process and no file."""
    home = Home(Path(mkdtemp(prefix="groupshift-bench-")))
    try:
        yield home
    finally:
        down(home)
        rmtree(home.root, ignore_errors=True)


def report(bench: str, aims: Iterable[Aim], raw: Mapping[str, Any] | Sequence[Any]) -> int:
    """Keep the raw figures, print a table and last one line of JSON; exit code 0 if every aim holds."""
    judged = list(aims)
    lines = [aim.data() for aim in judged]
    result = {"bench": bench, "machine": machine(), "aims": lines}
    path = _RESULTS / f"{bench}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**result, "raw": raw}, indent=1))
    for aim in lines:
        print(f"{aim['name']:26} {aim['value']:8} {aim['aim']:8} {'holds' if aim['holds'] else 'MISSED'}")
    print(json.dumps({**result, "raw": path.name}))
    return 0 if all(aim.holds for aim in judged) else 1
