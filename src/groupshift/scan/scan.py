"""The scan of every group of an ensemble, and the use cases of a whole ensemble, ready to call.

A scan is compared with the last one and kept in the journal. `FleetScans` offers scan, what the scans found,
and the brake; `Waves` toggles a few groups at a time (which ones: `groupshift.scan.waves`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from groupshift.domain.modes import Mode
from groupshift.domain.plan import PhaseName
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import GroupshiftError, Rejected
from groupshift.ports.clock import Clock
from groupshift.scan.group_state import (
    GroupChange,
    GroupState,
    Life,
    PhaseReadiness,
    appeared,
    difference,
    state_of,
)
from groupshift.scan.ports import Brake, EnsembleReader, ScanRecord, Scans, ToggleRecord, ToggleState
from groupshift.scan.toggles import LOOK_AGAIN_S, ORIGIN, Toggle, Toggles
from groupshift.scan.waves import (
    Shown,
    WaveReport,
    WaveRules,
    check,
    is_asked_for,
    next_wave,
    ordered,
    unfit,
    wanted_back,
)

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


def _states(
    reader: EnsembleReader, window: Sequence[str], known: Mapping[str, GroupState], began_at_ms: int
) -> Iterator[GroupState]:
    """Yield the rows of the groups of a window. Where one breaks its reader or its rules, halves find it: all
    others are read all the same, and it gets a row that is ready for nothing.

    What is raised on purpose (no answer, no permission) concerns all of them and ends the scan."""
    try:
        states = [state_of(each, known.get(each.view.group)) for each in reader.read(window)]
    except GroupshiftError:
        raise
    except Exception as error:  # noqa: BLE001 - named in the group's problems
        if len(window) > 1:
            half = len(window) // 2
            yield from _states(reader, window[:half], known, began_at_ms)
            yield from _states(reader, window[half:], known, began_at_ms)
            return
        problem = (
            f"group {window[0]!r} cannot be read ({type(error).__name__}: {str(error)[:_SHOWN]}): it is not "
            "moved; look at its nodes below /consumers, and report it"
        )
        finding = Finding(rule="C03", verdict=Verdict.ERROR, reason=problem, hint="report it")
        yield GroupState(
            group=window[0],
            taken_at_ms=began_at_ms,
            life=Life.ACTIVE,
            readiness=(PhaseReadiness(phase=PhaseName.TOGGLE, findings=(finding,)),),
            problems=(problem,),
        )
    else:
        yield from states


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetScans:
    """All of it over one ensemble.

    Every method raises `Transient` when ZooKeeper, Kafka or the journal does not answer within its bounded
    retries, `Rejected` for input that cannot be used."""

    clock: Clock
    reader: EnsembleReader
    scans: Scans
    brake: Brake
    toggles: Toggles

    def scan(self, progress: Told) -> ScanReport:
        """Look at every group once, window by window, and keep what was found; changes no group.
        ``progress`` is told how many groups are done, and of how many.

        What was stored before a failure is completed by the next scan."""
        ensemble = self.reader.name
        names = self.reader.groups()
        record = self.scans.begin(ensemble, self.clock.now_ms())
        former = self.scans.latest(ensemble, record.number)
        totals: Counter[str] = Counter()
        progress(0, len(names))
        for at in range(0, len(names), WINDOW):
            window = names[at : at + WINDOW]
            known = self.scans.known(ensemble, window)
            states = tuple(_states(self.reader, window, known, record.began_at_ms))
            changes: list[GroupChange] = []
            for state in states:
                life, members = state.life.value, state.members
                totals.update({life: 1, "members": members, "problems": bool(state.problems)})
                if state.life is Life.ACTIVE:
                    totals[f"next {state.next.phase}" if state.next else "moved"] += 1
                before = known.get(state.group)
                if before is not None:
                    changes += difference(before, state)
                elif former is not None:
                    changes.append(appeared(state))
            self.scans.put(record, states, changes)
            totals.update(groups=len(states), changes=len(changes))
            progress(min(totals["groups"], len(names)), len(names))
        gone = self.scans.sweep(record)
        totals.update(vanished=gone, changes=gone)
        done = replace(record, ended_at_ms=self.clock.now_ms(), totals=dict(totals))
        self.scans.end(done)
        return ScanReport(record=done, former=former)

    def last(self) -> ScanReport:
        """The last scan that ended. Raises `Rejected` when there is none."""
        record = self.scans.latest(self.reader.name)
        if record is None:
            raise Rejected(f"{self.reader.name} was never scanned; run: groupshift scan")
        return ScanReport(record=record, former=self.scans.latest(self.reader.name, record.number))

    def states(self) -> Iterator[GroupState]:
        """The last state of every group, by name."""
        return self.scans.states(self.reader.name)

    def changes(self, number: int) -> Iterator[GroupChange]:
        """What scan ``number`` found different from the one before, by group."""
        return self.scans.changes(self.reader.name, number)

    def fit(self, rules: WaveRules) -> tuple[str, ...]:
        """The groups that the last scan found fully migrated and at rest long enough, smallest first."""
        now = self.clock.now_ms()
        fitting = ((each.partitions, each.group) for each in self.states() if not unfit(each, rules, now))
        return ordered(fitting, rules.limit)

    def asked_back(self, patterns: Sequence[str], rules: WaveRules) -> tuple[str, ...]:
        """The groups of these names or patterns whose mode node asks for kafka, smallest first.

        Raises `Rejected` when a pattern names no such group."""
        matching = [(each.partitions, each.group) for each in self.states() if wanted_back(each, patterns)]
        for pattern in patterns:
            if not any(is_asked_for(group, (pattern,)) for _, group in matching):
                raise Rejected(f"{pattern!r} names no group in kafka mode; see: groupshift scan --last")
        return ordered(matching, rules.limit)

    def toggle(
        self, report: ScanReport, rules: WaveRules, shown: Shown = lambda _toggle: None, *, execute: bool
    ) -> WaveReport:
        """Toggle every fit group to kafka, in waves; without ``execute`` only plan them.

        Raises `Rejected` when a value of the rules cannot be used."""
        waves = self.waves(report, rules, shown)
        return waves.run(self.fit(rules), Mode.KAFKA, execute=execute)

    def take_back(
        self, patterns: Sequence[str], rules: WaveRules, shown: Shown = lambda _toggle: None, *, execute: bool
    ) -> WaveReport:
        """Toggle the groups of these names or patterns back to zookeeper, in waves, to relieve stress.

        Raises `Rejected` as `asked_back` and `toggle`."""
        groups = self.asked_back(patterns, rules)
        return self.waves(self.last(), rules, shown).run(groups, Mode.ZOOKEEPER, execute=execute)

    def waves(self, report: ScanReport, rules: WaveRules, shown: Shown = lambda _toggle: None) -> Waves:
        """The waves of a scan, ready to run; ``shown`` is told how far each group is."""
        return Waves(fleet=self, record=report.record, rules=rules, shown=shown)


@dataclass(slots=True, kw_only=True)
class Waves:
    """The waves of one scan (``record``): groups are started a few at once, and noted in its history.
    ``shown`` is told how far each group is."""

    fleet: FleetScans
    record: ScanRecord
    rules: WaveRules
    shown: Shown

    def run(self, groups: Sequence[str], to: Mode, *, execute: bool) -> WaveReport:
        """Toggle ``groups`` in this order. Without ``execute`` the waves are planned and nothing is changed.

        What this scan has toggled before is done, and what failed before counts: waves that are run again
        have no new budget. Raises `Rejected` when a value of the rules cannot be used."""
        if problems := check(self.rules):
            raise Rejected(f"the waves cannot be started: {'; '.join(problems)}; correct it and run again")
        noted = self.fleet.scans.toggles(self.record.ensemble, self.record.number) if execute else ()
        before = [each for each in noted if each.to is to]
        done = {each.group for each in before if each.state is ToggleState.DONE}
        todo, ended = [group for group in groups if group not in done], list[ToggleRecord]()
        wave, failed = max((each.wave for each in before), default=0), _failed(before)
        why = self._pulled() if execute else ""
        while names := next_wave(todo, failed, self.rules, why):
            wave += 1
            begun: list[Toggle] = []
            if execute:
                try:
                    self._start(begun, names, to, wave)
                    self._settle(begun)
                except (KeyboardInterrupt, SystemExit):
                    for each in begun:
                        self.fleet.toggles.leave(each, "the scan was interrupted")
                    raise
            else:
                begun = [Toggle(group=name, to=to, state=ToggleState.PLANNED) for name in names]
            of_wave = [self._note(each, wave) for each in begun]
            todo, failed = todo[len(begun) :], failed + _failed(of_wave)
            ended += of_wave
            why = self._pulled() if execute else ""
        used_up = f"the error budget of {self.rules.budget} is used up ({failed} failed)"
        stopped = (why or used_up) if todo else ""
        return WaveReport(to=to, execute=execute, toggles=tuple(ended), left=tuple(todo), stopped=stopped)

    def _pulled(self) -> str:
        reason = self.fleet.brake.pulled()
        return f"the brake is pulled: {reason}" if reason else ""

    def _start(self, begun: list[Toggle], names: Sequence[str], to: Mode, wave: int) -> None:
        """Start toggles until the brake is pulled; each is in ``begun`` before anything is changed for it."""
        holder = f"{ORIGIN}{self.record.number}-{self.fleet.clock.now_ms()}-{wave}"
        for name in names:
            if self.fleet.brake.pulled():
                break
            begun.append(Toggle(group=name, to=to))
            self._note(begun[-1], wave)
            self.fleet.toggles.start(begun[-1], holder)

    def _settle(self, begun: list[Toggle]) -> None:
        """Look until each is done, or failed and taken back. The patience of the steps bounds it."""
        while waiting := [each for each in begun if each.state is ToggleState.STARTED]:
            for each in waiting:
                self.fleet.toggles.look(each)
            if any(each.state is ToggleState.STARTED for each in waiting):
                self.fleet.clock.sleep(LOOK_AGAIN_S)

    def _note(self, toggle: Toggle, wave: int) -> ToggleRecord:
        noted = ToggleRecord(
            group=toggle.group,
            to=toggle.to,
            wave=wave,
            state=toggle.state,
            at_ms=self.fleet.clock.now_ms(),
            reason=toggle.reason,
            run=toggle.run.name if toggle.run else "",
        )
        self.fleet.scans.put_toggle(self.record, noted)
        self.shown(noted)
        return noted


def _failed(toggles: Sequence[ToggleRecord]) -> int:
    return sum(1 for each in toggles if each.state is ToggleState.FAILED)
