"""What the steps of a run that changes a cluster work with, and the three parts of each: intend, act, read
back. Whatever the move."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from groupshift.application.approval import require_approver
from groupshift.domain.modes import taken_over
from groupshift.domain.rows import ProblemRow
from groupshift.domain.step import RunAct, RunStep, Seen
from groupshift.errors import Conflict, Fenced
from groupshift.ports.clock import Clock, NoStepCrash, StepCrashPoints
from groupshift.ports.cluster import ClusterGroups, ClusterSnapshotStore
from groupshift.ports.driver import BrokerReplacement
from groupshift.ports.evidence import RunSealing, not_sealed
from groupshift.ports.journal import ClusterRuns, RunStepRecord, StepState
from groupshift.ports.log import CommitHashes, OffsetsLog
from groupshift.ports.spark_jobs import SnapshotCompare
from groupshift.settings import ApprovalSettings

Key = tuple[str, str, int]
"""Group, topic, partition."""


class AnyPlan(Protocol):
    """What every plan of a run has: ``met`` is what was approved, ``hash`` the SHA-256 of its JSON in hex."""

    @property
    def cluster_id(self) -> str:
        """The cluster that it was made for."""

    @property
    def met(self) -> Mapping[str, str]:
        """What was met, in words by name; when any of it changes, the approval is void."""

    @property
    def steps(self) -> tuple[RunStep, ...]:
        """In their order."""

    @property
    def hash(self) -> str:
        """What people approve."""


def _silent_key() -> None:
    """Nothing is signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTools:
    """The ports that every run needs; ``evidence`` is the folder below which snapshots are kept, ``seal``
    writes what remains of a run there when it ends, and ``may_seal`` raises before one begins that could not
    be sealed."""

    log: OffsetsLog
    reader: ClusterGroups
    store: ClusterSnapshotStore
    compare: SnapshotCompare
    commits: CommitHashes
    nodes: BrokerReplacement
    runs: ClusterRuns
    clock: Clock
    evidence: Path
    crash: StepCrashPoints = field(default_factory=NoStepCrash)
    seal: RunSealing = not_sealed
    may_seal: Callable[[], None] = _silent_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What somebody is asked to approve: the run, the hash of its plan, and the step that asks; ``steps`` are
    those that the run walks now, which on the way back are not the plan's."""

    run: str
    plan: AnyPlan
    step: RunStep
    steps: tuple[RunStep, ...]


def _silent(_step: RunStep, _detail: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """How this process goes on: who answers (None: nobody can now), whether somebody says that what the run
    waits for was seen (``seen``; only where nothing else can tell; ``seen_of``: of this step only), how long
    a step may take (``patience_s``) and how often it is looked at, and who is told. ``acts`` are the kinds of
    steps that it does; it pauses before the first other one. ``holder`` names the claim (empty: ``who``).
    Unless ``taking``, this process goes on with a claim of that name: when another one has the run, nothing
    is done or asked. ``requester`` asked for the run (empty: ``who``), ``approval`` says who may say yes."""

    decide: Callable[[Question], bool | None]
    who: str
    holder: str = ""
    taking: bool = True
    seen: bool = False
    seen_of: str = ""
    patience_s: float = 1800.0
    every_s: float = 2.0
    told: Callable[[RunStep, str], None] = _silent
    acts: frozenset[RunAct] = frozenset(RunAct)
    requester: str = ""
    approval: ApprovalSettings = field(default_factory=ApprovalSettings)


STOPPED = "stopped"
"""The name under which the journal of a run keeps where a process stopped last, what it saw there, and the
detail in words; no step has it."""
REQUESTER = "requester"
"""What the journal calls who asked for a run, in the intent of each approval."""
_TAKING = frozenset({RunAct.SNAPSHOT, RunAct.COMPARE})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWork(ABC):
    """One claim of one run; ``steps`` are those that it walks now."""

    tools: RunTools
    terms: RunTerms
    plan: AnyPlan
    run: str
    token: int
    steps: tuple[RunStep, ...] = ()

    @abstractmethod
    def met_now(self) -> Mapping[str, str]:
        """What an approval is given for, as it is now."""

    @abstractmethod
    def logged(self) -> bool:
        """Whether there is an offsets topic to read."""

    @abstractmethod
    def commits_go_on(self) -> bool:
        """Whether groups may commit while the run goes on, by its plan."""

    def keeping(self) -> Callable[[str], bool]:
        """Tells of a group whether its records are to stay where they are in the log."""
        return lambda _group: True

    def harmless(self, problem: ProblemRow) -> bool:
        """Whether a run may go on over a problem of a snapshot without a word of a person: what is left of a
        topic that is gone stays as it is."""
        return problem.of_leftover

    def residue(self) -> str:
        """What may be left of groups where they were, with the cure (empty: nothing): such groups are listed
        twice, and snapshots have problems that somebody may accept."""
        return ""

    def snapshot_of(self, name: str) -> Mapping[str, Any]:
        """What the step that took this snapshot came to: its ``folder``, and more. One that was cut off while
        it was taken again gives way to the one that it is compared with.

        Groups and nodes may be named like snapshots: only steps that take one are asked."""
        records = self.tools.runs.steps(self.run)
        step = next(each for each in self.plan.steps if each.act in _TAKING and each.subject == name)
        record = records.get(step.key)
        if record is not None and "folder" in record.result:
            return record.result
        if "base" not in step.args:
            raise Conflict(f"snapshot {name} of run {self.run} was never taken; run it again")
        return self.snapshot_of(str(step.args["base"]))

    def dropped(self) -> frozenset[Key]:
        """Committed offsets that a person let go of before: a comparison that misses only these is equal."""
        return frozenset()

    def asking(self, step: RunStep, shown: Iterable[str] = ()) -> Mapping[str, Any]:
        """What is journaled of a step that asks a person for something: which claim asked first, and a hash
        of what is shown (``shown``) and was shown before, where what is accepted must be the same."""
        before = asked_before(self.tools.runs.steps(self.run).get(step.key))
        asked = {"asked_by": before.get("asked_by") or self.token}
        texts = "\n".join(shown)
        if not texts:
            return asked
        sha256 = hashlib.sha256(texts.encode()).hexdigest()
        return {**asked, "shown": sha256, "shown_before": before.get("shown", "")}

    def said(self, record: RunStepRecord) -> bool:
        """Whether somebody says that it was seen (`RunTerms.seen`), and knew of what: it was asked for by a
        process before the one that acted last, and is the same now."""
        result = record.result
        meant = self.terms.seen and self.terms.seen_of in {"", record.step}
        same = result.get("shown") == result.get("shown_before")
        said = meant and same and int(result.get("asked_by", record.token)) < record.token
        if said and result.get("shown"):
            self.require_approver(record.step)
        return said

    def requester(self) -> str:
        """Who asked for the run: the journal's word where it has one."""
        intents = (record.intent for record in self.tools.runs.steps(self.run).values())
        asked = next((str(each[REQUESTER]) for each in intents if REQUESTER in each), "")
        return asked or self.terms.requester or self.terms.who

    def require_approver(self, gate: str) -> None:
        """Raises `Rejected` unless who answers may say yes."""
        require_approver(self.terms.approval, self.terms.who, self.requester(), gate)

    def hold(self, record: RunStepRecord) -> None:
        """Read the fence and take the step over, right before something is changed: raises `Conflict`, having
        changed nothing, when another process claimed the run or it is closed.

        What remains: a process that stops between this and its request, and wakes up much later, is held up
        by nothing but the driver of nodes, which knows the token; brokers know none."""
        self.tools.runs.put(self.run, replace(record, token=self.token, at_ms=self.tools.clock.now_ms()))

    def demand_token(self) -> None:
        """Raises `Fenced` when another process has the run: nothing is looked at or asked any more."""
        claim = self.tools.runs.held(self.run)
        if claim is not None and claim.token != self.token:
            said = taken_over("run", claim.holder, claim.at_ms)
            raise Fenced(f"{said}; token {self.token} of run {self.run} is void, nothing more is done here")

    def hold_again(self, step: RunStep) -> None:
        """As `hold`, in the middle of a long act: before each of its requests. Raises likewise."""
        self.hold(self.tools.runs.steps(self.run)[step.key])


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What reading a step back came to: in words, and what of it is journaled beside the act's result;
    ``hopeless``: doing the step again comes to the same, the run has to be taken back."""

    seen: Seen
    detail: str = ""
    hopeless: bool = False
    result: Mapping[str, Any] = field(default_factory=dict)


def asked_before(record: RunStepRecord | None) -> Mapping[str, Any]:
    """Which claim asked first, and what was shown (see `RunWork.asking`), of what the journal has of a step:
    an answer may be meant for it. What was written down and not read back was shown to nobody."""
    before = record.result if record else {}
    found = {name: before[name] for name in ("asked_by", "shown") if name in before}
    if record and record.state is StepState.ACTED and "shown" in found:
        found["shown"] = before.get("shown_before", "")
    return found


HOLDS = Look(seen=Seen.HOLDS)
W_contra = TypeVar("W_contra", bound=RunWork, contravariant=True)


def _no_intent(_work: RunWork, _step: RunStep) -> Mapping[str, Any]:
    return {}


def _no_act(_work: RunWork, _step: RunStep, _intent: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler(Generic[W_contra]):
    """How one kind of step is done. ``intend`` gives what is met, which is journaled before anything is
    changed; ``act`` looks first, so that it may be repeated, and gives a first result; ``read_back`` looks
    once."""

    intend: Callable[[W_contra, RunStep], Mapping[str, Any]] = _no_intent
    act: Callable[[W_contra, RunStep, Mapping[str, Any]], Mapping[str, Any]] = _no_act
    read_back: Callable[[W_contra, RunStep, RunStepRecord], Look]
