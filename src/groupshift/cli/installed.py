"""Commands that other distributions bring: entry points of the group ``groupshift.commands``.

Each is a `typer.Typer` (a group of verbs) or a function (one verb), found under its name. A command that is
known and not installed says which distribution has it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

from groupshift.errors import Rejected

GROUP = "groupshift.commands"
ELSEWHERE = {"demo": "kafka-groupshift-sandbox", "sandbox": "kafka-groupshift-sandbox"}
"""The distribution of each command that is not in ``kafka-groupshift``."""


def add_installed(app: typer.Typer, panel: str | None = None) -> None:
    """Add to ``app`` (to a ``panel`` of its help) what is installed, sorted by name, and the hint for what
    is not."""
    found = {each.name: each for each in entry_points(group=GROUP)}
    for name in sorted({*found, *ELSEWHERE}):
        loaded = _loaded(found[name]) if name in found else _missing(name, ELSEWHERE[name])
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name, rich_help_panel=panel)
        else:
            hidden = name not in found
            context = ANYTHING if hidden else None
            app.command(name, hidden=hidden, context_settings=context, rich_help_panel=panel)(loaded)


ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _loaded(entry: EntryPoint) -> Any:
    """The command; one that cannot be imported fails when it is called, and no other command with it."""
    try:
        return entry.load()
    except Exception as error:  # noqa: BLE001 - somebody else's code
        why = f"command {entry.name} cannot be imported from {entry.value} ({type(error).__name__}: {error})"
        return refusing(f"{why}; install its distribution again")


def _missing(name: str, distribution: str) -> Callable[[typer.Context], None]:
    return refusing(f"groupshift {name} comes with {distribution}: pip install {distribution}")


def refusing(sentence: str) -> Callable[[typer.Context], None]:
    """Return a command that says why it cannot be called."""

    def refuse(context: typer.Context) -> None:
        del context
        raise Rejected(sentence)

    return refuse
