"""How fast coordinator records are decoded: Parquet in, every decoded column out, in both ways.

Made-up records (`measuring.coordinator_log`) lie in a Parquet dump. One Spark session of two threads and 2 GB
decodes all of them into a sink that drops the rows, planning included; a first round on the same files, whose
time is kept apart, compiles what the JVM and numba compile. `scan` only reads the columns, as a yardstick.

* ``decode_rate``: records a second of `Way.COMPILED`, median of the rounds.
* ``sql_rate``: of `Way.SQL`, shown, without an aim.

Before anything is measured both ways must give the same rows for a part of the dump, and those must be the
rows of the decoder in Python.

Run: make bench BENCH=decode
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from measuring import Aim, median, report
from measuring.coordinator_log import PARTITIONS, chunk, write_parquet

from groupshift.domain.coordinator_log import LogRecord
from groupshift.spark.comparison.session import large_session
from groupshift.spark.coordinator_columns import RAW_COLUMNS, by_python
from groupshift.spark.coordinator_log import Way, decoded

CHECKED = 4_000
_BATCH = "50000"
# Without the last one the JVM would interpret the SQL way's generated method, which is beyond 8,000 bytes.
_JVM = "-XX:+UseParallelGC -XX:-UsePerfData -XX:-DontCompileHugeMethods"


def checked(spark: Any) -> None:
    """Both ways give what the decoder in Python gives."""
    table = chunk(17, CHECKED, seed=9).table()
    rows = zip(*(table.column(name).to_pylist() for name in RAW_COLUMNS), strict=True)
    records = [LogRecord(**dict(zip(RAW_COLUMNS, row, strict=True))) for row in rows]
    wanted = {row["src_offset"]: row for row in by_python(records, PARTITIONS).to_pylist()}
    for way in Way:
        found = decoded(spark.createDataFrame(table), PARTITIONS, way=way).toArrow()
        got = {row["src_offset"]: row for row in pa.Table.to_pylist(found)}
        wrong = [offset for offset in wanted if wanted[offset] != got.get(offset)]
        assert not wrong, f"{way}: {len(wrong)} of {CHECKED} rows differ, first {wanted[wrong[0]]}"


def seconds(frame: Any) -> float:
    """Every column of every row, given to nobody; ``frame`` makes the frame, for planning counts."""
    begun = time.perf_counter()
    frame().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def measure(folder: Path, rounds: int) -> list[dict[str, float]]:
    """Rounds of {contender: seconds}; the first one is the warm-up."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-memory 2g --driver-java-options "{_JVM}" pyspark-shell'
    spark = large_session("decode")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _BATCH)
    checked(spark)
    raw = spark.read.parquet(str(folder))
    contenders = {
        "scan": lambda: raw,
        "compiled": lambda: decoded(raw, PARTITIONS),
        "sql": lambda: decoded(raw, PARTITIONS, way=Way.SQL),
    }
    found = []
    for number in range(rounds + 1):
        found.append({name: seconds(frame) for name, frame in contenders.items()})
        print(f"  round {number}: " + ", ".join(f"{n} {s:.1f} s" for n, s in found[-1].items()), flush=True)
    spark.stop()
    return found


def main() -> int:
    """Make, check, measure, judge."""
    parser = argparse.ArgumentParser(description="Decode coordinator records from Parquet.")
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groupshift-bench-") as root:
        folder = Path(root) / "dump"
        print(f"  writing {given.records:,} records", flush=True)
        write_parquet(folder, given.records)
        found = measure(folder, given.rounds)
    rates = {name: given.records / median([each[name] for each in found[1:]]) for name in found[0]}
    print("  records a second: " + ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items()))
    aims = [Aim(name="decode_rate", value=rates["compiled"], aim=1e6, at_least=True)]
    return report("decode", aims, {"records": given.records, "rates": rates, "rounds": found})


if __name__ == "__main__":
    sys.exit(main())
