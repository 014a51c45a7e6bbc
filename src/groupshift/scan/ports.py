"""The ports of scans: their history, the reader of an ensemble, and the brake.

The history has the last state of each group, what changed in each scan, and what was toggled. The brake stops
whatever acts on many groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from groupshift.domain.modes import Mode
from groupshift.scan.group_state import GroupChange, GroupState, Observed


class ToggleState(StrEnum):
    """How far the toggle of one group in a wave is."""

    PLANNED = "planned"
    """Would be toggled; without execute nothing more happens."""
    STARTED = "started"
    """Written down before the first act."""
    DONE = "done"
    """Settled in the wanted mode."""
    FAILED = "failed"
    """Did not settle, or somebody else acted; taken back where that was possible."""
    SKIPPED = "skipped"
    """Not fit any more when its turn came; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRecord:
    """One scan of an ensemble; ``number`` is 1, 2, 3, ... per ensemble, ``ended_at_ms`` None while it runs
    or when it was killed. ``totals`` are counts by name (groups, changes, and one a `Life`)."""

    ensemble: str
    number: int
    began_at_ms: int
    ended_at_ms: int | None = None
    totals: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToggleRecord:
    """One group in a wave of a scan; ``run`` is the journal's name, empty before there is one."""

    group: str
    to: Mode
    wave: int
    state: ToggleState
    at_ms: int
    reason: str = ""
    run: str = ""


class Scans(Protocol):
    """Durable and transactional. Raises `Transient` when the database does not answer in time.

    States and changes come back in order of the group's name, read in pages: no call holds all of them."""

    def begin(self, ensemble: str, at_ms: int) -> ScanRecord:
        """A new scan with the next number."""

    def end(self, record: ScanRecord) -> None:
        """Write down end and totals."""

    def latest(self, ensemble: str, before: int | None = None) -> ScanRecord | None:
        """The last scan that ended (with a number below ``before``), if any."""

    def known(self, ensemble: str, groups: Sequence[str]) -> Mapping[str, GroupState]:
        """The last state of those of ``groups`` that some scan saw."""

    def put(self, record: ScanRecord, states: Sequence[GroupState], changes: Sequence[GroupChange]) -> None:
        """Store states as the last ones and changes as those of this scan, in one transaction."""

    def sweep(self, record: ScanRecord) -> int:
        """Forget the groups that this scan did not see, keep that as changes, and return how many."""

    def states(self, ensemble: str) -> Iterator[GroupState]:
        """The last state of every group."""

    def changes(self, ensemble: str, number: int) -> Iterator[GroupChange]:
        """What a scan found different."""

    def put_toggle(self, record: ScanRecord, toggle: ToggleRecord) -> None:
        """Store how far the toggle of a group is; the last one per scan, group and wave counts."""

    def toggles(self, ensemble: str, number: int) -> tuple[ToggleRecord, ...]:
        """The toggles of a scan, by wave and group."""


class EnsembleReader(Protocol):
    """Observes many groups and never changes anything.

    Raises `Transient` when ZooKeeper or Kafka does not answer within the bounded retries, `Rejected` when
    credentials are refused or no Kafka cluster keeps its nodes there. What cannot be read of one group is a
    sentence in its `GroupView.problems`: one broken group hides no other."""

    @property
    def name(self) -> str:
        """Hosts and chroot: under this name the journal keeps the scans."""

    def groups(self) -> tuple[str, ...]:
        """Every group that ZooKeeper or Kafka knows now, sorted."""

    def read(self, groups: Sequence[str]) -> tuple[Observed, ...]:
        """These groups now, in this order; for a bounded number of groups at a time.

        A group that is gone meanwhile has ``exists`` False."""


class Brake(Protocol):
    """One place for all who act on many groups: while it is pulled nothing more is started.

    Raises `Transient` when ZooKeeper does not answer."""

    def pulled(self) -> str:
        """Why it is pulled; empty when it is not."""

    def pull(self, reason: str) -> None:
        """Pull it; the last reason stays."""

    def release(self) -> None:
        """Release it; releasing a released brake is fine."""
