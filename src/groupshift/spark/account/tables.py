"""The tables of a report: who decided, what was found, how offsets differ, every event, every file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from groupshift.application.account import Account, Compared
from groupshift.application.event_text import event_text
from groupshift.domain.verdict import NOT_ASKED, Verdict, counted
from groupshift.ports.journal import EventKind
from groupshift.spark.account.run_picture import SIGNS
from groupshift.spark.html import Markup, badge, join, moment_utc, section, table, tag

_CLASSES = ("lost", "extra", "regressed", "advanced", "metadata_only")
_QUIET = frozenset({EventKind.OBSERVED, EventKind.PROOF_REQUESTED, EventKind.SEALING})
_NOTHING = tag("p", "Nothing was compared yet.", class_="note")


def spoken(verdict: Verdict) -> Markup:
    """A verdict with its sign, for those who do not see its colour."""
    return badge(verdict, f"{SIGNS[verdict]} {verdict}")


def decisions(account: Account) -> Markup:
    """Who answered which gate; the numbers are those in the picture of the run."""
    if not account.approvals:
        return section("Who decided", tag("p", "No gate was answered.", class_="note"))
    rows = [
        (
            number,
            each.gate,
            each.stage.replace("_", " ") or None,
            each.choice,
            each.who,
            moment_utc(each.at_ms),
        )
        for number, each in enumerate(account.approvals, 1)
    ]
    heads = ["no.", "gate", "stage", "answer", "who", "when"]
    return section("Who decided", table(heads, rows, numeric=["no."], caption="Answers at gates, in order"))


def findings(account: Account) -> Markup:
    """Every finding that did not pass, worst first; then all of them, stage by stage."""
    found = [(each, finding) for each in account.compared for finding in each.findings]
    bad = sorted(
        ((each, finding) for each, finding in found if finding.verdict is not Verdict.PASS),
        key=lambda pair: -pair[1].verdict.rank,
    )
    alarms = [
        tag(
            "div",
            tag("strong", f"{finding.rule}, {_where(each)}: "),
            finding.reason,
            tag("div", finding.hint, class_="hint"),
            class_="alarm",
        )
        for each, finding in bad[:20]
    ]
    lead = f"{counted((f for _, f in found), 'findings')}." if found else "Nothing was judged yet."
    rows = (
        (_where(each), f.rule, spoken(f.verdict) if f.asked else NOT_ASKED, f.reason) for each, f in found
    )
    heads = ["stage", "rule", "severity", "what was found"]
    all_of_them = tag("details", tag("summary", f"All {len(found)} findings"), table(heads, rows))
    return section("Findings", tag("p", lead, class_="note"), *alarms, all_of_them if found else "")


def _where(each: Compared) -> str:
    return f"{each.moment} {each.stage}".replace("_", " ")


def offsets(account: Account) -> Markup:
    """How the committed offsets of each comparison differ, by class, and what was not allowed."""
    compared = [each for each in account.compared if each.counts]
    if not compared:
        return section("Committed offsets", _NOTHING)
    rows = [
        (_where(each), spoken(each.verdict), *(_count(each, kind) for kind in _CLASSES), _refusals(each))
        for each in compared
    ]
    heads = ["compared", "verdict", *(kind.replace("_", " ") for kind in _CLASSES), "not allowed"]
    note = (
        "Committed offsets of two snapshots, by class. A group that consumes advances; lost and regressed "
        "ones would be read again or skipped. Not allowed counts the rows of every table that the stage "
        "does not make."
    )
    listed = table(heads, rows, numeric=heads[2:], caption="Differences of committed offsets by class")
    return section("Committed offsets", tag("p", note, class_="note"), listed, *map(_refused, compared))


def _count(each: Compared, kind: str) -> object:
    number = each.counts.get(kind, 0)
    return tag("span", number, class_="refused") if number and kind in {"lost", "regressed"} else number


def _refusals(each: Compared) -> object:
    return tag("span", each.refusals, class_="refused") if each.refusals else 0


def _refused(each: Compared) -> Markup:
    if not each.refused:
        return Markup()
    rows = [(row["table"], row["class"], row["subject"], row["before"], row["after"]) for row in each.refused]
    heads = ["table", "class", "what", "before", "after"]
    more = each.refusals - len(each.refused)
    note = tag("p", f"And {more} more in differences.parquet.", class_="note") if more else ""
    title = tag("h3", f"Not allowed: {_where(each)}")
    return join((title, table(heads, rows, numeric=["before", "after"]), note))


def expectations(account: Account) -> Markup:
    """What Great Expectations said of each snapshot; those that failed by name."""
    asked = [each for each in account.compared if each.expectations]
    if not asked:
        return Markup()
    rows = [
        (
            _where(each),
            f"{sum(bool(one['success']) for one in each.expectations)} of {len(each.expectations)}",
            *(_failed(each, severity) for severity in ("critical", "warning", "info")),
        )
        for each in asked
    ]
    failed = [
        (_where(each), one["snapshot"], one["table"], one["sentence"], one["severity"], one["detail"])
        for each in asked
        for one in each.expectations
        if not one["success"]
    ]
    heads = ["comparison", "hold", "critical failed", "warning failed", "info failed"]
    names = ["comparison", "snapshot", "table", "expectation", "severity", "found"]
    note = "The rows themselves are in failing_rows.parquet of the comparison, Data Docs in data_docs/."
    named = join((table(names, failed), tag("p", note, class_="note"))) if failed else ""
    listed = table(heads, rows, numeric=heads[1:], caption="Expectations that hold, and failures by severity")
    return section("Great Expectations", listed, named)


def _failed(each: Compared, severity: str) -> object:
    number = sum(one["severity"] == severity and not one["success"] for one in each.expectations)
    return tag("span", number, class_="refused") if number else 0


def journal(account: Account) -> Markup:
    """Every event but single looks, in order."""
    rows = (
        (
            event.seq,
            moment_utc(event.at_ms),
            event.kind.value.replace("_", " "),
            event.stage.value.replace("_", " ") if event.stage else None,
            event_text(event),
        )
        for event in account.status.events
        if event.kind not in _QUIET
    )
    listed = table(["no.", "when", "what", "stage", "said"], rows, numeric=["no."])
    summary = tag("summary", f"All {len(account.status.events)} events of the journal")
    return section("Journal", tag("details", summary, listed))


def evidence(account: Account, sealed: Sequence[tuple[str, object]]) -> Markup:
    """Every file with its hash, and what the pack says of itself."""
    rows: Iterable[tuple[object, ...]] = (
        (file.path, file.bytes, tag("code", file.sha256, class_="hash")) for file in account.files
    )
    listed = table(["file", "bytes", "SHA-256"], rows, numeric=["bytes"])
    summary = tag("summary", f"{len(account.files)} files with their SHA-256")
    about = table(["what", "value"], sealed, caption="What was met, and what was approved")
    return section("Evidence", about, tag("details", summary, listed))
