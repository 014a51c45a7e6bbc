"""The report of an audit of committed offsets: one HTML file that needs nothing besides itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from groupshift.audit.offsets import Audit, Mismatch
from groupshift.audit.rules import Weight
from groupshift.domain.foreign_text import shell
from groupshift.domain.verdict import Verdict
from groupshift.spark.html import (
    Markup,
    badge,
    duration,
    facts,
    moment_utc,
    page,
    section,
    table,
    tag,
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
_SOURCES = ("coordinator", "log", "ZooKeeper", "log end")
_HOW = """\
The position of the log was taken before and after the coordinators and ZooKeeper were asked. What a
coordinator answers has to be the last commit before the first position, or one between the two. Differences
that this does not explain were looked at a second time, their groups asked for by name; only what both looks
saw is counted.
"""


def render(audit: Audit) -> str:
    """The HTML document: what it means and what to do, figures, kinds of differences, the offsets."""
    sections = [
        _banner(audit),
        _figures(audit),
        _problems(audit.looked.problems),
        _kinds(audit.looked.mismatches),
        _unexplained(audit.looked.suspicious),
        _explained(audit),
        section("How it was found", tag("p", _HOW, class_="note")),
    ]
    lead = f"Cluster {audit.cluster_id}, read {moment_utc(audit.began_ms)}. Nothing was changed."
    verdict, word = judged(audit)
    return page("Audit of committed offsets", verdict, lead, [part for part in sections if part], word=word)


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


def _banner(audit: Audit) -> Markup:
    verdict, _ = judged(audit)
    said = tag("p", _sentence(audit), class_="said")
    todo = tag("ul", *(tag("li", each) for each in _todo(audit)))
    return tag("section", said, tag("h2", "What to do now"), todo, class_=f"banner {verdict}")


def _sentence(audit: Audit) -> str:
    looked, left = audit.looked, len(audit.looked.suspicious)
    if not looked.keys:
        return "No source has a committed offset: there was nothing to audit."
    sources = "three sources" if audit.zookeeper else "two sources (no ZooKeeper)"
    agree = f"{looked.agreeing:,} of {looked.keys:,} offsets agree in {sources}"
    if audit.clean:
        return f"{'Every difference is explained' if looked.mismatches else 'No offset differs'}: {agree}."
    if not left:
        return f"Not every source told all it has: {agree}, as far as they told."
    groups = len({one.group for one in looked.suspicious})
    differ = "1 offset differs" if left == 1 else f"{left:,} offsets differ"
    of = "1 group" if groups == 1 else f"{groups:,} groups"
    return f"{differ} without an explanation, in {of}; {agree}."


def _todo(audit: Audit) -> Iterable[object]:
    if not audit.looked.keys:
        yield "See that the audit looked at the cluster you mean, and at its groups."
        return
    if audit.clean:
        yield "Nothing. Audit again before and after every move."
        return
    if audit.looked.problems:
        yield "Correct what could not be read (below): what no source told is not proven equal."
    remedies = Counter((one.kind, one.remedy) for one in audit.looked.suspicious)
    for (kind, remedy), count in remedies.most_common():
        yield tag("span", tag("strong", f"{count:,} {kind}"), f": {remedy}.")
    groups = list(dict.fromkeys(one.group for one in audit.looked.suspicious))
    if not groups:
        yield "Then audit again."
        return
    more = "" if len(groups) <= NAMED else f" (and the other {len(groups) - NAMED:,})"
    command = tag("code", f"groupshift audit --groups {shell(','.join(groups[:NAMED]))}")
    yield tag("span", "Then see that it is gone: ", command, more)


def _figures(audit: Audit) -> Markup:
    weights = Counter(one.weight for one in audit.looked.mismatches)
    retention = "not told" if audit.retention_ms is None else f"{audit.retention_ms / 3_600_000:,.4g} h"
    pairs = [
        ("offsets", f"{audit.looked.keys:,}"),
        ("agree", f"{audit.looked.agreeing:,}"),
        ("mismatches", f"{weights[Weight.MISMATCH]:,}"),
        ("unknown", f"{weights[Weight.UNKNOWN]:,}"),
        ("explained", f"{weights[Weight.EXPLAINED]:,}"),
        ("ZooKeeper", "asked" if audit.zookeeper else "there is none"),
        ("offsets are kept for", retention),
        ("took", duration(audit.ended_ms - audit.began_ms)),
    ]
    return section("At a glance", facts(pairs))


def _problems(problems: Sequence[str]) -> Markup:
    if not problems:
        return Markup()
    said = [tag("li", each) for each in problems[:SHOWN]]
    return section("What could not be read", tag("div", tag("ul", *said), class_="alarm"), _cut(problems))


def _kinds(rows: Sequence[Mismatch]) -> Markup:
    if not rows:
        none = "There is none: every source says the same of every offset."
        return section("Differences by kind", tag("p", none, class_="note"))
    counts = Counter(one.rule for one in rows)
    first = {one.rule: one for one in reversed(rows)}
    heads = ["rule", "kind", "weight", "offsets", "what it means", "what to do"]
    lines = []
    for number, count in sorted(counts.items()):
        one = first[number]
        weight = badge(_VERDICTS[one.weight], str(one.weight))
        lines.append((number, one.kind, weight, f"{count:,}", one.reason, one.remedy or "-"))
    return section("Differences by kind", table(heads, lines, numeric=["offsets"]))


def _unexplained(rows: Sequence[Mismatch]) -> Markup:
    if not rows:
        return Markup()
    return section("Not explained", _rows(rows), _cut(rows))


def _explained(audit: Audit) -> Markup:
    rows = [one for one in audit.looked.mismatches if one.weight is Weight.EXPLAINED]
    if not rows:
        return Markup()
    shown = tag("details", tag("summary", f"Show {min(len(rows), SHOWN):,}"), _rows(rows), _cut(rows))
    return section("Explained", tag("p", "They need nothing.", class_="note"), shown)


def _rows(rows: Sequence[Mismatch]) -> Markup:
    heads = ["group", "topic", "partition", "kind", *_SOURCES, "mode", "records in the log"]
    lines = (
        (
            tag("span", one.group, class_="name"),
            tag("span", one.topic, class_="name"),
            one.partition,
            f"{one.kind} ({one.rule})",
            *(_said(each) for each in (one.answered, one.logged, one.zookeeper, one.log_end)),
            one.mode,
            _records(one),
        )
        for one in rows[:SHOWN]
    )
    return table(heads, lines, numeric=("partition", *_SOURCES))


def _said(offset: int | None) -> str | None:
    return None if offset is None else f"{offset:,}"


def _records(one: Mismatch) -> str | None:
    """Where the deciding record lies, and what one outside the group's partition says."""
    deciding = (
        None if one.log_partition is None else f"partition {one.log_partition} at {_said(one.log_offset)}"
    )
    if one.foreign_partition is None:
        return deciding
    foreign = f"partition {one.foreign_partition} says {_said(one.foreign_offset)}"
    return foreign if deciding is None else f"{deciding}; {foreign}"


def _cut(rows: Sequence[object]) -> Markup:
    if len(rows) <= SHOWN:
        return Markup()
    text = f"The first {SHOWN:,} of {len(rows):,}; differences.parquet beside this report has every offset."
    return tag("p", text, class_="note")
