"""One comparison of an audit in Spark: `groupshift.audit.run.Comparison` over the log at the brokers.

What coordinators answer and what ZooKeeper holds within one bracket become frames. The transforms take frames
and return frames; each is one statement of ``sql/audit``. Only records that matter are decoded: the winner of
each key, then the recent past of the keys that differ. The rules are those of `groupshift.audit.rules`.

Source: docs/reference/group-coordinator.md §1.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses
from pyspark.storagelevel import StorageLevel

from groupshift.audit.case import KEPT, Terms, ZookeeperGroup
from groupshift.audit.offsets import Looked, Mismatch, Reading
from groupshift.audit.rules import BY_NUMBER, KAFKA_RULES, STORE_RULES, AuditRule, Weight
from groupshift.audit.sources import (
    ENOUGH_TO_BE_SILENT,
    UNKNOWN_TYPES,
    UNREADABLE_KEYS,
    told_problems,
    unsaid,
    untold,
)
from groupshift.domain.commit_places import Stray
from groupshift.domain.rows import ClusterState
from groupshift.domain.tables import shipped
from groupshift.log import DecodeStatus
from groupshift.ports.log import LogProgress
from groupshift.spark import coordinator_log as states
from groupshift.spark.batches.coordinator_records import RAW_COLUMNS
from groupshift.spark.broker_source import Brokers, fetched
from groupshift.spark.coordinator_log import decoded
from groupshift.spark.copied_log import DirectLog
from groupshift.spark.session import arrow_schema

RULE = "rule"
"""Column with the number of the rule that speaks."""
TOLD = (
    "answered",
    "logged",
    "zookeeper",
    "mode",
    "log_partition",
    "log_offset",
    "foreign_partition",
    "foreign_offset",
    "log_end",
)
"""What the sources say of a key, by the fields of `groupshift.audit.offsets.Mismatch`."""


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

    ``records`` are raw ones of `groupshift.spark.segments.SCHEMA`, read committed; they are
    read twice."""
    partitions, spark = len(reading.closed), records.sparkSession
    best = states.winners(records, reading.closed).select(*RAW_COLUMNS)
    taken = decoded(best, partitions)
    if reading.groups is not None:
        taken = taken.join(named(spark, reading.groups), "group_id", "left_semi")
    told = sides(spark, reading)
    winners = _kept(taken)
    commits = _kept(states.commits(winners))
    keys = _kept(audit_keys(commits, told))
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
        _kept(audit_histories(records, winners, differing, told.opened, partitions)),
        audit_silent(commits, told),
        audit_overdue(winners, differing, reading.terms, partitions),
    )
    rows = audit_classified(audit_facts(differing, told, past, reading.terms))
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


_STRAYS = (Stray.FORMER_TOPIC, Stray.NO_PARTITION, Stray.EPOCH_ABOVE, Stray.EPOCH_LOW)
_KEY = "group_id string, topic string, partition int"
_ANSWERS = (
    f"{_KEY}, offset bigint, leader_epoch int, metadata string, "
    "former boolean, lacking boolean, epoch_above boolean, epoch_low boolean"
)
_ENDS = "topic string, partition int, log_start bigint, log_end bigint"
_ENSEMBLE = "group_id string, mode string, members int, aware int, troubled boolean"
_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """All sources but the log. ``answers`` are committed offsets as the coordinators tell them, ``asked`` the
    groups of which they told all, ``ends`` the topics' log starts and ends, ``topics`` their ids now,
    ``opened`` the position of the coordinators' log before they were asked; ``ensemble`` is one row a group
    in ZooKeeper, ``nodes`` one an offset node."""

    answers: DataFrame
    asked: DataFrame
    ends: DataFrame
    topics: DataFrame
    opened: DataFrame
    ensemble: DataFrame
    nodes: DataFrame


def sides(spark: SparkSession, reading: Reading) -> Sides:
    """The frames of one reading; they come from this process and need no folder that workers see."""
    admin, zookeeper = reading.admin, reading.zookeeper or {}
    return Sides(
        answers=frame(spark, _ANSWERS, _answers(admin)),
        asked=named(spark, _asked(admin)),
        ends=frame(
            spark, _ENDS, ((row.topic, row.partition, row.log_start, row.log_end) for row in admin.log_ends)
        ),
        topics=frame(
            spark,
            "topic string, topic_id string",
            ((each.topic, each.topic_id) for each in admin.topics.now.values()),
        ),
        opened=frame(spark, "partition int, opened bigint", reading.opened.items()),
        ensemble=frame(spark, _ENSEMBLE, _ensemble(zookeeper)),
        nodes=frame(spark, f"{_KEY}, offset bigint, mtime_ms bigint", _nodes(zookeeper)),
    )


def named(spark: SparkSession, groups: Iterable[str]) -> DataFrame:
    """One row a group: ``group_id``."""
    return frame(spark, "group_id string", ((each,) for each in groups))


def frame(spark: SparkSession, columns: str, rows: Iterable[_Row]) -> DataFrame:
    """Rows of this process as a frame with these columns (``name type, name type``)."""
    schema, found = arrow_schema(columns), list(rows)
    arrays = [pa.array([row[at] for row in found], kind) for at, kind in enumerate(schema.types)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))


def _answers(admin: ClusterState) -> Iterable[_Row]:
    for row in admin.offsets:
        found = admin.topics.strays(row) if row.offset >= 0 else ()
        strays = (each in found for each in _STRAYS)
        yield row.group, row.topic, row.partition, row.offset, row.leader_epoch, row.metadata, *strays


def _asked(admin: ClusterState) -> set[str]:
    troubled = {row.group for row in admin.problems if row.group is not None}
    return {row.group for row in admin.groups} - troubled


def _ensemble(zookeeper: Mapping[str, ZookeeperGroup]) -> Iterable[_Row]:
    for group, side in zookeeper.items():
        yield group, side.mode.value, side.members, side.aware, bool(side.problems)


def _nodes(zookeeper: Mapping[str, ZookeeperGroup]) -> Iterable[_Row]:
    for group, side in zookeeper.items():
        for (topic, partition), node in side.offsets.items():
            yield group, topic, partition, node.offset, node.mtime_ms


def audit_keys(commits: DataFrame, sides: Sides) -> DataFrame:
    """Every (group, topic, partition) of any source with what each says, and whether they plainly agree.

    ``commits`` are those of `groupshift.spark.coordinator_log.commits`."""
    used = {
        "commits": commits,
        "elsewhere": _run("elsewhere", {"commits": commits, "opened": sides.opened}),
        "answers": sides.answers,
        "nodes": sides.nodes,
        "ensemble": sides.ensemble,
        "ends": sides.ends,
        "topics": sides.topics,
    }
    return _run("keys", used)


def audit_histories(
    records: DataFrame, winners: DataFrame, differing: DataFrame, opened: DataFrame, partitions: int
) -> DataFrame:
    """The recent past of the keys in ``differing``, one row each, out of the raw ``records``; ``winners`` are
    the decoded ones."""
    used = {"records": records, "decoded": winners, "differing": differing, "opened": opened}
    recent = _run("recent", used, kept=KEPT)
    return _run("histories", {"decoded": decoded(recent, partitions)})


def audit_silent(commits: DataFrame, sides: Sides) -> DataFrame:
    """Partitions of the log that their coordinator serves empty."""
    used = {"commits": commits, "asked": sides.asked, "answers": sides.answers}
    return _run("silent", used, enough=ENOUGH_TO_BE_SILENT)


def audit_overdue(winners: DataFrame, differing: DataFrame, terms: Terms, partitions: int) -> DataFrame:
    """The keys whose retention is over, of groups with a commit that is not answered."""
    unanswered = "coalesce(answer_offset, -1) < 0 AND winner_offset >= 0"
    if terms.retention_ms is None:
        unanswered = "false"
    groups = differing.where(unanswered).select("group_id").distinct()
    names = ("src_partition", "src_offset", "record_ts", "raw_key", "raw_value")
    raw = winners.join(groups, "group_id", "left_semi").select(
        *(F.col(name).alias(as_) for name, as_ in zip(names, RAW_COLUMNS, strict=True))
    )
    risks = states.retention(raw, partitions, retention_ms=terms.retention_ms or 0, now_ms=terms.now_ms)
    return risks.where("overdue").select("group_id", "topic", "partition")


def audit_facts(
    differing: DataFrame, sides: Sides, past: tuple[DataFrame, DataFrame, DataFrame], terms: Terms
) -> DataFrame:
    """A column for each fact beside `TOLD`; ``past`` are `histories`, `silent` and `overdue`."""
    histories, silent, overdue = past
    bracket = _run("bracket", {"keys": differing, "opened": sides.opened, "histories": histories})
    return _run(
        "facts",
        {"bracket": bracket, "asked": sides.asked, "silent": silent, "overdue": overdue},
        now_ms=terms.now_ms,
        interval_ms=terms.commit_interval_ms,
        retention_ms=terms.retention_ms,
    )


def audit_classified(facts: DataFrame) -> DataFrame:
    """The keys about which a rule speaks, with its number, as `groupshift.audit.offsets.judge` chooses."""
    kafka, stores = F.col("kafka_rule"), F.col("store_rule")
    chosen = (
        F.when(_counts(KAFKA_RULES, kafka), kafka)
        .when(kafka.isNull() | _counts(STORE_RULES, stores), stores)
        .otherwise(kafka)
    )
    both = facts.withColumns({"kafka_rule": _first(KAFKA_RULES), "store_rule": _first(STORE_RULES)})
    told = both.select("group_id", "topic", "partition", chosen.alias(RULE), *TOLD)
    return told.where(F.col(RULE).isNotNull())


def _first(rules: Iterable[AuditRule]) -> Column:
    """The number of the first rule that applies, else null."""
    numbers = [F.when(_applies(rule), F.lit(rule.number)) for rule in rules]
    return F.coalesce(*numbers)


def _applies(rule: AuditRule) -> Column:
    condition = F.lit(True)
    for fact in rule.when:
        condition &= F.col(fact.value)
    for fact in rule.unless:
        condition &= ~F.col(fact.value)
    return condition


def _counts(rules: Iterable[AuditRule], number: Column) -> Column:
    """Whether this is the number of a rule that does not explain."""
    found = [rule.number for rule in rules if rule.weight is not Weight.EXPLAINED]
    return F.coalesce(number.isin(found), F.lit(False))


def _run(name: str, frames: Mapping[str, DataFrame], **args: Any) -> DataFrame:
    """A statement over these frames, with these values bound."""
    spark = next(iter(frames.values())).sparkSession
    return spark.sql(shipped(f"sql/audit/{name}.sql"), args=args, **frames)
