"""SQL checks of snapshots, and the way from their rows to findings and ``verdict.json``.

Every statement below ``sql/checks`` returns the rows that break its rule and nothing else: ``topic``,
``partition`` (both may be null) and ``reason``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from pyspark.sql import SparkSession

from groupshift.domain.verdict import Finding, Verdict, worst
from groupshift.spark.transforms import Rules

_PARAMETERS = {
    "stores_agree": ("gap",),
    "member_kinds": ("old", "new", "replaced"),
    "mode_as_expected": ("mode_text", "effective_mode"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One statement: rule number, file name, the sentence when nothing offends, the hint, when it is
    asked, and the verdict when it finds something. ``pairs``: it holds one snapshot against the other, so
    that of a snapshot beside itself it is not asked. ``about`` is a condition without which there is nothing
    that could offend; ``explained`` a statement whose rows are said where nothing offends."""

    rule: str
    name: str
    holds: str
    hint: str
    kafka_mode_only: bool = False
    of_members: bool = False
    stage_only: str = ""
    pairs: bool = False
    about: str = ""
    explained: str = ""
    verdict: Verdict = Verdict.FAIL


SNAPSHOT_CHECKS = (
    Check(
        rule="V03",
        name="keys_unique",
        holds="no key occurs twice in any table",
        hint="a snapshot never holds a key twice: the evidence was altered; take the snapshot again",
    ),
    Check(
        rule="V09",
        name="offset_delivered",
        holds="no offset advanced beyond the last record delivered",
        hint="records were committed that no member delivered: they would be lost",
        pairs=True,
        about="EXISTS (SELECT * FROM after_ledger)",
    ),
    Check(
        rule="V10",
        name="offset_in_log",
        holds="every committed offset lies within its log",
        hint="an offset outside the log makes the next owner use its reset policy",
        explained="offset_below_log",
    ),
    Check(
        rule="V11",
        name="partition_set_equal",
        holds="the set of partitions is the same",
        hint="finish the change of partitions before moving the group",
        of_members=True,
        pairs=True,
    ),
    Check(
        rule="V12",
        name="log_not_truncated",
        holds="no log end went back",
        hint="a log was truncated or its topic made anew; offsets no longer mean the same records",
        pairs=True,
    ),
    Check(
        rule="V13",
        name="one_owner",
        holds="every partition has exactly one owner",
        hint="look at the owner nodes and the members named; an unowned partition is not consumed",
        of_members=True,
    ),
    Check(
        rule="V14",
        name="owner_is_member",
        holds="every owner is a member of the group",
        hint="the owner is gone or was never there; look at the member's process and session",
        about="EXISTS (SELECT * FROM after_owners)",
    ),
    Check(
        rule="V15",
        name="member_kinds",
        holds="the members are of the kinds this stage makes",
        hint="a member is missing, or runs the wrong software; look at the fleet driver",
        pairs=True,
    ),
    Check(
        rule="V16",
        name="subscriptions_equal",
        holds="the group subscribes to the same topics",
        hint="all members of a move must keep their subscription",
        of_members=True,
        pairs=True,
    ),
    Check(
        rule="V17",
        name="mode_as_expected",
        holds="the mode node and the mode in effect are the ones this stage makes",
        hint="somebody else wrote the mode node, or a member that is not migration-aware joined",
        pairs=True,
    ),
    Check(
        rule="V18",
        name="members_follow_mode",
        holds="every migration-aware member acts in the mode in effect",
        hint="the member has not seen the mode node; look at its connection to ZooKeeper",
        about="EXISTS (SELECT * FROM after_members WHERE kind = 'aware')",
    ),
    Check(
        rule="V19",
        name="stores_agree",
        holds="in kafka mode the znodes follow the Kafka offsets within one commit interval",
        hint="the way back starts from the znodes; wait for the next commit, or look at the member",
        kafka_mode_only=True,
        about="EXISTS (SELECT * FROM after_owners WHERE store = 'zookeeper')",
    ),
    Check(
        rule="V20",
        name="kafka_store_complete",
        holds="every partition with a position has it in Kafka too",
        hint="let the members commit once in kafka mode before plain consumers join (O8)",
        kafka_mode_only=True,
    ),
    Check(
        rule="V24",
        name="even_share",
        holds="the canary owns its even share of the partitions",
        hint="the canary would prove less (or risk more) than planned; look at the members' streams",
        stage_only="canary",
        about="EXISTS (SELECT * FROM after_subscriptions AS s LEFT ANTI JOIN before_members AS b "
        "ON b.member_id = s.member_id)",
        verdict=Verdict.INCONCLUSIVE,
    ),
    Check(
        rule="V26",
        name="offset_not_proven",
        holds="of every offset that advanced, ledgers or log tell that no record was passed over",
        hint="the log no longer has these offsets, or cannot tell yet: ask the owners of the application",
        pairs=True,
        about="EXISTS (SELECT * FROM undelivered)",
        verdict=Verdict.INCONCLUSIVE,
    ),
)


@cache
def statement(folder: str, name: str) -> str:
    """The text of one statement of ``sql/<folder>``; raises `FileNotFoundError` when there is none."""
    return files("groupshift").joinpath("sql", *folder.split("/"), f"{name}.sql").read_text(encoding="utf-8")


def offences(spark: SparkSession, text: str, arguments: dict[str, Any]) -> tuple[Offence, ...]:
    """The rows one statement returns, in its order."""
    rows = spark.sql(text, args=arguments).collect() if arguments else spark.sql(text).collect()
    return tuple(
        Offence(topic=row["topic"], partition=row["partition"], reason=row["reason"]) for row in rows
    )


def run(
    spark: SparkSession, rules: Rules, wanted: Sequence[Check] = SNAPSHOT_CHECKS, *, itself: bool = False
) -> tuple[Ruled, ...]:
    """The `wanted` snapshot checks against the registered views ``before_*`` and ``after_*``; ``itself``:
    both are of one snapshot, of which nothing that is held against itself is asked."""
    answers = spark.createDataFrame([tuple(each) for each in rules.log], _ANSWERS)
    answers.createOrReplaceTempView("log_answers")
    for name in ("leftovers", "undelivered"):
        spark.sql(statement("checks", name)).createOrReplaceTempView(name)
    return tuple(_run_one(spark, check, rules, itself=itself) for check in wanted)


def leftovers(spark: SparkSession) -> frozenset[tuple[str, int]]:
    """Topic and partition of what no member reads, of the registered views."""
    rows = spark.sql(statement("checks", "leftovers")).collect()
    return frozenset((row["topic"], row["partition"]) for row in rows)


_ANSWERS = "topic string, partition int, from_offset long, to_offset long, answer string, reason string"


def _run_one(spark: SparkSession, check: Check, rules: Rules, *, itself: bool) -> Ruled:
    why = _not_asked(check, rules, itself=itself)
    if why:
        return not_asked(check.rule, check.holds, why)
    arguments = {name: getattr(rules, name) for name in _PARAMETERS.get(check.name, ())}
    found = offences(spark, statement("checks/snapshot", check.name), arguments)
    if not found and check.about and not spark.sql(f"SELECT {check.about} AS there").collect()[0]["there"]:
        return not_asked(check.rule, check.holds, "there is nothing that it could be asked of")
    if not found and check.explained:
        told = offences(spark, statement("checks", check.explained), {})
        return Ruled(finding=ruled(check.rule, check.holds, told, verdict=Verdict.PASS).finding)
    return ruled(check.rule, check.holds, found, verdict=check.verdict, hint=check.hint)


def _not_asked(check: Check, rules: Rules, *, itself: bool) -> str:
    """Why a check is not asked; empty where it is."""
    if check.kafka_mode_only and not rules.kafka_mode:
        return "not asked in zookeeper mode"
    if check.of_members and rules.nobody:
        return "not asked of an empty group"
    if check.stage_only not in {"", rules.stage} or (check.stage_only and rules.moment != "after"):
        return f"asked after stage {check.stage_only} only"
    if check.pairs and itself:
        return "not asked, the snapshot is compared with itself"
    return ""


VERDICT_VERSION = 1
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Offence:
    """One offending row: where (both may be None) and why, as the end of a sentence."""

    topic: str | None
    partition: int | None
    reason: str

    def __str__(self) -> str:
        where = f"{self.topic}-{self.partition}" if self.partition is not None else self.topic
        return f"{where}: {self.reason}" if where else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruled:
    """A finding with the rows it rests on."""

    finding: Finding
    offences: tuple[Offence, ...] = ()


def not_asked(rule: str, holds: str, why: str) -> Ruled:
    """The finding of a rule that was not asked, or could not fail: it passes, and counts apart."""
    return Ruled(finding=Finding(rule=rule, verdict=Verdict.PASS, reason=f"{holds}: {why}", asked=False))


def ruled(
    rule: str,
    holds: str,
    found: Sequence[Offence],
    *,
    verdict: Verdict = Verdict.FAIL,
    hint: str = "",
) -> Ruled:
    """`holds` passes when nothing was found; else `verdict`, naming the first offending rows."""
    if not found:
        return Ruled(finding=Finding(rule=rule, verdict=Verdict.PASS, reason=holds))
    named = "; ".join(str(offence) for offence in found[:_NAMED])
    more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    finding = Finding(rule=rule, verdict=verdict, reason=named + more, hint=hint)
    return Ruled(finding=finding, offences=tuple(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a comparison came to. ``counts`` are offset differences per class; ``manifests`` the
    SHA-256 of both manifests (empty when one could not be read), ``expectations`` what each expectation
    said, ``versions`` the programs that took part."""

    migration: str
    stage: str
    moment: str
    results: tuple[Ruled, ...]
    counts: Mapping[str, int]
    manifests: Mapping[str, str]
    expectations: tuple[Mapping[str, Any], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings."""
        return worst(result.finding.verdict for result in self.results)

    def to_data(self) -> dict[str, Any]:
        """``verdict.json`` as plain values."""
        return {
            "version": VERDICT_VERSION,
            "migration": self.migration,
            "stage": self.stage,
            "moment": self.moment,
            "verdict": self.verdict.value,
            "findings": [finding_data(result) for result in self.results],
            "counts": dict(self.counts),
            "manifests": dict(self.manifests),
            "expectations": [dict(each) for each in self.expectations],
            "versions": dict(self.versions),
            "report": "report.html",
        }


def finding_data(result: Ruled) -> dict[str, Any]:
    """One finding as plain values; ``count`` is the number of offending rows."""
    finding = result.finding
    return {
        "rule": finding.rule,
        "verdict": finding.verdict.value,
        "reason": finding.reason,
        "hint": finding.hint,
        "count": len(result.offences),
        "asked": finding.asked,
    }


def to_json(data: Mapping[str, Any]) -> str:
    """Readable JSON with a stable order of keys."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
