"""A run as data: outcomes, steps and plans, and what the journal keeps of them. Knows no move."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias

from groupshift.domain.foreign_json import load_object
from groupshift.domain.plain import built, from_plain
from groupshift.domain.verdict import Finding, Verdict
from groupshift.errors import Conflict, Rejected

Json: TypeAlias = Mapping[str, Any]
"""A JSON object."""
Findings: TypeAlias = tuple[Finding, ...]

PLAN_VERSION = 1
"""Version of a plan's JSON; no other one is read."""
APPROVE = "approve"
"""The kind of steps that ask for an approval; with `JUDGE` the only one that the engine knows by name."""
JUDGE = "judge"
CHECKS = "checks"
"""The name in `Plan.about` under which a plan has the findings that were asked for it (`findings_data`)."""
_WORD = re.compile(r"[a-z][a-z0-9_-]*")
_PLAN_BYTES = 64 * 1024 * 1024


class Outcome(StrEnum):
    """What one look came to, from best to worst; `worst_of` gives the worst of several."""

    PASS = "pass"
    WAIT = "wait"
    """Not settled yet."""
    PERSON = "person"
    """Somebody has to do or say something."""
    DECLINED = "declined"
    """Somebody said no."""
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"
    """It could not be measured."""
    FAIL = "fail"


def worst_of(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst outcome; of nothing `Outcome.ERROR`: an empty measurement proves nothing."""
    return max(outcomes, key=tuple(Outcome).index, default=Outcome.ERROR)


def outcome_of(findings: Iterable[Finding]) -> Outcome:
    """Return what findings come to; of none `Outcome.ERROR`."""
    return worst_of(Outcome(each.verdict.value) for each in findings)


class WhenLate(StrEnum):
    """What becomes of a step that has not settled when its patience is over."""

    JUDGE = "judge"
    """Go on as it is; the comparison and the judge behind it decide."""
    PARK = "park"
    """The process ends, the run stays open, the next process acts again."""
    END = "end"
    """Nothing was changed: the run ends rejected and its target is free."""


class OnDifference(StrEnum):
    """What becomes of a run where a step fails."""

    STOP = "stop"
    """It is a failure like any other."""
    ACCEPTABLE = "acceptable"
    """A person may accept exactly what was shown."""
    ASKED = "asked"
    """A person may accept exactly what was shown; the run waits for that."""
    ONLY_ROLLBACK_HELPS = "only rollback helps"
    """Doing it again comes to the same. A person may accept it all the same."""
    EVIDENCE = "evidence"
    """It is written down and decides nothing."""


class NoUndo(StrEnum):
    """Why a step has no step that undoes it."""

    NOTHING = "nothing"
    """It leaves nothing that would have to be undone."""
    IRREVERSIBLE = "irreversible"
    """Once it was made there is no rollback."""


NOTHING = NoUndo.NOTHING
IRREVERSIBLE = NoUndo.IRREVERSIBLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a plan.

    ``subject`` is the group, node, topic or snapshot; ``args`` are JSON. ``gate`` names the approve step that
    covers it (empty: the first one of the plan, if there is one). ``repeat``: each claim does it anew until
    a step behind it that touches was begun. ``optional``: declined or not allowed, it is left out and the run
    ends well. ``patience_s`` 0 means the move's usual. ``does`` and ``proof`` are for people; nothing is
    decided by them. ``key`` is given by `make_plan` and `make_rollback`; ``undoes`` is the key of the step
    that this one undoes.
    """

    phase: str
    kind: str
    subject: str = ""
    args: Json = field(default_factory=dict)
    undo: Step | NoUndo = NOTHING
    repeat: bool = False
    optional: bool = False
    on_difference: OnDifference = OnDifference.STOP
    when_late: WhenLate = WhenLate.PARK
    patience_s: int = 0
    gate: str = ""
    does: str = ""
    proof: str = ""
    undoes: str = ""
    key: str = ""

    @property
    def name(self) -> str:
        """Phase, kind and subject, such as ``restart/restart_broker 3``: the key without its number."""
        return f"{self.phase}/{self.kind}{' ' if self.subject else ''}{self.subject}"

    def as_json(self) -> dict[str, Any]:
        """Return the step as JSON; `step_from` reads it."""
        return asdict(self)


def step_from(data: Any, where: str = "step") -> Step:
    """Return the step that `Step.as_json` wrote.

    Raises:
        Rejected: an unknown, missing or wrong field, or a word outside its vocabulary.
    """
    try:
        step: Step = built(Step, data)
    except (TypeError, ValueError) as wrong:
        raise Rejected(f"{where}: {wrong}") from None
    if step.as_json() != data:
        odd = ", ".join(sorted(step.as_json().keys() ^ set(data))) or "undo"
        raise Rejected(f"{where}: fields that are unknown or missing: {odd}")
    _require_words(step, where)
    return step


def _require_words(step: Step, where: str) -> None:
    for name, value in (("phase", step.phase), ("kind", step.kind)):
        if not _WORD.fullmatch(value):
            raise Rejected(f"{where}: {name} {value!r} is no word of a-z, 0-9, _ and -")
    if isinstance(step.undo, Step):
        _require_words(step.undo, f"{where}, undo")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The steps in their order, and what else people approve with them (``about``, JSON). Make it with
    `make_plan` or `make_rollback`: they give each step its key."""

    steps: tuple[Step, ...]
    about: Json = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The canonical JSON; equal plans have equal texts."""
        return canonical({"version": PLAN_VERSION, **asdict(self)})

    @cached_property
    def hash(self) -> str:
        """SHA-256 of `text`, in hex: what people approve."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def step(self, key: str) -> Step | None:
        """Return the step of this key, or None."""
        return next((each for each in self.steps if each.key == key), None)

    def gate_of(self, step: Step) -> Step | None:
        """Return the approve step that covers a step; None where the plan asks for no approval."""
        gates = (each for each in self.steps if each.kind == APPROVE)
        return next((each for each in gates if step.gate in {"", each.key}), None)


def canonical(value: object) -> str:
    """Return the one JSON text of a value. Raises `Rejected` for what is no JSON."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as wrong:
        raise Rejected(f"a plan, an intent and a result have to be JSON: {wrong}") from None


def make_plan(steps: Iterable[Step], about: Json | None = None) -> Plan:
    """Return the plan of these steps: each gets its key, and each gate, which may be written as the step's
    name, becomes a key. Raises `Rejected` for bad words and for a gate that is no approve step before it."""
    named = [replace(each, key=f"{number:02} {each.name}") for number, each in enumerate(steps, 1)]
    return _checked(named, about)


def make_rollback(steps: Iterable[Step], number: int, about: Json | None = None) -> Plan:
    """Return the plan of the ``number``-th rollback of a run. A step that undoes another one keeps its key in
    all of them (what is undone stays undone); every other step has a key of its own."""
    named = [
        replace(each, key=f"back {each.undoes}" if each.undoes else f"back {number}/{place:02} {each.name}")
        for place, each in enumerate(steps, 1)
    ]
    return _checked(named, about)


def _checked(steps: Sequence[Step], about: Json | None) -> Plan:
    gates, checked = {"": ""}, []
    for step in steps:
        _require_words(step, f"plan, step {step.key}")
        if step.gate not in gates:
            raise Rejected(f"plan, step {step.key}: {step.gate!r} is no approve step before it")
        checked.append(replace(step, gate=gates[step.gate]))
        if step.kind == APPROVE:
            gates |= {step.name: step.key, step.key: step.key}
    if len({each.key for each in checked}) < len(checked):
        raise Rejected("plan: two of its steps have the same key")
    return plan_from(Plan(steps=tuple(checked), about=about or {}).text)


@lru_cache(maxsize=4)
def plan_from(text: str) -> Plan:
    """Return the plan of `Plan.text`; those of a run are wanted at each of its steps. Raises `Rejected` for
    another version and for whatever is no plan."""
    data = load_object(text, "plan", at_most=_PLAN_BYTES)
    if data.get("version") != PLAN_VERSION:
        raise Rejected(
            f"plan: version {data.get('version')!r} is not known, this release reads {PLAN_VERSION}; "
            "plan the run again with this release"
        )
    steps, about = data.get("steps"), data.get("about")
    if not isinstance(steps, list) or not isinstance(about, dict) or len(data) != len(("v", "s", "a")):
        raise Rejected("plan: it has a version, a list of steps and an object about, and nothing else")
    read = tuple(step_from(each, f"plan, step {number}") for number, each in enumerate(steps, 1))
    return Plan(steps=read, about=about)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one look came to. ``result`` is journaled beside what the act returned. ``redo_from``: the key of
    an earlier step; it and all after it are done again. ``only_rollback_helps``: doing it again comes to the
    same. ``act_again`` counts with `Outcome.WAIT`: act once more before the next look. ``late_passes`` counts
    before an act: when the patience is over it may act as it is. ``heals``: time may heal a failure or an
    error, so it only counts when it lasts as long as the step's patience."""

    outcome: Outcome
    findings: Findings = ()
    detail: str = ""
    result: Json = field(default_factory=dict)
    redo_from: str = ""
    only_rollback_helps: bool = False
    act_again: bool = False
    late_passes: bool = False
    heals: bool = False

    @property
    def sentences(self) -> tuple[str, ...]:
        """What did not pass, in words: of each finding, or the detail where there is none."""
        bad = tuple(each.with_remedy for each in self.findings if each.verdict is not Verdict.PASS)
        return bad or ((self.detail,) if self.detail else ())


PASSED = Checked(outcome=Outcome.PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """What a person has to do; the check sees when it was done."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJob:
    """A Spark job as data. ``inputs`` maps each path to the SHA-256 of its manifest; ``output`` is the folder
    of this attempt alone: a late job of a submitter that died cannot write into a newer attempt's. ``beside``
    is what else the act came to; it is journaled beside the job and is no part of its JSON."""

    job: str
    arguments: tuple[str, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    beside: Json = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the job as JSON; `spark_job_from` reads it."""
        return {name: value for name, value in asdict(self).items() if name != "beside"}


def spark_job_from(data: Json) -> SparkJob:
    """Return the job that `SparkJob.as_json` wrote. Raises `Rejected` for anything else."""
    try:
        return from_plain(SparkJob, {name: data[name] for name in ("job", "arguments", "inputs", "output")})
    except (KeyError, TypeError):
        raise Rejected("a Spark job has the fields job, arguments, inputs and output") from None


class RunState(StrEnum):
    """Where a run as a whole stands."""

    PREVIEW = "preview"
    """Planned without ``execute``: closed from the start, it never acts."""
    PLANNED = "planned"
    """It waits for the approval of its plan; nothing was changed."""
    APPROVED = "approved"
    """Nothing that would have to be undone was begun."""
    RUNNING = "running"
    """At least one step was begun that can be undone, that cannot be undone, or that touches."""
    MOVED = "moved"
    """As far as asked; the rollback is open."""
    FINALISED = "finalised"
    """An irreversible step was made: the end."""
    ROLLING_BACK = "rolling_back"
    """What it did is being undone."""
    ROLLED_BACK = "rolled_back"
    """Undone, as far back as asked."""
    REJECTED = "rejected"
    """Nobody approved, or it was refused; nothing was changed."""

    @property
    def is_open(self) -> bool:
        """Whether such a run holds its target."""
        return self in OPEN

    @property
    def goes_back(self) -> bool:
        """Whether such a run walks a rollback, or has walked one."""
        return self in {RunState.ROLLING_BACK, RunState.ROLLED_BACK}


TRANSITIONS: Mapping[RunState, frozenset[RunState]] = {
    RunState.PREVIEW: frozenset(),
    RunState.PLANNED: frozenset({RunState.APPROVED, RunState.REJECTED}),
    RunState.APPROVED: frozenset({RunState.RUNNING, RunState.REJECTED, RunState.MOVED}),
    RunState.RUNNING: frozenset({RunState.MOVED, RunState.FINALISED, RunState.ROLLING_BACK}),
    RunState.MOVED: frozenset({RunState.RUNNING, RunState.FINALISED, RunState.ROLLING_BACK}),
    RunState.FINALISED: frozenset(),
    RunState.ROLLING_BACK: frozenset({RunState.ROLLED_BACK}),
    RunState.ROLLED_BACK: frozenset({RunState.ROLLING_BACK}),
    RunState.REJECTED: frozenset(),
}
"""From each state, where a run may go. What was taken back may be taken further back; what moved runs again
when its optional steps are to be made after all."""
OPEN = frozenset({RunState.PLANNED, RunState.APPROVED, RunState.RUNNING, RunState.ROLLING_BACK})
"""States in which a run holds its target; the SQL of the journal names them, too."""


def require_transition(run: str, source: RunState, target: RunState) -> None:
    """Raise `Conflict` unless ``source`` may become ``target``; staying is allowed."""
    if target is not source and target not in TRANSITIONS[source]:
        raise Conflict(f"run {run} is {source} and cannot become {target}; see: groupshift status {run}")


class StepState(StrEnum):
    """How far a step is."""

    INTENDED = "intended"
    """Written down; whether it happened is not known."""
    ACTED = "acted"
    """The act returned; no look has passed yet."""
    DONE = "done"
    REOPENED = "reopened"
    """It was begun before and has to be done again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What the journal has of a step. ``intent`` was written before the act, ``result`` after it and after
    the looks; ``token`` is of the claim that wrote it last, at ``at_ms`` (epoch)."""

    key: str
    state: StepState
    token: int
    at_ms: int
    intent: Json = field(default_factory=dict)
    result: Json = field(default_factory=dict)

    @property
    def left_out(self) -> str:
        """Why the step was left out; empty where it was not."""
        return str(self.result.get("left_out", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a run changes. ``within`` is the cluster id of a group or a link, empty for a cluster. A group is
    the same one when kind, name and cluster are."""

    kind: Literal["group", "cluster", "link"]
    name: str
    within: str = ""

    def __post_init__(self) -> None:
        if self.kind not in {"group", "cluster", "link"}:
            raise Rejected(f"target: kind {self.kind!r} is not known; it is one of group, cluster, link")

    @property
    def cluster(self) -> str:
        """The id of the cluster that it is, or is in."""
        return self.name if self.kind == "cluster" else self.within

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def findings_data(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings as JSON; `findings_from` reads them."""
    return [{**asdict(each), "verdict": each.verdict.value} for each in findings]


def findings_from(data: Iterable[Json]) -> Findings:
    """Return the findings that `findings_data` wrote. Raises `Rejected` for an unknown verdict."""
    try:
        return tuple(built(Finding, each) for each in data)
    except (TypeError, ValueError) as wrong:
        raise Rejected(f"finding: {wrong}") from None
