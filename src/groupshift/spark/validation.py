"""Comparison of two verified snapshots: differences, rules, SQL checks and expectations, in this order.

Its report is one HTML file that says what was compared and what was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from groupshift.domain.evidence import Manifest, Moment, Store
from groupshift.domain.verdict import Finding, Verdict, counted
from groupshift.spark import checks, picture, sources
from groupshift.spark.checks import Offence, Outcome, Ruled, not_asked, ruled
from groupshift.spark.expectations import Expected, Library, Rows, Suite, expectation_data, judged
from groupshift.spark.html import (
    Markup,
    badge,
    duration,
    facts,
    join,
    moment_utc,
    page,
    section,
    table,
    tag,
    verdict_badge,
)
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
    *,
    docs: Path | None = None,
) -> Compared:
    """Compare the snapshots in `folders` (``before``, ``after``), already verified, under `rules`;
    `docs` is the folder of the Data Docs."""
    found = _differences(spark, folders, manifests)
    tables = {moment: rows_of(folders[moment], manifests[moment]) for moment in folders}
    itself = manifests["before"].digest == manifests["after"].digest
    results = [sound(manifests), schemas(folders, manifests), *checks.run(spark, rules, itself=itself)]
    unread = checks.leftovers(spark)
    results += _by_class(found, rules, unread, itself=itself)
    results.append(_left_over(tables["after"]["offsets"], found, unread, itself=itself))
    if ledger := _ledger(tables["after"], rules):
        results.append(ledger)
    suite = Suite(library.get(), docs)
    expectations = {
        moment: suite.validate(moment, _read(tables[moment], unread), nobody=rules.nobody)
        for moment in ("before", "after")
    }
    suite.publish()
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


FIRST = 10
"""How many differences of each class a report shows; all of them are in ``differences.parquet``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Everything the report shows: manifests and rows by moment, differences (rows of
    `transforms.COLUMNS` plus ``allowed``), and what the expectations said by moment."""

    outcome: Outcome
    manifests: Mapping[str, Manifest]
    tables: Mapping[str, Mapping[str, Rows]]
    differences: Sequence[Mapping[str, Any]]
    expectations: Mapping[str, Sequence[Expected]]


def render(compared: Compared) -> str:
    """The whole HTML document."""
    outcome = compared.outcome
    group = compared.tables["after"]["group"]
    name = group[0]["group"] if group else "unknown"
    when = "right before the act" if outcome.moment == "before" else "after the act"
    what = f"Group {name}, migration {outcome.migration}"
    lead = f"{what}: two snapshots compared {when} of stage {outcome.stage}."
    return page(
        f"Validation of {outcome.stage}, {outcome.moment}",
        outcome.verdict,
        lead,
        [
            _summary(compared),
            rules_section(outcome.results),
            _picture(compared),
            _difference_table(compared),
            _expectations(compared),
            _sources(compared),
        ],
    )


def refused(outcome: Outcome) -> str:
    """The document when nothing was compared because the evidence itself is not sound."""
    lead = (
        f"Migration {outcome.migration}: nothing was compared, because the evidence is not what was written."
    )
    return page(
        f"Validation of {outcome.stage}, {outcome.moment}",
        outcome.verdict,
        lead,
        [rules_section(outcome.results)],
    )


def _summary(compared: Compared) -> Markup:
    before, after = compared.manifests["before"], compared.manifests["after"]
    moved = sum(1 for row in compared.differences if row["table"] == "owners")
    held = [result for results in compared.expectations.values() for result in results]
    pairs = [
        ("rules", counted(result.finding for result in compared.outcome.results)),
        ("expectations met", f"{sum(result.success for result in held)} of {len(held)}"),
        ("partitions", len(compared.tables["after"]["log_ends"])),
        ("owners changed", moved),
        (
            "members",
            f"{len(compared.tables['before']['members'])} → {len(compared.tables['after']['members'])}",
        ),
        ("mode", " → ".join(_mode(compared.tables[moment]) for moment in ("before", "after"))),
        ("time between", duration(after.taken_at_ms - before.taken_at_ms)),
    ]
    offsets = [
        (f"offsets {kind.value.replace('_', ' ')}", compared.outcome.counts.get(kind.value, 0))
        for kind in Difference
    ]
    return section("At a glance", facts(pairs), facts(offsets))


def _mode(tables: Mapping[str, Rows]) -> str:
    return str(tables["group"][0]["effective_mode"]) if tables["group"] else "unknown"


def _allowed(row: Mapping[str, Any]) -> Markup:
    return badge(Verdict.PASS, "allowed") if row["allowed"] else badge(Verdict.FAIL, "not allowed")


def rules_section(results: Sequence[Ruled]) -> Markup:
    """All findings, those that did not pass first and once more above the table."""
    ordered = sorted(results, key=lambda result: -result.finding.verdict.rank)
    bad = [result for result in ordered if result.finding.verdict is not Verdict.PASS]
    alarms = [
        tag(
            "div",
            tag("strong", result.finding.rule, " "),
            result.finding.reason,
            tag("div", result.finding.hint, class_="hint"),
            class_="alarm",
        )
        for result in bad
    ]
    rows = [
        (
            result.finding.rule,
            verdict_badge(result.finding),
            result.finding.reason,
            len(result.offences) or None,
        )
        for result in ordered
    ]
    return section(
        "Rules", *alarms, table(["rule", "verdict", "what was found", "rows"], rows, numeric=["rows"])
    )


def _owners(tables: Mapping[str, Rows]) -> picture.Owners:
    owned: dict[tuple[str, int], tuple[str, ...]] = {}
    for row in tables["owners"]:
        key = (row["topic"], row["partition"])
        owned[key] = (*owned.get(key, ()), row["member_id"])
    return owned


def _picture(compared: Compared) -> Markup:
    moments = {moment: _owners(tables) for moment, tables in compared.tables.items()}
    partitions = sorted(
        {key for owned in moments.values() for key in owned}
        | {
            (row["topic"], row["partition"])
            for tables in compared.tables.values()
            for row in tables["log_ends"]
        }
    )
    kinds = {
        row["member_id"]: row["kind"] for tables in compared.tables.values() for row in tables["members"]
    }
    colours = picture.palette(
        [name for owned in moments.values() for names in owned.values() for name in names]
    )
    parts = [
        join([tag("h3", topic), picture.ownership(topic, [number for _, number in group], moments, colours)])
        for topic, group in groupby(partitions, key=lambda key: key[0])
    ]
    note = tag(
        "p",
        "One cell a partition, coloured by owner; a framed cell changed hands, a dashed one has no owner.",
        class_="note",
    )
    return section("Owners before and after", note, picture.legend(colours, kinds), *parts)


def _difference_table(compared: Compared) -> Markup:
    parts = [_of_class(kind, compared.differences) for kind in Difference]
    nothing = tag("p", "The two snapshots hold the same.", class_="note")
    return section("Differences by class", *([part for part in parts if part] or [nothing]))


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["allowed"], row["table"], row["topic"] or "", row["partition"] or 0, row["subject"]


def _of_class(kind: Difference, differences: Sequence[Mapping[str, Any]]) -> Markup:
    rows = sorted((row for row in differences if row["class"] == kind.value), key=_order)
    if not rows:
        return Markup()
    shown = [
        (row["table"], row["subject"], row["before"], row["after"], _allowed(row)) for row in rows[:FIRST]
    ]
    listed = table(["table", "what", "before", "after", "allowed"], shown, numeric=["before", "after"])
    more = tag("p", f"The first {FIRST} of {len(rows)}; all are in differences.parquet.", class_="note")
    title = tag("h3", f"{kind.value.replace('_', ' ')}: {len(rows)}")
    return join([title, listed, more if len(rows) > FIRST else ""])


def _expectations(compared: Compared) -> Markup:
    parts: list[Markup] = []
    for moment, results in compared.expectations.items():
        failed = [result for result in results if not result.success]
        line = f"Snapshot {moment}: {len(results) - len(failed)} of {len(results)} hold"
        everything = tag("details", tag("summary", line), _expected(results))
        parts.append(join([_expected(failed) if failed else "", everything]))
    where = "Rows that an expectation names are in failing_rows.parquet, Data Docs in data_docs/."
    return section("Great Expectations", *parts, tag("p", where, class_="note"))


def _expected(results: Sequence[Expected]) -> Markup:
    rows = [
        (
            one.table,
            one.sentence,
            one.severity,
            badge(Verdict.PASS if one.success else Verdict.FAIL, "holds" if one.success else "fails"),
            one.detail,
        )
        for one in results
    ]
    return table(["table", "expectation", "severity", "result", "found"], rows)


_PROVEN = "Every file was read and its SHA-256 compared with its manifest before anything else."


def _sources(compared: Compared) -> Markup:
    columns = ["", "snapshot", "taken at", "SHA-256 of the manifest"]
    heads = [
        (moment, f"{one.stage} / {one.moment}", moment_utc(one.taken_at_ms), tag("code", one.digest[:16]))
        for moment, one in compared.manifests.items()
    ]
    files = _files(compared.manifests["before"], compared.manifests["after"])
    return section("What was compared", table(columns, heads), files, tag("p", _PROVEN, class_="note"))


def _files(before: Manifest, after: Manifest) -> Markup:
    columns = ["table", "rows before", "rows after", "SHA-256 before", "SHA-256 after"]
    rows = [
        (
            entry.table,
            entry.rows,
            _rows(after, entry.table),
            tag("code", entry.sha256[:16]),
            tag("code", _sha(after, entry.table)),
        )
        for entry in before.files
    ]
    return table(columns, rows, numeric=columns[1:3])


def _rows(manifest: Manifest, name: str) -> int | None:
    return next((entry.rows for entry in manifest.files if entry.table == name), None)


def _sha(manifest: Manifest, name: str) -> str:
    return next((entry.sha256[:16] for entry in manifest.files if entry.table == name), "")
