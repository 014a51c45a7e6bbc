"""Judge a run that is over again, for as long as what it left can change."""

from __future__ import annotations

from typing import TypeVar

from groupshift.domain.run import Checked, RunState
from groupshift.engine.move import Move, Run, Tools, checked_data
from groupshift.errors import Rejected
from groupshift.ports.runs import Entry, EventKind, NewEvent

P = TypeVar("P")
_OVER = frozenset({RunState.MOVED, RunState.FINALISED})


def watch(move: Move[P], tools: Tools, ports: P, name: str = "") -> Checked:
    """Look once at what a run of this move left; without a name at the latest one that is over. What it came
    to is appended to the run's history, without a claim.

    Raises `Rejected` when the run is not over, is of another move, or the ports reach another target."""
    found = tools.runs.find(name).run if name else _latest(move, tools)
    run = Run.reader(move, tools, ports, found)
    record = run.record
    if record.move != move.name or record.state not in _OVER:
        raise Rejected(
            f"run {found} of move {record.move} is {record.state}: only a run of {move.name} that is over is "
            "watched"
        )
    met = move.target(ports, run.request)
    if met != record.target:
        raise Rejected(f"run {found} is of {record.target}, and what answers is {met}; name its servers")
    checked = move.watch(run)
    judged = NewEvent(kind=EventKind.JUDGED, body=checked_data(checked))
    tools.runs.append(Entry(run=found, at_ms=run.now(), token=None, events=(judged,)))
    return checked


def _latest(move: Move[P], tools: Tools) -> str:
    for each in tools.runs.recent(1000, move=move.name):
        if each.state in _OVER:
            return each.run
    raise Rejected(f"no run of {move.name} is over; list them with: groupshift status --move {move.name}")
