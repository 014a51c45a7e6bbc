"""Which way to decode coordinator records is the fast one: Catalyst's SQL, or the compiled loops.

Made-up records (`measuring.coordinator_records`) lie in a Parquet dump. Every round runs each contender once,
in one session, one after the other in turning order: other work on the machine meets all of them alike. Rows
of all are held against the decoder in Python first, for a part of the dump.

* `scan` only reads the columns, as a yardstick.
* `sql`, `compiled`: every column of every record as a frame of Spark's (``decoded``), given to nobody.
* `tasks`: the same by the compiled loops where the tasks read the dump, as they do with segments and brokers.
* `commits`: as `compiled`, but the loops know keys and commits only, and Python decodes all other values:
  what would be left without `coordinator_values` and `coordinator_json`.
* `sql_state`, `compiled_state`: the winners, decoded, as Spark's plans find them.

Wall time, and processor time of all processes; median, lowest and highest of the rounds after a first one.

Run in benchmarks/: python decode_ways.py --records 2000000 --rounds 7
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from decode import _BATCH, _JVM, checked, dropped
from measuring import fresh_home, machine, median
from measuring.coordinator_log import PARTITIONS
from measuring.log_contenders import TOPIC, _cpu_s, _family
from measuring.log_files import write_log
from measuring.parquet_log import read_dump

from groupshift.adapters.spark_submit.java import java_home
from groupshift.spark.batches import coordinator_records as loops
from groupshift.spark.coordinator_log import Way, decoded, decoding, winners
from groupshift.spark.session import large_session


def commits_only(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the compiled loops give where they know no value but a commit's."""
    for batch in batches:
        data, starts = loops._buffers(batch.column("key"))  # noqa: SLF001 - as they see them
        kinds = data[starts[:-1] + 1]
        known = (kinds < 2) | batch.column("value").is_null().to_numpy(zero_copy_only=False)
        yield from loops.decoded_batches(batch.filter(pa.array(known)), PARTITIONS)
        odd = batch.filter(pa.array(~known))
        columns = zip(*(odd.column(name).to_pylist() for name in loops.RAW_COLUMNS), strict=True)
        yield loops.by_python(
            (loops.LogRecord(**dict(zip(loops.RAW_COLUMNS, one, strict=True))) for one in columns), PARTITIONS
        )


def used() -> float:
    """Processor seconds of this process and all below it."""
    return sum(_cpu_s(pid) for pid in _family(os.getpid()))


def contenders(spark: Any, folder: str) -> dict[str, Callable[[], object]]:
    """By name; see the module text."""
    raw = spark.read.parquet(folder)

    def drop(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    return {
        "scan": lambda: drop(raw),
        "sql": lambda: drop(decoded(raw, PARTITIONS, way=Way.SQL)),
        "compiled": lambda: drop(decoded(raw, PARTITIONS)),
        "tasks": lambda: read_dump(spark, folder, dropped(decoding(PARTITIONS))).collect(),
        "commits": lambda: drop(raw.select(*loops.RAW_COLUMNS).mapInArrow(commits_only, loops.DECODED)),
        "sql_state": lambda: drop(decoded(winners(raw), PARTITIONS, way=Way.SQL)),
        "compiled_state": lambda: drop(decoded(winners(raw), PARTITIONS)),
    }


def main() -> int:
    """Make, check, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f'--driver-memory 2g --driver-java-options "{_JVM}" pyspark-shell'
    with fresh_home() as home:
        dump = home.root / "dump"
        write_log(home.root / "segments", TOPIC, given.records, dump)
        spark = large_session("decode-ways")
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", _BATCH)
        checked(spark)
        arms = contenders(spark, str(dump))
        names, found = list(arms), []
        for number in range(given.rounds + 1):
            turn = names[number % len(names) :] + names[: number % len(names)]
            one = {}
            for name in turn:
                before, begun = used(), time.perf_counter()
                arms[name]()
                one[name] = (time.perf_counter() - begun, used() - before)
            found.append(one)
            told = ", ".join(f"{name} {one[name][0]:.1f} s ({one[name][1]:.1f} cpu)" for name in names)
            print(f"  round {number}: {told}", flush=True)
        spark.stop()
    for name in names:
        walls, cpus = zip(*(one[name] for one in found[1:]), strict=True)
        print(
            f"{name:15} wall {median(walls):6.2f} s ({min(walls):.2f} to {max(walls):.2f}), "
            f"cpu {median(cpus):6.2f} s ({min(cpus):.2f} to {max(cpus):.2f}), "
            f"{given.records / median(walls):,.0f} records/s"
        )
    print(json.dumps({"machine": machine(), "records": given.records, "rounds": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
