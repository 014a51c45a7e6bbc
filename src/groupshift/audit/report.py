"""The report of an audit of committed offsets: one HTML file that needs nothing besides itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from groupshift.audit.offsets import Audit, Mismatch
from groupshift.audit.rules import Weight
from groupshift.domain.foreign_text_quoting import shell
from groupshift.domain.verdict import Verdict
from groupshift.report.page import (
    Alarm,
    Cell,
    Details,
    Headline,
    Page,
    Section,
    Table,
    Word,
    badge,
    duration,
    glance,
    moment_utc,
    name,
    section,
    table,
)
from groupshift.report.page import (
    render as render_page,
)

SHOWN = 500
"""Rows of a table, and problems; the Parquet file beside the report has all."""
NAMED = 5
"""Groups of the command that is offered."""
_VERDICTS = {
    Weight.EXPLAINED: Verdict.PASS,
    Weight.UNKNOWN: Verdict.INCONCLUSIVE,
    Weight.MISMATCH: Verdict.FAIL,
}
_HOW = (
    "The position of the log was taken before and after the coordinators and ZooKeeper were asked. What a "
    "coordinator answers has to be the last commit before the first position, or one between the two. "
    "Differences that this does not explain were looked at a second time, their groups asked for by name; "
    "only what both looks saw is counted."
)


def render(audit: Audit) -> str:
    """The HTML document: what it means and what to do, figures, kinds of differences, the offsets."""
    verdict, word = judged(audit)
    left = audit.looked.suspicious
    passed = [one for one in audit.looked.mismatches if one.weight is Weight.EXPLAINED]
    shown, problems = min(len(passed), SHOWN), audit.looked.problems
    more = f"The first {SHOWN:,} of {len(problems):,}." if len(problems) > SHOWN else ""
    page = Page(
        title="Audit of committed offsets",
        top=Headline(verdict=verdict, word=word, sentence=sentence(audit), now=tuple(_now(audit))),
        lead=f"Cluster {audit.cluster_id}, read {moment_utc(audit.began_ms)}. Nothing was changed.",
        sections=[
            _figures(audit),
            section("What could not be read", Alarm(items=problems[:SHOWN]), more) if problems else None,
            _kinds(audit.looked.mismatches),
            section("Not explained", _rows(left)) if left else None,
            section("Explained", "They need nothing.", Details(f"Show {shown:,}", [_rows(passed)]))
            if passed
            else None,
            section("How it was found", _HOW),
        ],
    )
    return render_page(page)


def judged(audit: Audit) -> tuple[Verdict, str]:
    """Its colour and a word: a mismatch is red, what could not be read alone is not proven."""
    left = audit.looked.suspicious
    if audit.clean and not audit.looked.keys:
        return Verdict.INCONCLUSIVE, "nothing to audit"
    if audit.clean:
        return Verdict.PASS, "clean"
    worst = any(one.weight is Weight.MISMATCH for one in left)
    word = f"{len(left):,} not explained" if left else "not proven"
    return Verdict.FAIL if worst else Verdict.INCONCLUSIVE, word


def sentence(audit: Audit) -> str:
    """Say in one sentence how many offsets agree, and how many differ without an explanation."""
    looked, left = audit.looked, len(audit.looked.suspicious)
    if audit.clean and not looked.keys:
        return "No source has a committed offset: there was nothing to audit."
    sources = "three sources" if audit.zookeeper else "two sources (no ZooKeeper)"
    agree = f"{looked.agreeing:,} of {looked.keys:,} offsets agree in {sources}"
    if audit.clean and looked.mismatches:
        known = (
            f"{looked.agreeing:,} agree in {sources}, {len(looked.mismatches):,} differ for a known reason"
        )
        return f"All {looked.keys:,} offsets are as they should be: {known}."
    if audit.clean:
        return f"No offset differs: {agree}."
    if not left:
        return f"Not every source told all it has: {agree}, as far as they told."
    groups = len({one.group for one in looked.suspicious})
    differ = "1 offset differs" if left == 1 else f"{left:,} offsets differ"
    of = "1 group" if groups == 1 else f"{groups:,} groups"
    return f"{differ} without an explanation, in {of}; {agree}."


def _now(audit: Audit) -> Iterator[tuple[Cell, ...]]:
    """What to do, a line of cells each: first what could not be read, then the remedy of each kind of
    difference with how many offsets it is about, at last the command that shows that it is gone."""
    looked = audit.looked
    if audit.clean and not looked.keys:
        yield "See that the audit looked at the cluster you mean, and at its groups.", ""
        return
    if audit.clean:
        yield "Nothing. Audit again before and after every move.", ""
        return
    if looked.problems:
        yield "Correct what could not be read (below): what no source told is not proven equal.", ""
    remedies = Counter((one.kind, one.remedy) for one in looked.suspicious)
    for (kind, remedy), count in remedies.most_common():
        yield Word(f"{count:,} {kind}", tag="strong"), "", f": {remedy}."
    if not (groups := list(dict.fromkeys(one.group for one in looked.suspicious))):
        yield "Then audit again.", ""
        return
    more = "" if len(groups) <= NAMED else f" (and the other {len(groups) - NAMED:,})"
    command = f"groupshift audit --groups {shell(','.join(groups[:NAMED]))}"
    yield "Then see that it is gone:", command, more


def _figures(audit: Audit) -> Section:
    """The figures at a glance: offsets, what they agree in, weights of differences, and the retention in
    hours."""
    weights = Counter(one.weight for one in audit.looked.mismatches)
    retention = "not told" if audit.retention_ms is None else f"{audit.retention_ms / 3_600_000:,.4g} h"
    return glance(
        ("offsets", f"{audit.looked.keys:,}"),
        ("agree", f"{audit.looked.agreeing:,}"),
        ("mismatches", f"{weights[Weight.MISMATCH]:,}"),
        ("unknown", f"{weights[Weight.UNKNOWN]:,}"),
        ("explained", f"{weights[Weight.EXPLAINED]:,}"),
        ("ZooKeeper", "asked" if audit.zookeeper else "there is none"),
        ("offsets are kept for", retention),
        ("took", duration(audit.ended_ms - audit.began_ms)),
    )


def _kinds(rows: Sequence[Mismatch]) -> Section:
    """A row for each rule that spoke: how many offsets, what it means, and what to do."""
    title = "Differences by kind"
    if not rows:
        return section(title, "There is none: every source says the same of every offset.")
    counts = Counter(one.rule for one in rows)
    first = {one.rule: one for one in reversed(rows)}
    listed = table(
        (first[number] for number in sorted(counts)),
        {
            "rule": "rule",
            "kind": "kind",
            "weight": lambda one: badge(_VERDICTS[one.weight], str(one.weight)),
            "offsets": lambda one: f"{counts[one.rule]:,}",
            "what it means": "reason",
            "what to do": lambda one: one.remedy or None,
        },
        numeric={"offsets"},
    )
    return section(title, listed)


def _rows(rows: Sequence[Mismatch]) -> Table:
    """A row for each offset that differs, at most `SHOWN`: what each source says, and where the records
    lie."""
    return table(
        rows,
        {
            "group": lambda one: name(one.group),
            "topic": lambda one: name(one.topic),
            "partition": "partition",
            "kind": lambda one: f"{one.kind} ({one.rule})",
            "coordinator": lambda one: _number(one.answered),
            "log": lambda one: _number(one.logged),
            "ZooKeeper": lambda one: _number(one.zookeeper),
            "log end": lambda one: _number(one.log_end),
            "mode": "mode",
            "records in the log": _records,
        },
        numeric={"partition", "coordinator", "log", "ZooKeeper", "log end"},
        most=SHOWN,
        whole="; differences.parquet beside this report has every offset",
    )


def _number(offset: int | None) -> str | None:
    return None if offset is None else f"{offset:,}"


def _records(one: Mismatch) -> str | None:
    """Where the deciding record lies, and what one outside the group's partition says."""
    records = []
    if one.log_partition is not None:
        records.append(f"partition {one.log_partition} at {_number(one.log_offset)}")
    if one.foreign_partition is not None:
        records.append(f"partition {one.foreign_partition} says {_number(one.foreign_offset)}")
    return "; ".join(records) or None
