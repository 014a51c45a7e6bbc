"""The report of a comparison: one HTML file that says what was compared and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from groupshift.domain.evidence import Manifest
from groupshift.domain.verdict import Verdict, counted
from groupshift.spark import picture
from groupshift.spark.expectations import Expected, Rows
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
from groupshift.spark.transforms import Difference
from groupshift.spark.verdicts import Outcome, Ruled

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
            _differences(compared),
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


def _differences(compared: Compared) -> Markup:
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
