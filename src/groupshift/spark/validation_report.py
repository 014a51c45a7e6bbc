"""The report of a comparison of two snapshots of a group: what was compared, and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from groupshift.domain.verdict import Verdict, counted
from groupshift.report.page import (
    Alarm,
    Cell,
    Details,
    Facts,
    Headline,
    Legend,
    Page,
    Part,
    Section,
    Table,
    Word,
    badge,
    code,
    duration,
    moment_utc,
    section,
    table,
    verdict_of,
)
from groupshift.report.page import (
    render as render_page,
)
from groupshift.report.pictures import ownership
from groupshift.report.svg_and_time_axis import palette
from groupshift.spark.checks import Ruled
from groupshift.spark.expectations import Expected
from groupshift.spark.validation import CLASSES, Compared, ValidationOutcome

FIRST = 10
"""How many differences of each class a report shows; all of them are in ``differences.parquet``."""


def render(compared: Compared) -> str:
    """Return the whole HTML document."""
    outcome = compared.outcome
    group = compared.tables["after"]["group"]
    what = f"Group {group[0]['group'] if group else 'unknown'}, run {outcome.run}"
    when = "right before the act" if outcome.moment == "before" else "after the act"
    lead = f"{what}: two snapshots compared {when} of phase {outcome.phase}."
    return _page(
        outcome,
        lead,
        _summary(compared),
        rules_section(outcome.results),
        _owners(compared),
        _differences(compared),
        _expectations(compared),
        _sources(compared),
    )


def refused(outcome: ValidationOutcome) -> str:
    """Return the document when nothing was compared because the evidence itself is not sound."""
    lead = f"Run {outcome.run}: nothing was compared, because the evidence is not what was written."
    return _page(outcome, lead, rules_section(outcome.results))


def _page(outcome: ValidationOutcome, lead: str, *sections: Section) -> str:
    title = f"Validation of {outcome.phase}, {outcome.moment}"
    top = Headline(verdict=outcome.verdict)
    return render_page(Page(title=title, top=top, lead=lead, sections=sections))


def _summary(compared: Compared) -> Section:
    before, after = compared.tables["before"], compared.tables["after"]
    taken = {moment: source.manifest.taken_at_ms for moment, source in compared.inputs.items()}
    held = [result for results in compared.expectations.values() for result in results]
    groups = [tables["group"] for tables in (before, after)]
    modes = [str(rows[0]["effective_mode"]) if rows else "unknown" for rows in groups]
    figures: list[tuple[str, Cell]] = [
        ("rules", counted(result.finding for result in compared.outcome.results)),
        ("expectations met", f"{sum(result.success for result in held)} of {len(held)}"),
        ("partitions", len(after["log_ends"])),
        ("owners changed", sum(row["table"] == "owners" for row in compared.differences)),
        ("members", f"{len(before['members'])} → {len(after['members'])}"),
        ("mode", " → ".join(modes)),
        ("time between", duration(taken["after"] - taken["before"])),
    ]
    counts = [(f"offsets {name.replace('_', ' ')}", each) for name, each in compared.outcome.counts.items()]
    return section("At a glance", Facts(figures), Facts(counts))


def rules_section(results: Sequence[Ruled]) -> Section:
    """Return all findings, those that did not pass first and once more above the table."""
    ordered = sorted(results, key=lambda result: -result.finding.verdict.rank)
    bad = [result.finding for result in ordered if result.finding.verdict is not Verdict.PASS]
    listed = table(
        ordered,
        {
            "rule": lambda result: result.finding.rule,
            "verdict": lambda result: verdict_of(result.finding),
            "what was found": lambda result: result.finding.reason,
            "rows": lambda result: result.count or None,
        },
        numeric={"rows"},
    )
    alarms = (Alarm(lead=each.rule, text=each.reason, hint=each.hint) for each in bad)
    return section("Rules", *alarms, listed)


def _owners(compared: Compared) -> Section:
    tables = compared.tables.values()
    moments: dict[str, dict[tuple[str, int], tuple[str, ...]]] = {moment: {} for moment in compared.tables}
    for moment, of in compared.tables.items():
        for row in of["owners"]:
            key = row["topic"], row["partition"]
            moments[moment][key] = (*moments[moment].get(key, ()), row["member_id"])
    partitions = {key for owned in moments.values() for key in owned}
    partitions |= {(row["topic"], row["partition"]) for of in tables for row in of["log_ends"]}
    kinds = {row["member_id"]: row["kind"] for of in tables for row in of["members"]}
    colours = palette(name for owned in moments.values() for names in owned.values() for name in names)
    parts: list[Part] = []
    for topic, group in groupby(sorted(partitions), key=lambda key: key[0]):
        numbers = [number for _, number in group]
        parts += [Word(topic, tag="h3"), ownership(topic, numbers, moments, colours)]
    return section(
        "Owners before and after",
        "One cell a partition, coloured by owner; a framed cell changed hands, a dashed one has no owner.",
        Legend(colours, kinds),
        *parts,
    )


def _differences(compared: Compared) -> Section:
    parts: list[Part] = []
    for class_ in CLASSES:
        if not (rows := [row for row in compared.differences if row["class"] == class_]):
            continue
        parts.append(Word(f"{class_.replace('_', ' ')}: {len(rows)}", tag="h3"))
        listed = table(
            sorted(rows, key=lambda row: row["allowed"]),  # they are in the order of their keys
            {
                "table": "table",
                "what": "subject",
                "before": "before",
                "after": "after",
                "allowed": lambda row: _badge("allowed", "not allowed", good=row["allowed"]),
            },
            numeric={"before", "after"},
            most=FIRST,
            whole="; all are in differences.parquet",
        )
        parts.append(listed)
    return section("Differences by class", *(parts or ["The two snapshots hold the same."]))


def _badge(yes: str, no: str, *, good: bool) -> Word:
    return badge(Verdict.PASS, yes) if good else badge(Verdict.FAIL, no)


def _expectations(compared: Compared) -> Section:
    parts: list[Part] = []
    for moment, results in compared.expectations.items():
        failed = [result for result in results if not result.success]
        line = f"Snapshot {moment}: {len(results) - len(failed)} of {len(results)} hold"
        parts += [_expected(failed)] if failed else []
        parts.append(Details(line, [_expected(results)]))
    where = "Rows that an expectation names are in failing_rows.parquet."
    return section("Great Expectations", *parts, where)


def _expected(results: Sequence[Expected]) -> Table:
    return table(
        results,
        {
            "table": "table",
            "expectation": "sentence",
            "severity": "severity",
            "result": lambda one: _badge("holds", "fails", good=one.success),
            "found": "detail",
        },
    )


def _sources(compared: Compared) -> Section:
    """The snapshots; the SHA-256 of a manifest proves those of its files."""
    snapshots = table(
        compared.inputs.items(),
        {
            "": lambda one: one[0],
            "snapshot": lambda one: f"{one[1].manifest.phase} / {one[1].manifest.moment}",
            "taken at": lambda one: moment_utc(one[1].manifest.taken_at_ms),
            "files": lambda one: len(one[1].manifest.files),
            "SHA-256 of the manifest": lambda one: code(one[1].manifest.digest[:16]),
        },
        numeric={"files"},
    )
    proven = "Every file was read and its SHA-256 compared with its manifest before anything else."
    return section("What was compared", snapshots, proven)
