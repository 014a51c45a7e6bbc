"""Groups and their members, one row a group, and the statements that judge them. Pure but for SQL's views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.domain.equality_rules import EqualityRule, Field, Kind
from groupshift.spark.checks import queried, statement

FOLDER = "checks/compare"
"""The statements, below ``sql``."""
GroupTables = Mapping[str, DataFrame]
"""The small tables of a snapshot, by name."""

_NEEDS: Mapping[Field, tuple[str, ...]] = {
    Field.GROUPS: ("groups",),
    Field.TYPE: ("groups",),
    Field.STATE: ("groups",),
    Field.PROTOCOL_TYPE: ("groups",),
    Field.PROTOCOL: ("groups",),
    Field.GENERATION: ("groups",),
    Field.MEMBER_COUNT: ("groups", "members"),
    Field.CLIENT_IDS: ("groups", "members"),
    Field.INSTANCE_IDS: ("groups", "members"),
    Field.MEMBER_IDS: ("groups", "members"),
    Field.SUBSCRIBED: ("groups", "subscriptions"),
    Field.ASSIGNMENT: ("subscriptions", "assignments", "log_ends"),
}

_STATEMENT = {
    Kind.EQUAL: ("field_equal",),
    Kind.SETTLED: ("field_settled",),
    Kind.BECOMES: ("field_becomes",),
    Kind.AT_LEAST: ("field_at_least",),
    Kind.COVERS: ("assigned_once", "assigned_all"),
}


def needs(field: Field) -> tuple[str, ...]:
    """Small tables that a field is found in."""
    return _NEEDS.get(field, ())


def described(tables: GroupTables) -> DataFrame:
    """One row a group: its own columns, and its members' as sorted text."""
    frame = tables["groups"]
    if "members" in tables:
        members = (
            tables["members"]
            .groupBy("group")
            .agg(
                F.count(F.lit(1)).alias("member_count"),
                _joined(F.collect_list("client_id"), "client_ids"),
                _joined(F.collect_set("instance_id"), "instance_ids"),
                _joined(F.collect_list("member_id"), "member_ids"),
            )
        )
        frame = frame.join(members, "group", "left")
    if "subscriptions" in tables:
        topics = tables["subscriptions"].groupBy("group").agg(_joined(F.collect_set("topic"), "subscribed"))
        frame = frame.join(topics, "group", "left")
    texts: list[str] = [
        name for name in ("client_ids", "instance_ids", "member_ids", "subscribed") if name in frame.columns
    ]
    frame = frame.fillna("", texts)
    return frame.fillna(0, ["member_count"]) if "member_count" in frame.columns else frame


def _joined(values: Column, name: str) -> Column:
    return F.array_join(F.sort_array(values), ", ").alias(name)


def paired(before: GroupTables, after: GroupTables) -> DataFrame:
    """Full outer join of the groups: ``group``, ``before_x``, ``after_x``, ``in_before``, ``in_after``."""
    sides = []
    for moment, tables in (("before", before), ("after", after)):
        frame = described(tables)
        renamed = [F.col(f"`{name}`").alias(f"{moment}_{name}") for name in frame.columns if name != "group"]
        sides.append(frame.select("group", *renamed, F.lit(True).alias(f"in_{moment}")))
    return sides[0].join(sides[1], "group", "full_outer")


def statements(rule: EqualityRule) -> tuple[str, ...]:
    """Names of the statements below ``sql/checks/compare`` that judge a rule about groups or members."""
    if rule.field is Field.GROUPS:
        return ("groups_kept",) if rule.kind is Kind.KEPT else ("groups_same",)
    return _STATEMENT[rule.kind]


def offending(spark: SparkSession, name: str, rule: EqualityRule) -> DataFrame:
    """The rows that break a rule: ``group, topic, partition, reason``."""
    return queried(spark, statement(FOLDER, name), asdict(rule))
