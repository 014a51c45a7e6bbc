"""``groupshift expansion watch``: whether an expansion that is done is still as it was proven."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from groupshift.application.expansion_watch import Watched
from groupshift.cli import output
from groupshift.cli.placement import document_of, following_of, show_audit
from groupshift.cli.terminal import Console, Table

Run = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Its id; without one the latest that is done.", show_default=False),
]
_SHOWN = 50


def show_watched(found: Watched, *, as_json: bool) -> int:
    """What was found, and what to do next; the exit code."""
    following = _following(found)
    if as_json:
        output.print_json({**_document(found), "next": following})
    else:
        console = Console()
        show_audit(console, found.audit, everything=False)
        if found.fallen:
            console.print(_table(found))
        if found.strays:
            console.print(f"groups that moved, with something elsewhere: {_named(found.strays)}")
        state = "over" if found.over else "not over"
        said = f"{found.compared:,} offsets of run {found.run} compared, {len(found.fallen):,} fell"
        console.print(f"{said}; watch until {_day(found)} ({state})")
        output.next_command(console, following)
    return 0 if found.clean else 1


def _document(found: Watched) -> dict[str, Any]:
    return {
        "run": found.run,
        "clean": found.clean,
        "compared": found.compared,
        "fallen": [{**output.plain(each), "reason": each.sentence} for each in found.fallen],
        "strays": found.strays,
        "snapshot": found.folder,
        "until_ms": found.until_ms,
        "over": found.over,
        "audit": document_of(found.audit),
    }


def _table(found: Watched) -> Table:
    more = f" (the first {_SHOWN} of {len(found.fallen):,}; --json has all)" * (len(found.fallen) > _SHOWN)
    numbers = ("when it moved", "now")
    title = f"offsets that fell since their group moved{more}"
    table = Table(title, ("group", "topic-partition", *numbers), numbers=numbers)
    for each in found.fallen[:_SHOWN]:
        now = "nothing" if each.now is None else f"{each.now:,}"
        table.add_row(each.group, f"{each.topic}-{each.partition}", f"{each.kept:,}", now)
    return table


def _following(found: Watched) -> str:
    if not found.audit.clean:
        return following_of(found.audit)
    if found.fallen:
        return (
            "ask their owners whether somebody reset or deleted these offsets; if nobody did, stop their "
            f"members and set them to what snapshot {found.folder} has"
        )
    if found.strays:
        return "find who committed for these groups while they moved; then: groupshift repair placement"
    if found.over:
        return "nothing: what was committed again may expire from now on, like every other offset"
    return f"groupshift expansion watch, once a day until {_day(found)}, and after brokers restarted"


def _named(groups: Sequence[str]) -> str:
    more = f" and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
    return f"{', '.join(groups[:_SHOWN])}{more}"


def _day(found: Watched) -> str:
    return f"{datetime.fromtimestamp(found.until_ms / 1000, tz=UTC):%Y-%m-%d %H:%M} UTC"
