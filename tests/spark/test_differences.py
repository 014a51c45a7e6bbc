"""Differences between two snapshots, by class, on literal tables."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from groupshift.domain.snapshot import TABLES
from groupshift.spark.checks import statement
from spark import snapshots
from spark.snapshots import AWARE_KAFKA, CANARY, OLD_THREE, Snapshot, frame, offset, owner, snapshot


def found(spark: SparkSession, before: Snapshot, after: Snapshot) -> list[tuple[Any, ...]]:
    """(table, class, subject, before, after) of all differences, sorted."""
    for moment, tables in (("before", before), ("after", after)):
        for name in TABLES:
            frame(spark, name, tables.get(name, [])).createOrReplaceTempView(f"{moment}_{name}")
    rows = spark.sql(statement("checks", "differences")).collect()
    return sorted((row["table"], row["class"], row["subject"], row["before"], row["after"]) for row in rows)


OFFSETS = [
    ("lost", [offset(0, 5)], [], "5", None),
    ("extra", [], [offset(0, 5)], None, "5"),
    ("regressed", [offset(0, 5)], [offset(0, 4)], "5", "4"),
    ("advanced", [offset(0, 5)], [offset(0, 9)], "5", "9"),
    ("advanced", [offset(0, 5)], [offset(0, 9, metadata="x")], "5", "9"),
    (
        "metadata_only",
        [offset(0, 5)],
        [offset(0, 5, metadata="x")],
        '5 {"before_metadata":""}',
        '5 {"after_metadata":"x"}',
    ),
]


@pytest.mark.parametrize(("class_", "before", "after", "was", "now"), OFFSETS)
def test_an_offset_differs_in_one_class(
    spark: SparkSession, class_: str, before: Any, after: Any, was: str | None, now: str | None
) -> None:
    """Each way in which an offset can differ has its class and both values."""
    rows = found(spark, {"offsets": before}, {"offsets": after})
    assert rows == [("offsets", class_, "orders-0 (zookeeper)", was, now)]


def test_stores_and_partitions_are_told_apart(spark: SparkSession) -> None:
    """The same number in another store, or of another partition, is not the same offset."""
    before, after = [offset(0, 5), offset(1, 7)], [offset(0, 5, "kafka"), offset(1, 7)]
    rows = found(spark, {"offsets": before}, {"offsets": after})
    assert [row[1:3] for row in rows] == [
        ("extra", "orders-0 (kafka)"),
        ("lost", "orders-0 (zookeeper)"),
    ]


def test_equal_snapshots_do_not_differ(spark: SparkSession) -> None:
    """Nothing is found where nothing changed; times and ledgers are not compared."""
    before, after = snapshot(OLD_THREE), snapshot(OLD_THREE)
    after["group"][0]["taken_at_ms"] += 5
    after["ledger"] = []
    assert found(spark, before, after) == []


def test_a_canary_changes_a_member_and_its_partitions(spark: SparkSession) -> None:
    """A replaced member is one lost and one extra, its partitions have another owner, offsets advance."""
    rows = found(spark, snapshot(OLD_THREE), snapshot(CANARY, 501))
    assert [row[:3] for row in rows if row[0] != "offsets"] == [
        ("members", "extra", "member payments_m3-2"),
        ("members", "lost", "member payments_m3-1"),
        ("owners", "metadata_only", "owner of orders-4"),
        ("owners", "metadata_only", "owner of orders-5"),
    ]
    assert {row[1] for row in rows if row[0] == "offsets"} == {"advanced"}


def test_a_toggle_changes_the_mode(spark: SparkSession) -> None:
    """The mode in effect and the text of the node are one difference."""
    before = snapshot(snapshots.AWARE_ZOOKEEPER)
    rows = found(spark, before, snapshot(AWARE_KAFKA, kafka=True))
    assert (
        "group",
        "metadata_only",
        "mode of group payments",
        "zookeeper (node: absent)",
        "kafka (node: kafka)",
    ) in rows


def test_partitions_topics_and_owners_that_go_are_lost(spark: SparkSession) -> None:
    """A partition, a topic, an owner, and the end of a log that went back are all found."""
    before, after = snapshot(OLD_THREE), snapshot(OLD_THREE)
    before["subscriptions"].append({"member_id": "payments_m1-1", "topic": "clicks", "streams": 2})
    after["log_ends"] = [row for row in after["log_ends"] if row["partition"] != 5]
    after["log_ends"][0] |= {"log_end": 3}
    after["owners"] = [*after["owners"][1:], owner(1, "m3-1")]
    assert found(spark, before, after) == [
        ("log_ends", "lost", "orders-5", "[0, 555]", None),
        ("log_ends", "regressed", "orders-0", "[0, 505]", "[0, 3]"),
        ("owners", "lost", "owner of orders-0", "payments_m1-1-0", None),
        (
            "owners",
            "metadata_only",
            "owner of orders-1",
            "payments_m1-1-0",
            "payments_m1-1-0 and payments_m3-1-0",
        ),
        ("subscriptions", "lost", "topic clicks", "2 streams", None),
    ]
