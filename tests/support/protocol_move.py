"""The move ``protocol`` driven over a real fleet: settings, a run of the use cases, and what came of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groupshift.adapters.system import SystemClock
from groupshift.bootstrap import App, build
from groupshift.bootstrap.connect import connect
from groupshift.cli.live import Agreed
from groupshift.cli.runner import Runner, claim
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.judgement import Closing
from groupshift.domain.plan import MoveName, MoveRequest, Until, WayBack
from groupshift.settings import Settings, parse
from groupshift_sandbox.processes import wait_until
from support.disk_evidence import DiskEvidence, DiskProof
from support.protocol_fleet import PATIENCE_S, ProtocolFleet, patiently
from support.simulated_move import Watcher

SETTLE_S = 240
RUN_S = 600.0


def settings_of(fleet: ProtocolFleet, folder: Path, submit: str = "") -> Settings:
    """Settings of a cluster without ZooKeeper; ``submit`` is what is called as spark-submit."""
    told: dict[str, Mapping[str, Any]] = {
        "kafka": {"bootstrap_servers": fleet.bootstrap},
        "fleet": {"driver": "process", "socket": str(fleet.home.supervisor_socket)},
        "journal": {"url": f"sqlite:///{folder}/journal.db"},
        "evidence": {"root": str(folder / "evidence")},
        "spark": {"submit": submit},
        "thresholds": {"patience_s": 150, "settle_s": SETTLE_S, "commit_interval_ms": 1000},
    }
    return parse(told)


@dataclass(slots=True)
class ProtocolRun:
    """One migration and what drives it."""

    app: App
    migration: str
    runner: Runner
    watcher: Watcher

    def forward(self) -> Closing:
        """To its end; a run that a silent server ended is gone on with, as people are told to."""
        return patiently(self.runner.forward, RUN_S)

    def back(self) -> Closing:
        """All the way back, as somebody asks for it afterwards."""
        later = claim(self.app, self.migration, f"back-{self.migration}", "test")
        again = replace(self.runner, claimed=later)
        return patiently(lambda: again.back(WayBack.OLD_MEMBERS), RUN_S)


@dataclass(slots=True)
class ProtocolBench:
    """Everything that a test of the move touches."""

    fleet: ProtocolFleet
    app: App
    watcher: Watcher = field(default_factory=Watcher)

    def request(self, to: Protocol, way: Way = Way.ONLINE, **values: Any) -> MoveRequest:
        """A request for this fleet's group."""
        given: dict[str, Any] = {
            "move": MoveName.PROTOCOL,
            "group": self.fleet.options.group,
            "to": to,
            "way": way,
            "until": Until.ROLL,
            "soak_s": 0,
            "execute": True,
            "actor": "test",
        }
        return MoveRequest(**{**given, **values})

    def await_ready(self, request: MoveRequest) -> None:
        """Wait until assess has nothing against it; a failure names what it has."""
        bad: list[str] = []

        def ready() -> bool:
            found = patiently(lambda: self.app.assess(request))
            bad[:] = [f"{each.rule} {each.verdict}: {each.reason}" for each in found.findings]
            return found.ready

        wait_until(ready, PATIENCE_S, "the group is ready", every_s=0.5)

    def run(self, to: Protocol, way: Way = Way.ONLINE, **values: Any) -> ProtocolRun:
        """A planned migration, not yet begun."""
        request = self.request(to, way, **{"run": f"plan-{uuid.uuid4().hex}", **values})
        self.await_ready(request)
        migration = patiently(lambda: self.app.plan(request)).migration
        runner = Runner(
            app=self.app,
            claimed=claim(self.app, migration, f"test-{migration}", "test"),
            decide=Agreed(),
            listener=self.watcher,
            clock=SystemClock(),
            settle_s=SETTLE_S,
        )
        return ProtocolRun(app=self.app, migration=migration, runner=runner, watcher=self.watcher)


def compared_here(settings: Settings) -> App:
    """The use cases with the essential comparisons in this process instead of Spark's, which takes seconds
    for each."""
    evidence = DiskEvidence(settings.evidence.root)
    return App(replace(connect(settings), evidence=evidence, proof=DiskProof(evidence)))


@contextmanager
def bench_of(fleet: ProtocolFleet, folder: Path, submit: str = "") -> Iterator[ProtocolBench]:
    """The use cases over this fleet, proven by Spark where ``submit`` names it; connections are closed."""
    made = build if submit else compared_here
    with made(settings_of(fleet, folder, submit)) as app:
        yield ProtocolBench(fleet=fleet, app=app)
