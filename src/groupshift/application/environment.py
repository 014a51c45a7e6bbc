"""What every use case is given: the ports, the thresholds, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from groupshift.ports.access import Access, NobodyAsks
from groupshift.ports.clock import Clock
from groupshift.ports.crash import CrashPoints, NoCrash
from groupshift.ports.evidence import EvidenceStore
from groupshift.ports.fleet import FleetDriver
from groupshift.ports.groups import GroupReader
from groupshift.ports.journal import Journal
from groupshift.ports.ledger import Ledger
from groupshift.ports.mode import ModeSwitch
from groupshift.ports.proof import ProofRunner
from groupshift.ports.signature import Signer
from groupshift.settings import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """``fleets`` opens the driver of a name (see `MoveRequest.driver`) and raises `Rejected` for one
    that is not configured; ``driver`` is the name taken where a request has none; ``job`` is the path of
    the Spark job ``validate.py``; ``signer`` signs evidence packs, None where the settings name no key."""

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
    driver: str = "process"
    thresholds: Thresholds = field(default_factory=Thresholds)
    crash: CrashPoints = field(default_factory=NoCrash)
    signer: Signer | None = None
    closing: tuple[Callable[[], None], ...] = ()
