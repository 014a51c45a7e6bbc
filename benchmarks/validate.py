"""Two cluster snapshots of 20 M (group, topic, partition) rows with 1,000 planted differences of every class.

* `found_all`, `invented`: the planted keys against the differences that `compare` leaves, class by class.
* `datacompy_ratio`: seconds of datacompy 1.1.0's Spark compare over ours: processes of their own on the same
  files, the same heap, the same two threads, from start of the interpreter to its end.
* `resume_share`: our job killed by SIGKILL at half the seconds of a full run, and run again: seconds of the
  second run over those of the full one.
* `identical_share`: seconds for the same rows in reverse order and other files over the full run's;
  `same_bytes_share` (no aim): for the same files.
* `peak_mib` (no aim): highest sum of resident memory of our process and its JVM.

The peer's virtual environment is made below the cache of the sandbox, or named with ``--peer``.

Run: make bench BENCH=validate
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow.parquet as pq
from measuring import Aim, report
from measuring.cluster_snapshots import CLASSES, TAKEN_MS, Pair, make, manifest

from groupshift.domain.evidence import MANIFEST
from groupshift.sandbox.home import cache_root
from groupshift.sandbox.java import java_home

_JOB = [sys.executable, "-m", "groupshift.spark.jobs.compare"]
_PEER = Path(__file__).parent / "measuring" / "peer_datacompy.py"
_NEEDED = ("datacompy[spark]==1.1.0", "pyspark==4.1.3")
_LOOK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Wall and processor seconds, highest resident MiB of the process and its children, exit code and last
    line."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    peak_mib: float = 0.0
    code: int = 1
    last: str = ""


def run(command: list[str], *, kill_after_s: float = float("inf")) -> Ended:
    """Run to its end, or to SIGKILL for its whole process group."""
    began, peak = time.perf_counter(), 0.0
    spent: dict[str, float] = {}
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=sys.stderr, env=environment, text=True, start_new_session=True
    ) as process:
        while process.poll() is None:
            peak = max(peak, _looked_at(process.pid, spent))
            if time.perf_counter() - began >= kill_after_s:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            time.sleep(_LOOK_S)
        seconds = time.perf_counter() - began
        lines = process.stdout.read().splitlines() if process.stdout else []
    cpu_s = sum(spent.values())
    return Ended(
        seconds=seconds, cpu_s=cpu_s, peak_mib=peak, code=process.returncode, last=lines[-1] if lines else ""
    )


def _looked_at(session: int, spent: dict[str, float]) -> float:
    """Resident MiB of all processes of a session; notes the processor seconds of each."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            total += int(fields[21])
            spent[stat.parent.name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total * os.sysconf("SC_PAGE_SIZE") / 2**20


def compare(before: Path, after: Path, output: Path, **how: float) -> Ended:
    """Our job on two snapshots."""
    command = [*_JOB, str(before), str(after), "--output", str(output), "--move", "downgrade"]
    ended = run(command, **how)
    if ended.code not in {0, -signal.SIGKILL}:
        raise SystemExit(f"compare ended with {ended.code}: {ended.last}")
    print(
        f"  {output.name:12} {ended.seconds:8.1f} s {ended.cpu_s:8.1f} s cpu {ended.peak_mib:6.0f} MiB",
        flush=True,
    )
    return ended


def datacompy(peer: Path, pair: Pair, output: Path) -> Ended:
    """The peer on the same files."""
    ended = run([str(peer), str(_PEER), str(pair.before), str(pair.after), str(output)])
    shown = f"{ended.seconds:8.1f} s {ended.cpu_s:8.1f} s cpu {ended.peak_mib:6.0f} MiB {ended.last}"
    print(f"  {output.name:12} {shown}", flush=True)
    return ended


def judged(pair: Pair, output: Path) -> dict[str, int]:
    """Planted keys that were found in their class, and keys found that were not planted in it."""
    found: dict[str, set[tuple[str, str, int]]] = {class_: set() for class_ in CLASSES}
    for path in (output / "differences").glob("*.parquet"):
        table = pq.read_table(path, columns=["class", "group", "topic", "partition"])
        for row in table.to_pylist():
            found[row["class"]].add((row["group"], row["topic"], row["partition"]))
    return {
        "planted": sum(len(keys) for keys in pair.planted.values()),
        "found": sum(len(keys & found[class_]) for class_, keys in pair.planted.items()),
        "invented": sum(len(keys - pair.planted[class_]) for class_, keys in found.items()),
    }


def copied(root: Path) -> Path:
    """The files of ``a`` under another folder and a later manifest."""
    folder = root / "same"
    folder.mkdir()
    document = json.loads((root / "a" / MANIFEST).read_text())
    for entry in document["files"]:
        os.link(root / "a" / entry["file"], folder / entry["file"])
    manifest(folder, document["files"], TAKEN_MS + 1)
    return folder


def peer_python(given: Path | None) -> Path:
    """The interpreter of the peer's environment; made once."""
    folder = given or cache_root() / "bench" / "datacompy-1.1.0"
    python = folder / "bin" / "python"
    if not python.exists():
        uv = str(Path(sys.executable).parent / "uv")
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(folder)], check=True)
        subprocess.run([uv, "pip", "install", "-q", "--python", str(python), *_NEEDED], check=True)
    return python


def measure(root: Path, count: int, planted: int, peer: Path | None) -> dict[str, Any]:
    """All arms, one after the other."""
    print(f"  writing 3 snapshots of {count:,} rows", flush=True)
    pair = make(root, count, planted)
    full = compare(pair.before, pair.after, root / "full")
    theirs = datacompy(peer, pair, root / "datacompy") if peer else Ended()
    compare(pair.before, pair.after, root / "killed", kill_after_s=full.seconds / 2)
    kept = sorted(path.name for path in (root / "killed" / ".progress").glob("*"))
    resumed = compare(pair.before, pair.after, root / "killed")
    identical = compare(pair.before, root / "c", root / "identical")
    same = compare(pair.before, copied(root), root / "same-bytes")
    return {
        "rows": count,
        "peer_asked": peer is not None,
        "full": full.seconds,
        "resumed": resumed.seconds,
        "kept_at_kill": kept,
        "identical": identical.seconds,
        "same_bytes": same.seconds,
        "peak_mib": full.peak_mib,
        "cpu_s": {
            "full": full.cpu_s,
            "resumed": resumed.cpu_s,
            "identical": identical.cpu_s,
            "same_bytes": same.cpu_s,
            "peer": theirs.cpu_s,
        },
        "peer": theirs.seconds if theirs.code == 0 else None,
        "peer_said": [theirs.peak_mib, theirs.last],
        "judged": [judged(pair, root / name) for name in ("full", "killed")],
        "identical_verdict": json.loads((root / "identical" / "verdict.json").read_text())["verdict"],
    }


def aims(raw: dict[str, Any]) -> list[Aim]:
    """Ratios and shares of the full run."""
    full = raw["full"]
    shares = [one["found"] / one["planted"] for one in raw["judged"]]
    peer = raw["peer"] / full if raw["peer"] else 0.0
    asked = [Aim(name="datacompy_ratio", value=peer, aim=3.0, at_least=True)] if raw["peer_asked"] else []
    return [
        *asked,
        Aim(name="found_all", value=min(shares), aim=1.0, at_least=True),
        Aim(name="invented", value=max(one["invented"] for one in raw["judged"]), aim=0),
        Aim(name="resume_share", value=raw["resumed"] / full, aim=0.6),
        Aim(name="identical_share", value=raw["identical"] / full, aim=0.33),
        Aim(name="same_bytes_share", value=raw["same_bytes"] / full, aim=1.0),
        Aim(name="peak_mib", value=raw["peak_mib"], aim=6144),
    ]


def main() -> int:
    """Measure; see `measuring.report`."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--rows", type=int, default=20_000_000, help="rows of a snapshot")
    arguments.add_argument("--planted", type=int, default=1000, help="differences of each class")
    arguments.add_argument("--peer", type=Path, help="virtual environment with datacompy")
    arguments.add_argument("--without-peer", action="store_true", help="measure ours only")
    options = arguments.parse_args()
    peer = None if options.without_peer else peer_python(options.peer)
    root = Path(mkdtemp(prefix="groupshift-validate-"))
    try:
        raw = measure(root, options.rows, options.planted, peer)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report("validate", aims(raw), raw)


if __name__ == "__main__":
    sys.exit(main())
