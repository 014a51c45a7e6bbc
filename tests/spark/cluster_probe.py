"""A Spark job for the tests of cluster mode: executors say who they are and where they have our code from.

``spark-submit cluster_probe.py --output DIR`` writes ``where.json``, one entry a partition."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from groupshift.spark.session import local_session


def look(_rows: Iterator[int]) -> Iterator[dict[str, Any]]:
    """Runs on an executor."""
    import os
    import time
    from importlib.metadata import version
    from importlib.resources import files

    import groupshift
    from groupshift.spark.checks import SNAPSHOT_CHECKS

    checks = files("groupshift").joinpath("sql", "checks", "snapshot")
    time.sleep(0.5)  # so that no executor takes all partitions
    yield {
        "code": groupshift.__file__,
        "version": version("kafka-groupshift"),
        "checks": {
            check.statement: checks.joinpath(f"{check.statement}.sql").read_text()
            for check in SNAPSHOT_CHECKS
        },
        "folder": os.getcwd(),  # noqa: PTH109 - as the executor was started
        "python": sys.executable,
    }


def main() -> int:
    """Ask four partitions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    output = parser.parse_args().output
    spark = local_session("groupshift probe")
    found = spark.sparkContext.parallelize(range(4), 4).mapPartitions(look).collect()
    (output / "where.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
