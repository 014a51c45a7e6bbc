"""Comparing two verified snapshots: differences, rules, SQL checks and expectations, in this order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from groupshift.domain.evidence import Manifest, Moment
from groupshift.domain.verdict import Finding, Verdict
from groupshift.spark import checks, sources
from groupshift.spark.expectations import Library, Rows, Suite, expectation_data, judged
from groupshift.spark.report import Compared
from groupshift.spark.rules import Rules
from groupshift.spark.session import versions
from groupshift.spark.transforms import Difference, differences
from groupshift.spark.verdicts import Offence, Outcome, Ruled, ruled

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


def _by_class(rows: Sequence[Mapping[str, Any]], rules: Rules) -> list[Ruled]:
    results = []
    for kind, (rule, holds, hint) in _CLASS_RULES.items():
        of_kind = [row for row in rows if row["table"] == "offsets" and row["class"] == kind.value]
        found = [] if rules.allowed[kind] else [_offence(row) for row in of_kind]
        count = f" ({len(of_kind)})" if of_kind else ""
        results.append(ruled(rule, holds + count, found, hint=hint))
    return results


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
    rows: Sequence[Mapping[str, Any]], rules: Rules, results: Sequence[Ruled]
) -> list[dict[str, Any]]:
    failed = {result.finding.rule for result in results if result.finding.verdict is not Verdict.PASS}

    def allowed(row: Mapping[str, Any]) -> bool:
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
    *,
    docs: Path | None = None,
) -> Compared:
    """Compare the snapshots in `folders` (``before``, ``after``), already verified, under `rules`;
    `docs` is the folder of the Data Docs."""
    found = _differences(spark, folders, manifests)
    tables = {moment: rows_of(folders[moment], manifests[moment]) for moment in folders}
    results = [sound(manifests), schemas(folders, manifests), *_by_class(found, rules)]
    results += checks.run(spark, rules)
    if ledger := _ledger(tables["after"], rules):
        results.append(ledger)
    suite = Suite(library.get(), docs)
    expectations = {
        moment: suite.validate(moment, tables[moment], nobody=rules.nobody) for moment in ("before", "after")
    }
    suite.publish()
    results.append(judged("V21", "before", expectations["before"]))
    results.append(judged("V22", "after", expectations["after"]))
    outcome = Outcome(
        migration=manifests["after"].migration,
        stage=rules.stage,
        moment=rules.moment,
        results=tuple(sorted(results, key=lambda result: result.finding.rule)),
        counts=counts(found),
        manifests={moment: manifest.digest for moment, manifest in manifests.items()},
        expectations=expectation_data(expectations),
        versions={**versions(spark), "great_expectations": str(library.get().__version__)},
    )
    return Compared(
        outcome=outcome,
        manifests=manifests,
        tables=tables,
        differences=_with_allowed(found, rules, results),
        expectations=expectations,
    )


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
