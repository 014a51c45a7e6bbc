"""Two cluster snapshots of 20 M (group, topic, partition) rows with 1,000 planted differences of every class.

Ours is measured in rounds, medians count:

* `found_all`, `invented`: the planted keys against the differences that `compare` leaves, class by class, of
  every full and every resumed run; the worst counts.
* `resume_share`: our job killed by SIGKILL at half the seconds of the full run, and run again: seconds
  of that second run over those of the full one, of the same round.
* `identical_share`: seconds for the same rows in reverse order and other files over the full run's;
  `same_bytes_share` (no aim): for the same files.
* `datacompy_ratio`: seconds of datacompy 1.1.0's Spark compare over ours: processes of their own on the same
  files, the same heap, the same two threads, from start of the interpreter to its end. The peer is ended
  after ``--peer-deadline`` seconds; it counts as if it had ended well then, so the ratio is a lower bound
  (`peer_cut_off` in the raw figures, and a line says so).
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
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow.parquet as pq
from measuring import Aim, median, report
from measuring.cluster_snapshots import CLASSES, TAKEN_MS, Pair, make, manifest

from groupshift.adapters.spark_submit.java import java_home
from groupshift.adapters.system import cache_root
from groupshift.domain.evidence import MANIFEST

_JOB = [sys.executable, "-m", "groupshift.jobs.compare"]
_PEER = Path(__file__).parent / "measuring" / "peer_datacompy.py"
_NEEDED = ("datacompy[spark]==1.1.0", "pyspark==4.2.0")
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


def run(command: list[str], scratch: Path, *, kill_after_s: float = float("inf")) -> Ended:
    """Run to its end, or to SIGKILL for its whole process group; Spark's own files go to ``scratch``."""
    began, peak = time.perf_counter(), 0.0
    spent: dict[str, float] = {}
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
    }
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
    ended = run(command, output.parent / "spark", **how)
    if ended.code not in {0, -signal.SIGKILL}:
        raise SystemExit(f"compare ended with {ended.code}: {ended.last}")
    print(
        f"  {output.name:12} {ended.seconds:8.1f} s {ended.cpu_s:8.1f} s cpu {ended.peak_mib:6.0f} MiB",
        flush=True,
    )
    return ended


def datacompy(peer: Path, pair: Pair, output: Path, deadline_s: float) -> Ended:
    """The peer on the same files; ended at its deadline."""
    command = [str(peer), str(_PEER), str(pair.before), str(pair.after), str(output)]
    ended = run(command, output.parent / "spark", kill_after_s=deadline_s)
    if ended.code not in {0, -signal.SIGKILL}:
        raise SystemExit(f"datacompy ended with {ended.code}: {ended.last}")
    said = ended.last if ended.code == 0 else f"cut off at {deadline_s:.0f} s: the ratio is a lower bound"
    shown = f"{ended.seconds:8.1f} s {ended.cpu_s:8.1f} s cpu {ended.peak_mib:6.0f} MiB {said}"
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


def one_round(root: Path, pair: Pair, copy: Path) -> dict[str, Any]:
    """Our arms, one after the other; figures by arm, and what was found."""
    for name in ("full", "killed", "identical", "same-bytes"):
        shutil.rmtree(root / name, ignore_errors=True)
    arms = {"full": compare(pair.before, pair.after, root / "full")}
    compare(pair.before, pair.after, root / "killed", kill_after_s=arms["full"].seconds / 2)
    if (root / "killed" / "verdict.json").exists():
        raise SystemExit("the job had ended before it was killed: nothing was resumed")
    kept = sorted(path.name for path in (root / "killed" / ".progress").glob("*"))
    arms["resumed"] = compare(pair.before, pair.after, root / "killed")
    arms["identical"] = compare(pair.before, root / "c", root / "identical")
    arms["same_bytes"] = compare(pair.before, copy, root / "same-bytes")
    verdicts = [
        json.loads((root / name / "verdict.json").read_text()) for name in ("identical", "same-bytes")
    ]
    return {
        "arms": {name: asdict(arm) for name, arm in arms.items()},
        "kept_at_kill": kept,
        "judged": [judged(pair, root / name) for name in ("full", "killed")],
        "equal": [(one["verdict"], one["settled_by"]) for one in verdicts],
    }


def measure(options: argparse.Namespace, root: Path, peer: Path | None) -> dict[str, Any]:
    """So many rounds, then the peer."""
    print(f"  writing 3 snapshots of {options.rows:,} rows", flush=True)
    pair = make(root, options.rows, options.planted)
    copy = copied(root)
    rounds = [one_round(root, pair, copy) for _ in range(options.rounds)]
    theirs = datacompy(peer, pair, root / "datacompy", options.peer_deadline) if peer else None
    return {
        "rows": options.rows,
        "planted": options.planted,
        "rounds": rounds,
        "peer": asdict(theirs) if theirs else None,
        "peer_cut_off": theirs is not None and theirs.code != 0,
    }


def aims(raw: dict[str, Any]) -> list[Aim]:
    """Ratios and shares of the full run, medians over the rounds."""

    def seconds(arm: str) -> float:
        return median([one["arms"][arm]["seconds"] for one in raw["rounds"]])

    def share(arm: str) -> float:
        return median([one["arms"][arm]["seconds"] / one["arms"]["full"]["seconds"] for one in raw["rounds"]])

    found = [each for one in raw["rounds"] for each in one["judged"]]
    wrong = [verdict for one in raw["rounds"] for verdict, _ in one["equal"] if verdict != "pass"]
    peaks = [arm["peak_mib"] for one in raw["rounds"] for arm in one["arms"].values()]
    ratio = raw["peer"]["seconds"] / seconds("full") if raw["peer"] else 0.0
    asked = [Aim(name="datacompy_ratio", value=ratio, aim=3.0, at_least=True)] if raw["peer"] else []
    return [
        *asked,
        Aim(
            name="found_all",
            value=min(one["found"] / one["planted"] for one in found),
            aim=1.0,
            at_least=True,
        ),
        Aim(name="invented", value=max(one["invented"] for one in found) + len(wrong), aim=0),
        Aim(name="resume_share", value=share("resumed"), aim=0.6),
        Aim(name="identical_share", value=share("identical"), aim=0.33),
        Aim(name="same_bytes_share", value=share("same_bytes"), aim=1.0),
        Aim(name="full_s", value=seconds("full"), aim=600),
        Aim(name="peak_mib", value=max(peaks), aim=6144),
    ]


def main() -> int:
    """Measure; see `measuring.report`."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--rows", type=int, default=20_000_000, help="rows of a snapshot")
    arguments.add_argument("--planted", type=int, default=1000, help="differences of each class")
    arguments.add_argument("--rounds", type=int, default=3, help="of our arms; medians count")
    arguments.add_argument("--peer-deadline", type=float, default=900.0, help="seconds")
    arguments.add_argument("--peer", type=Path, help="virtual environment with datacompy")
    arguments.add_argument("--without-peer", action="store_true", help="measure ours only")
    options = arguments.parse_args()
    peer = None if options.without_peer else peer_python(options.peer)
    root = Path(mkdtemp(prefix="groupshift-validate-"))
    try:
        raw = measure(options, root, peer)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return report("validate", aims(raw), raw)


if __name__ == "__main__":
    sys.exit(main())
