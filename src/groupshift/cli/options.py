"""The options that several verbs of the move share, and how they are typed again."""

from __future__ import annotations

from typing import Annotated

import typer

from groupshift.domain.plan import MoveRequest, Until
from groupshift.settings import DRIVERS

Group = Annotated[str, typer.Option("--group", "-g", help="The consumer group.", show_default=False)]
DRIVER_HELP = f"Fleet driver: {', '.join(DRIVERS)}; without it the one in the settings."
Driver = Annotated[str, typer.Option(help=DRIVER_HELP, show_default=False)]
Canary = Annotated[int, typer.Option(help="Members replaced first.")]
CanaryShare = Annotated[float, typer.Option(help="Instead: fewest members with this share, such as 0.25.")]
CanaryWatch = Annotated[int, typer.Option(help="Seconds to compare the canary with old members; 0: not.")]
Soak = Annotated[int, typer.Option(help="Seconds to keep judging after the last act.")]
UntilOption = Annotated[Until, typer.Option(help="The last act.")]
Execute = Annotated[bool, typer.Option("--execute", help="Act; without it only a plan is made.")]
Yes = Annotated[bool, typer.Option("--yes", help="Approve plan and toggle; keep the way back open.")]
MigrationId = Annotated[str, typer.Argument(metavar="MIGRATION", show_default=False)]

WATCH_S = 60
"""How long the command line watches a canary unless told otherwise."""


def repeated(asked: MoveRequest) -> str:
    """The options that were not left at their default, to be typed again."""
    given = {
        "driver": (asked.driver, ""),
        "canary": (asked.canary, 1),
        "canary-share": (asked.canary_share, 0.0),
        "canary-watch": (asked.canary_watch_s, WATCH_S),
        "soak": (asked.soak_s, 60),
    }
    return "".join(f" --{name} {value}" for name, (value, usual) in given.items() if value != usual)
