"""Plans of one group as data: stages with step, gate and checks; phases; and the JSON document.

A plan is an ordered list of stages with a hash over all of it. Its document is canonical JSON under that
hash, with its version and its move. The vocabulary of moves is here, too: stages, gates, ways of rollback,
and what a person asks for. `TRANSITIONS` is the one table of transitions between the phases of a migration.

Source: docs/reference/concepts.md, "A move"; docs/reference/zookeeper-coordination.md §9 (path
and rollback of ``coordination``); docs/reference/group-coordinator.md §§5-6 (``protocol``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from groupshift.domain.group_protocol import Protocol, Way
from groupshift.domain.modes import MemberKind, Mode
from groupshift.domain.step import DeleteModeNode, ReplaceMembers, SetMode, Soak, Step, StepName
from groupshift.errors import Conflict, Rejected

PLAN_VERSION = 1
"""Of the form of every plan that this release writes and reads."""


def written(move: str, parts: Mapping[str, Any]) -> str:
    """Canonical JSON: sorted keys, no blanks, so that equal plans have equal bytes."""
    data = {"version": PLAN_VERSION, "move": move, **parts}
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parts_of(text: str, *moves: str) -> tuple[str, dict[str, Any]]:
    """The move and what `written` was given. Raises `Rejected` for a plan of another version or of none of
    these moves: what another release planned is ended with that release."""
    parts: dict[str, Any] = json.loads(text)
    version, move = parts.pop("version", None), parts.pop("move", None)
    if version != PLAN_VERSION:
        raise Rejected(
            f"plan: it has version {version!r}, this groupshift reads version {PLAN_VERSION};"
            " go on with the release that planned it"
        )
    if move not in moves:
        raise Rejected(f"plan: it is of the move {move!r}; name a run of {' or '.join(moves)}")
    return str(move), parts


class MoveName(StrEnum):
    """A move's name in plans and the journal."""

    COORDINATION = "coordination"
    """From ZooKeeper to Kafka coordination (KIP-125)."""
    PROTOCOL = "protocol"
    """Between the classic and the consumer protocol (KIP-848)."""


class StageName(StrEnum):
    """A stage of a move, or of its way back."""

    CANARY = "canary"
    """One (or a few) members are replaced by ones of the new kind."""
    ROLL = "roll"
    """The remaining members are replaced by ones of the new kind."""
    TOGGLE = "toggle"
    """The mode node is set to ``kafka`` by compare-and-set (F7)."""
    RETIRE = "retire"
    """Migration-aware members are replaced by plain Kafka consumers."""
    SOAK = "soak"
    """Nothing is changed; the group is judged for a while after the last act."""
    FINALISE = "finalise"
    """What only the way back needed is removed, if the group no longer depends on it."""
    EMPTY = "empty"
    """All members stop, and none takes their places yet (offline)."""
    FILL = "fill"
    """Members of the new kind take the empty places (offline)."""
    UNDO_RETIRE = "undo_retire"
    """Plain Kafka consumers are replaced by migration-aware ones."""
    UNDO_TOGGLE = "undo_toggle"
    """The mode node is set back to ``zookeeper``."""
    UNDO_FILL = "undo_fill"
    """The members that took the empty places stop again."""
    UNDO_EMPTY = "undo_empty"
    """Members of the old kind take their places again."""
    UNDO_MEMBERS = "undo_members"
    """Members of the new kind are replaced by ones of the old kind."""

    @property
    def undoes(self) -> bool:
        """True for a stage of the way back."""
        return self in UNDO_STAGES


UNDO_STAGES = (
    StageName.UNDO_RETIRE,
    StageName.UNDO_TOGGLE,
    StageName.UNDO_FILL,
    StageName.UNDO_EMPTY,
    StageName.UNDO_MEMBERS,
)
"""The ways back, each in the order in which it is walked."""

UNDO_OF = {
    MoveName.COORDINATION: (StageName.UNDO_RETIRE, StageName.UNDO_TOGGLE, StageName.UNDO_MEMBERS),
    MoveName.PROTOCOL: (StageName.UNDO_FILL, StageName.UNDO_EMPTY, StageName.UNDO_MEMBERS),
}
"""Those that the way back of a move can need."""


class Until(StrEnum):
    """The last act a run is allowed to make."""

    CANARY = "canary"
    ROLL = "roll"
    TOGGLE = "toggle"
    RETIRE = "retire"


class WayBack(StrEnum):
    """How far a roll back goes."""

    ZOOKEEPER_MODE = "zookeeper_mode"
    """Mode back to ZooKeeper; migration-aware members stay."""
    OLD_MEMBERS = "old_members"
    """Everything back, to the members that were there before."""


class Gate(StrEnum):
    """A point at which a person decides. ``REVIEW`` asks after an inconclusive or failed measurement."""

    PLAN = "plan"
    TOGGLE = "toggle"
    FINALISE = "finalise"
    REVIEW = "review"


class Choice(StrEnum):
    """What a person may answer at a gate; the default, also after expiry, is `REJECT`."""

    APPROVE = "approve"
    REJECT = "reject"
    FINALISE = "finalise"
    """Gate ``finalise`` only: remove what only the way back needed."""
    KEEP = "keep"
    """Gate ``finalise`` only: keep the way back open; the run ends as *moved*."""
    STOP = "stop"
    """Gate ``review`` only: change nothing more, neither on nor back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest:
    """What was asked for: move ``group``, as far as ``until``.

    Of the move ``protocol``, ``to`` is the protocol its members are to speak, ``way`` how they change, and
    ``clients`` and ``brokers`` are versions that people name for the hazard book (``librdkafka=2.16.1``).

    ``driver`` names the fleet driver (empty: the one in the settings). ``canary`` is the number of members
    replaced first; with a ``canary_share`` above 0 it is instead the fewest that hold this share (up to
    1.0) of the partitions.
    The canary is watched for ``canary_watch_s`` seconds and judged against the old members beside it (0:
    it is not). ``soak_s`` are the seconds of soak. Without ``execute`` everything is planned and nothing
    is changed. ``actor`` is the person or program asking; ``run`` makes planning repeatable: the same
    ``run`` (an Airflow run id) gets the same migration again. Values are checked by
    `groupshift.domain.planning.check`.
    """

    group: str
    driver: str = ""
    canary: int = 1
    canary_share: float = 0.0
    canary_watch_s: int = 0
    soak_s: int = 60
    until: Until = Until.TOGGLE
    execute: bool = False
    actor: str = "unknown"
    run: str = ""
    move: MoveName = MoveName.COORDINATION
    to: Protocol | None = None
    way: Way = Way.ONLINE
    clients: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A person's answer at a gate. ``fingerprint`` is the one the brief of the gate showed."""

    choice: Choice
    who: str
    fingerprint: str


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
    return written(plan.move.value, data)


def from_json(text: str) -> Plan:
    """The plan that `to_json` wrote. Raises `Rejected` for another version or another move, `ValueError` for
    other names that are unknown."""
    move, data = parts_of(text, *(each.value for each in MoveName))
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


class Phase(StrEnum):
    """Where a migration as a whole stands; stages are journaled apart."""

    PREVIEW = "preview"
    """Planned without ``execute``: closed from the start, nothing will ever be changed by it."""
    PLANNED = "planned"
    """Waiting for the approval of the plan; nothing was changed."""
    APPROVED = "approved"
    """The plan was approved; nothing was changed yet."""
    RUNNING = "running"
    """At least one act was journaled."""
    MOVED = "moved"
    """As far as asked; the way back is open."""
    FINALISED = "finalised"
    """What only the way back needed is gone: the end."""
    ROLLING_BACK = "rolling_back"
    """On the way back, or back but not proven equal."""
    ROLLED_BACK = "rolled_back"
    """Back, and proven equal."""
    REJECTED = "rejected"
    """Nobody approved; nothing was changed."""


TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.PREVIEW: frozenset(),
    Phase.PLANNED: frozenset({Phase.APPROVED, Phase.REJECTED}),
    Phase.APPROVED: frozenset({Phase.RUNNING, Phase.REJECTED, Phase.MOVED}),
    Phase.RUNNING: frozenset({Phase.MOVED, Phase.FINALISED, Phase.ROLLING_BACK}),
    Phase.MOVED: frozenset({Phase.FINALISED, Phase.ROLLING_BACK}),
    Phase.FINALISED: frozenset(),
    Phase.ROLLING_BACK: frozenset({Phase.ROLLED_BACK}),
    Phase.ROLLED_BACK: frozenset({Phase.ROLLING_BACK}),
    Phase.REJECTED: frozenset(),
}
"""From each phase, where it may go. ``moved`` and ``rolled_back`` may still be taken (further) back."""

OPEN = frozenset({Phase.PLANNED, Phase.APPROVED, Phase.RUNNING, Phase.ROLLING_BACK})
"""Phases that keep the group to themselves: one open migration per group."""


def check_transition(migration: str, source: Phase, target: Phase) -> None:
    """Raise `Conflict` unless the table allows ``source`` to become ``target``; staying is allowed."""
    if target is not source and target not in TRANSITIONS[source]:
        raise Conflict(
            f"migration {migration} is {source}, which cannot become {target}; "
            f"look at it with: groupshift status {migration}"
        )
