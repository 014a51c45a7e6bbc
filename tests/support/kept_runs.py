"""A simulated run of coordination whose journal and evidence lie on a disk, as those of a deployment do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from groupshift.adapters.sqlalchemy.runs import SqlRuns
from groupshift.bootstrap.moves import sealer_of
from groupshift.domain.plan import Until
from groupshift.domain.run import RunState
from groupshift.engine.move import Tools
from groupshift.engine.roll_back import begin_roll_back
from groupshift.ports.clock import StepCrashPoints
from groupshift.settings import Settings, load
from support.coordination_runs import SHARED, CoordinationProcesses, make_coordination
from support.disk_evidence import DiskEvidence, FullProof


def kept_processes(home: Path) -> CoordinationProcesses:
    """Processes that remember below ``home``: ``journal.db`` and ``evidence``. Close their ``runs``."""
    home.mkdir(parents=True, exist_ok=True)
    return _kept(make_coordination(), home)


def _kept(found: CoordinationProcesses, home: Path) -> CoordinationProcesses:
    evidence: Any = DiskEvidence(home / "evidence")
    found.evidence, found.proof = evidence, FullProof(evidence)
    found.runs = SqlRuns(f"sqlite:///{home / 'journal.db'}")
    found.seals = False
    return found


class SealedProcesses(CoordinationProcesses):
    """As `kept_processes`, with a settings file; a run is sealed at its end, with its page."""

    file: Path
    settings: Settings

    def tools(self, crash: StepCrashPoints | None = None) -> Tools:
        """See `Processes`."""
        sealer = sealer_of(self.runs, self.settings)
        return replace(CoordinationProcesses.tools(self, crash), seal=sealer.prepare)

    def moved(self) -> str:
        """Move a canary, which ends the run; returns its name."""
        run = self.begin(until=Until.CANARY, soak=1)
        self.drive(run)
        assert self.state(run) is RunState.MOVED
        return run


def sealed_processes(home: Path) -> SealedProcesses:
    """Processes that remember below ``home``, where ``settings.toml`` names journal and evidence."""
    made = make_coordination()
    found = SealedProcesses(**{name: getattr(made, name) for name in SHARED})
    _kept(found, home)
    found.file = home / "settings.toml"
    found.file.write_text(
        '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[zookeeper]\nhosts = "127.0.0.1:1"\n'
        f'[fleet]\ndriver = "manual"\n[journal]\nurl = "sqlite:///{home / "journal.db"}"\n'
        f'[evidence]\nroot = "{home / "evidence"}"\n'
    )
    found.settings = load(found.file)
    return found


def held_run(found: CoordinationProcesses, holder: str, requester: str = "", origin: str = "") -> str:
    """A run of ``requester`` that moved its canary and is being rolled back; ``holder`` has it."""
    run = found.begin(until=Until.CANARY, soak=1, requester=requester, origin=origin)
    found.drive(run)
    claimed = found.claim(run, holder=holder)
    assert begin_roll_back(claimed, found.move.back_to[0])
    return run
