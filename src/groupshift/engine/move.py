"""What a move brings (`Move`, `Handler`), and what its handlers get (`Run`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from enum import StrEnum
from itertools import takewhile
from typing import Any, Generic, Literal, Protocol, TypeVar

from groupshift.domain.reactions_to_verdicts import OnFail
from groupshift.domain.requests import request_of
from groupshift.domain.run import (
    IRREVERSIBLE,
    PASSED,
    Checked,
    Findings,
    Instruction,
    Json,
    Plan,
    RunState,
    SparkJob,
    Step,
    StepRecord,
    StepState,
    Target,
    canonical,
    findings_data,
    make_rollback,
    plan_from,
)
from groupshift.domain.verdict import Finding, Verdict, against, worst
from groupshift.engine.questions_and_approvers import Answer, Approvers, Observed, Question, Section
from groupshift.errors import Conflict, Fenced, Rejected, Transient
from groupshift.ports.clock import Clock, NoStepCrash, StepCrashPoints
from groupshift.ports.runs import Entry, Event, EventKind, NewEvent, RunRecord, Runs

P = TypeVar("P")
"""The ports of a move."""
_WAITED_ANEW = frozenset({EventKind.INTENDED, EventKind.STOPPED, EventKind.CHECKED, EventKind.VOIDED})
"""After these a process waits anew: its patience begins again."""
Aspects = Mapping[str, Mapping[str, str]]
"""What an approval is given for: aspect, item, value, all texts."""


class Standing(StrEnum):
    """How an act stands whose process did not come to its end."""

    AS_MET = "as met"
    """Nothing was made."""
    MADE = "made"
    OTHER = "other"
    """Somebody changed what was met, or it was made in part: it is intended anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How this process goes on with a run.

    ``holder`` names the claim, ``who`` answers and accepts, ``requester`` asked for the run (empty: ``who``).
    ``accept`` is the key of the one step whose findings are accepted. ``phases`` are those that this process
    does (None: all); it pauses before the first other one. ``patience_s`` above 0 goes before that of steps.
    ``waits_for_people``: an instruction is waited for as long as for anything else, but not what somebody has
    to say or accept: only the next process can. ``direction`` refuses a
    run that goes the other way. ``tell`` gets what goes on, ``instruct`` what a person has to do (None: told,
    too). ``submit`` runs a Spark job to its end (None: the caller does that),
    ``decide`` answers a question (None: nobody is there)."""

    who: str
    holder: str
    requester: str = ""
    accept: str = ""
    phases: frozenset[str] | None = None
    patience_s: float = 0
    every_s: float = 2
    waits_for_people: bool = False
    direction: Literal["", "forward", "back"] = ""
    tell: Callable[[Step, str], None] = lambda _step, _detail: None
    instruct: Callable[[Step, str], None] | None = None
    submit: Callable[[SparkJob], None] | None = None
    decide: Callable[[Question], Answer | None] = lambda _question: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealing:
    """What will be written over the evidence of a run. ``body`` is journaled before `write` and once more
    after it, so that what a killed process left is told from what somebody forged."""

    body: Json
    write: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the engine itself needs. ``seal`` prepares the sealing of a run that ends: its name, and what is
    journaled of its end (None: there is no evidence). ``may_seal`` raises before a run begins that could not
    be sealed. What a gate showed longer ago than ``gate_expiry_s`` is no longer approved."""

    runs: Runs
    clock: Clock
    crash: StepCrashPoints = field(default_factory=NoStepCrash)
    approvers: Approvers = field(default_factory=Approvers)
    seal: Callable[[str, Json], Sealing] | None = None
    may_seal: Callable[[], object] = lambda: None
    gate_expiry_s: int = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot that a step of the run took."""

    name: str
    folder: str
    manifest_sha256: str
    step: str


class Run(Generic[P]):
    """One claim of one run: what handlers get. Not shared between threads."""

    def __init__(
        self, move: Move[P], tools: Tools, ports: P, options: RunOptions, claim: tuple[str, int]
    ) -> None:
        self.move, self.tools, self.ports, self.options = move, tools, ports, options
        self.name, self.token = claim
        self.to_show: dict[str, str] = {}
        """Hash of what a check asked somebody to accept, by step; the engine journals it once it was told."""
        self.words: list[NewEvent] = []
        """What was accepted and is not journaled yet."""
        self._record: RunRecord | None = None
        self._plans: tuple[Plan, ...] | None = None
        self._records: Mapping[str, StepRecord] | None = None
        self._events: tuple[Event, ...] = ()

    @classmethod
    def reader(cls, move: Move[P], tools: Tools, ports: P, name: str) -> Run[P]:
        """Return the run for reading: it has no claim, so nothing can be written or acted."""
        run = cls(move, tools, ports, RunOptions(who="", holder=""), (name, 0))
        run._record = tools.runs.find(name)
        return run

    def refresh(self) -> RunRecord:
        """Read the run anew. Raises `Fenced` when another claim has it."""
        self._records = None
        claim = self.tools.runs.held(self.name)
        if claim is None or claim.token != self.token:
            by = f"run {claim.holder} took this run over; " if claim else ""
            raise Fenced(f"{by}token {self.token} of run {self.name} is void: nothing more is done here")
        former, self._record = self._record, self.tools.runs.find(self.name)
        if former is None or former.state.goes_back is not self._record.state.goes_back:
            self._plans = None
        return self._record

    @property
    def record(self) -> RunRecord:
        """The run as it was last read."""
        return self._record or self.refresh()

    @property
    def request(self) -> Any:
        """What was asked for, as the move's request."""
        return self.move.request_from(json.loads(self.record.request))

    @property
    def going_back(self) -> bool:
        """Whether the run walks a rollback."""
        return self.record.state.goes_back

    @property
    def plan(self) -> Plan:
        """The plan that is walked now: of the way there, or of the rollback."""
        return self.plans[0]

    @property
    def there(self) -> Plan:
        """The plan of the way there, in a rollback, too."""
        return self.plans[-1]

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Every plan that was walked, the latest one first: of each rollback, and of the way there."""
        if self._plans is None:
            begun = reversed(self.rollbacks() if self.going_back else ())
            back = (plan_from(canonical(each.body["plan"])) for each in begun)
            self._plans = (*back, plan_from(self.record.plan))
        return self._plans

    def rollbacks(self) -> tuple[Event, ...]:
        """The rollbacks that were begun, oldest first."""
        return self.events("", EventKind.ROLLBACK_BEGUN)

    @property
    def records(self) -> Mapping[str, StepRecord]:
        """What is journaled of every step of the run, there and back, by key. A claim reads it anew after
        each `refresh` and `write`: tasks of one holder take turns, and where another claim has the run, the
        next write raises `Fenced`. A reader reads it anew at each access."""
        if self._records is None or not self.token:
            self._records = self.tools.runs.steps(self.name)
        return self._records

    def events(self, step: str = "", *kinds: EventKind) -> tuple[Event, ...]:
        """The history, oldest first: of one step where ``step`` is its key, of these kinds where any is
        named."""
        read = self._events[-1].seq if self._events else 0  # nothing is ever put before what was read
        self._events += self.tools.runs.events(self.name, after=read)
        own = (each for each in self._events if not step or each.step == step)
        return tuple(each for each in own if not kinds or each.kind in kinds)

    @property
    def begun(self) -> dict[str, StepRecord]:
        """What is journaled of the steps of the way there that were begun and not left out. A step that was
        left out, and opened again to be finalised, was never begun."""
        records, intended = self.records, {each.step for each in self.events("", EventKind.INTENDED)}
        own = {each.key: records[each.key] for each in self.there.steps if each.key in records}
        return {
            key: record
            for key, record in own.items()
            if not record.left_out and (record.state is not StepState.REOPENED or key in intended)
        }

    @property
    def holders(self) -> Mapping[int, str]:
        """Who made each claim, by token."""
        return {each.token: str(each.body["holder"]) for each in self.events("", EventKind.CLAIMED)}

    def now(self) -> int:
        """Epoch milliseconds."""
        return self.tools.clock.now_ms()

    def attempt(self, step: Step) -> str:
        """A name for what this attempt at a step leaves, such as a folder: no other attempt has it."""
        acts = sum(each.token == self.token for each in self.events(step.key, EventKind.ACTED))
        return f"{attempt_stem(step.key)}-{self.token}" + (f".{acts + 1}" if acts else "")

    def hold(self, step: Step) -> None:
        """Read the fence and take the step over, right before something is changed, in mid-act too.

        What remains: a process that stops between this and its request, and wakes up much later, is held up
        by nothing but a driver that knows the token.

        Raises:
            Fenced: another claim has the run.
            Conflict: the run is closed, or the step was never intended.
        """
        if (known := self.records.get(step.key)) is None:
            raise Conflict(f"step {step.key} of run {self.name} was never intended; run it again")
        self.write(steps=(self.put(step, known.state, known),))

    def write(
        self, *events: NewEvent, steps: Iterable[StepRecord] = (), state: RunState | None = None
    ) -> None:
        """Journal in one transaction, under this claim's token."""
        entry = Entry(
            run=self.name, at_ms=self.now(), token=self.token, events=events, steps=tuple(steps), state=state
        )
        self._records = None
        self.tools.runs.append(entry)
        if state is not None:
            self._plans = None  # it may be that of another rollback
            self.refresh()

    def put(self, step: Step, state: StepState, known: StepRecord | None = None, **new: Any) -> StepRecord:
        """Return the record of a step as of now, by this claim; nothing is written. ``new`` may be its
        ``intent`` and ``result``; what is not given stays as it is ``known``."""
        now = self.now()
        known = known or StepRecord(key=step.key, state=state, token=self.token, at_ms=now)
        return replace(known, state=state, token=self.token, at_ms=now, **new)

    def patient(self, step: Step, what: str, patience_s: int = 0) -> bool:
        """Whether this claim still waits for a step; its patience runs from the first time that it had to.
        What is ``healed`` by a noted look may fail and heal once more. ``patience_s`` 0 means the process's
        own or the step's."""
        anew = {*_WAITED_ANEW, EventKind.NOTED} if what == "healed" else _WAITED_ANEW
        since = takewhile(lambda event: event.kind not in anew, reversed(self.events(step.key)))
        own = [e for e in since if e.kind is EventKind.WAITS and e.token == self.token]
        waited = [each.at_ms for each in own if each.body["for"] == what]
        if not waited:
            waited = [self.now()]
            self.write(NewEvent(kind=EventKind.WAITS, step=step.key, body={"for": what}))
        bound_s = patience_s or self.options.patience_s or step.patience_s or self.move.patience_s
        return self.now() - waited[-1] < bound_s * 1000

    def submit(self, step: Step, job: SparkJob) -> None:
        """Run a job to its end, where this process can. One that failed left no answer, and whoever reads it
        says so."""
        try:
            if self.options.submit is not None:
                self.options.submit(job)
        except Transient as failed:
            self.options.tell(step, str(failed))

    def note(self, step: Step, body: Json) -> None:
        """Add one to the series of a step: a sample, a look."""
        self.write(NewEvent(kind=EventKind.NOTED, step=step.key, body=body))

    def notes(self, step: Step) -> tuple[tuple[int, Json], ...]:
        """The series of a step since it was last done again, oldest first: time in ms and body. Of all
        claims: the next process goes on with what is there."""
        series: list[tuple[int, Json]] = []
        for event in reversed(self.events("", EventKind.NOTED, EventKind.REDO)):
            if event.kind is EventKind.REDO and step.key in event.body["steps"]:
                break
            if event.kind is EventKind.NOTED and event.step == step.key:
                series.insert(0, (event.at_ms, event.body))
        return tuple(series)

    def accepted(self, step: Step, shown: Iterable[str] = (), *, verdict: Verdict = Verdict.PASS) -> str:
        """Return who accepts exactly this of this step, where an earlier claim has shown it; empty: nobody.
        Of a step that each claim does anew (``repeat``) an earlier word counts until something else is shown.

        Nothing in ``shown``: a word about what only a person can see; it needs no approver. ``verdict`` is
        that of what is accepted: of a failure the run does not end green.
        Raises `Rejected` when who accepts may not approve."""
        texts = "\n".join(shown)
        sha256 = hashlib.sha256(texts.encode()).hexdigest() if texts else ""
        before = [e for e in self.events(step.key, EventKind.SHOWN) if e.token < self.token]
        self.to_show[step.key] = sha256
        if not before or before[-1].body["sha256"] != sha256:
            return ""
        words = [e for e in self.events(step.key, EventKind.ACCEPTED) if e.seq > before[-1].seq]
        who, word = "", list[NewEvent]()
        if self.options.accept == step.key:
            who = self.options.who
            body = {"who": who, "sha256": sha256, "verdict": verdict.value}
            word = [NewEvent(kind=EventKind.ACCEPTED, step=step.key, body=body)]
        elif step.repeat and texts and words and words[-1].body["sha256"] == sha256:
            who = str(words[-1].body["who"])
        if who:
            if texts:
                self.require_approver(step.key, who)
            del self.to_show[step.key]
            self.words = [*(each for each in self.words if each.step != step.key), *word]
        return who

    def require_approver(self, gate: str, who: str = "") -> None:
        """Raise `Rejected` unless ``who`` (empty: who drives this process) may say yes."""
        requester = self.record.requester
        self.tools.approvers.require(who or self.options.who, requester=requester, gate=gate)

    def snapshot(self, name: str) -> Snapshot:
        """Return the last whole snapshot of this name; while it is taken again, the one that it is compared
        with. Raises `Conflict` where there is none."""
        records = self.records
        for step in (each for plan in self.plans for each in plan.steps if each.subject == name):
            result = records[step.key].result if step.key in records else {}
            whole = not result.get("problems") or "accepted_by" in result
            if whole and {"folder", "manifest_sha256"} <= result.keys():
                folder, digest = result["folder"], result["manifest_sha256"]
                return Snapshot(name=name, folder=folder, manifest_sha256=digest, step=step.key)
            if step.args.get("base"):
                return self.snapshot(str(step.args["base"]))
        raise Conflict(f"snapshot {name} of run {self.name} was never taken; run it again")


def attempt_stem(key: str) -> str:
    """Return how the names of all attempts at a step begin, from its key."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in key).strip("-")
    return f"{plain[:60]}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


class Handler(Protocol[P]):
    """How one kind of step is done. A move's handlers inherit from this: only `check` has no default.

    Any method may raise what `groupshift.errors` has; `Transient` of `check` and `allowed` is waited for."""

    touches: bool = False
    """A person who only looked could not have done it: what repeats before it is not done again after it."""
    alters: bool = False
    """It alters the target and leaves it so: nothing undoes it, and a rollback stays open all the same."""

    def allowed(self, run: Run[P], step: Step) -> Checked:
        """Whether it may act, asked right before the intent, again on resume, and by `Rehearse`. PASS and
        INCONCLUSIVE may; all else is polled as long as the step's patience lasts."""
        return PASSED

    def fence(self, run: Run[P], step: Step) -> None:
        """Take the fence outside the journal, before the intent and before a cut-off act is made."""
        return

    def intend(self, run: Run[P], step: Step) -> Json:
        """Return what is met and what will be done; journaled before the act. A step that is done again
        finds its former intent in `Run.records`."""
        return {}

    def stands(self, run: Run[P], step: Step, record: StepRecord) -> Standing:
        """How an act stands that was cut off, or that another claim made and nobody read back. Made: the act
        of an intended step is called all the same, so that its answer is journaled."""
        return Standing.AS_MET if record.state is StepState.INTENDED else Standing.MADE

    def act(self, run: Run[P], step: Step, intent: Json) -> Json | Instruction | SparkJob:
        """Do it; doing it again changes nothing more. A long one calls `Run.hold` before each request."""
        return {}

    def check(self, run: Run[P], step: Step, record: StepRecord) -> Checked:
        """Look once, change nothing, never sleep."""

    def evidence(self, run: Run[P], step: Step, record: StepRecord) -> Mapping[str, str]:
        """Return the digests, read now, of what the step left: an approval rests on them."""
        return {}


class Move(Protocol[P]):
    """A kind of run. A move inherits from this and overrides what it needs."""

    name: str
    scope: Literal["group", "cluster", "link"]
    request: type
    """A dataclass of options (`groupshift.domain.requests`)."""
    ports: type[P]
    """What the move works with (`groupshift.bootstrap.moves` fills it)."""
    handlers: Mapping[str, Handler[P]]
    back_to: tuple[str, ...] = ("start",)
    on_fail: OnFail = OnFail.ROLL_BACK
    stop_frees: bool = True
    """A stop on the way there ends the run as moved; else it stays open."""
    void_ends: bool = False
    """A void approval of a plan that changed nothing ends the run; else it is asked again."""
    patience_s: int = 1800
    heals: frozenset[str] = frozenset()
    """Rules of `assess` whose failure time may heal."""

    def target(self, ports: P, request: Any) -> Target:
        """What the ports reach. Raises `Transient` when that cannot be told."""

    def look(self, ports: P, request: Any) -> Any:
        """Return the facts; the only one that observes."""

    def glance(self, ports: P, request: Any, begun: Collection[str]) -> Any:
        """Return the facts that `fingerprint` needs, before every act: `look` may read too much for that."""
        return self.look(ports, request)

    def look_back(self, ports: P, request: Any) -> Any:
        """Return the facts that a rollback is planned by; a move that needs none may return None."""
        return self.look(ports, request)

    def assess(self, request: Any, facts: Any, /) -> Findings:
        """Judge the target. Pure."""

    def obstacles(self, request: Any, facts: Any, findings: Findings) -> Findings:
        """Return the findings of `assess` for which no run may begin. Pure."""
        return against(findings)

    def observed(self, request: Any, facts: Any, /) -> Observed:
        """Return what the look found, for people who only assess. Pure."""
        return Observed()

    def assessment_page(self, request: Any, facts: Any, /) -> str:
        """An assessment as one HTML page; empty: this move has none. Pure."""
        return ""

    def plan(self, request: Any, facts: Any, /) -> Plan:
        """Return the plan, by `make_plan`. Pure."""

    def fingerprint(self, facts: Any, begun: Collection[str]) -> Aspects:
        """What an approval is given for. Aspects that the begun steps (names) change are left out; the engine
        adds plan and evidence."""
        return {}

    def request_from(self, data: Json) -> Any:
        """Return the request of its JSON. Raises `Rejected` for values that it does not take."""
        return request_of(self.request, data)

    def fence(self, run: Run[P], when: Literal["claimed", "rolling_back"]) -> None:
        """Raise the fences outside the journal, with the run's token: a run that is approved or further was
        claimed, or a rollback begins."""
        return

    def may_roll_back(self, run: Run[P], facts: Any) -> Finding:
        """Whether the rollback is open, as far as facts tell. Fail: it is closed. Error: nobody can say."""
        return Finding(rule="R00", verdict=Verdict.PASS, reason="nothing that was observed closes it")

    def heals_s(self, ports: P) -> float:
        """How many seconds a rule that time may heal (`heals`) is waited for when a run is planned."""
        return 0

    def falls_back_to(self, run: Run[P]) -> str:
        """How far a run goes back where nobody says how far, one of `back_to`."""
        return self.back_to[0]

    def roll_back_plan(self, run: Run[P], begun: Mapping[str, StepRecord], facts: Any, to: str) -> Plan:
        """Return the plan of a rollback, by `make_rollback`; the default undoes what was begun, last
        first."""
        return make_rollback(undo_of(run.there, begun), len(run.rollbacks()) + 1)

    def watch(self, run: Run[P]) -> Checked:
        """Judge a run that is over, again; until when it can change is in the detail."""
        return Checked(outcome=PASSED.outcome, detail=f"{self.name} has nothing to watch after its end")

    def watcher(self, run: Run[P]) -> Callable[[], Checked]:
        """Return what judges a run that is over, look after look: it may remember its looks."""
        return lambda: self.watch(run)

    def closing(self, run: Run[P], state: RunState) -> tuple[str, str]:
        """Where the run has led to, as a clause, and the next command (empty: the engine's)."""
        return "", ""

    def pause(self, plan: Plan, ahead: Sequence[Step], /) -> str:
        """What readers meet up to the next question."""
        return ""

    def shown(self, run: Run[P], gate: Step) -> Sequence[Section]:
        """What this gate always shows in full."""
        return ()

    def report(self, run: Run[P]) -> Sequence[Section]:
        """The move's own parts of the report, from the journal alone (the ports may be unusable)."""
        return ()


def undo_of(plan: Plan, begun: Mapping[str, StepRecord]) -> tuple[Step, ...]:
    """Return the steps that undo what was begun of a plan, last one first; what was left out was not
    begun."""
    return tuple(
        replace(each.undo, undoes=each.key, phase=each.undo.phase or each.phase)
        for each in reversed(plan.steps)
        if isinstance(each.undo, Step) and each.key in begun and not begun[each.key].left_out
    )


def changes(move: Move[P], step: Step) -> bool:
    """Return True for a step that changes the target."""
    undone = isinstance(step.undo, Step) or step.undo is IRREVERSIBLE or bool(step.undoes)
    handler = handler_of(move, step)
    return undone or handler.touches or handler.alters


def handler_of(move: Move[P], step: Step) -> Handler[P]:
    """Return the handler of a step. Raises `Rejected` where the move has none of its kind."""
    if step.kind not in move.handlers:
        raise Rejected(f"step {step.key}: move {move.name} has no handler for {step.kind!r}; use its release")
    return move.handlers[step.kind]


def request_data(request: Any) -> Json:
    """Return a request as JSON. Raises `Rejected` for what is no dataclass of JSON values."""
    if not is_dataclass(request) or isinstance(request, type):
        raise Rejected("a request is a dataclass")
    data: Json = json.loads(canonical(asdict(request)))
    return data


def checked_data(checked: Checked) -> dict[str, Any]:
    """Return what a look came to, for the journal. Its result is kept here, too: what a look that failed
    found of files is evidence, and the record of its step may be written anew."""
    return {
        "outcome": checked.outcome.value,
        "detail": checked.detail[:2000],
        "findings": findings_data(checked.findings),
        "only_rollback_helps": checked.only_rollback_helps,
        **({"result": dict(checked.result)} if checked.result else {}),
    }


def worst_verdict(findings: Findings) -> Verdict:
    """Return the worst verdict of findings; fail where there is none: something was accepted without one."""
    return worst(each.verdict for each in findings) if findings else Verdict.FAIL
