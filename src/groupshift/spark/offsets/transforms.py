"""The audit as transforms, frames in and frames out; each is one statement of ``sql/audit``.

Only records that matter are decoded: the winner of each key, then the recent past of the keys that differ.
Source: specs/group-coordinator.md §1.7; the rules are those of `groupshift.audit.rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name the whole Spark world uses

from groupshift.audit.case import KEPT, Terms
from groupshift.audit.rules import KAFKA_RULES, STORE_RULES, AuditRule, Weight
from groupshift.audit.sources import ENOUGH_TO_BE_SILENT
from groupshift.spark import coordinator_state as states
from groupshift.spark.coordinator_log import decoded
from groupshift.spark.offsets.frames import Sides

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


def keys(commits: DataFrame, sides: Sides) -> DataFrame:
    """Every (group, topic, partition) of any source with what each says, and whether they plainly agree.

    ``commits`` are those of `groupshift.spark.coordinator_state.commits`."""
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


def histories(
    records: DataFrame, winners: DataFrame, differing: DataFrame, opened: DataFrame, partitions: int
) -> DataFrame:
    """The recent past of the keys in ``differing``, one row each, out of the raw ``records``; ``winners`` are
    the decoded ones."""
    used = {"records": records, "decoded": winners, "differing": differing, "opened": opened}
    recent = _run("recent", used, kept=KEPT)
    return _run("histories", {"decoded": decoded(recent, partitions)})


def silent(commits: DataFrame, sides: Sides) -> DataFrame:
    """Partitions of the log that their coordinator serves empty."""
    used = {"commits": commits, "asked": sides.asked, "answers": sides.answers}
    return _run("silent", used, enough=ENOUGH_TO_BE_SILENT)


def overdue(winners: DataFrame, differing: DataFrame, terms: Terms, partitions: int) -> DataFrame:
    """The keys whose retention is over, of groups with a commit that is not answered."""
    unanswered = "coalesce(answer_offset, -1) < 0 AND winner_offset >= 0"
    if terms.retention_ms is None:
        unanswered = "false"
    groups = differing.where(unanswered).select("group_id").distinct()
    names = ("src_partition", "src_offset", "record_ts", "raw_key", "raw_value")
    raw = winners.join(groups, "group_id", "left_semi").select(
        *(F.col(name).alias(as_) for name, as_ in zip(names, states.WINNERS, strict=True))
    )
    risks = states.retention(raw, partitions, retention_ms=terms.retention_ms or 0, now_ms=terms.now_ms)
    return risks.where("overdue").select("group_id", "topic", "partition")


def facts(
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


def classified(facts: DataFrame) -> DataFrame:
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
    return spark.sql(statement(name), args=args, **frames)


@cache
def statement(name: str) -> str:
    """The text of one statement of ``sql/audit``; `FileNotFoundError` when there is none."""
    return files("groupshift").joinpath("sql", "audit", f"{name}.sql").read_text(encoding="utf-8")
