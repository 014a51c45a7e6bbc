"""Comparison of two verified snapshots of a group: differences, rules, SQL checks and expectations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from groupshift.adapters.parquet.compare_inputs import Input
from groupshift.domain.evidence import Store
from groupshift.domain.phase_rules import PHASE_RULES, AllowedChanges
from groupshift.domain.snapshot import TABLES
from groupshift.domain.verdict import Finding, Verdict
from groupshift.spark import checks
from groupshift.spark.checks import Judgement, Rows, Ruled, not_asked, offences, ruled
from groupshift.spark.compare.differences import read
from groupshift.spark.expectations import Expected, Library, expectations, judged
from groupshift.spark.session import versions

CLASSES = tuple(rule.difference for rule in PHASE_RULES if rule.difference)
"""The classes of differences between offsets, in the order of their rules."""

Unread = frozenset[tuple[str, int]]
"""Topic and partition of committed offsets that no member reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationOutcome(Judgement):
    """What a comparison came to. ``counts`` are offset differences per class; ``manifests`` the
    SHA-256 of both manifests (empty when one could not be read), ``expectations`` what each expectation
    said, ``versions`` the programs that took part."""

    run: str
    phase: str
    moment: str
    counts: Mapping[str, int]
    manifests: Mapping[str, str] = field(default_factory=dict)
    expectations: tuple[Mapping[str, Any], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    report: str = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Everything the report shows: inputs and rows by moment, differences (rows of
    ``sql/checks/differences.sql`` plus ``allowed``), and what the expectations said by moment."""

    outcome: ValidationOutcome
    inputs: Mapping[str, Input]
    tables: Mapping[str, Mapping[str, Rows]]
    differences: Sequence[Mapping[str, Any]]
    expectations: Mapping[str, Sequence[Expected]]


def compare(
    spark: SparkSession, library: Library, inputs: Mapping[str, Input], changes: AllowedChanges
) -> Compared:
    """Compare two snapshots (``before``, ``after``) that were proven whole, by what may have changed."""
    for moment, source in inputs.items():
        for name in TABLES:  # each cached as one partition
            read(spark, source, name).coalesce(1).cache().createOrReplaceTempView(f"{moment}_{name}")
    checks.register(spark, changes)
    manifests = {moment: source.manifest for moment, source in inputs.items()}
    itself = manifests["before"].digest == manifests["after"].digest
    difference_rows = sorted(
        (row.asDict() for row in spark.table("differences").collect()),
        key=lambda row: (row["table"], row["topic"] or "", row["partition"] or 0, row["subject"]),
    )
    unread = frozenset((row["topic"], row["partition"]) for row in spark.table("leftovers").collect())
    members_read = [row for row in difference_rows if not _is_of(unread, row)]
    tables = {moment: {name: source.rows(name) for name in TABLES} for moment, source in inputs.items()}
    sound = {  # what no member reads is held against no log
        moment: {**rows, "log_ends": [row for row in rows["log_ends"] if not _is_of(unread, row)]}
        for moment, rows in tables.items()
    }
    expected = expectations(library.get(), sound, nobody=changes.nobody)
    files = sum(len(manifest.files) for manifest in manifests.values())
    results = [
        ruled("V01", f"all {files} files of both snapshots are the ones their manifests name", ()),
        ruled("V02", "every table has the promised columns", ()),
        *checks.run(spark, changes, itself=itself),
        *_by_class(members_read, changes, itself=itself),
        _left_over(tables["after"]["offsets"], difference_rows, unread, itself=itself),
        judged("V21", "before", expected["before"]),
        judged("V22", "after", expected["after"]),
    ]
    outcome = ValidationOutcome(
        run=manifests["after"].run,
        phase=changes.phase,
        moment=changes.moment,
        results=tuple(sorted(results, key=lambda result: result.finding.rule)),
        counts=_counts(members_read),
        manifests={moment: manifest.digest for moment, manifest in manifests.items()},
        expectations=tuple(
            {"snapshot": moment, **asdict(one), "rows": len(one.rows)}
            for moment, said in expected.items()
            for one in said
        ),
        versions={**versions(spark), "great_expectations": str(library.get().__version__)},
    )
    failed = {result.finding.rule for result in results if result.finding.verdict is not Verdict.PASS}
    return Compared(
        outcome=outcome,
        inputs=inputs,
        tables=tables,
        differences=[{**row, "allowed": _is_allowed(row, failed, unread)} for row in difference_rows],
        expectations=expected,
    )


def _is_of(unread: Unread, row: Mapping[str, Any]) -> bool:
    return (row["topic"], row["partition"]) in unread


def _counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Differences of committed offsets per class, every class named."""
    counts = Counter(str(row["class"]) for row in rows if row["table"] == "offsets")
    return {class_: counts[class_] for class_ in CLASSES}


def _by_class(rows: Sequence[Mapping[str, Any]], changes: AllowedChanges, *, itself: bool) -> list[Ruled]:
    """Differences of what members read, by class; of what they do not see `_left_over`."""
    results = []
    for rule in (rule for rule in PHASE_RULES if rule.difference):
        met = offences(row for row in rows if (row["table"], row["class"]) == ("offsets", rule.difference))
        holds = f"{rule.holds} ({len(met)})" if met else rule.holds
        if why := rule.unasked(changes, itself=itself) or rule.allowed:
            results.append(not_asked(rule.rule, holds, why))
        else:
            results.append(ruled(rule.rule, holds, met, verdict=rule.verdict, hint=rule.hint))
    return results


def _left_over(after: Rows, rows: Sequence[Mapping[str, Any]], unread: Unread, *, itself: bool) -> Ruled:
    """What no member reads is named and held against what it was, and is no reason to fail: Kafka removes
    such offsets by itself, anything else is somebody else's doing."""
    holds = "every committed offset is of a partition that a member reads"
    offsets = [row for row in rows if row["table"] == "offsets" and _is_of(unread, row)]
    removed = ("lost", Store.KAFKA.value)
    if changed := offences(row for row in offsets if (row["class"], row["store"]) != removed):
        hint = "no member reads it, so another client wrote it: find out which one"
        return ruled("V25", holds, changed, verdict=Verdict.INCONCLUSIVE, hint=hint)
    left = offences(
        {**row, "reason": f"no member reads it: kept as it is ({row['store']} offset {row['offset']})"}
        for row in after
        if _is_of(unread, row)
    )
    if not left:
        return not_asked("V25", holds, "there is none that nobody reads")
    named = ruled("V25", holds, left, verdict=Verdict.PASS).finding
    return Ruled(finding=replace(named, applies=not itself))


def _is_allowed(row: Mapping[str, Any], failed: set[str], unread: Unread) -> bool:
    """Whether the rules, of which these ``failed``, allow a difference."""
    if row["table"] in {"offsets", "log_ends"} and _is_of(unread, row):
        return "V25" not in failed
    if row["table"] == "offsets":
        return any(rule.difference == row["class"] and rule.allowed for rule in PHASE_RULES)
    return failed.isdisjoint(rule.rule for rule in PHASE_RULES if rule.table == row["table"])


def refusal(phase: str, moment: str, run: str, reason: str) -> ValidationOutcome:
    """Return the outcome when the evidence itself is not sound: nothing was compared."""
    hint = "take no decision on this evidence"
    results = (Ruled(finding=Finding(rule="V01", verdict=Verdict.FAIL, reason=reason, hint=hint)),)
    return ValidationOutcome(run=run, phase=phase, moment=moment, results=results, counts=_counts(()))
