"""The use cases of a whole ensemble, ready to call: scan, what the scans found, waves and the brake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from groupshift.application.environment import Environment
from groupshift.application.scan import ScanReport, Told, scan
from groupshift.application.scan_waves import Shown, WaveReport, Waves
from groupshift.domain.modes import Mode
from groupshift.domain.scan import GroupState
from groupshift.domain.scan_changes import Change
from groupshift.domain.scan_waves import Candidate, WaveRules, ordered, unfit, wanted_back
from groupshift.errors import Rejected
from groupshift.ports.ensemble import Brake, EnsembleReader
from groupshift.ports.scans import ScanRecord, Scans, ToggleRecord


def _nobody(_toggle: ToggleRecord) -> None:
    """Shows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetScans:
    """All of it over one ensemble; a context manager that closes what it opened.

    Every method raises `Transient` when ZooKeeper, Kafka or the journal does not answer within its bounded
    retries, `Rejected` for input that cannot be used."""

    env: Environment
    reader: EnsembleReader
    scans: Scans
    brake: Brake
    closing: tuple[Callable[[], None], ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for each in (*self.env.closing, *self.closing):
            each()

    def scan(self, told: Told) -> ScanReport:
        """Look at every group once and keep what was found; changes no group."""
        return scan(self.reader, self.scans, self.env.clock, told)

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
        now = self.env.clock.now_ms()
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

    def back(
        self, patterns: Sequence[str], rules: WaveRules, shown: Shown = _nobody, *, execute: bool
    ) -> WaveReport:
        """Toggle the groups of these names or patterns back to zookeeper, in waves, to relieve stress."""
        groups = self.asked_back(patterns, rules)
        return self._waves(self.last(), rules, shown).run(groups, Mode.ZOOKEEPER, execute=execute)

    def _waves(self, report: ScanReport, rules: WaveRules, shown: Shown) -> Waves:
        return Waves(
            env=self.env,
            scans=self.scans,
            brake=self.brake,
            record=replace(report.record),
            rules=rules,
            shown=shown,
            settle_s=self.env.thresholds.settle_s,
        )
