"""One look of an audit in Spark: `groupshift.audit.ports.Comparison` over the log as the brokers hold it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from groupshift.audit.offsets import Looked, Mismatch, Reading
from groupshift.audit.rules import BY_NUMBER, Weight
from groupshift.audit.sources import UNKNOWN_TYPES, UNREADABLE_KEYS, told_problems, unsaid, untold
from groupshift.log import DecodeStatus
from groupshift.ports.log import LogProgress
from groupshift.spark import coordinator_state as states
from groupshift.spark.coordinator_columns import RAW_COLUMNS
from groupshift.spark.coordinator_log import decoded
from groupshift.spark.direct_log import DirectLog
from groupshift.spark.fetched import Brokers, fetched
from groupshift.spark.offsets import transforms
from groupshift.spark.offsets.frames import Sides, named, sides
from groupshift.spark.offsets.transforms import RULE, TOLD


class SparkComparison:
    """Executors read the log from the leaders, once, to their own disks; ``log`` is whose position was asked.

    A lost executor takes its part along: the job fails, and is run again."""

    def __init__(self, spark: SparkSession, brokers: Brokers, log: DirectLog) -> None:
        self._spark, self._brokers, self._log = spark, brokers, log

    def look(self, reading: Reading, told: LogProgress | None = None) -> Looked:
        """See the port; the differences, not the records, come through this process."""
        bounds = self._log.bounds(reading.closed, reading.partitions)
        total = sum(each.end - each.start for each in bounds)
        records = fetched(self._spark, self._brokers, bounds=bounds).select(*RAW_COLUMNS)
        once = _kept(records)
        if told is not None:
            told(total, total)
        return look(once, reading)


def look(records: DataFrame, reading: Reading) -> Looked:
    """Every key of any source held against the others: what `groupshift.audit.offsets.audit` finds.

    ``records`` are raw ones of `groupshift.spark.coordinator_columns.RAW`, read committed; they are read
    twice."""
    partitions, spark = len(reading.closed), records.sparkSession
    best = states.winners(records, reading.closed).select(*states.WINNERS)
    taken = decoded(best, partitions)
    if reading.groups is not None:
        taken = taken.join(named(spark, reading.groups), "group_id", "left_semi")
    told = sides(spark, reading)
    winners = _kept(taken)
    commits = _kept(states.commits(winners))
    keys = _kept(transforms.keys(commits, told))
    total = keys.count()
    found = _mismatches((records, winners, commits, keys), told, reading)
    away = commits.where("is_foreign").select("group_id", "src_partition").distinct().collect()
    problems = (*told_problems(reading.admin, reading.zookeeper or {}), *_unsaid(winners))
    groups = {one.group for one in found if one.weight is not Weight.EXPLAINED}
    return Looked(
        keys=total,
        agreeing=total - len(found),
        mismatches=found,
        problems=problems,
        unread=untold(reading.admin, reading.zookeeper or {}),
        kinds=Counter(one.kind for one in found),
        elsewhere=frozenset(row.src_partition for row in away if row.group_id in groups),
    )


_Log = tuple[DataFrame, DataFrame, DataFrame, DataFrame]


def _mismatches(log: _Log, told: Sides, reading: Reading) -> tuple[Mismatch, ...]:
    """The differing keys, classified; ``log`` is records, decoded winners, commits, keys."""
    records, winners, commits, keys = log
    partitions = len(reading.closed)
    differing = keys.where("NOT agrees").drop("agrees")
    past = (
        _kept(transforms.histories(records, winners, differing, told.opened, partitions)),
        transforms.silent(commits, told),
        transforms.overdue(winners, differing, reading.terms, partitions),
    )
    rows = transforms.classified(transforms.facts(differing, told, past, reading.terms))
    found = (_mismatch(row) for row in rows.toArrow().to_pylist())
    return tuple(sorted(found, key=lambda one: one.key))


def _mismatch(row: dict[str, Any]) -> Mismatch:
    rule = BY_NUMBER[row[RULE]]
    return Mismatch(
        group=row["group_id"],
        topic=row["topic"],
        partition=row["partition"],
        kind=rule.kind,
        weight=rule.weight,
        rule=rule.number,
        reason=rule.reason,
        remedy=rule.remedy,
        **{name: row[name] for name in TOLD},
    )


def _unsaid(winners: DataFrame) -> Iterator[str]:
    """Sentences about what in the log says nothing."""
    unknown = f"decode_status = '{DecodeStatus.UNKNOWN_TYPE}'"
    for what, which in (
        (UNREADABLE_KEYS, f"group_id IS NULL AND NOT {unknown}"),
        (UNKNOWN_TYPES, unknown),
    ):
        first = "min(struct(src_partition, src_offset)) AS first"
        (row,) = winners.where(which).selectExpr("count(*) AS keys", first).collect()
        if row["keys"]:
            yield unsaid(what, row["keys"], (row["first"][0], row["first"][1]))


def _kept(frame: DataFrame) -> DataFrame:
    """Computed now and once, on the executors' disks. What follows plans with the rows and not with how they
    came about: plans that hold plans cost the driver more than the work itself."""
    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
