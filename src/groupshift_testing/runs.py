"""The journal of runs in memory: same contract, gone with the process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from groupshift.domain.run import Json, RunState, StepRecord, Target, canonical, require_transition
from groupshift.errors import Conflict, Rejected
from groupshift.ports.runs import (
    Claim,
    Entry,
    Event,
    EventKind,
    NewEvent,
    RunRecord,
    next_token,
    require_free,
    require_writer,
)


class MemoryRuns:
    """`groupshift.ports.runs.Runs` for tests and trials."""

    def __init__(self) -> None:
        self._runs: dict[str, RunRecord] = {}
        self._steps: dict[str, dict[str, StepRecord]] = {}
        self._events: dict[str, list[Event]] = {}
        self._claims: dict[str, list[Claim]] = {}

    def create(self, run: RunRecord) -> None:
        """See the port."""
        if run.state.is_open:
            self._require_free(run)
        if run.run in self._runs or self.of_origin(run.origin):
            raise Conflict(
                f"there is a run {run.run} already, or one of origin {run.origin!r}; see: groupshift status"
            )
        self._runs[run.run] = run
        self._steps[run.run], self._events[run.run], self._claims[run.run] = {}, [], []
        body = {"plan": run.plan_hash, "requester": run.requester}
        self._add(run.run, (0, run.created_at_ms), NewEvent(kind=EventKind.PLANNED, body=body))

    def find(self, run: str) -> RunRecord:
        """See the port."""
        if run not in self._runs:
            raise Rejected(f"run {run!r} is not in the journal; list them with: groupshift status")
        return self._runs[run]

    def of_origin(self, origin: str) -> RunRecord | None:
        """See the port."""
        return next((each for each in self._runs.values() if origin and each.origin == origin), None)

    def in_the_way(self, target: Target) -> tuple[RunRecord, ...]:
        """See the port."""
        excluded = (r for r in self._runs.values() if r.state.is_open and r.target.excludes(target))
        return tuple(sorted(excluded, key=lambda each: each.created_at_ms))

    def of_target(self, target: Target) -> tuple[RunRecord, ...]:
        """See the port."""
        return tuple(each for each in self.recent(len(self._runs)) if each.target == target)

    def recent(
        self,
        limit: int,
        *,
        move: str = "",
        target: str = "",
        open_only: bool = False,
        previews: bool = True,
    ) -> tuple[RunRecord, ...]:
        """See the port."""
        matching = (
            each
            for each in self._runs.values()
            if move in {"", each.move} and target in {"", each.target.name}
            if (each.state.is_open or not open_only) and (previews or each.state is not RunState.PREVIEW)
        )
        return tuple(sorted(matching, key=lambda r: (r.created_at_ms, r.run), reverse=True)[:limit])

    def claim(self, run: str, holder: str, at_ms: int, *, anew: bool, take_over: bool = False) -> int:
        """See the port."""
        record, latest = self.find(run), self.held(run)
        if latest is not None and latest.holder == holder and not anew:
            return latest.token
        token = next_token(record, latest, holder, take_over=take_over)
        self._claims[run].append(Claim(token=token, holder=holder, at_ms=at_ms))
        self._runs[run] = replace(record, updated_at_ms=at_ms)
        self._add(run, (token, at_ms), NewEvent(kind=EventKind.CLAIMED, body={"holder": holder}))
        return token

    def held(self, run: str) -> Claim | None:
        """See the port."""
        if not self._claims.get(run):
            return None
        latest = self._claims[run][-1]
        words = [each.kind for each in self._events[run] if each.token == latest.token]
        return replace(latest, stopped=bool(words) and words[-1] is EventKind.STOPPED)

    def append(self, entry: Entry) -> None:
        """See the port."""
        run = self.find(entry.run)
        require_writer(run, entry, self.held(run.run))
        steps = [replace(each, intent=_json(each.intent), result=_json(each.result)) for each in entry.steps]
        events = [replace(each, body=_json(each.body)) for each in entry.events]
        if entry.state is not None:
            require_transition(run.run, run.state, entry.state)
            if entry.state.is_open and not run.state.is_open:
                self._require_free(run)
        self._runs[run.run] = replace(run, state=entry.state or run.state, updated_at_ms=entry.at_ms)
        self._steps[run.run].update({each.key: each for each in steps})
        for event in events:
            self._add(run.run, (entry.token or 0, entry.at_ms), event)

    def steps(self, run: str) -> Mapping[str, StepRecord]:
        """See the port."""
        return dict(self._steps.get(run, {}))

    def events(self, run: str, *, step: str = "") -> tuple[Event, ...]:
        """See the port."""
        return tuple(each for each in self._events.get(run, []) if step in {"", each.step})

    def close(self) -> None:
        """Nothing is open."""

    def _require_free(self, run: RunRecord) -> None:
        require_free(run.target, (each for each in self.in_the_way(run.target) if each.run != run.run))

    def _add(self, run: str, by: tuple[int, int], event: NewEvent) -> None:
        token, at_ms = by
        events = self._events[run]
        made = Event(
            seq=len(events) + 1, at_ms=at_ms, token=token, kind=event.kind, step=event.step, body=event.body
        )
        events.append(made)


def _json(value: Json) -> Json:
    """A copy as a database would give it back."""
    plain: Json = json.loads(canonical(dict(value)))
    return plain
