"""``groupshift downgrade``: is the way of a cluster's brokers to an older release open, and what opens it."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Annotated, Any

import typer

from groupshift.application.downgrade import DowngradeAssessment, DowngradeRequest, assess_downgrade
from groupshift.application.downgrade_run import MOVE
from groupshift.bootstrap.clusters import downgrade_views
from groupshift.cli import output
from groupshift.cli.downgrade_log import log_at
from groupshift.cli.downgrade_run import BrokersOnly, back, run, status
from groupshift.cli.options import Json, Servers, SettingsFile, Timeout, one_cluster, settings, shown
from groupshift.cli.run_report import report_of
from groupshift.cli.terminal import Console, Table
from groupshift.domain.foreign_text import shell
from groupshift.domain.verdict import Verdict, counted
from groupshift.domain.versions import METADATA, Version, name_of
from groupshift.log.releases import Coordinator
from groupshift.moves.downgrade.releases import target_of
from groupshift.settings import KafkaSettings

To = Annotated[str, typer.Option("--to", metavar="RELEASE", help="The older release, such as 3.9.2.")]
Runs = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="RELEASE",
        help="What the brokers run, where they tell only its line.",
        show_default=False,
    ),
]
Kind = Annotated[
    Coordinator | None,
    typer.Option(
        "--coordinator",
        help="The group coordinator that the older release will run; without it its default.",
        show_default=False,
    ),
]
Segments = Annotated[
    str,
    typer.Option(
        "--segments",
        metavar="FOLDER",
        help="A copy of __consumer_offsets' files; without it the log is read at the brokers.",
        show_default=False,
    ),
]
All = Annotated[bool, typer.Option("--all", help="Show the rules that passed too.")]

app = typer.Typer(
    name="downgrade",
    help="Brokers to an older release (KIP-915): assess whether the way is open, and take it.",
    no_args_is_help=True,
)


app.command("run")(run)
app.command("status")(status)
app.command("back")(back)
app.command("report")(report_of(MOVE))


@app.command("assess")
def assess(  # noqa: PLR0913 - the options of a verb
    *,
    to: To,
    runs: Runs = "",
    coordinator: Kind = None,
    segments: Segments = "",
    brokers_only: BrokersOnly = False,
    everything: All = False,
    bootstrap_servers: Servers = "",
    timeout: Timeout = 10.0,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Say whether every group would be found again at the older release, and the steps there; nothing is
    changed.

    Exit code 1: the way is not open."""
    said = Version.parse(runs, "--from") if runs else None
    asked = DowngradeRequest(
        target=target_of(to, coordinator), said=said, copied=bool(segments), brokers_only=brokers_only
    )
    one_cluster(bootstrap_servers, settings_file)
    named = KafkaSettings(bootstrap_servers=bootstrap_servers) if bootstrap_servers else None
    kafka = named or settings(settings_file).kafka
    log = log_at(kafka, timeout, segments)
    with closing(downgrade_views(kafka, timeout_s=timeout)) as views, shown(Console(stderr=True)) as progress:
        found = assess_downgrade(
            views, log, asked, lambda done, of: progress("reading the offsets topic", done, of)
        )
    again = _again(to, runs, coordinator, segments) + (" --brokers-only" if brokers_only else "")
    following = _following(found, again)
    if as_json:
        output.print_json(_document(found, asked, following))
    else:
        _show(Console(), found, asked, everything=everything)
        output.next_command(Console(), following)
    return 0 if found.open else 1


def _document(found: DowngradeAssessment, asked: DowngradeRequest, following: str) -> dict[str, Any]:
    view = found.view
    return {
        "cluster_id": view.cluster_id,
        "to": asked.target.release,
        "coordinator": asked.target.coordinator,
        "open": found.open,
        "verdict": found.judgement.verdict,
        "brokers": {
            str(each.node_id): {"line": str(each.line or "unknown"), "coordinator": each.coordinator}
            for each in view.brokers
        },
        "quorum": view.quorum,
        "features": view.finalised,
        "group_configs": view.group_configs,
        "path": found.path,
        "groups": {each.group: _group(each.kinds, each.state, each.protocol_type) for each in found.groups},
        "log": {"records": found.records, "new_types": found.new_types},
        "findings": found.judgement.findings,
        "steps": found.steps,
        "next": following,
    }


def _group(kinds: frozenset[Any], state: str, protocol_type: str) -> dict[str, Any]:
    return {"types": kinds, "state": state, "protocol_type": protocol_type}


def _show(console: Console, found: DowngradeAssessment, asked: DowngradeRequest, *, everything: bool) -> None:
    console.print(_met(found))
    shown_findings = [
        each
        for each in found.judgement.findings
        if everything or each.verdict is not Verdict.PASS or each.hint
    ]
    if shown_findings:
        console.print(output.findings_table(shown_findings, f"to {asked.target}"))
    if found.steps:
        console.print(_steps(found))
    passed = counted(found.judgement.findings, "rules")
    way = "open" if found.open else "not open"
    verdict = output.verdict_text(found.judgement.verdict)
    console.line(verdict, f": the way to {asked.target} is {way}; {passed} (--all shows them)")


def _met(found: DowngradeAssessment) -> str:
    """Features and groups in one line."""
    levels = ", ".join(
        f"{name} {name_of(level) if name == METADATA else level}"
        for name, level in sorted(found.view.finalised.items())
    )
    kinds = Counter("+".join(sorted(each.kinds)) or "unknown" for each in found.groups)
    groups = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    read = "not read" if found.records is None else f"{found.records:,} records read"
    return f"features: {levels or 'none'}; groups: {groups}; log of the offsets topic: {read}"


def _steps(found: DowngradeAssessment) -> Table:
    table = Table(
        "the plan; groupshift downgrade run does it",
        ("#", "step", "of", "what is done", "proof before the next", "way back"),
    )
    for number, step in enumerate(found.steps, 1):
        texts = (step.act.value, step.subject or "-", step.does, step.proof, step.inverse or "-")
        table.add_row(str(number), *(text for text in texts))
    return table


def _again(to: str, runs: str, coordinator: Coordinator | None, segments: str) -> str:
    """The command, to be typed again; where the brokers are is left to the person."""
    given = {"to": to, "from": runs, "coordinator": coordinator or "", "segments": segments}
    return "groupshift downgrade assess" + "".join(
        f" --{name} {shell(each)}" for name, each in given.items() if each
    )


def _following(found: DowngradeAssessment, again: str) -> str:
    """What to do next: the first remedy, or the first steps of the plan."""
    if found.open:
        return "groupshift snapshot --all --output C0, then the steps of the plan, one node at a time"
    bad = [finding for finding in found.judgement.findings if finding.verdict.rank > 1]
    remedy = next((finding.hint for finding in bad if finding.hint), "see the findings")
    return f"{remedy}; then: {again}"
