"""A history of scans in memory: same contract, gone with the process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from groupshift.scan.ports import ScanRecord, ToggleRecord
from groupshift.scan.state import Aspect, Change, GroupState, vanished

_Changes = dict[tuple[str, Aspect], Change]
_Toggles = dict[tuple[int, str], ToggleRecord]


class MemoryScans:
    """`groupshift.scan.ports.Scans` for tests and trials."""

    def __init__(self) -> None:
        self._scans: dict[str, list[ScanRecord]] = defaultdict(list)
        self._states: dict[str, dict[str, tuple[int, GroupState]]] = defaultdict(dict)
        self._changes: dict[tuple[str, int], _Changes] = defaultdict(dict)
        self._toggles: dict[tuple[str, int], _Toggles] = defaultdict(dict)

    def begin(self, ensemble: str, at_ms: int) -> ScanRecord:
        """See the port."""
        scans = self._scans[ensemble]
        scans.append(ScanRecord(ensemble=ensemble, number=len(scans) + 1, began_at_ms=at_ms))
        return scans[-1]

    def end(self, record: ScanRecord) -> None:
        """See the port."""
        self._scans[record.ensemble][record.number - 1] = record

    def latest(self, ensemble: str, before: int | None = None) -> ScanRecord | None:
        """See the port."""
        ended = [
            scan
            for scan in self._scans[ensemble]
            if scan.ended_at_ms is not None and (before is None or scan.number < before)
        ]
        return ended[-1] if ended else None

    def known(self, ensemble: str, groups: Sequence[str]) -> Mapping[str, GroupState]:
        """See the port."""
        states = self._states[ensemble]
        return {group: states[group][1] for group in groups if group in states}

    def put(self, record: ScanRecord, states: Sequence[GroupState], changes: Sequence[Change]) -> None:
        """See the port."""
        self._states[record.ensemble].update({each.group: (record.number, each) for each in states})
        newest = {(each.group, each.aspect): each for each in changes}
        self._changes[record.ensemble, record.number].update(newest)

    def sweep(self, record: ScanRecord) -> int:
        """See the port."""
        states = self._states[record.ensemble]
        unseen = [group for group, (number, _) in states.items() if number < record.number]
        self.put(record, (), [vanished(group, states[group][1]) for group in unseen])
        for group in unseen:
            del states[group]
        return len(unseen)

    def states(self, ensemble: str) -> Iterator[GroupState]:
        """See the port."""
        states = self._states[ensemble]
        return iter([states[group][1] for group in sorted(states)])

    def changes(self, ensemble: str, number: int) -> Iterator[Change]:
        """See the port."""
        changes = self._changes[ensemble, number]
        return iter([changes[key] for key in sorted(changes)])

    def put_toggle(self, record: ScanRecord, toggle: ToggleRecord) -> None:
        """See the port."""
        self._toggles[record.ensemble, record.number][toggle.wave, toggle.group] = toggle

    def toggles(self, ensemble: str, number: int) -> tuple[ToggleRecord, ...]:
        """See the port."""
        toggles = self._toggles[ensemble, number]
        return tuple(toggles[key] for key in sorted(toggles))
