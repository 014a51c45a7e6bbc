"""A simulated run of coordination whose journal and evidence lie on a disk, as those of a deployment do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.domain.plan import Until
from groupshift.engine.roll_back import begin_roll_back
from support.coordination_runs import CoordinationProcesses, make_coordination
from support.disk_evidence import DiskEvidence, FullProof


def kept_processes(home: Path) -> CoordinationProcesses:
    """Processes that remember below ``home``: ``journal.db`` and ``evidence``. Close their ``runs``."""
    home.mkdir(parents=True, exist_ok=True)
    found = make_coordination()
    evidence: Any = DiskEvidence(home / "evidence")
    found.evidence, found.proof = evidence, FullProof(evidence)
    found.runs = SqlRuns(f"sqlite:///{home / 'journal.db'}")
    found.seals = False
    return found


def held_run(found: CoordinationProcesses, holder: str, requester: str = "", origin: str = "") -> str:
    """A run of ``requester`` that moved its canary and is on its way back; ``holder`` has it."""
    run = found.begin(until=Until.CANARY, soak=1, requester=requester, origin=origin)
    found.drive(run)
    claimed = found.claim(run, holder=holder)
    assert begin_roll_back(claimed, found.move.back_to[0])
    return run
