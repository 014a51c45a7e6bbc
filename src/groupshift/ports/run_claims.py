"""Who may write a run: one claim at a time holds it, and a later one fences it.

The run of a killed process is taken over only where somebody says so. Every journal decides by these
functions, in the transaction that writes."""

from __future__ import annotations

from collections.abc import Iterable

from groupshift.domain.modes import taken_over
from groupshift.domain.run import Target
from groupshift.errors import Conflict, Fenced
from groupshift.ports.runs import Claim, Entry, RunRecord

UNHELD = frozenset({"sealing", "sealed", "audited", "judged"})
"""Kinds of events that may be appended to a closed run without a token."""


def require_free(target: Target, others: Iterable[RunRecord]) -> None:
    """Raise `Conflict` when an open run (``others``, of `Runs.in_the_way`) is in the way of one of this
    target; the sentence names the first."""
    for other in others:
        raise Conflict(
            f"run {other.run} of {other.target} is {other.state} and is in the way of one of {target}: go on "
            f"with it: groupshift continue {other.run}, or take it back: groupshift roll-back {other.run}"
        )


def next_token(run: RunRecord, latest: Claim | None, holder: str, *, take_over: bool) -> int:
    """Return the token of a new claim of this holder, for a journal.

    Raises:
        Fenced: another holder has the run, it is open, and that holder did not stop by itself, unless
            ``take_over``.
    """
    if latest is None:
        return 1
    held = latest.holder != holder and not latest.stopped and run.state.is_open
    if held and not take_over:
        raise Fenced(
            f"{taken_over('run', latest.holder, latest.at_ms)}; to drive it from here all the same: "
            f"groupshift continue {run.run} --take-over"
        )
    return latest.token + 1


def require_writer(run: RunRecord, entry: Entry, latest: Claim | None) -> None:
    """Decide for a journal whether an entry may be written, given the run as it is and its latest claim.

    Raises:
        Fenced: the entry's token is not the latest claim's.
        Conflict: the run is closed, is not opened by the entry, and the entry has steps; or the entry has no
            token and more than events of `UNHELD` of a closed run.
    """
    if entry.token is not None and (latest is None or entry.token != latest.token):
        by = f"{taken_over('run', latest.holder, latest.at_ms)}; " if latest else ""
        raise Fenced(f"{by}token {entry.token} of run {run.run} is void: nothing more is done here")
    opens = entry.state is not None and entry.state.is_open
    if not run.state.is_open and entry.steps and not opens:
        raise Conflict(f"run {run.run} is {run.state}: its steps do not change any more")
    free = not run.state.is_open and all(each.kind in UNHELD for each in entry.events)
    if entry.token is None and (entry.state or not free):
        raise Conflict(f"run {run.run} is {run.state}: only who holds it writes that")
