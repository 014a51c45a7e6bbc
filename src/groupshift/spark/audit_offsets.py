"""One comparison of an audit in Spark: `groupshift.audit.run.Comparison` over the log at the brokers.

What coordinators answer and what ZooKeeper holds within one bracket become frames. The transforms take frames
and return frames; each is one statement of ``sql/audit``. Only records that matter are decoded: the winner of
each key, then the recent past of the keys that differ. What each source says of those, and the facts about
them, come to the driver, where `groupshift.audit.offsets.judge` chooses the rule as it does without Spark.

Source: docs/reference/group-coordinator.md §1.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from groupshift.audit.inputs import KEPT, Terms
from groupshift.audit.offsets import Looked, Mismatch, Reading, judge, looked_at, mismatch
from groupshift.audit.sources import (
    ENOUGH_TO_BE_SILENT,
    UNKNOWN_TYPES,
    UNREADABLE_KEYS,
    asked_in_full,
    unsaid,
)
from groupshift.domain.commit_places import Stray
from groupshift.domain.tables import shipped
from groupshift.log import DecodeStatus
from groupshift.ports.log import LogProgress
from groupshift.spark import coordinator_log as states
from groupshift.spark.batches.coordinator_records import RAW_COLUMNS
from groupshift.spark.broker_source import Brokers, fetched
from groupshift.spark.coordinator_log import decoded
from groupshift.spark.copied_log import DirectLog
from groupshift.spark.output import arrow_columns


def compared(
    spark: SparkSession, brokers: Brokers, log: DirectLog, reading: Reading, progress: LogProgress
) -> Looked:
    """A `groupshift.audit.run.Comparison`: executors read the log from the leaders, once, to their own disks;
    ``log`` is whose position was asked. Only differences come through this process.

    A lost executor takes its part along: the job fails, and is run again. Raises as `fetched`."""
    bounds = log.bounds(reading.closed, reading.partitions)
    total = sum(each.end - each.start for each in bounds)
    once = _kept(fetched(spark, brokers, bounds=bounds).select(*RAW_COLUMNS))
    progress(total, total)
    return look(once, reading)


def look(records: DataFrame, reading: Reading) -> Looked:
    """Every key of any source held against the others: what `groupshift.audit.offsets.audit` finds.

    ``records`` are raw ones of `groupshift.spark.segments.SCHEMA`, read committed; they are
    read twice."""
    partitions, spark = len(reading.closed), records.sparkSession
    best = states.winners(records, reading.closed).select(*RAW_COLUMNS)
    taken = decoded(best, partitions)
    if reading.groups is not None:
        taken = taken.join(_groups(spark, reading.groups), "group_id", "left_semi")
    frames = sides(spark, reading)
    frames["decoded"] = winners = _kept(taken)
    frames["commits"] = commits = _kept(states.commits(winners))
    frames["elsewhere"] = _run("elsewhere", frames)
    keys = _kept(_run("keys", frames))
    mismatches = _mismatches({**frames, "records": records, "keys": keys}, reading)
    away = commits.where("is_foreign").select("group_id", "src_partition").distinct().collect()
    return looked_at(reading, mismatches, keys=keys.count(), unsaid=_unsaid(winners), away=map(tuple, away))


def _mismatches(frames: Mapping[str, DataFrame], reading: Reading) -> tuple[Mismatch, ...]:
    """The keys that differ, each with the rule that speaks; ``frames`` are those of every source by name."""
    partitions, terms = len(reading.closed), reading.terms
    differing = frames["keys"].where("NOT agrees").drop("agrees")
    used = {**frames, "keys": differing, "differing": differing}
    recent = decoded(_run("recent", used, kept=KEPT), partitions)
    used["histories"] = _kept(_run("histories", {"decoded": recent}))
    used["silent"] = _run("silent", used, enough=ENOUGH_TO_BE_SILENT)
    used["overdue"] = _overdue(frames["decoded"], differing, terms, partitions)
    used["bracket"] = _run("bracket", used)
    retention_ms, interval_ms = terms.retention_ms, terms.commit_interval_ms
    facts = _run("facts", used, now_ms=terms.now_ms, interval_ms=interval_ms, retention_ms=retention_ms)
    rows = (row for batch in facts.toArrow().to_batches() for row in batch.to_pylist())
    mismatches = (
        mismatch((row["group_id"], row["topic"], row["partition"]), rule, row)
        for row in rows
        if (rule := judge(row)) is not None
    )
    return tuple(sorted(mismatches, key=lambda one: one.key))


def _unsaid(winners: DataFrame) -> Iterator[str]:
    """Sentences about what in the log says nothing."""
    unknown = f"decode_status = '{DecodeStatus.UNKNOWN_TYPE}'"
    unreadable = f"group_id IS NULL AND NOT {unknown}"
    for what, which in ((UNREADABLE_KEYS, unreadable), (UNKNOWN_TYPES, unknown)):
        first = "min(struct(src_partition, src_offset)) AS first"
        (row,) = winners.where(which).selectExpr("count(*) AS keys", first).collect()
        if row["keys"]:
            yield unsaid(what, row["keys"], (row["first"][0], row["first"][1]))


def _kept(frame: DataFrame) -> DataFrame:
    """Computed now and once, on the executors' disks. What follows plans with the rows and not with how they
    came about: plans that hold plans cost the driver more than the work itself."""
    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)


_STRAYS = (Stray.FORMER_TOPIC, Stray.NO_PARTITION, Stray.EPOCH_ABOVE, Stray.EPOCH_LOW)
_KEY = "group_id string, topic string, partition int"
_COLUMNS = {
    "answers": f"{_KEY}, offset bigint, leader_epoch int, metadata string, "
    "former boolean, lacking boolean, epoch_above boolean, epoch_low boolean",
    "ends": "topic string, partition int, log_start bigint, log_end bigint",
    "topics": "topic string, topic_id string",
    "opened": "partition int, opened bigint",
    "ensemble": "group_id string, mode string, members int, aware int, troubled boolean",
    "nodes": f"{_KEY}, offset bigint",
}
_answer = attrgetter("group", "topic", "partition", "offset", "leader_epoch", "metadata")


def sides(spark: SparkSession, reading: Reading) -> dict[str, DataFrame]:
    """All sources but the log as frames, by the names that statements use. They come from this process and
    need no folder that workers see.

    ``answers`` are committed offsets as the coordinators tell them, ``asked`` the groups of which they told
    all, ``ends`` the topics' log starts and ends, ``topics`` their ids now, ``opened`` the position of the
    coordinators' log before they were asked; ``ensemble`` is one row a group in ZooKeeper, ``nodes`` one an
    offset node."""
    admin, zookeeper = reading.admin, reading.zookeeper or {}
    strays = [(row, admin.topics.strays(row) if row.offset >= 0 else frozenset()) for row in admin.offsets]
    rows: dict[str, Iterable[tuple[Any, ...]]] = {
        "answers": ((*_answer(row), *(each in kinds for each in _STRAYS)) for row, kinds in strays),
        "ends": map(attrgetter("topic", "partition", "log_start", "log_end"), admin.log_ends),
        "topics": map(attrgetter("topic", "topic_id"), admin.topics.now.values()),
        "opened": reading.opened.items(),
        "ensemble": (
            (group, side.mode.value, side.members, side.aware, bool(side.problems))
            for group, side in zookeeper.items()
        ),
        "nodes": (
            (group, *at, offset) for group, side in zookeeper.items() for at, offset in side.offsets.items()
        ),
    }
    frames = {name: _frame(spark, columns, rows[name]) for name, columns in _COLUMNS.items()}
    return {**frames, "asked": _groups(spark, asked_in_full(admin))}


def _groups(spark: SparkSession, groups: Iterable[str]) -> DataFrame:
    return _frame(spark, "group_id string", ((group,) for group in sorted(groups)))


def _frame(spark: SparkSession, columns: str, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    """Rows of these ``columns`` (``name type, name type``)."""
    schema, listed = pa.schema(arrow_columns(columns)), list(rows)
    arrays = [pa.array([row[at] for row in listed], kind) for at, kind in enumerate(schema.types)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))


def _overdue(winners: DataFrame, differing: DataFrame, terms: Terms, partitions: int) -> DataFrame:
    """The keys whose retention is over, of groups with a commit that is not answered."""
    unanswered = "coalesce(answer_offset, -1) < 0 AND winner_offset >= 0"
    if terms.retention_ms is None:
        unanswered = "false"
    groups = differing.where(unanswered).select("group_id").distinct()
    names = ("src_partition", "src_offset", "record_ts", "raw_key", "raw_value")
    raw = winners.join(groups, "group_id", "left_semi").select(*names).toDF(*RAW_COLUMNS)
    risks = states.retention(raw, partitions, retention_ms=terms.retention_ms or 0, now_ms=terms.now_ms)
    return risks.where("overdue").select("group_id", "topic", "partition")


def _run(name: str, frames: Mapping[str, DataFrame], **args: Any) -> DataFrame:
    """A statement over these frames, with these values bound."""
    spark = next(iter(frames.values())).sparkSession
    return spark.sql(shipped(f"sql/audit/{name}.sql"), args=args, **frames)
