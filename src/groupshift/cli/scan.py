"""``groupshift scan`` and ``groupshift brake``: a whole ensemble at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupshift.bootstrap.scans import build_scans
from groupshift.cli import scan_render as render
from groupshift.cli.options import Json, SettingsFile, settings
from groupshift.cli.terminal import Console, progress_bar
from groupshift.errors import Rejected
from groupshift.scan.ports import ToggleState
from groupshift.scan.scan import FleetScans, ScanReport
from groupshift.scan.waves import WaveReport, WaveRules

_RULES = WaveRules()

Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        "-g",
        help="A group or pattern (*, ?): shown rule by rule, or taken back.",
        show_default=False,
    ),
]
Last = Annotated[bool, typer.Option("--last", help="Show the last scan again; nothing is read.")]
Limit = Annotated[int, typer.Option(help="Rows shown; the journal and --json hold all.", min=1)]
Toggle = Annotated[
    bool,
    typer.Option("--toggle", help="After the scan, switch stable, fully migrated groups to kafka mode."),
]
TakeBack = Annotated[
    bool,
    typer.Option("--take-back", help="After the scan, switch the groups of --group back to zookeeper mode."),
]
Size = Annotated[int, typer.Option("--wave", help="Groups toggled at once.")]
Budget = Annotated[int, typer.Option("--error-budget", help="Failures after which nothing is started.")]
Stable = Annotated[int, typer.Option("--stable-for", help="Seconds a group has to be at rest.")]
Most = Annotated[int, typer.Option("--at-most", help="Groups toggled in this run; 0: all.")]
Execute = Annotated[bool, typer.Option("--execute", help="Toggle; without it the waves are only shown.")]


def open_scans(path: Path | None) -> FleetScans:
    """Ready use cases of an ensemble; use them in a ``with`` statement."""
    return build_scans(settings(path))


def scan(  # noqa: PLR0913 - the options of a verb
    *,
    group: Groups = None,
    last: Last = False,
    limit: Limit = 40,
    toggle: Toggle = False,
    take_back: TakeBack = False,
    wave: Size = _RULES.size,
    error_budget: Budget = _RULES.budget,
    stable_for: Stable = _RULES.stable_s,
    at_most: Most = _RULES.limit,
    execute: Execute = False,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Look at every group of the ensemble: members, mode, rest, lag, readiness, and what has changed."""
    if toggle and take_back:
        raise Rejected("--toggle and --take-back go opposite ways; name one of them")
    if take_back and not group:
        raise Rejected("--take-back needs --group: name the groups, or a pattern, that are to be taken back")
    rules = WaveRules(size=wave, budget=error_budget, stable_s=stable_for, limit=at_most)
    progress = Console(stderr=True)
    with open_scans(settings_file) as scans:
        report = scans.last() if last else _scanned(scans, progress)
        shown = render.ToggleLines(progress)
        waves: WaveReport | None = None
        if toggle:
            waves = scans.toggle(report, rules, shown, execute=execute)
        elif take_back:
            waves = scans.take_back(group or [], rules, shown, execute=execute)
        if as_json:
            render.print_json(scans, report, waves)
        else:
            _show(scans, report, waves, (tuple(group or ()), limit, rules))
    return 1 if waves and (waves.count(ToggleState.FAILED) or waves.stopped) else 0


def brake(
    *,
    pull: Annotated[str, typer.Option("--pull", help="Pull it, and say why.", show_default=False)] = "",
    release: Annotated[bool, typer.Option("--release", help="Release it; toggles may begin again.")] = False,
    execute: Execute = False,
    settings_file: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Show, pull or release the brake: while it is pulled, no scan starts another toggle.

    Pulling only stops, and acts at once. Releasing lets toggles begin again: it needs --execute."""
    if pull and release:
        raise Rejected("--pull and --release exclude each other; name one of them")
    with open_scans(settings_file) as scans:
        if pull:
            scans.brake.pull(pull)
        if release and execute:
            scans.brake.release()
        reason = scans.brake.pulled()
    if as_json:
        render.print_document({"pulled": bool(reason), "reason": reason})
    else:
        render.show_brake(Console(), reason)
    return 0


def _scanned(scans: FleetScans, console: Console) -> ScanReport:
    with progress_bar(console, "scanning") as told:
        return scans.scan(lambda done, total: told("scanning", done, total))


def _show(
    scans: FleetScans,
    report: ScanReport,
    waves: WaveReport | None,
    asked: tuple[tuple[str, ...], int, WaveRules],
) -> None:
    patterns, limit, rules = asked
    console = Console()
    render.show_groups(console, scans.states(), patterns, limit)
    render.show_changes(console, report, scans.changes(report.record.number), limit)
    render.show_totals(console, report)
    if waves is not None:
        render.show_waves(console, waves)
    render.show_next(console, waves, scans.fit(rules), scans.states(), (patterns, rules))
