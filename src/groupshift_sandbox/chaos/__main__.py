"""``make chaos SEED=7 MINUTES=30``: random faults on a real mixed group; the same seed, the same faults."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from groupshift_sandbox.artifacts import ALL, jars
from groupshift_sandbox.chaos.judgement import Judged, evidence
from groupshift_sandbox.chaos.run import ChaosOptions, run
from groupshift_sandbox.down import down
from groupshift_sandbox.home import Home

OWNED_S = 15.0


def main() -> int:
    """Exit code 0 when nothing was lost and nobody delivered what was not its own."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--rate", type=float, default=10.0, help="records/s on each partition")
    arguments = parser.parse_args()
    for artifact in ALL:
        jars(artifact)
    home = Home(Path(tempfile.mkdtemp(prefix="groupshift-chaos-")))
    options = ChaosOptions(seed=arguments.seed, seconds=arguments.minutes * 60, rate=arguments.rate)
    failed = True
    try:
        judged = run(home, options, lambda line: print(line, flush=True))
        idle = judged.written < options.enough
        failed = bool(judged.lost or judged.outside or judged.owned_s > OWNED_S or idle)
        show(judged)
    finally:
        down(home)
        if failed:
            print(
                f"kept for a look: {home.root}; again: "
                f"make chaos SEED={arguments.seed} MINUTES={arguments.minutes:g}"
            )
        else:
            shutil.rmtree(home.root, ignore_errors=True)
    return int(failed)


def show(judged: Judged) -> None:
    """Evidence, then figures."""
    print("\n".join(evidence(judged)))
    for name, value in (
        ("records written", judged.written),
        ("records delivered", judged.records),
        ("delivered again", judged.repeated),
        ("lost", len(judged.lost)),
        ("delivered without owning", len(judged.outside)),
        ("owned after the last fault", f"{judged.owned_s:.1f} s"),
        ("apart: in flight at SIGSTOP", len(judged.in_flight)),
        ("apart: session closed under it", len(judged.untold)),
        ("apart: lost by old members", len(judged.lost_old)),
        ("apart: old members without owning", len(judged.outside_old)),
    ):
        print(f"{name:34} {value}")


if __name__ == "__main__":
    sys.exit(main())
