"""Spark job: what ``__consumer_offsets`` says, as Parquet tables, from a dump, segment files or brokers.

``spark-submit read_coordinator_log.py (--dump DIR | --segments DIR | --brokers HOST:PORT,…) --partitions N
--output DIR [--up-to FILE] [--decoded] [--retention-ms N --now-ms N] [--properties FILE]``

Below ``--output``: ``raw.parquet`` (segments and brokers: what was read, once), ``commits.parquet``,
``foreign.parquet``, ``groups.parquet``, with ``--decoded`` ``decoded.parquet`` (every record, not only what
won), with ``--retention-ms`` ``retention.parquet``. Tables are put in place whole; those of an earlier run
are removed first; none of them can be the dump.
``--up-to`` names a JSON object of partition to end offset (exclusive): the state at that
position. ``--properties`` names a JSON object of librdkafka's security keys, never shown.

Exit code 0, 2 when an argument cannot be used, 4 when a disk is full or brokers do not answer, 5 when the
log or the dump is damaged. A table that was not finished is not left behind.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from groupshift.domain.seal import is_beside
from groupshift.errors import Broken, GroupshiftError, Rejected
from groupshift.foreign_files import opened
from groupshift.jobs import ended
from groupshift.spark import coordinator_log as states
from groupshift.spark.batches.coordinator_records import RAW_COLUMNS
from groupshift.spark.broker_source import Brokers, fetched
from groupshift.spark.coordinator_log import decoded
from groupshift.spark.output import columns, json_object, properties_of, room_in
from groupshift.spark.segments import SCHEMA, segments
from groupshift.spark.session import large_session

TABLES = ("raw", "decoded", "commits", "foreign", "groups", "retention")
_UNREADABLE = "FAILED_READ_FILE"
_FILE_READ = re.compile(r"reading file (?:file://)?(\S+?)\.?\s")


def _position(path: Path) -> Mapping[int, int]:
    """The position that ``--up-to`` names: partition to end offset, exclusive. Raises `Rejected`."""
    data = json_object(path, "--up-to")
    if not all(key.isdecimal() and isinstance(end, int) and end >= 0 for key, end in data.items()):
        raise Rejected(f"--up-to {path} must map partition numbers to end offsets of 0 or more")
    return {int(key): int(str(end)) for key, end in data.items()}


def _source(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    """Raw records of the source that was named. Raises as it, and `Rejected` for several clusters."""
    if arguments.dump is not None:
        return _dump(spark, arguments.dump)
    if arguments.segments is not None:
        return segments(spark, arguments.segments)
    brokers = Brokers(bootstrap_servers=arguments.brokers, properties=properties_of(arguments.properties))
    with closing(brokers.cluster()) as cluster:
        cluster.attempt(cluster.refuse_several)
    return fetched(spark, brokers)


def _whole(folder: str) -> None:
    """Look at the end of every file that Spark lists: all but what a desktop left. Raises `Rejected` for a
    folder that holds none, `Broken` for one that is cut off."""
    place = Path(folder)
    places = [place] if place.is_file() else sorted(place.rglob("*.parquet"))
    files = [path for path in places if path == place or not is_beside(path.relative_to(place).as_posix())]
    if not files:
        raise Rejected(f"--dump {folder} holds no Parquet file; give a folder of Parquet files")
    for path in files:
        try:
            with opened(path) as file:
                pq.read_metadata(file)
        except (pa.ArrowException, OSError, ValueError) as wrong:
            raise Broken(
                f"--dump {path} is not a whole Parquet file ({wrong}): truncated or altered; "
                "nothing was read; copy the dump again"
            ) from wrong


def _dump(spark: SparkSession, folder: str) -> DataFrame:
    """Raw records of a dump. Raises `Rejected` for another schema, `Broken` for a file that is cut off."""
    _whole(folder)
    frame = spark.read.parquet(folder)
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    for name, kind in columns(SCHEMA.replace("long", "bigint")).items():
        if types.get(name) != kind:
            raise Rejected(f"--dump {folder} has {types.get(name, 'no')} {name}; it must be {name} {kind}")
    return frame.select(*RAW_COLUMNS)


def _refuse_own_source(dump: str | None, output: Path) -> None:
    """Raises `Rejected` where the dump is among the tables that are removed first (``raw.parquet`` of an
    earlier run), or where they would be written into it."""
    if dump is None:
        return
    source, tables = Path(dump).resolve(), [(output / f"{table}.parquet").resolve() for table in TABLES]
    if source == output.resolve() or any(source == each or each in source.parents for each in tables):
        raise Rejected(f"--output {output} would replace --dump {dump}: name another folder with --output")


def _leave(frame: DataFrame, output: Path, table: str) -> Path:
    """Write beside the target, then rename onto it."""
    target, part = output / f"{table}.parquet", output / f"{table}.parquet.part"
    try:
        frame.write.mode("overwrite").parquet(str(part))
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _read(arguments: argparse.Namespace) -> None:
    """Read, decode and write every table that was asked for; the source is read once."""
    up_to = None if arguments.up_to is None else _position(arguments.up_to)
    spark = large_session("groupshift coordinator log")
    records = _source(spark, arguments)
    if arguments.dump is None:  # read once: a topic may be compacted meanwhile, files inflated twice
        records = spark.read.parquet(str(_leave(records, arguments.output, "raw")))
    if arguments.decoded:
        _leave(decoded(records, arguments.partitions), arguments.output, "decoded")
    best = states.winners(records, up_to).select(*RAW_COLUMNS).cache()
    commits = states.commits(decoded(best, arguments.partitions)).cache()
    _leave(commits, arguments.output, "commits")
    _leave(states.foreign(commits), arguments.output, "foreign")
    _leave(states.groups(best, arguments.partitions), arguments.output, "groups")
    if arguments.retention_ms is not None:
        clocks = {"retention_ms": arguments.retention_ms, "now_ms": arguments.now_ms}
        _leave(states.retention(best, arguments.partitions, **clocks), arguments.output, "retention")
    commits.unpersist()
    best.unpersist()


@contextmanager
def _readable() -> Iterator[None]:
    """Turn a Parquet file that Spark cannot read on into `Broken`."""
    try:
        yield
    except (PySparkException, Py4JError) as wrong:
        text = str(wrong)
        if _UNREADABLE not in text:
            raise
        named = _FILE_READ.search(text)
        raise Broken(
            f"--dump {named[1] if named else 'of this log'} cannot be read to its end: truncated or altered; "
            "copy the dump again"
        ) from wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Read, decode, materialise, write; returns the exit code (see the module text). Ends the process with
    code 2 for arguments that cannot be used."""
    parser = argparse.ArgumentParser(prog="read_coordinator_log", description="Read __consumer_offsets.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--dump", help="Parquet with partition, offset, timestamp_ms, key, value")
    source.add_argument("--segments", help="folder with __consumer_offsets-N/*.log as copied from a broker")
    source.add_argument("--brokers", help="bootstrap servers of a running cluster")
    parser.add_argument("--partitions", type=int, required=True, help="partition count that groups hash by")
    parser.add_argument("--output", type=Path, required=True, help="folder that gets the tables")
    parser.add_argument("--up-to", type=Path, help="JSON: partition to end offset, exclusive")
    parser.add_argument("--decoded", action="store_true", help="write every decoded record too")
    parser.add_argument("--retention-ms", type=int, help="offsets.retention.minutes in ms")
    parser.add_argument("--now-ms", type=int, default=0, help="the brokers' clock, for --retention-ms")
    parser.add_argument("--properties", type=Path, help="JSON: security keys for --brokers")
    arguments = parser.parse_args(argv)
    output: Path = arguments.output
    made = not output.exists()

    def run() -> str:
        try:
            _refuse_own_source(arguments.dump, output)
            with room_in(output, ""), _readable():
                output.mkdir(parents=True, exist_ok=True)
                for table in TABLES:
                    shutil.rmtree(output / f"{table}.parquet", ignore_errors=True)
                _read(arguments)
        except GroupshiftError:
            with suppress(OSError):
                if made:
                    output.rmdir()  # only where no table was finished
            raise
        return f"tables at {output}"

    return ended("read_coordinator_log", run)


if __name__ == "__main__":
    sys.exit(main())
