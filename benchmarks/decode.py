"""How fast coordinator records are decoded, and a log becomes a state table, against the release's dump tool.

Made-up records (`measuring.coordinator_records`) lie in segment files of 50 partitions, batches of 1 to 20
records, and in a Parquet dump; a KRaft broker 4.3.1 serves the very same files. All of it was just written:
it is in memory for everyone. The dump tool finds every batch of a tenth as many records valid before anything
is measured, and the rows are those of the decoder in Python for a part of the dump.

Every contender is a process of its own, starts of Java and Spark included; rounds of all follow each other.
Ours find what the first run of an environment leaves to later ones: the compiled loops (ADR 10) and Spark's
classes (docs/reference/spark.md); what that run costs is not counted.

* `dump`, the peer: ``DumpLogSegments --offsets-decoder`` of kafka-tools 4.3.1 over all files, its text thrown
  away.
* `segments`, `broker`: the newest record of each key, decoded: one row a key, as Parquet.
  ``segments_ratio``, ``broker_ratio``: time of the peer over ours, median of the rounds. Their tables must be
  equal in every round; once, so must be the one that Spark makes of the Parquet dump (`parquet`, a figure).
* ``decode_rate``: records a second from Parquet to every decoded column of *every* record, which the tasks
  count and drop. ``state_rate``: records a second from Parquet to the state table. Planning counts, starts
  do not; medians of the rounds after a first one. `scan` only reads the columns, as a yardstick.
* ``growth_50m``: time of `segments` over five times as many records, over its median for the fewer.
  ``memory_ratio``: highest resident set of its driver (Python and JVM), over that for a tenth as many.

Run: make bench BENCH=decode (about 10 GB of temporary files)
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from measuring import Aim, fresh_home, median, report
from measuring.coordinator_log import PARTITIONS
from measuring.coordinator_records import chunk
from measuring.log_contenders import TOPIC, dump, ours, validated
from measuring.log_files import write_log
from measuring.log_server import end, serve
from measuring.parquet_log import read_dump, write_by_tasks

from groupshift.adapters.spark_submit.java import java_home
from groupshift.spark.batches.coordinator_records import by_python, log_records
from groupshift.spark.coordinator_log import decoded, decoding
from groupshift.spark.segments import Into
from groupshift.spark.session import large_session
from groupshift_sandbox.artifacts import TOOLS, jars
from groupshift_sandbox.home import Home

CHECKED, FEWER, MORE = 4_000, 10, 5
_BATCH = "50000"
_JVM = "-XX:+UseParallelGC -XX:-UsePerfData"


def checked(spark: Any) -> None:
    """The compiled decoder gives what the one in Python gives."""
    table = chunk(17, CHECKED, seed=9).table()
    wanted = {row["src_offset"]: row for row in by_python(log_records(table), PARTITIONS).to_pylist()}
    found = decoded(spark.createDataFrame(table), PARTITIONS).toArrow()
    got = {row["src_offset"]: row for row in pa.Table.to_pylist(found)}
    wrong = [offset for offset in wanted if wanted[offset] != got.get(offset)]
    assert not wrong, f"{len(wrong)} of {CHECKED} rows differ, first {wanted[wrong[0]]}"


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def dropped(into: Into) -> Into:
    """``into``, its rows counted where they are made, and given to nobody."""
    convert = into.convert

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"rows": [sum(len(batch) for batch in convert(batches))]})

    return replace(into, schema="rows long", convert=count)


def decoding_rounds(folder: Path, output: Path, rounds: int) -> list[dict[str, float]]:
    """Rounds of seconds: `scan`, `decode` and `state` of the dump in one session; the first warms up."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-memory 2g --driver-java-options "{_JVM}" pyspark-shell'
    spark = large_session("decode")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _BATCH)
    checked(spark)
    every, state = decoding(PARTITIONS), decoding(PARTITIONS, winners=True)
    raw = spark.read.parquet(str(folder))
    records = raw.count()

    def decode() -> None:
        counted = sum(row.rows for row in read_dump(spark, str(folder), dropped(every)).collect())
        assert counted == records, f"{counted} of {records} records were decoded"

    contenders: dict[str, Callable[[], object]] = {
        "scan": lambda: raw.write.format("noop").mode("overwrite").save(),
        "decode": decode,
        "state": lambda: write_by_tasks(lambda into: read_dump(spark, str(folder), into), state, output),
    }
    found = []
    for number in range(rounds + 1):
        found.append({name: seconds(work) for name, work in contenders.items()})
        print(f"  parquet {number}: " + ", ".join(f"{n} {s:.1f} s" for n, s in found[-1].items()), flush=True)
    spark.stop()
    return found


def state(output: Path) -> pa.Table:
    """A state table in log order."""
    table = ds.dataset(output, format="parquet").to_table()
    assert len(table)
    return table.sort_by([("src_partition", "ascending"), ("src_offset", "ascending")]).combine_chunks()


def source_rounds(home: Home, folder: Path, bootstrap: str, rounds: int) -> list[dict[str, Any]]:
    """Rounds of the peer, segments and broker."""
    output, found = home.root / "state", []
    for number in range(rounds):
        one: dict[str, Any] = {"dump": dump(folder), "segments": ours("segments", str(folder), output)}
        table = state(output)
        one["broker"] = ours("broker", bootstrap, output)
        assert table.equals(state(output)), "the state tables of segments and broker differ"
        found.append({**one, "keys": len(table)})
        print(f"  round {number + 1}: {_said(one)}", flush=True)
    return found


def _said(figures: dict[str, Any]) -> str:
    return ", ".join(f"{arm} {of['wall_s']:.1f} s ({of['cpu_s']:.1f} cpu)" for arm, of in figures.items())


def from_parquet(home: Home, folder: Path, dump_folder: Path) -> tuple[dict[str, Any], pa.Table]:
    """Once: the state that Spark's plans make of the dump, equal to that of the segments."""
    output = home.root / "state"
    figures = ours("parquet", str(dump_folder), output)
    table = state(output)
    ours("segments", str(folder), output)
    assert table.equals(state(output)), "the state tables of segments and Parquet differ"
    print(f"  {_said({'parquet': figures})}", flush=True)
    return figures, table


def sized(home: Home, records: int, *, check: bool) -> dict[str, Any]:
    """`segments` over a log of so many records."""
    folder = home.root / f"segments-{records}"
    size = write_log(folder, TOPIC, records)
    if check:
        validated(folder, records)
        ours("segments", str(folder), home.root / "state")  # compiles what is not compiled yet
    figures = ours("segments", str(folder), home.root / "state")
    shutil.rmtree(folder)
    print(f"  {records:,} records, {size / 2**20:,.0f} MiB: {_said({'segments': figures})}", flush=True)
    return figures


def measure(home: Home, records: int, rounds: int) -> dict[str, Any]:
    """All figures."""
    folder, dump_folder = home.root / "segments", home.root / "dump"
    few = sized(home, records // FEWER, check=True)
    size = write_log(folder, TOPIC, records, dump_folder)
    print(f"  {records:,} records, {size / 2**20:,.0f} MiB of segments", flush=True)
    cluster = serve(home, folder)
    found = source_rounds(home, folder, cluster.bootstrap, rounds)
    end(home)
    shutil.rmtree(cluster.nodes[0].folder)
    parquet, table = from_parquet(home, folder, dump_folder)
    shutil.rmtree(folder)
    decoding_s = decoding_rounds(dump_folder, home.root / "state", rounds)
    assert table.equals(state(home.root / "state")), "the state tables of segments and dump differ"
    shutil.rmtree(dump_folder)
    many = sized(home, records * MORE, check=False)
    return {
        "records": records,
        "rounds": found,
        "parquet": parquet,
        "decoding": decoding_s,
        "few": few,
        "many": many,
    }


def aims(figures: dict[str, Any]) -> list[Aim]:
    """Medians; ratios within a round."""
    rounds: Sequence[dict[str, Any]] = figures["rounds"]

    def ratio(arm: str) -> float:
        return median([each["dump"]["wall_s"] / each[arm]["wall_s"] for each in rounds])

    few, many = figures["few"], figures["many"]
    usual = median([each["segments"]["wall_s"] for each in rounds])

    def rate(arm: str) -> float:
        return float(figures["records"]) / median([each[arm] for each in figures["decoding"][1:]])

    return [
        Aim(name="decode_rate", value=rate("decode"), aim=1e6, at_least=True),
        Aim(name="state_rate", value=rate("state"), aim=1e6, at_least=True),
        Aim(name="segments_ratio", value=ratio("segments"), aim=3, at_least=True),
        Aim(name="broker_ratio", value=ratio("broker"), aim=1.5, at_least=True),
        Aim(name="growth_50m", value=many["wall_s"] / usual, aim=5.5),
        Aim(name="memory_ratio", value=many["memory_kib"] / few["memory_kib"], aim=1.2),
    ]


def main() -> int:
    """Make, check, measure, judge; see `measuring.report`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    jars(TOOLS)
    with fresh_home() as home:
        figures = measure(home, given.records, given.rounds)
    return report("decode", aims(figures), figures)


if __name__ == "__main__":
    sys.exit(main())
