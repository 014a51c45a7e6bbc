"""A journal in memory: same contract, gone with the process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from groupshift.domain.modes import taken_over
from groupshift.domain.plan import OPEN, StageName, check_transition
from groupshift.errors import Conflict, Fenced, Rejected
from groupshift.ports.journal import Entry, Event, EventKind, MigrationRecord, StepRecord


class MemoryJournal:
    """`groupshift.ports.journal.Journal` for tests and trials."""

    def __init__(self) -> None:
        self._records: dict[str, MigrationRecord] = {}
        self._steps: dict[str, dict[StageName, StepRecord]] = {}
        self._events: dict[str, list[Event]] = {}
        self._claims: dict[str, dict[int, str]] = {}

    def create(self, record: MigrationRecord) -> None:
        """See the port."""
        taken = record.phase in OPEN and self.open_of(record.group)
        if taken or self.of_run(record.run) or record.migration in self._records:
            raise Conflict(f"group {record.group} has an open migration; see: groupshift status")
        self._records[record.migration] = record
        self._steps[record.migration] = {}
        self._events[record.migration] = []
        self._claims[record.migration] = {}

    def find(self, migration: str) -> MigrationRecord:
        """See the port."""
        if migration not in self._records:
            raise Rejected(
                f"migration {migration!r} is not in the journal; list them with: groupshift status"
            )
        return self._records[migration]

    def of_run(self, run: str) -> MigrationRecord | None:
        """See the port."""
        return next((r for r in self._records.values() if run and r.run == run), None)

    def open_of(self, group: str) -> MigrationRecord | None:
        """See the port."""
        return next((r for r in self._records.values() if r.group == group and r.phase in OPEN), None)

    def of_group(self, group: str) -> tuple[MigrationRecord, ...]:
        """See the port."""
        return tuple(r for r in self.recent(len(self._records)) if r.group == group)

    def recent(self, limit: int) -> tuple[MigrationRecord, ...]:
        """See the port."""
        ordered = sorted(self._records.values(), key=lambda r: (r.created_at_ms, r.migration), reverse=True)
        return tuple(ordered[:limit])

    def claim(self, migration: str, run: str, at_ms: int) -> int:
        """See the port."""
        self.find(migration)
        claims = self._claims[migration]
        latest = max(claims, default=0)
        if latest and claims[latest] == run:
            return latest
        claims[latest + 1] = run
        entry = Entry(migration=migration, at_ms=at_ms, kind=EventKind.CLAIMED, body={"run": run})
        self._add(entry, latest + 1)
        return latest + 1

    def append(self, entry: Entry) -> None:
        """See the port."""
        record = self.find(entry.migration)
        if entry.token is not None and entry.token != max(self._claims[entry.migration], default=0):
            claims = self._claims[entry.migration]
            latest = max(claims, default=0)
            said = taken_over("migration", claims.get(latest, "nobody"), self._claimed_at(entry.migration))
            raise Fenced(f"{said}; token {entry.token} of migration {entry.migration} is void")
        if entry.phase is not None:
            check_transition(entry.migration, record.phase, entry.phase)
            other = self.open_of(record.group)
            if entry.phase in OPEN and other and other.migration != entry.migration:
                raise Conflict(f"group {record.group} has the open migration {other.migration}")
        phase = entry.phase or record.phase
        self._records[entry.migration] = replace(record, phase=phase, updated_at_ms=entry.at_ms)
        if entry.step is not None:
            self._steps[entry.migration][entry.step.stage] = entry.step
        self._add(entry, entry.token or 0)

    def _claimed_at(self, migration: str) -> int:
        claimed = (e.at_ms for e in reversed(self._events[migration]) if e.kind is EventKind.CLAIMED)
        return next(claimed, 0)

    def _add(self, entry: Entry, token: int) -> None:
        events = self._events[entry.migration]
        events.append(
            Event(
                seq=len(events) + 1,
                at_ms=entry.at_ms,
                token=token,
                kind=entry.kind,
                stage=entry.stage,
                body=entry.body,
            )
        )

    def steps(self, migration: str) -> Mapping[StageName, StepRecord]:
        """See the port."""
        return dict(self._steps.get(migration, {}))

    def events(self, migration: str) -> tuple[Event, ...]:
        """See the port."""
        return tuple(self._events.get(migration, []))

    def claims(self, migration: str) -> Mapping[int, str]:
        """See the port."""
        return dict(self._claims.get(migration, {}))
