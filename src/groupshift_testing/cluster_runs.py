"""A journal of cluster runs in memory: same contract, gone with the process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from groupshift.domain.modes import taken_over
from groupshift.errors import Conflict, Fenced, Rejected
from groupshift.ports.journal import NEXT, SEEN_BY, ClusterRun, RunClaim, RunState, RunStepRecord


class MemoryClusterRuns:
    """`groupshift.ports.journal.ClusterRuns` for tests and trials."""

    def __init__(self) -> None:
        self._runs: dict[str, ClusterRun] = {}
        self._steps: dict[str, dict[str, RunStepRecord]] = {}
        self._claims: dict[str, list[RunClaim]] = {}

    def create(self, run: ClusterRun) -> None:
        """See the port."""
        if run.run in self._runs or (run.open and self.open_of(run.cluster_id)):
            raise Conflict(f"cluster {run.cluster_id} has an open run; see: {SEEN_BY}")
        self._runs[run.run] = run
        self._steps[run.run] = {}
        self._claims[run.run] = []

    def find(self, run: str) -> ClusterRun:
        """See the port."""
        if run not in self._runs:
            raise Rejected(f"run {run!r} is not in the journal; list them with: {SEEN_BY}")
        return self._runs[run]

    def open_of(self, cluster_id: str) -> ClusterRun | None:
        """See the port."""
        return next((r for r in self._runs.values() if r.cluster_id == cluster_id and r.open), None)

    def recent(self, limit: int, *, move: str = "") -> tuple[ClusterRun, ...]:
        """See the port."""
        found = (each for each in self._runs.values() if move in {"", each.move})
        ordered = sorted(found, key=lambda r: (r.created_at_ms, r.run), reverse=True)
        return tuple(ordered[:limit])

    def claim(self, run: str, holder: str, at_ms: int) -> int:
        """See the port."""
        self._runs[run] = replace(self.find(run), updated_at_ms=at_ms)
        token = len(self._claims[run]) + 1
        self._claims[run].append(RunClaim(token=token, holder=holder, at_ms=at_ms))
        return token

    def held(self, run: str) -> RunClaim | None:
        """See the port."""
        claims = self._claims.get(run)
        return claims[-1] if claims else None

    def put(self, run: str, record: RunStepRecord) -> None:
        """See the port."""
        self._demand(run, record.token)
        self._runs[run] = replace(self._runs[run], updated_at_ms=record.at_ms)
        self._steps[run][record.step] = record

    def steps(self, run: str) -> Mapping[str, RunStepRecord]:
        """See the port."""
        return dict(self._steps.get(run, {}))

    def move(self, run: str, token: int, state: RunState, at_ms: int) -> None:
        """See the port."""
        self._demand(run, token)
        if state not in NEXT[self._runs[run].state]:
            raise Conflict(f"run {run} is {self._runs[run].state} and cannot become {state}")
        self._runs[run] = replace(self._runs[run], state=state, updated_at_ms=at_ms)

    def close(self) -> None:
        """Nothing is open."""

    def _demand(self, run: str, token: int) -> None:
        found = self.find(run)
        if token != len(self._claims[run]):
            claim = self._claims[run][-1] if self._claims[run] else None
            by = f"{taken_over('run', claim.holder, claim.at_ms)}; " if claim else ""
            raise Fenced(f"{by}token {token} of run {run} is void: this process may not act any more")
        if not found.open:
            raise Conflict(f"run {run} is {found.state}: nothing of it may change any more")
