"""The verbs of the move: parse, call, render."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from groupshift import __version__
from groupshift.cli import output as render
from groupshift.cli import runs
from groupshift.cli.audit import app as audit
from groupshift.cli.both import verbs_of_both
from groupshift.cli.compare import compare
from groupshift.cli.evidence import report, verify_evidence
from groupshift.cli.hazards import hazards
from groupshift.cli.installed import add_installed
from groupshift.cli.moves import add_moves, installed
from groupshift.cli.moving import (
    finish,
    follow_up,
    runner_of,
    show_left,
    show_plan,
    show_way_back,
    signed,
)
from groupshift.cli.options import (
    WATCH_S,
    Canary,
    CanaryShare,
    CanaryWatch,
    Driver,
    Execute,
    Group,
    Json,
    MigrationId,
    SettingsFile,
    Soak,
    UntilOption,
    Yes,
    open_app,
    who,
)
from groupshift.cli.protocol import app as protocol
from groupshift.cli.repair import app as repair
from groupshift.cli.run_output import list_table, status_data
from groupshift.cli.scan import brake, scan
from groupshift.cli.snapshot import snapshot
from groupshift.cli.terminal import Console
from groupshift.domain.evidence import Moment
from groupshift.domain.foreign_text import command
from groupshift.domain.plan import MoveRequest, StageName, Until, WayBack
from groupshift.domain.secrets import without_login
from groupshift.domain.supported import version_text
from groupshift.domain.verdict import Verdict
from groupshift.engine.status import RunStatus
from groupshift.errors import Rejected

EXIT_CODES = (
    "Exit codes: 0 passed, 1 failed or rolled back, 2 rejected (your input), 3 conflict (someone else "
    "acted), 4 transient (run it again), 5 broken promise, 6 waiting for a person "
    "(docs/reference/exit-codes.md, Exit codes)."
)


def _exit(code: object, **_options: object) -> None:
    """What a verb returns is its exit code, whatever stood before the verb."""
    if isinstance(code, int) and code:
        raise typer.Exit(code)


def _version(wanted: object) -> None:
    if wanted:
        print(version_text(__version__))
        raise typer.Exit


MOVES = "Moves, each with: assess, plan, run"
RUNS = "Runs of any move"
FLEET = "Look, compare, repair"
OTHERS = "Consumers, demo, sandbox"
BEFORE = "Moves of the engine before this one"
_PANELS = (MOVES, RUNS, FLEET, OTHERS, BEFORE)
"""Panels of the help, in their order."""


_SHORT = {
    "scan": "Look at every group of the ensemble; toggle those that are fit.",
    "brake": "Show, pull or release the brake of scans.",
    "snapshot": "Snapshot groups, members, assignments, offsets.",
    "compare": "Compare two snapshots of a cluster's groups.",
    "hazards": "Say which known bugs make a move unsafe.",
    "verify-evidence": "Hash every file of an evidence pack again.",
}
"""One line each for the help of all verbs."""


class _InPanels(TyperGroup):
    """Lists groups of verbs and verbs by their panels: typer lists all verbs first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """See `TyperGroup`."""
        panels = {name: getattr(each, "rich_help_panel", None) for name, each in self.commands.items()}
        last = len(_PANELS)
        places = {name: _PANELS.index(each) if each in _PANELS else last for name, each in panels.items()}
        return sorted(super().list_commands(ctx), key=places.__getitem__)


def groupshift(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a verb."""
    del version


def consume(arguments: Annotated[list[str] | None, typer.Argument(metavar="...")] = None) -> int:
    """One member of a group on the command line (see: groupshift consume --help)."""
    from groupshift.cli.consume import main

    return main(arguments or [])


def assess(*, group: Group, driver: Driver = "", settings: SettingsFile = None, as_json: Json = False) -> int:
    """Say whether a group is ready, one line a rule."""
    opened, _ = open_app(settings)
    with opened:
        found = opened.assess(MoveRequest(group=group, driver=driver, actor=who()))
    if as_json:
        render.print_json({"readiness": found.readiness, "findings": found.findings, "view": found.view})
    else:
        console = Console()
        render.show_assessment(console, found)
        again = command("groupshift", "assess", "--group", group)
        render.next_command(console, command("groupshift", "run", "--group", group) if found.ready else again)
    return 0 if found.ready else 1


plans = typer.Typer(help="What a move would do; nothing is moved.")


@plans.callback(invoke_without_command=True)
def plan(  # noqa: PLR0913 - the options of a verb
    context: typer.Context,
    *,
    group: Annotated[str, typer.Option("--group", "-g", help="The group.", show_default=False)] = "",
    driver: Driver = "",
    canary: Canary = 1,
    canary_share: CanaryShare = 0.0,
    canary_watch: CanaryWatch = WATCH_S,
    soak: Soak = 60,
    until: UntilOption = Until.TOGGLE,
    settings: SettingsFile = None,
    execute: Execute = False,
    as_json: Json = False,
) -> int:
    """Assess and journal the plan of a group's move; with --execute it may be run."""
    if context.invoked_subcommand:
        return 0
    if not group:
        raise Rejected("plan needs --group NAME")
    asked = MoveRequest(
        group=group,
        driver=driver,
        canary=canary,
        canary_share=canary_share,
        canary_watch_s=canary_watch,
        soak_s=soak,
        until=until,
        execute=execute,
    )
    return show_plan(asked, settings, as_json=as_json)


def run(  # noqa: PLR0913 - the options of a verb
    *,
    group: Annotated[str, typer.Option("--group", "-g", help="The group.", show_default=False)] = "",
    migration: Annotated[
        str, typer.Option("--migration", help="Continue this one.", show_default=False)
    ] = "",
    driver: Driver = "",
    canary: Canary = 1,
    canary_share: CanaryShare = 0.0,
    canary_watch: CanaryWatch = WATCH_S,
    soak: Soak = 60,
    until: UntilOption = Until.TOGGLE,
    settings: SettingsFile = None,
    execute: Execute = False,
    yes: Yes = False,
    finalise: Annotated[bool, typer.Option("--finalise", help="With --yes: finalise, not keep.")] = False,
    as_json: Json = False,
) -> int:
    """Run the whole move, asking at the gates; run it again with --migration to continue. Without --execute
    only what would be done is shown."""
    if bool(group) == bool(migration):
        raise Rejected("name either --group (a new migration) or --migration (continue one)")
    asked = MoveRequest(
        group=group,
        driver=driver,
        canary=canary,
        canary_share=canary_share,
        canary_watch_s=canary_watch,
        soak_s=soak,
        until=until,
        execute=execute,
    )
    if group and not execute:
        return show_plan(asked, settings, as_json=as_json)
    opened, parsed = open_app(settings)
    with opened:
        if not execute:
            return show_left(opened, migration, as_json=as_json)
        if group:
            migration = opened.plan(signed(asked)).migration
        runner, console = runner_of(opened, parsed, migration, yes=yes, finalise=finalise)
        return finish(opened, migration, runner.forward(), console, as_json=as_json)


def roll_back(
    migration: str,
    to: WayBack,
    settings: Path | None,
    *,
    execute: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Take a migration back, from any stage, and prove it. Without --execute only what would be done is
    shown."""
    opened, parsed = open_app(settings)
    with opened:
        if not execute:
            return show_way_back(opened, migration, to, as_json=as_json)
        runner, console = runner_of(opened, parsed, migration, yes=yes, finalise=False)
        return finish(opened, migration, runner.back(to), console, as_json=as_json)


def status(
    migration: str | None, settings: Path | None, *, as_json: bool, new: Sequence[RunStatus] = ()
) -> int:
    """Show one migration, or the latest ones; beside them ``new`` runs."""
    opened, _ = open_app(settings)
    with opened:
        found = opened.status(migration)
    if as_json:
        runs_too = {"runs": [status_data(each) for each in new]} if migration is None else {}
        render.print_json({"migrations": [render.status_data(each) for each in found], **runs_too})
        return 0
    console = Console()
    if migration is None:
        if new:
            console.print(list_table(new))
        console.print(render.list_table(found))
        latest = [each.run for each in new] + [each.migration for each in found]
        follow = f"groupshift status {latest[0]}" if latest else "groupshift --help"
    else:
        console.print(f"{found[0].phase}: {found[0].reason}" if found[0].reason else found[0].phase)
        console.print(render.status_table(found[0]))
        follow = follow_up(migration, found[0].phase)
    render.next_command(console, follow)
    return 0


def validate(
    migration: MigrationId,
    stage: Annotated[StageName, typer.Argument(show_default=False)],
    moment: Annotated[Moment, typer.Argument()] = Moment.AFTER,
    settings: SettingsFile = None,
    *,
    as_json: Json = False,
) -> int:
    """Compare the snapshots of a stage again, and judge it."""
    opened, _ = open_app(settings)
    with opened:
        request = opened.proof(migration, stage, moment)
        opened.prove(request)
        judged = opened.judge(migration, stage, moment)
    output = without_login(request.output)
    if as_json:
        render.print_json({"verdict": judged.verdict, "findings": judged.findings, "output": output})
    else:
        console = Console()
        console.print(render.findings_table(judged.findings, f"{stage}/{moment}: {judged.verdict}"))
        console.print(f"report: {output}/report.html")
        render.next_command(console, f"groupshift status {migration}")
    return 0 if judged.verdict is Verdict.PASS else 1


def built() -> typer.Typer:
    """Return the command line with all moves that are installed now, the lifecycle of a move first."""
    app = typer.Typer(
        name="groupshift",
        cls=_InPanels,
        help="Move Kafka consumer groups between coordinators without stopping them, and prove it.",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        result_callback=_exit,
    )
    app.callback()(groupshift)
    add_moves(app, MOVES)
    before: dict[str, Callable[..., int]] = {"status": status, "report": report, "roll-back": roll_back}
    for name, verb in {**runs.VERBS, **verbs_of_both(before)}.items():
        app.command(name, rich_help_panel=RUNS)(verb)
    looks: dict[str, Callable[..., int]] = {
        "scan": scan,
        "brake": brake,
        "snapshot": snapshot,
        "compare": compare,
        "hazards": hazards,
        "verify-evidence": verify_evidence,
    }
    for name, verb in looks.items():
        app.command(name, short_help=_SHORT[name], rich_help_panel=FLEET)(verb)
    app.add_typer(audit, name="audit", rich_help_panel=FLEET)
    app.add_typer(repair, name="repair", rich_help_panel=FLEET)
    anything = {"ignore_unknown_options": True}
    app.command("consume", add_help_option=False, context_settings=anything, rich_help_panel=OTHERS)(consume)
    add_installed(app, OTHERS)
    _add_before(app)
    return app


def _add_before(app: typer.Typer) -> None:
    """Add the verbs of moves whose entry point is not installed: the engine before this one drives them."""
    ported = installed()
    if "coordination" not in ported:
        verbs: dict[str, Callable[..., int]] = {"assess": assess, "run": run, "validate": validate}
        for name, verb in verbs.items():
            app.command(name, rich_help_panel=BEFORE)(verb)
        app.add_typer(plans, name="plan", rich_help_panel=BEFORE)
    for name, group in {"protocol": protocol}.items():
        if name not in ported:
            app.add_typer(group, name=name, rich_help_panel=BEFORE)


app = built()
