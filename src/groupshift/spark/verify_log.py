"""A snapshot against the bytes of the log, in Spark: `groupshift.ports.log.LogVerification`.

Executors fetch the records from their leaders and decode them; what coordinators answer is not asked.
Source: docs/reference/group-coordinator.md §3.4 step 11.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from groupshift.adapters.parquet import compare_inputs
from groupshift.adapters.parquet.snapshots import files_of
from groupshift.domain.tables import shipped
from groupshift.domain.verdict import Verdict
from groupshift.errors import Broken, Transient
from groupshift.ports.spark_jobs import Compared
from groupshift.spark import coordinator_log as states
from groupshift.spark.broker_source import Brokers, fetched
from groupshift.spark.checks import to_json
from groupshift.spark.compare import differences
from groupshift.spark.coordinator_log import decoding
from groupshift.spark.output import room_in, write_text
from groupshift.spark.session import large_session

DIFFERENCES, VERDICT = "differences", "verdict.json"
_UNLIKE = "sql/checks/expansion/logged_as_kept.sql"
_SAID = 1_000
"""How many sentences are handed over; the folder has all."""
_WORDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLogVerification:
    """``java_home`` where the environment names none (empty: the Java on the PATH); ``memory`` is the heap of
    Spark's driver. The session stays for what this process does next."""

    brokers: Brokers
    java_home: str
    memory: str = "1g"

    def __call__(self, snapshot: Path, digest: str, count: int, output: Path) -> Compared:
        """See the port."""
        if self.java_home:
            os.environ.setdefault("JAVA_HOME", self.java_home)
        inputs = compare_inputs.verify(snapshot)
        if inputs.manifest.digest != digest:
            raise Broken(f"snapshot {snapshot} was altered since it was taken: nothing was compared")
        spark = large_session("groupshift verify", self.memory, brief=True)
        log = fetched(spark, self.brokers, decoding(count, winners=True))
        kept = differences.read(spark, inputs, "offsets")
        differing = unlike(differences.committed(kept), states.commits(log))
        shutil.rmtree(output, ignore_errors=True)
        with _whole(), room_in(output):  # every difference, then the verdict; the log is read once
            output.mkdir(parents=True)
            differing.write.parquet(str(output / DIFFERENCES))
            left = spark.read.parquet(str(output / DIFFERENCES))
            number, first = left.count(), left.orderBy("group", "topic", "partition").limit(_SAID).collect()
            verdict = Verdict.FAIL if number else Verdict.PASS
            document = {"version": 1, "verdict": verdict.value, "partitions": count, "differences": number}
            write_text(output / VERDICT, to_json(document))
            reasons = [f"{row.group!r} {row.topic}-{row.partition}: {row.reason}" for row in first]
            return Compared(verdict=verdict, reasons=tuple(reasons), files=files_of(output))


def unlike(kept: DataFrame, commits: DataFrame) -> DataFrame:
    """What of ``kept`` (`compare.differences.committed` of a snapshot) is not so in ``commits``
    (`coordinator_log.commits` of decoded winners), and the other way round: group, topic, partition, and the
    reason in words."""
    return kept.sparkSession.sql(shipped(_UNLIKE), kept=kept, commits=commits)


@contextmanager
def _whole() -> Iterator[None]:
    """Turn a job that did not end, because brokers stopped answering its tasks, into `Transient`."""
    try:
        yield
    except (PySparkException, Py4JError) as wrong:
        said = str(wrong).strip().partition("\n")[0][:_WORDS]
        raise Transient(f"Spark did not read the offsets topic to its end ({said}); run it again") from wrong
