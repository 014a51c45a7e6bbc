"""What every use case is given: the ports, the thresholds, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from groupshift.domain.modes import Holder, Isolation
from groupshift.domain.plan import MoveName
from groupshift.ports.changes import ModeSwitch
from groupshift.ports.clock import Clock, CrashPoints, NoCrash
from groupshift.ports.cluster import Access, GroupReader, NobodyAsks
from groupshift.ports.driver import FleetDriver
from groupshift.ports.evidence import EvidenceStore, Ledger, Signer
from groupshift.ports.group import GroupSide
from groupshift.ports.journal import Entry, Journal
from groupshift.ports.log import NobodyAsksTheLog, RecordLog
from groupshift.ports.spark_jobs import ProofRunner
from groupshift.settings import ApprovalSettings, Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """``fleets`` opens the driver of a name (see `MoveRequest.driver`) and raises `Rejected` for one
    that is not configured; ``driver`` is the name taken where a request has none; ``job`` is the path of
    the Spark job ``validate.py``; ``records`` asks the logs of topics, and ``isolation`` is the level at
    which the group's Kafka members read them; ``signer`` signs evidence packs, None where the settings name
    no key.

    ``sides`` open those of moves that meet a group in another way; opened again they are the same.
    ``held`` is the claim of the run that calls: use cases of its migration do and ask nothing once another
    run has claimed it (`groupshift.application.claim.demand_held`). None: whoever calls only reads."""

    groups: GroupReader
    mode: ModeSwitch
    fleets: Callable[[str], FleetDriver]
    evidence: EvidenceStore
    ledger: Ledger
    journal: Journal
    proof: ProofRunner
    clock: Clock
    job: str
    access: Access = field(default_factory=NobodyAsks)
    records: RecordLog = field(default_factory=NobodyAsksTheLog)
    isolation: Isolation = Isolation.READ_COMMITTED
    driver: str = "process"
    thresholds: Thresholds = field(default_factory=Thresholds)
    approval: ApprovalSettings = field(default_factory=ApprovalSettings)
    crash: CrashPoints = field(default_factory=NoCrash)
    signer: Signer | None = None
    closing: tuple[Callable[[], None], ...] = ()
    sides: Mapping[MoveName, Callable[[], GroupSide]] = field(default_factory=dict)
    held: Holder | None = None

    def append(self, entry: Entry) -> None:
        """Journal under the caller's claim. Raises as `Journal.append`."""
        ours = self.held is not None and self.held.migration == entry.migration
        if self.held is not None and ours and entry.token is None:
            entry = replace(entry, token=self.held.token)
        self.journal.append(entry)

    def of(self, move: MoveName) -> Environment:
        """The same environment as this move meets it."""
        if move not in self.sides:
            return self
        side = self.sides[move]()
        return replace(self, groups=side.groups, fleets=side.fleets, access=side.access)
