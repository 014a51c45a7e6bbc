"""Plans are data: an ordered list of stages with step, gate and checks, and a hash over all of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from groupshift.domain import plan_document
from groupshift.domain.coordination import MemberKind, Mode
from groupshift.domain.moves import Gate, MoveName, StageName, Until
from groupshift.domain.protocol.model import Protocol, Way
from groupshift.domain.steps import DeleteModeNode, ReplaceMembers, SetMode, Soak, Step, StepName


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: what it does, which gate stands before it, which rule sets are asked of the live group.

    ``before`` and ``after`` are numbers of rules (``C01`` ...) that must hold right before the act and
    once the stage has settled.
    """

    name: StageName
    step: Step
    gate: Gate | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryTerms:
    """How the canary is watched: for ``watch_s`` seconds (0: not at all). Its places held ``held`` of
    ``partitions`` partitions when it was planned."""

    watch_s: int = 0
    held: int = 0
    partitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a migration will do. ``slots`` are all places of the fleet when it was planned, sorted; ``notes``
    say what stays as it is, and where readers begin by their own reset rule.

    ``to`` and ``way`` are of the move ``protocol`` only."""

    group: str
    driver: str
    until: Until
    soak_s: int
    execute: bool
    slots: tuple[str, ...]
    stages: tuple[Stage, ...]
    canary: CanaryTerms = CanaryTerms()
    move: MoveName = MoveName.COORDINATION
    to: Protocol | None = None
    way: Way | None = None
    notes: tuple[str, ...] = ()

    def stage(self, name: StageName) -> Stage | None:
        """The stage of that name, or None when the plan has none."""
        return next((stage for stage in self.stages if stage.name is name), None)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, in hex: what people approve."""
        return hashlib.sha256(to_json(self).encode()).hexdigest()


def step_to_data(step: Step) -> dict[str, Any]:
    """A step as plain values; ``step`` holds its `StepName`."""
    match step:
        case ReplaceMembers():
            return {
                "step": StepName.REPLACE_MEMBERS.value,
                "slots": list(step.slots),
                "old": step.old.value,
                "new": step.new.value,
            }
        case SetMode():
            return {"step": StepName.SET_MODE.value, "to": step.to.value}
        case Soak():
            return {"step": StepName.SOAK.value, "seconds": step.seconds}
        case DeleteModeNode():
            return {"step": StepName.DELETE_MODE_NODE.value}


def step_from_data(data: Mapping[str, Any]) -> Step:
    """The inverse of `step_to_data`. Raises `ValueError` for an unknown step."""
    match StepName(data["step"]):
        case StepName.REPLACE_MEMBERS:
            return ReplaceMembers(
                slots=tuple(data["slots"]), old=MemberKind(data["old"]), new=MemberKind(data["new"])
            )
        case StepName.SET_MODE:
            return SetMode(to=Mode(data["to"]))
        case StepName.SOAK:
            return Soak(seconds=int(data["seconds"]))
        case StepName.DELETE_MODE_NODE:
            return DeleteModeNode()


def _stage_to_data(stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.name.value,
        "gate": stage.gate.value if stage.gate else None,
        "before": list(stage.before),
        "after": list(stage.after),
        **step_to_data(stage.step),
    }


def _stage_from_data(data: Mapping[str, Any]) -> Stage:
    return Stage(
        name=StageName(data["name"]),
        step=step_from_data(data),
        gate=Gate(data["gate"]) if data["gate"] else None,
        before=tuple(data["before"]),
        after=tuple(data["after"]),
    )


def to_json(plan: Plan) -> str:
    """Canonical JSON: equal plans have equal bytes."""
    data: dict[str, Any] = {
        "group": plan.group,
        "driver": plan.driver,
        "until": plan.until.value,
        "soak_s": plan.soak_s,
        "execute": plan.execute,
        "canary": asdict(plan.canary),
        "slots": list(plan.slots),
        "stages": [_stage_to_data(stage) for stage in plan.stages],
    }
    if plan.to is not None:
        data |= {"to": plan.to.value, "way": plan.way.value if plan.way else None}
    if plan.notes:
        data["notes"] = list(plan.notes)
    return plan_document.written(plan.move.value, data)


def from_json(text: str) -> Plan:
    """The plan that `to_json` wrote. Raises `Rejected` for another version or another move, `ValueError` for
    other names that are unknown."""
    move, data = plan_document.parts_of(text, *(each.value for each in MoveName))
    return Plan(
        group=data["group"],
        driver=data["driver"],
        until=Until(data["until"]),
        soak_s=int(data["soak_s"]),
        execute=bool(data["execute"]),
        slots=tuple(data["slots"]),
        stages=tuple(_stage_from_data(stage) for stage in data["stages"]),
        canary=CanaryTerms(**data.get("canary", {})),
        move=MoveName(move),
        to=Protocol(data["to"]) if data.get("to") else None,
        way=Way(data["way"]) if data.get("way") else None,
        notes=tuple(data.get("notes", ())),
    )
