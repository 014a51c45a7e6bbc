"""Reading a migration back from the journal: its plan, its stages, what was shown and judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from groupshift.application.claim import demand_held
from groupshift.application.environment import Environment
from groupshift.domain.books import BOOKS, Book, Wanted
from groupshift.domain.evidence import Moment
from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.plan import (
    MoveName,
    MoveRequest,
    Phase,
    Plan,
    Stage,
    StageName,
    Until,
    from_json,
    step_from_data,
    step_to_data,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.ports.journal import Event, EventKind, MigrationRecord, StepRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One migration as the journal knows it now."""

    record: MigrationRecord
    plan: Plan
    steps: Mapping[StageName, StepRecord]
    events: tuple[Event, ...]

    @property
    def id(self) -> str:
        """The migration's id."""
        return self.record.migration

    @property
    def book(self) -> Book:
        """What there is to know of its move."""
        return BOOKS[self.plan.move]

    @property
    def request(self) -> MoveRequest:
        """What was asked for."""
        return request_from(json.loads(self.record.request))

    def wanted(self, stage: StageName) -> Wanted:
        """What ``stage`` leads to."""
        return self.book.wanted(self.plan, stage)

    @property
    def phase(self) -> Phase:
        """The phase."""
        return self.record.phase

    def latest(self, kind: EventKind, stage: StageName | None = None) -> Event | None:
        """The last event of a kind (and stage, if given)."""
        return next((e for e in reversed(self.events) if e.kind is kind and stage in {None, e.stage}), None)

    @property
    def undo(self) -> tuple[Stage, ...]:
        """The stages of the way back that was begun last; empty when none was."""
        begun = self.latest(EventKind.ROLL_BACK_BEGUN)
        stages = begun.body["stages"] if begun else ()
        return tuple(
            self.book.stage_of(StageName(each["name"]), step_from_data(each), None) for each in stages
        )

    def stage(self, name: StageName) -> Stage | None:
        """The stage, of the plan or of the way back."""
        if name.undoes:
            return next((stage for stage in self.undo if stage.name is name), None)
        return self.plan.stage(name)

    def verdict(self, stage: StageName, moment: Moment) -> Verdict | None:
        """The last verdict on a moment of a stage, if it was judged since the way back was begun."""
        since = self.latest(EventKind.ROLL_BACK_BEGUN)
        start = since.seq if since and stage.undoes else 0
        judged = [
            event.body["verdict"]
            for event in self.events
            if event.kind is EventKind.JUDGED
            and event.stage is stage
            and event.body["moment"] == moment.value
            and event.seq > start
        ]
        return Verdict(judged[-1]) if judged else None

    def passed(self, stage: StageName) -> bool:
        """Whether the stage was judged as passed after its act, or a person accepted what was found."""
        if self.verdict(stage, Moment.AFTER) is Verdict.PASS:
            return True
        last = self.latest(EventKind.JUDGED, stage)
        return any(
            event.seq > last.seq and event.body["gate"] == "review" and event.body["choice"] == "approve"
            for event in self.events
            if last and event.kind is EventKind.GATE_ANSWERED and event.stage is stage
        )

    def snapshots(self) -> tuple[tuple[StageName, Moment, str], ...]:
        """Stage, moment and digest of each snapshot, in the order of their last taking."""
        last: dict[tuple[StageName, Moment], str] = {}
        for event in self.events:
            if event.kind is EventKind.SNAPSHOT and event.stage:
                key = (event.stage, Moment(event.body["moment"]))
                last.pop(key, None)
                last[key] = str(event.body["digest"])
        return tuple((stage, moment, digest) for (stage, moment), digest in last.items())


def move_of(env: Environment, migration: str) -> MoveName:
    """Which move a migration makes. Raises `Rejected` when there is none of that id."""
    return from_json(env.journal.find(migration).plan).move


def load(env: Environment, migration: str) -> Migration:
    """The migration. Raises `Rejected` when there is none of that id, `Fenced` when the run that calls lost
    its claim."""
    demand_held(env, migration)
    record = env.journal.find(migration)
    return Migration(
        record=record,
        plan=from_json(record.plan),
        steps=env.journal.steps(migration),
        events=env.journal.events(migration),
    )


def stage_data(stage: Stage) -> dict[str, Any]:
    """A stage of the way back as journaled."""
    return {"name": stage.name.value, **step_to_data(stage.step)}


def findings_data(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as journaled; ``asked`` is there only where a rule was not asked."""
    return [
        {"rule": f.rule, "verdict": f.verdict.value, "reason": f.reason, "hint": f.hint}
        | ({} if f.asked else {"asked": False})
        for f in findings
    ]


def findings_from(data: Iterable[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """Findings as journaled, or as the Spark job wrote them (its further keys are not needed here)."""
    return tuple(
        Finding(
            rule=str(each["rule"]),
            verdict=Verdict(each["verdict"]),
            reason=str(each["reason"]),
            hint=str(each.get("hint", "")),
            asked=bool(each.get("asked", True)),
        )
        for each in data
    )


def request_from(data: Mapping[str, Any]) -> MoveRequest:
    """A request as journaled; what it did not know then is as if it was not asked for."""
    kinds: Mapping[str, Callable[[Any], Any]] = {
        "until": Until,
        "move": MoveName,
        "way": Way,
        "to": lambda to: Protocol(to) if to else None,
        "clients": tuple,
        "brokers": tuple,
    }
    told: dict[str, Any] = {key: kinds[key](value) if key in kinds else value for key, value in data.items()}
    return MoveRequest(**told)


def canonical(data: Mapping[str, Any]) -> str:
    """JSON with sorted keys."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))
