"""Scan: every group of an ensemble, compared with the last scan, kept in the journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from groupshift.domain.plan import StageName
from groupshift.domain.scan import GroupState, Life, Observed, StageReadiness, state_of
from groupshift.domain.scan_changes import Change, appeared, difference
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import GroupshiftError
from groupshift.ports.clock import Clock
from groupshift.ports.ensemble import EnsembleReader
from groupshift.ports.scans import ScanRecord, Scans

WINDOW = 200
"""Groups that are read and held at once: memory does not grow with their number."""

_SHOWN = 200

Told = Callable[[int, int], None]
"""Is told how many groups are done, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """A finished scan; ``former`` is the one it was compared with, None for the first."""

    record: ScanRecord
    former: ScanRecord | None


def scan(reader: EnsembleReader, scans: Scans, clock: Clock, told: Told) -> ScanReport:
    """Look at every group once, window by window; changes nothing but the journal.

    Raises as the ports; what was stored before a failure is completed by the next scan."""
    ensemble = reader.name
    names = reader.groups()
    record = scans.begin(ensemble, clock.now_ms())
    former = scans.latest(ensemble, record.number)
    totals: Counter[str] = Counter()
    told(0, len(names))
    for window in _windows(names):
        totals += _scan_window(reader, scans, (record, former), window)
        told(min(totals["groups"], len(names)), len(names))
    gone = scans.sweep(record)
    totals["vanished"] = gone
    totals["changes"] += gone
    done = replace(record, ended_at_ms=clock.now_ms(), totals=dict(totals))
    scans.end(done)
    return ScanReport(record=done, former=former)


def _windows(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[at : at + WINDOW] for at in range(0, len(names), WINDOW))


def _scan_window(
    reader: EnsembleReader,
    scans: Scans,
    about: tuple[ScanRecord, ScanRecord | None],
    window: Sequence[str],
) -> Counter[str]:
    record, former = about
    known = scans.known(record.ensemble, window)
    states: list[GroupState] = []
    changes: list[Change] = []
    for read in _read(reader, window):
        before = known.get(read[0])
        state = _state_of(read, before, record.began_at_ms)
        states.append(state)
        if before is not None:
            changes += difference(before, state)
        elif former is not None:
            changes.append(appeared(state))
    scans.put(record, states, changes)
    return _totals(states, changes)


def _read(reader: EnsembleReader, window: Sequence[str]) -> Iterator[tuple[str, Observed | Exception]]:
    """The groups of a window. Where one breaks the reader, halves find it: the others are read all the same.

    What is raised on purpose (no answer, no permission) concerns all of them and ends the scan."""
    try:
        found: tuple[Observed, ...] = tuple(reader.read(window))
    except GroupshiftError:
        raise
    except Exception as error:  # noqa: BLE001 - named in the group's problems
        if len(window) == 1:
            yield window[0], error
            return
        half = len(window) // 2
        yield from _read(reader, window[:half])
        yield from _read(reader, window[half:])
    else:
        yield from ((each.view.group, each) for each in found)


def _state_of(
    read: tuple[str, Observed | Exception], before: GroupState | None, began_at_ms: int
) -> GroupState:
    """The row of one group; of one that breaks its reader or its rules, a row that is ready for nothing."""
    group, observed = read
    error = observed
    if not isinstance(observed, Exception):
        try:
            return state_of(observed, before)
        except GroupshiftError:
            raise
        except Exception as broken:  # noqa: BLE001 - named in the group's problems
            error = broken
    problem = (
        f"group {group!r} cannot be read ({type(error).__name__}: {str(error)[:_SHOWN]}): it is not "
        "moved; look at its nodes below /consumers, and report it"
    )
    finding = Finding(rule="C03", verdict=Verdict.ERROR, reason=problem, hint="report it")
    return GroupState(
        group=group,
        taken_at_ms=began_at_ms,
        life=Life.ACTIVE,
        readiness=(StageReadiness(stage=StageName.TOGGLE, findings=(finding,)),),
        problems=(problem,),
    )


def _totals(states: Sequence[GroupState], changes: Sequence[Change]) -> Counter[str]:
    totals: Counter[str] = Counter(groups=len(states), changes=len(changes))
    for state in states:
        totals[state.life.value] += 1
        totals["members"] += state.members
        totals["problems"] += bool(state.problems)
        if state.life is Life.ACTIVE:
            following = state.next
            totals[f"next {following.stage}" if following else "moved"] += 1
    return totals
