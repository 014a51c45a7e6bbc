"""Every verb, in the panels of the help.

The verbs of moves are made from what is installed when the command line is built; those of the sandbox come
from its own distribution (`groupshift.cli.moves`). What a verb returns is the exit code of the process."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from groupshift import __version__
from groupshift.cli import runs
from groupshift.cli.audit import app as audit
from groupshift.cli.compare import compare
from groupshift.cli.evidence import verify_evidence
from groupshift.cli.hazards import hazards
from groupshift.cli.moves import add_installed, add_moves
from groupshift.cli.repair import app as repair
from groupshift.cli.scan import brake, scan
from groupshift.cli.snapshot import snapshot
from groupshift.cli.sync import app as sync
from groupshift.domain.versions import version_text

EXIT_CODES = (
    "Exit codes: 0 passed, 1 failed or rolled back, 2 rejected (your input), 3 conflict (someone else "
    "acted), 4 transient (run it again), 5 broken promise, 6 waiting for a person "
    "(docs/reference/exit-codes.md, Exit codes)."
)
"""The last lines of the help."""


def _exit(code: object, **_options: object) -> None:
    """What a verb returns is its exit code, whatever stood before the verb."""
    if isinstance(code, int) and code:
        raise typer.Exit(code)


def _version(wanted: object) -> None:
    """Print the version with those of Kafka that are known to work, and end."""
    if wanted:
        print(version_text(__version__))
        raise typer.Exit


_VERSION = typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
Version = Annotated[bool, _VERSION]
MOVES = "Moves, each with: assess, plan, run"
RUNS = "Runs of any move"
FLEET = "Look, compare, repair"
OTHERS = "Consumers, demo, sandbox"
_PANELS = (MOVES, RUNS, FLEET, OTHERS)
"""Panels of the help, in their order."""


class _InPanels(TyperGroup):
    """Lists groups of verbs and verbs by their panels: typer lists all verbs first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """See `TyperGroup`."""
        places: dict[object, int] = {panel: place for place, panel in enumerate(_PANELS)}
        panel_of = {name: getattr(each, "rich_help_panel", None) for name, each in self.commands.items()}
        return sorted(super().list_commands(ctx), key=lambda name: places.get(panel_of[name], len(places)))


def groupshift(*, version: Version = False) -> None:
    """Take the options that stand before a verb."""
    del version


def consume(arguments: Annotated[list[str] | None, typer.Argument(metavar="...")] = None) -> int:
    """One member of a group on the command line (see: groupshift consume --help)."""
    from groupshift.cli.consume import main

    return main(arguments or [])


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
    for name, verb in runs.VERBS.items():
        app.command(name, rich_help_panel=RUNS)(verb)
    for verb in (scan, brake, snapshot, compare, hazards, verify_evidence):
        app.command(verb.__name__.replace("_", "-"), rich_help_panel=FLEET)(verb)
    app.add_typer(audit, name="audit", rich_help_panel=FLEET)
    app.add_typer(repair, name="repair", rich_help_panel=FLEET)
    app.add_typer(sync, name="sync", rich_help_panel=FLEET)
    anything = {"ignore_unknown_options": True}
    app.command("consume", add_help_option=False, context_settings=anything, rich_help_panel=OTHERS)(consume)
    add_installed(app, OTHERS)
    return app


app = built()
