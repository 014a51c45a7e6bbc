"""The scan of every group of an ensemble, and the use cases of a whole ensemble, ready to call.

A scan is compared with the last one and kept in the journal. `FleetScans` offers scan, what the scans found,
waves and the brake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from groupshift.domain.modes import Mode
from groupshift.domain.plan import StageName
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import GroupshiftError, Rejected
from groupshift.ports.clock import Clock
from groupshift.scan.ports import Brake, EnsembleReader, ScanRecord, Scans, ToggleRecord
from groupshift.scan.state import (
    Change,
    GroupState,
    Life,
    Observed,
    StageReadiness,
    appeared,
    difference,
    state_of,
)
from groupshift.scan.toggles import Toggles
from groupshift.scan.waves import Candidate, Shown, WaveReport, WaveRules, Waves, ordered, unfit, wanted_back

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


def _nobody(_toggle: ToggleRecord) -> None:
    """Shows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetScans:
    """All of it over one ensemble; a context manager that closes what it opened.

    Every method raises `Transient` when ZooKeeper, Kafka or the journal does not answer within its bounded
    retries, `Rejected` for input that cannot be used."""

    clock: Clock
    reader: EnsembleReader
    scans: Scans
    brake: Brake
    toggles: Toggles
    closing: tuple[Callable[[], None], ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for each in self.closing:
            each()

    def scan(self, told: Told) -> ScanReport:
        """Look at every group once and keep what was found; changes no group."""
        return scan(self.reader, self.scans, self.clock, told)

    def last(self) -> ScanReport:
        """The last scan that ended. Raises `Rejected` when there is none."""
        record = self.scans.latest(self.reader.name)
        if record is None:
            raise Rejected(f"{self.reader.name} was never scanned; run: groupshift scan")
        return ScanReport(record=record, former=self.scans.latest(self.reader.name, record.number))

    def states(self) -> Iterator[GroupState]:
        """The last state of every group, by name."""
        return self.scans.states(self.reader.name)

    def changes(self, number: int) -> Iterator[Change]:
        """What scan ``number`` found different from the one before, by group."""
        return self.scans.changes(self.reader.name, number)

    def history(self, limit: int) -> tuple[ScanRecord, ...]:
        """The last scans, newest first."""
        return self.scans.history(self.reader.name, limit)

    def fit(self, rules: WaveRules) -> tuple[str, ...]:
        """The groups that the last scan found fully migrated and at rest long enough, smallest first."""
        now = self.clock.now_ms()
        found = (state for state in self.states() if not unfit(state, rules, now))
        return ordered((Candidate(group=s.group, partitions=s.partitions) for s in found), rules.limit)

    def asked_back(self, patterns: Sequence[str], rules: WaveRules) -> tuple[str, ...]:
        """The groups of these names or patterns whose mode node asks for kafka, smallest first.

        Raises `Rejected` when a pattern names no such group."""
        found, met = list[Candidate](), set[str]()
        for state in self.states():
            for pattern in patterns:
                if wanted_back(state, (pattern,)):
                    met.add(pattern)
                    found.append(Candidate(group=state.group, partitions=state.partitions))
        missed = [pattern for pattern in patterns if pattern not in met]
        if missed:
            raise Rejected(
                f"group {missed[0]!r} names no group whose mode node holds kafka in the last scan; "
                "list them with: groupshift scan --last"
            )
        return ordered(dict.fromkeys(found), rules.limit)

    def toggle(
        self, report: ScanReport, rules: WaveRules, shown: Shown = _nobody, *, execute: bool
    ) -> WaveReport:
        """Toggle every fit group to kafka, in waves; without ``execute`` only plan them."""
        return self._waves(report, rules, shown).run(self.fit(rules), Mode.KAFKA, execute=execute)

    def take_back(
        self, patterns: Sequence[str], rules: WaveRules, shown: Shown = _nobody, *, execute: bool
    ) -> WaveReport:
        """Toggle the groups of these names or patterns back to zookeeper, in waves, to relieve stress."""
        groups = self.asked_back(patterns, rules)
        return self._waves(self.last(), rules, shown).run(groups, Mode.ZOOKEEPER, execute=execute)

    def _waves(self, report: ScanReport, rules: WaveRules, shown: Shown) -> Waves:
        return Waves(
            toggles=self.toggles,
            clock=self.clock,
            scans=self.scans,
            brake=self.brake,
            record=report.record,
            rules=rules,
            shown=shown,
        )
