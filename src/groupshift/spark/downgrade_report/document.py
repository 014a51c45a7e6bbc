"""The report of a downgrade: the sentence first, then nodes, steps, comparisons, findings, approvals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from groupshift.application.downgrade_account import DowngradeAccount, compared, decisions
from groupshift.application.run_engine import StepStatus
from groupshift.domain.cluster_run.progress import Stand
from groupshift.domain.cluster_run.steps import RunAct
from groupshift.domain.pack import StoredFile
from groupshift.domain.verdict import Verdict
from groupshift.spark.account.banner import banner
from groupshift.spark.account.tables import spoken
from groupshift.spark.downgrade_report.headline import headline
from groupshift.spark.downgrade_report.pictures import legend, nodes_picture
from groupshift.spark.html import Markup, duration, facts, join, moment_utc, page, section, table, tag

_STANDS = {
    Stand.DONE: "read back",
    Stand.ACTED: "done, not read back yet",
    Stand.INTENDED: "begun",
    Stand.UNTOUCHED: "",
}
_SHOWN = 200
_NONE = "No hazard was met and no rule asks for anything."
_UNTOLD = "An older groupshift made this run and did not journal what the rules and the hazard book said."


def render(account: DowngradeAccount, files: Sequence[StoredFile] = ()) -> str:
    """The HTML document; it needs nothing besides itself. ``files`` are those of the run's evidence."""
    top, plan, run = headline(account), account.plan, account.run
    lead = f"Run {run.run}, planned {moment_utc(run.created_at_ms)}: cluster {plan.cluster_id}"
    sections = [
        banner(top),
        _glance(account),
        _nodes(account),
        _comparisons(account),
        _findings(account),
        _steps("Steps there", account.there, run.created_at_ms),
        _steps("Steps back", account.back, _last(account.there)) if account.back else "",
        _decisions(account),
        _approved_for(account),
        _evidence(account, files),
    ]
    title = f"Brokers from {plan.now} to {plan.release}"
    return page(
        title, top.verdict, lead, [each for each in sections if isinstance(each, Markup)], word=top.word
    )


def _glance(account: DowngradeAccount) -> Markup:
    found = compared(account)
    done = sum(each.stand is Stand.DONE for each in account.steps)
    nodes = sum(each.step.act is RunAct.REPLACE for each in account.there)
    equal = sum(each.verdict is Verdict.PASS for each in found)
    pairs: list[tuple[str, object]] = [
        ("took", duration(account.ended_ms - account.run.created_at_ms)),
        ("from", account.plan.now),
        ("to", f"{account.plan.release}, {account.plan.coordinator} coordinator"),
        ("nodes", nodes),
        ("steps read back", f"{done} of {len(account.steps)}"),
        ("comparisons equal", f"{equal} of {len(found)}"),
        ("groups", max((each.groups or 0 for each in found), default=0) or None),
        ("commits went on", "yes" if account.plan.live else "no"),
    ]
    return section("At a glance", facts(pairs))


def _nodes(account: DowngradeAccount) -> Markup:
    note = (
        "A bar is the release that a node ran, by the journal; grey is the time from the step before it "
        "until it was back and in sync. A sign below is a comparison of all groups."
    )
    return section(
        "Nodes and their releases",
        tag("p", note, class_="note"),
        legend(account),
        nodes_picture(account),
    )


def _comparisons(account: DowngradeAccount) -> Markup:
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


def _findings(account: DowngradeAccount) -> Markup:
    """What the rules and the hazard book said when the first broker was about to be touched."""
    proofs = [each for each in account.there if each.step.act is RunAct.PROVE and each.result]
    if not proofs:
        return section(
            "Hazards and go or no go", tag("p", "The go or no go was not asked yet.", class_="note")
        )
    result = proofs[-1].result or {}
    alarms = [tag("div", tag("strong", "No go: "), each, class_="alarm") for each in result["against"]]
    rows = [
        (each["rule"], spoken(Verdict(each["verdict"])), each["reason"], each["hint"])
        for each in _said(result)
    ]
    read = (
        f"{result['records']:,} records of the offsets topic were replayed as {account.plan.release} would."
    )
    listed = (
        table(
            ["rule", "severity", "what was found", "what to do"],
            rows,
            caption="Findings that ask for attention",
        )
        if rows
        else tag("p", _NONE if "findings" in result else _UNTOLD, class_="note")
    )
    return section("Hazards and go or no go", tag("p", read, class_="note"), *alarms, listed)


def _said(result: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    found: Sequence[Mapping[str, str]] = result.get("findings", ())
    return found


def _steps(title: str, steps: Sequence[StepStatus], since_ms: int) -> Markup:
    rows = list(_step_rows(steps, since_ms))
    heads = ["step", "what is done", "proof before the next", "way back", "when", "took", "now"]
    return section(
        title, table(heads, rows, numeric=["took"], caption="In order; times are those of the journal")
    )


def _step_rows(steps: Sequence[StepStatus], since_ms: int) -> Iterator[tuple[object, ...]]:
    before = since_ms
    for each in steps:
        took = duration(max(0, each.at_ms - before)) if each.at_ms else None
        yield (
            tag("code", each.step.key),
            _folded(each.step.does),
            _folded(each.step.proof),
            _folded(each.step.inverse),
            moment_utc(each.at_ms) if each.at_ms else None,
            took,
            _STANDS[each.stand],
        )
        before = each.at_ms or before


def _folded(text: str) -> Markup | None:
    """A sentence that may hold a long name, and still leaves room for the columns beside it."""
    return tag("span", text, class_="name") if text else None


def _last(steps: Sequence[StepStatus]) -> int:
    return max((each.at_ms for each in steps), default=0)


def _decisions(account: DowngradeAccount) -> Markup:
    said = {True: "approved", False: "refused", None: "nobody has answered"}
    rows = [
        (each.subject, said[each.approved], each.who or None, moment_utc(each.at_ms))
        for each in decisions(account)
    ]
    if not rows:
        return section("Who decided", tag("p", "Nobody was asked yet.", class_="note"))
    return section("Who decided", table(["what", "answer", "who", "when"], rows))


def _approved_for(account: DowngradeAccount) -> Markup:
    rows = sorted(account.plan.met.items())
    listed = table(["what was met", "as"], rows[:_SHOWN])
    more = (
        tag("p", f"And {len(rows) - _SHOWN} more in journal.json.", class_="note")
        if len(rows) > _SHOWN
        else ""
    )
    summary = tag("summary", f"{len(rows)} things were met when it was planned; a change voids the approval")
    return section("What was approved", tag("details", summary, join((listed, more))))


def _evidence(account: DowngradeAccount, files: Sequence[StoredFile]) -> Markup:
    about = table(["what", "value"], [("plan", tag("code", account.run.plan_hash, class_="hash"))])
    rows = ((file.path, file.bytes, tag("code", file.sha256, class_="hash")) for file in files)
    listed = table(["file", "bytes", "SHA-256"], rows, numeric=["bytes"])
    summary = tag("summary", f"{len(files)} files with their SHA-256")
    return section("Evidence", about, tag("details", summary, listed) if files else "")
