"""What the members delivered and what ZooKeeper's log says about ownership, as frames and views.

Registers, in this order (columns as in ``sql/consumption/<view>.sql``)::

    deliveries     delivery, member, kind, topic, partition, offset, at_ms
    intervals      topic, partition, member, kind, thread_id, session, start_zxid, end_zxid, start_ms,
                   end_ms, ended
    offset_writes  topic, partition, offset, session, zxid, at_ms
    located, runs, tenures, hand_overs, duplicates      derived by SQL
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.audit import ownership, txnlog
from groupshift.audit.ownership import History, Interval
from groupshift.domain.foreign_json import load_json
from groupshift.domain.modes import MemberKind
from groupshift.domain.seal import is_beside
from groupshift.errors import Broken, Rejected
from groupshift.foreign_files import opened
from groupshift.spark.checks import statement
from groupshift.spark.output import write_parquet

STILL_HELD_MS = 9_007_199_254_740_991
"""Stands for the end of an interval that has not ended: later than any clock, exact in JSON."""

_LAST_LINE = 8 << 20
"""No delivery is longer (bytes)."""
_LEDGER = "member string, topic string, partition int, offset long, at_ms long, broken string"
_INTERVALS = {
    "topic": "string",
    "partition": "int",
    "member": "string",
    "kind": "string",
    "thread_id": "string",
    "session": "long",
    "start_zxid": "long",
    "end_zxid": "long",
    "start_ms": "long",
    "end_ms": "long",
    "ended": "string",
}
_WRITES = {
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "session": "long",
    "zxid": "long",
    "at_ms": "long",
}
_DERIVED = ("located", "runs", "tenures", "hand_overs", "duplicates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One group's history in the transaction log, and sentences about what the log lacks."""

    history: History
    files: int
    transactions: int
    problems: tuple[str, ...]


def read_log(folder: Path, group: str, chroot: str = "") -> Log:
    """The group's history from all ``log.*`` files of ``version-2`` (or of a folder that holds one).

    Raises `Rejected` when there is no such file, `Broken` when one is damaged before its end.
    """
    inner = folder / "version-2"
    where = inner if inner.is_dir() else folder
    paths = sorted(path for path in where.glob("log.*") if path.is_file())
    if not paths:
        raise Rejected(f"there is no ZooKeeper transaction log (log.*) in {where}; give its version-2 folder")
    files = [txnlog.parse(_bytes(path), path.name) for path in paths]
    transactions = txnlog.merge(files)
    history = ownership.history(transactions, group, chroot)
    holes = [
        f"transactions {one + 1:#x} to {other - 1:#x} are missing"
        for one, other in txnlog.missing(transactions)
    ]
    if transactions and transactions[0].zxid & 0xFFFFFFFF != 1:
        holes.insert(0, f"the log begins at {transactions[0].zxid:#x}: what was before is unknown")
    return Log(
        history=history,
        files=len(paths),
        transactions=len(transactions),
        problems=(*holes, *history.problems),
    )


def _interval(one: Interval, kinds: Mapping[str, MemberKind]) -> dict[str, Any]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "member": one.member_id,
        "kind": kinds.get(one.member_id, MemberKind.OLD).value,
        "thread_id": one.thread_id,
        "session": one.session,
        "start_zxid": one.start_zxid,
        "end_zxid": one.end_zxid,
        "start_ms": one.start_ms,
        "end_ms": STILL_HELD_MS if one.end_ms is None else one.end_ms,
        "ended": one.ended.value,
    }


def write_history(history: History, output: Path, until_ms: int) -> tuple[Path, Path]:
    """Owner intervals and offset writes up to `until_ms` as Parquet files below `output`."""
    intervals, writes = output / "intervals.parquet", output / "offset_writes.parquet"
    begun = [one for one in history.intervals if one.start_ms <= until_ms]
    write_parquet(intervals, [_interval(one, history.kinds) for one in begun], _INTERVALS)
    rows = [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "offset": one.offset,
            "session": one.session,
            "zxid": one.zxid,
            "at_ms": one.at_ms,
        }
        for one in history.offset_writes
        if one.at_ms <= until_ms
    ]
    write_parquet(writes, rows, _WRITES)
    return intervals, writes


def torn_ledgers(folder: Path) -> tuple[str, ...]:
    """Names of ledgers whose last line is incomplete, as a member killed while writing leaves it.

    Raises `Rejected` when the folder is not there.
    """
    if not folder.is_dir():
        raise Rejected(f"the folder of ledgers {folder} does not exist; give --ledgers an existing folder")
    return tuple(path.name for path in sorted(_ledgers(folder)) if _torn(path))


def _ledgers(folder: Path) -> Iterator[Path]:
    """Without what a desktop left beside them; Spark passes such names by, too."""
    return (path for path in folder.glob("*.jsonl") if not is_beside(path.name))


def _torn(path: Path) -> bool:
    last = _bytes(path, _LAST_LINE).rpartition(b"\n")[2]
    if not last:
        return False
    try:
        load_json(last, "it", at_most=_LAST_LINE)
    except Rejected:
        return True
    return False


def _bytes(path: Path, last: int | None = None) -> bytes:
    """A file, or its ``last`` bytes. Raises `Broken` for what cannot be read: a pipe would be waited for."""
    try:
        with opened(path) as file:
            if last is not None:
                file.seek(max(0, file.seek(0, SEEK_END) - last))
            return file.read()
    except OSError as wrong:
        raise Broken(f"{path} cannot be read ({wrong.strerror or wrong}): look at its folder") from wrong


def read_ledgers(spark: SparkSession, folder: Path, torn: Sequence[str]) -> DataFrame:
    """Every delivery of every ``*.jsonl`` of the folder; the last line of `torn` ledgers is left out.

    Raises `Broken`, naming the file and the line, when any other line is no delivery.
    """
    if not any(_ledgers(folder)):
        return spark.createDataFrame([], _LEDGER)
    reader = spark.read.schema(_LEDGER).option("mode", "PERMISSIVE")
    lines = (
        reader.option("columnNameOfCorruptRecord", "broken")
        .json(str(folder / "*.jsonl"))
        .withColumn("file", F.element_at(F.split(F.input_file_name(), "/"), -1))
        .cache()
    )
    wanted = ("member", "topic", "partition", "offset", "at_ms")
    empty = " or ".join(f"{name} is null" for name in wanted)
    bad = lines.where(F.col("broken").isNotNull() | F.expr(empty)).select("file", "broken").collect()
    forgiven = set(torn)
    for row in bad:
        if row["file"] not in forgiven:
            raise Broken(f"ledger {row['file']} has the line {row['broken']!r}, which is no delivery")
        forgiven.discard(row["file"])
    return lines.where(F.col("broken").isNull()).drop("broken", "file")


def register(
    spark: SparkSession,
    ledgers: DataFrame,
    history: tuple[Path, Path],
    kinds: Mapping[str, MemberKind],
    until_ms: int,
) -> None:
    """Register the three source views; deliveries after `until_ms` are left out.

    A member that ZooKeeper never saw below ``ids`` is a plain Kafka consumer.
    """
    known = F.lit(MemberKind.PLAIN.value)
    for member, kind in kinds.items():
        known = F.when(F.col("member") == member, kind.value).otherwise(known)
    deliveries = (
        ledgers.where(F.col("at_ms") <= until_ms)
        .withColumn("kind", known)
        .withColumn("delivery", F.monotonically_increasing_id())
        .cache()
    )
    deliveries.createOrReplaceTempView("deliveries")
    for name, path in zip(("intervals", "offset_writes"), history, strict=True):
        spark.read.parquet(str(path)).cache().createOrReplaceTempView(name)


def derive(spark: SparkSession, tolerance_ms: int) -> None:
    """Register the derived views; each is cached, for several others read it."""
    for name in _DERIVED:
        text = statement("consumption", name)
        arguments = {"tolerance_ms": tolerance_ms} if ":tolerance_ms" in text else None
        frame = spark.sql(text, args=arguments) if arguments else spark.sql(text)
        frame.cache().createOrReplaceTempView(name)
