"""Judge a run that is over again, for as long as what it left can change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from groupshift.domain.run import Checked, Outcome, RunState
from groupshift.engine.move import Move, P, Run, Tools, checked_data
from groupshift.errors import Rejected, Transient
from groupshift.ports.clock import Clock
from groupshift.ports.runs import Entry, EventKind, NewEvent

_OVER = frozenset({RunState.MOVED, RunState.FINALISED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """How long is looked, in seconds: until it holds, at most ``within_s``; then for as long as it holds, at
    most ``for_s``. Both 0: one look."""

    within_s: float = 0
    for_s: float = 0
    every_s: float = 1


def watch(move: Move[P], tools: Tools, ports: P, name: str, *, looks: Looks = Looks()) -> Checked:
    """Look at what a run of this move left, once unless ``looks`` say else. What the last look came to is
    appended to the run's history, without a claim.

    Raises:
        Rejected: the run is not over, is of another move, or the ports reach another target.
        Transient: nobody answered the last look.
    """
    run = Run.reader(move, tools, ports, name)
    record = run.record
    if record.move != move.name or record.state not in _OVER:
        raise Rejected(
            f"run {name} of move {record.move} is {record.state}: only a run of {move.name} that is over is "
            "watched"
        )
    met = move.target(ports, run.request)
    if met != record.target:
        raise Rejected(f"run {name} is of {record.target}, and what answers is {met}; name its servers")
    checked = looked(move.watcher(run), tools.clock, looks)
    judged = NewEvent(kind=EventKind.JUDGED, body=checked_data(checked))
    tools.runs.append(Entry(run=name, at_ms=run.now(), token=None, events=(judged,)))
    return checked


def looked(look: Callable[[], Checked], clock: Clock, looks: Looks) -> Checked:
    """Return what the last look came to. A look that nobody answers is no look that holds."""
    since, held_since = clock.now_ms(), 0
    while True:
        try:
            checked = look()
        except Transient:
            if held_since or clock.now_ms() - since >= looks.within_s * 1000:
                raise
        else:
            now = clock.now_ms()
            if checked.outcome is not Outcome.PASS:
                if held_since or now - since >= looks.within_s * 1000:
                    return checked
            else:
                held_since = held_since or now
                if now - held_since >= looks.for_s * 1000:
                    return checked
        clock.sleep(looks.every_s)
