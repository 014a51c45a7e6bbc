"""The report of a downgrade: the sentence first, then nodes, steps, comparisons, findings, approvals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groupshift.application.downgrade_account import DowngradeAccount
from groupshift.application.run_account import compared
from groupshift.domain.seal import StoredFile
from groupshift.domain.step import RunAct, Stand
from groupshift.domain.verdict import Verdict
from groupshift.spark.account.banner import banner
from groupshift.spark.account.tables import spoken
from groupshift.spark.downgrade_report.headline import headline
from groupshift.spark.downgrade_report.pictures import legend, nodes_picture
from groupshift.spark.html import Markup, duration, facts, moment_utc, page, section, table, tag
from groupshift.spark.run_report import sections

_NONE = "No hazard was met and no rule asks for anything."
_UNTOLD = "An older groupshift made this run and did not journal what the rules and the hazard book said."


def render(account: DowngradeAccount, files: Sequence[StoredFile] = ()) -> str:
    """The HTML document; it needs nothing besides itself. ``files`` are those of the run's evidence."""
    top, plan, run = headline(account), account.plan, account.run
    lead = f"Run {run.run}, planned {moment_utc(run.created_at_ms)}: cluster {plan.cluster_id}"
    parts = [
        banner(top),
        _glance(account),
        _nodes(account),
        sections.comparisons(account),
        _findings(account),
        *sections.steps(account),
        sections.decided(account),
        sections.approved_for(account),
        sections.evidence(account, files),
    ]
    title = f"Brokers from {plan.now} to {plan.release}"
    return page(title, top.verdict, lead, parts, word=top.word)


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


def _findings(account: DowngradeAccount) -> Markup:
    """What the rules and the hazard book said when the first broker was about to be touched."""
    proofs = [
        each for each in account.there if each.step.act is RunAct.PROVE and "against" in (each.result or {})
    ]
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
