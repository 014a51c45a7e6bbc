"""The parts of a report that every move has: comparisons, steps, who decided, what was approved, evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from groupshift.application.run_account import P, RunAccount, compared, decisions
from groupshift.application.run_engine import StepStatus
from groupshift.domain.seal import StoredFile
from groupshift.domain.step import Stand
from groupshift.spark.account.tables import spoken
from groupshift.spark.html import Markup, duration, join, moment_utc, section, table, tag

_STANDS = {
    Stand.DONE: "read back",
    Stand.ACTED: "done, not read back yet",
    Stand.INTENDED: "begun",
    Stand.UNTOUCHED: "",
}
_SHOWN = 200


def comparisons(account: RunAccount[P]) -> Markup:
    """Each snapshot that is held against another one, and what differs."""
    rows = [
        (
            each.subject,
            each.base,
            each.rules.replace("_", " "),
            spoken(each.verdict) if each.verdict else "not taken yet",
            each.groups,
            "; ".join(each.reasons) or ("no problem and no difference" if each.verdict else None),
            tag("code", each.folder) if each.folder else None,
            moment_utc(each.at_ms) if each.at_ms else None,
        )
        for each in compared(account)
    ]
    if not rows:
        return section("Comparisons", tag("p", "The plan compares nothing.", class_="note"))
    heads = ["snapshot", "with", "rules of", "result", "groups", "what differs", "folder", "when"]
    note = (
        "Sets of groups, types, offsets, leader epochs and metadata of commits; the whole outcome is in the "
        "folder."
    )
    listed = table(
        heads, rows, numeric=["groups"], caption="Snapshots of all groups, held against each other"
    )
    return section("Comparisons", tag("p", note, class_="note"), listed)


def steps(account: RunAccount[P]) -> Iterator[Markup]:
    """There, and back where that was asked for."""
    yield _steps("Steps there", account.there, account.run.created_at_ms)
    if account.back:
        since = max((each.at_ms for each in account.there), default=0)
        yield _steps("Steps back", account.back, since)


def _steps(title: str, found: Sequence[StepStatus], since_ms: int) -> Markup:
    rows = list(_step_rows(found, since_ms))
    heads = ["step", "what is done", "proof before the next", "way back", "when", "took", "now"]
    return section(
        title, table(heads, rows, numeric=["took"], caption="In order; times are those of the journal")
    )


def _step_rows(found: Sequence[StepStatus], since_ms: int) -> Iterator[tuple[object, ...]]:
    before = since_ms
    for each in found:
        took = duration(max(0, each.at_ms - before)) if each.at_ms else None
        yield (
            tag("code", each.step.key),
            folded(each.step.does),
            folded(each.step.proof),
            folded(each.step.inverse),
            moment_utc(each.at_ms) if each.at_ms else None,
            took,
            _STANDS[each.stand],
        )
        before = each.at_ms or before


def folded(text: str) -> Markup | None:
    """A sentence that may hold a long name, and still leaves room for the columns beside it."""
    return tag("span", text, class_="name") if text else None


def decided(account: RunAccount[P]) -> Markup:
    """Who was asked what, and what was answered."""
    said = {True: "approved", False: "refused", None: "nobody has answered"}
    rows = [
        (each.subject, said[each.approved], each.who or None, moment_utc(each.at_ms))
        for each in decisions(account)
    ]
    if not rows:
        return section("Who decided", tag("p", "Nobody was asked yet.", class_="note"))
    return section("Who decided", table(["what", "answer", "who", "when"], rows))


def approved_for(account: RunAccount[P]) -> Markup:
    """What was met when the run was planned."""
    rows = sorted(account.plan.met.items())
    listed = table(["what was met", "as"], rows[:_SHOWN])
    more = (
        tag("p", f"And {len(rows) - _SHOWN} more in the journal.", class_="note")
        if len(rows) > _SHOWN
        else ""
    )
    summary = tag("summary", f"{len(rows)} things were met when it was planned; a change voids the approval")
    return section("What was approved", tag("details", summary, join((listed, more))))


def evidence(account: RunAccount[P], files: Sequence[StoredFile]) -> Markup:
    """The plan's hash, and every file with its own."""
    about = table(["what", "value"], [("plan", tag("code", account.run.plan_hash, class_="hash"))])
    rows = ((file.path, file.bytes, tag("code", file.sha256, class_="hash")) for file in files)
    listed = table(["file", "bytes", "SHA-256"], rows, numeric=["bytes"])
    summary = tag("summary", f"{len(files)} files with their SHA-256")
    return section("Evidence", about, tag("details", summary, listed) if files else "")
