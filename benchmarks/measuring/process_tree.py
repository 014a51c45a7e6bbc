"""A command with all that it starts: seconds, exit code, what it printed, and the memory of its programs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LOOK_S = 0.1
_MIB = 2**20
_PPID, _RESIDENT = 1, 21
"""Places in ``/proc/PID/stat`` behind the name: parent, and resident pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """``cpu_s`` are processor seconds of all of it; ``peak_mib`` is by program (``python``, ``java``, …) and
    for ``all`` at one moment, looked at ten times a second; pages that processes share count in each."""

    seconds: float
    cpu_s: float
    code: int
    printed: str
    peak_mib: Mapping[str, float] = field(default_factory=dict)


def watch(command: Sequence[str], scratch: Path, more: Mapping[str, str] | None = None) -> Watched:
    """Run to the end; what it prints goes through a file in ``scratch``, complaints to standard error."""
    began, spent = time.perf_counter(), _spent()
    peaks: dict[str, float] = defaultdict(float)
    output = scratch / "printed"
    with (
        output.open("w", encoding="utf-8") as out,
        subprocess.Popen(command, stdout=out, stderr=sys.stderr, env={**os.environ, **(more or {})}) as child,
    ):
        while child.poll() is None:
            for program, mib in _resident(child.pid).items():
                peaks[program] = max(peaks[program], mib)
            time.sleep(_LOOK_S)
        seconds = time.perf_counter() - began
    printed = output.read_text(encoding="utf-8")
    cpu_s = _spent() - spent
    return Watched(seconds=seconds, cpu_s=cpu_s, code=child.returncode, printed=printed, peak_mib=dict(peaks))


def _spent() -> float:
    """Processor seconds of the children that have ended, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _resident(root: int) -> dict[str, float]:
    """Resident MiB of the process and its descendants, by program and together."""
    page = os.sysconf("SC_PAGE_SIZE") / _MIB
    children: dict[int, list[int]] = defaultdict(list)
    seen: dict[int, tuple[str, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        fields, pid = rest.split(), int(stat.parent.name)
        seen[pid] = name.rstrip("0123456789."), int(fields[_RESIDENT]) * page
        children[int(fields[_PPID])].append(pid)
    found: dict[str, float] = defaultdict(float)
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        if pid in seen:
            name, mib = seen[pid]
            found[name] += mib
            found["all"] += mib
    return found
