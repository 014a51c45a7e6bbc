"""Comparison of two verified snapshots: differences, rules, SQL checks and expectations, in this order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from groupshift.domain.evidence import Manifest, Moment, Store
from groupshift.domain.verdict import Finding, Verdict
from groupshift.spark import checks, sources
from groupshift.spark.checks import Offence, Outcome, Ruled, not_asked, ruled
from groupshift.spark.expectations import Expected, Library, Rows, Suite, expectation_data, judged
from groupshift.spark.session import versions
from groupshift.spark.transforms import Difference, Rules, differences

_CLASS_RULES = {
    Difference.LOST: (
        "V04",
        "no offset was lost",
        "a committed offset is gone: its next owner would start elsewhere",
    ),
    Difference.EXTRA: (
        "V05",
        "offsets that are new are allowed by this stage",
        "an offset appeared that this stage does not make",
    ),
    Difference.REGRESSED: (
        "V06",
        "no offset went back",
        "an offset went back: records would be delivered again",
    ),
    Difference.ADVANCED: (
        "V07",
        "offsets that advanced are allowed by this stage",
        "the group consumed although this stage stops it",
    ),
    Difference.METADATA_ONLY: (
        "V08",
        "metadata of offsets is as this stage allows",
        "somebody else committed with other metadata",
    ),
}

_DECIDED_BY = {
    "group": ("V17",),
    "members": ("V15",),
    "subscriptions": ("V16",),
    "owners": ("V13", "V14"),
    "log_ends": ("V11", "V12"),
}
"""Which rules decide whether differences of a table are allowed; offsets have rules per class."""


def rows_of(folder: Path, manifest: Manifest) -> dict[str, Rows]:
    """All rows of a verified snapshot, by table."""
    return {entry.table: pq.read_table(folder / entry.file).to_pylist() for entry in manifest.files}


def sound(manifests: Mapping[str, Manifest]) -> Ruled:
    """The finding that both snapshots are whole."""
    files = sum(len(manifest.files) for manifest in manifests.values())
    return ruled("V01", f"all {files} files of both snapshots are the ones their manifests name", ())


def schemas(folders: Mapping[str, Path], manifests: Mapping[str, Manifest]) -> Ruled:
    """The finding that every table has the promised columns."""
    wrong = [
        Offence(topic=None, partition=None, reason=f"snapshot {moment}: {sentence}")
        for moment, manifest in manifests.items()
        for sentence in sources.schema_deviations(folders[moment], manifest)
    ]
    hint = "the snapshot was written by another version; take it again"
    return ruled("V02", "every table has the promised columns", wrong, hint=hint)


Unread = frozenset[tuple[str, int]]
"""Topic and partition of committed offsets that no member reads."""


def _by_class(
    rows: Sequence[Mapping[str, Any]], rules: Rules, unread: Unread, *, itself: bool
) -> list[Ruled]:
    """Differences of what members read, by class; of what they do not see `_left_over`."""
    results = []
    read = [row for row in rows if (row["topic"], row["partition"]) not in unread]
    for kind, (rule, holds, hint) in _CLASS_RULES.items():
        of_kind = [row for row in read if row["table"] == "offsets" and row["class"] == kind.value]
        found = [_offence(row) for row in of_kind]
        count = f" ({len(of_kind)})" if of_kind else ""
        if itself or rules.allowed[kind]:
            why = (
                "not asked, the snapshot is compared with itself"
                if itself
                else "this stage allows all of them"
            )
            results.append(not_asked(rule, holds + count, why))
            continue
        results.append(ruled(rule, holds + count, found, hint=hint))
    return results


def _left_over(after: Rows, rows: Sequence[Mapping[str, Any]], unread: Unread, *, itself: bool) -> Ruled:
    """What no member reads is named and held against what it was, and is no reason to fail: Kafka removes
    such offsets by itself, anything else is somebody else's doing."""
    holds = "every committed offset is of a partition that a member reads"
    left = [row for row in after if (row["topic"], row["partition"]) in unread]
    changed = [
        _offence(row)
        for row in rows
        if row["table"] == "offsets"
        and (row["topic"], row["partition"]) in unread
        and (row["class"], row["store"]) != (Difference.LOST.value, Store.KAFKA.value)
    ]
    if changed:
        hint = "no member reads it, so another client wrote it: find out which one"
        return ruled("V25", holds, changed, verdict=Verdict.INCONCLUSIVE, hint=hint)
    if not left:
        return not_asked("V25", holds, "there is none that nobody reads")
    told = [
        Offence(
            topic=row["topic"],
            partition=row["partition"],
            reason=f"no member reads it: kept as it is ({row['store']} offset {row['offset']})",
        )
        for row in left
    ]
    named = ruled("V25", holds, told, verdict=Verdict.PASS).finding
    return Ruled(finding=replace(named, asked=not itself))


def _offence(row: Mapping[str, Any]) -> Offence:
    words = {
        "lost": f"its {row['store']} offset {row['before']} is gone",
        "extra": f"it has a new {row['store']} offset {row['after']}",
        "regressed": f"its {row['store']} offset went back from {row['before']} to {row['after']}",
        "advanced": f"its {row['store']} offset advanced from {row['before']} to {row['after']}",
        "metadata_only": f"metadata of its {row['store']} offset went from {row['before']} to {row['after']}",
    }
    return Offence(topic=row["topic"], partition=row["partition"], reason=words[row["class"]])


def _ledger(tables: Mapping[str, Rows], rules: Rules) -> Ruled | None:
    if not rules.ledger_required:
        return None
    found = [] if tables["ledger"] else [Offence(topic=None, partition=None, reason="the ledger is empty")]
    return ruled(
        "V23",
        "the members' ledger is there",
        found,
        verdict=Verdict.ERROR,
        hint="look at the members' ledgers",
    )


def _with_allowed(
    rows: Sequence[Mapping[str, Any]], rules: Rules, results: Sequence[Ruled], unread: Unread
) -> list[dict[str, Any]]:
    failed = {result.finding.rule for result in results if result.finding.verdict is not Verdict.PASS}

    def allowed(row: Mapping[str, Any]) -> bool:
        if row["table"] in {"offsets", "log_ends"} and (row["topic"], row["partition"]) in unread:
            return "V25" not in failed
        if row["table"] == "offsets":
            return rules.allowed[Difference(row["class"])]
        return failed.isdisjoint(_DECIDED_BY[row["table"]])

    return [{**row, "allowed": allowed(row)} for row in rows]


Folders = Mapping[str, Path]
Manifests = Mapping[str, Manifest]


def compare(
    spark: SparkSession,
    library: Library,
    folders: Folders,
    manifests: Manifests,
    rules: Rules,
) -> Compared:
    """Compare the snapshots in `folders` (``before``, ``after``), already verified, under `rules`."""
    found = _differences(spark, folders, manifests)
    tables = {moment: rows_of(folders[moment], manifests[moment]) for moment in folders}
    itself = manifests["before"].digest == manifests["after"].digest
    results = [sound(manifests), schemas(folders, manifests), *checks.run(spark, rules, itself=itself)]
    unread = checks.leftovers(spark)
    results += _by_class(found, rules, unread, itself=itself)
    results.append(_left_over(tables["after"]["offsets"], found, unread, itself=itself))
    if ledger := _ledger(tables["after"], rules):
        results.append(ledger)
    suite = Suite(library.get())
    expectations = {
        moment: suite.validate(moment, _read(tables[moment], unread), nobody=rules.nobody)
        for moment in ("before", "after")
    }
    results.append(judged("V21", "before", expectations["before"]))
    results.append(judged("V22", "after", expectations["after"]))
    outcome = Outcome(
        migration=manifests["after"].migration,
        stage=rules.stage,
        moment=rules.moment,
        results=tuple(sorted(results, key=lambda result: result.finding.rule)),
        counts=counts([row for row in found if (row["topic"], row["partition"]) not in unread]),
        manifests={moment: manifest.digest for moment, manifest in manifests.items()},
        expectations=expectation_data(expectations),
        versions={**versions(spark), "great_expectations": str(library.get().__version__)},
    )
    return Compared(
        outcome=outcome,
        manifests=manifests,
        tables=tables,
        differences=_with_allowed(found, rules, results, unread),
        expectations=expectations,
    )


def _read(tables: Mapping[str, Rows], unread: Unread) -> dict[str, Rows]:
    """The tables without the log ends of what no member reads: such offsets are held against no log."""
    ends = [row for row in tables["log_ends"] if (row["topic"], row["partition"]) not in unread]
    return {**tables, "log_ends": ends}


def _differences(spark: SparkSession, folders: Folders, manifests: Manifests) -> list[dict[str, Any]]:
    """Load and register both snapshots; the differences of their tables."""
    snapshots = {moment: sources.load(spark, folders[moment], manifests[moment]) for moment in folders}
    for moment, snapshot in snapshots.items():
        sources.register(snapshot, Moment(moment))
    frame = differences(snapshots["before"].tables, snapshots["after"].tables)
    return [row.asDict() for row in frame.collect()]


def counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Differences of committed offsets per class, every class named."""
    found = Counter(str(row["class"]) for row in rows if row["table"] == "offsets")
    return {kind.value: found[kind.value] for kind in Difference}


def refusal(stage: str, moment: str, migration: str, reason: str) -> Outcome:
    """The outcome when the evidence itself is not sound: nothing was compared."""
    finding = Finding(
        rule="V01", verdict=Verdict.FAIL, reason=reason, hint="take no decision on this evidence"
    )
    return Outcome(
        migration=migration,
        stage=stage,
        moment=moment,
        results=(Ruled(finding=finding),),
        counts=counts([]),
        manifests={},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Everything the report shows: manifests and rows by moment, differences (rows of
    `transforms.COLUMNS` plus ``allowed``), and what the expectations said by moment."""

    outcome: Outcome
    manifests: Mapping[str, Manifest]
    tables: Mapping[str, Mapping[str, Rows]]
    differences: Sequence[Mapping[str, Any]]
    expectations: Mapping[str, Sequence[Expected]]
