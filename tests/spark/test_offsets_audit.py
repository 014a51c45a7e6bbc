"""The audit in Spark: on every cluster what the rules in the process find, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from groupshift.audit.inputs import read_log
from groupshift.audit.offsets import Looked, Reading, audit
from groupshift.domain.tables import shipped
from groupshift.log import LogRecord
from groupshift.spark.audit_offsets import look
from spark.audit_worlds import MINUTE, world
from support.audit_rules import BY_NUMBER, FACTS

COLUMNS = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp_ms": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
}
GROUPS = 200


def frame(spark: SparkSession, records: Sequence[LogRecord]) -> DataFrame:
    """Raw records as the sources give them."""
    arrays = [pa.array([getattr(each, name) for each in records], kind) for name, kind in COLUMNS.items()]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, names=list(COLUMNS)))


def in_process(records: Sequence[LogRecord], reading: Reading) -> Looked:
    """What the rules say without Spark."""
    log = read_log(records, opened=reading.opened, closed=reading.closed, groups=reading.groups)
    return audit(reading, log)


def same(spark: SparkSession, records: Sequence[LogRecord], reading: Reading) -> Looked:
    """Look both ways, compare everything, and return it."""
    expected, found = in_process(records, reading), look(frame(spark, records), reading)
    pairs = zip(expected.mismatches, found.mismatches, strict=False)
    assert next(((one, other) for one, other in pairs if one != other), None) is None
    assert found == expected
    return found


def test_every_rule_speaks_in_both_about_the_same_keys(spark: SparkSession) -> None:
    """Hundreds of groups with everything that can be wrong: every number, offset and sentence is equal."""
    records, reading = world(1, GROUPS, 45 * MINUTE)
    found = same(spark, records, reading)
    spoken = {one.rule for one in found.mismatches}
    assert spoken == set(BY_NUMBER), sorted(set(BY_NUMBER) - spoken)
    assert found.keys > found.agreeing > 0
    assert found.elsewhere
    assert any("unreadable keys (2 keys" in each for each in found.problems)
    assert any("unknown types (1 keys" in each for each in found.problems)


def test_a_second_look_at_some_groups_is_the_same(spark: SparkSession) -> None:
    """Groups by name in the partitions where they can be; no ZooKeeper, and no known retention."""
    records, reading = world(4, GROUPS, None)
    named = {f"group-{number}" for number in range(20, 40)} | {"grüppe-0"}
    some = frozenset(range(0, 40, 2))
    admin = replace(
        reading.admin,
        groups=[row for row in reading.admin.groups if row.group in named],
        offsets=[row for row in reading.admin.offsets if row.group in named],
    )
    given = replace(reading, admin=admin, zookeeper=None, groups=named, partitions=some)
    found = same(spark, [each for each in records if each.partition in some], given)
    assert {one.group for one in found.mismatches} <= named
    assert found.mismatches


def test_an_empty_cluster_has_no_keys(spark: SparkSession) -> None:
    """No record, no group, no node."""
    _, reading = world(5, 0, None)
    assert same(spark, [], reading).keys == 0


def test_every_fact_is_told_both_ways() -> None:
    """The table of facts is whole, and each is a column of the statement."""
    text = shipped("sql/audit/facts.sql")
    assert FACTS
    assert [fact for fact in FACTS if f" AS {fact}" not in text and f" {fact}," not in text] == []
