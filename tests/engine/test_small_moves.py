"""What the toy's plan has no place for: moves of one or two steps, with handlers for one question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from toy_world import Killed

from groupshift.domain.reactions import Choice, OnFail
from groupshift.domain.run import (
    IRREVERSIBLE,
    PASSED,
    Checked,
    OnDifference,
    Outcome,
    RunState,
    SparkJob,
    Step,
    StepRecord,
    StepState,
    Target,
    WhenLate,
    make_plan,
    make_rollback,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.begin import begin, claim
from groupshift.engine.gates import answer_of, differences
from groupshift.engine.handlers import (
    Approve,
    Compare,
    Excuses,
    Reading,
    Rehearse,
    Series,
    Soak,
    TakeSnapshot,
)
from groupshift.engine.move import Answer, Handler, Move, Question, Run, RunOptions, Standing, Tools
from groupshift.engine.progress import Ended, Stopped
from groupshift.engine.roll_back import begin_roll_back
from groupshift.engine.run import drive
from groupshift.errors import Broken, Conflict, Fenced, Rejected, Transient
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind
from groupshift_testing.clock import ManualClock
from groupshift_testing.runs import MemoryRuns

UNDO = Step(phase="p", kind="undo")
DO = Step(phase="p", kind="do", undo=UNDO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """A request of nothing."""

    name: str = "t"


class Act(Handler[list[str]]):
    """Writes its name into the list; looks what its script says, the last word again and again."""

    def __init__(self, *looks: Checked, allowed: Callable[[], Checked] = lambda: PASSED) -> None:
        self.looks, self._allowed = list(looks) or [PASSED], allowed
        self.standing = Standing.AS_MET

    def allowed(self, run, step):
        """See `Handler`."""
        return self._allowed()

    def stands(self, run, step, record):
        """See `Handler`."""
        return self.standing

    def intend(self, run, step):
        """See `Handler`."""
        return {"at": len(run.ports)}

    def act(self, run, step, intent):
        """See `Handler`."""
        run.ports.append(step.kind)
        return {"acts": run.ports.count(step.kind)}

    def check(self, run, step, record):
        """See `Handler`."""
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


class Small(Move[list[str]]):
    """A move of these steps."""

    name = "small"
    scope = "group"
    request = Nothing
    ports = list
    patience_s = 10

    def __init__(self, *steps: Step, **handlers: Handler[list[str]]) -> None:
        self.steps = steps
        usual: dict[str, Handler[list[str]]] = {"do": Act(), "undo": Act(), "approve": Approve()}
        self.handlers: Mapping[str, Handler[list[str]]] = {**usual, **handlers}

    def target(self, ports, request):
        """See `Move`."""
        return Target(kind="group", name=request.name, within="c")

    def look(self, ports, request):
        """See `Move`."""
        return tuple(ports)

    def assess(self, request, facts):
        """See `Move`."""
        return ()

    def plan(self, request, facts):
        """See `Move`."""
        return make_plan(self.steps)


class Stage:
    """One small move and its processes."""

    def __init__(self, move: Small) -> None:
        self.move, self.runs, self.clock, self.done = move, MemoryRuns(), ManualClock(), []
        options = RunOptions(who="ann", holder="cli")
        self.run = begin(move, self.tools(), self.done, Nothing(), options, execute=True).run

    def tools(self, crash: Any = None) -> Tools:
        """The tools of a process."""
        return Tools(runs=self.runs, clock=self.clock, **({"crash": crash} if crash else {}))

    def claim(self, crash: Any = None, **options: Any) -> Run[list[str]]:
        """A process."""
        made = RunOptions(**{"who": "ann", "holder": "cli", **options})
        return claim(self.move, self.tools(crash), self.done, self.runs.find(self.run), made)

    def drive(self, crash: Any = None, **options: Any) -> Any:
        """A process, as far as it goes."""
        return drive(self.claim(crash, **options))

    @property
    def state(self) -> RunState:
        """Where the run stands."""
        return self.runs.find(self.run).state


def chooses(choice: Choice, who: str = "bob") -> Callable[[Any], Answer]:
    """Somebody who always answers so."""
    return lambda question: Answer(choice=choice, who=who, fingerprint=question.fingerprint)


def said(outcome: Outcome, reason: str = "because", **more: Any) -> Checked:
    """What a look came to."""
    if outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.ERROR}:
        more["findings"] = (Finding(rule="S1", verdict=Verdict(outcome.value), reason=reason),)
    return Checked(outcome=outcome, detail=reason, **more)


def test_a_plan_without_an_approve_step_is_approved_by_who_runs_it() -> None:
    """As a scan's run."""
    stage = Stage(Small(DO))
    assert stage.state is RunState.APPROVED
    assert isinstance(stage.drive(), Ended)
    assert (stage.state, stage.done) == (RunState.MOVED, ["do"])


def test_a_step_may_act_before_each_look() -> None:
    """What it returned and what the looks found are kept together."""
    again = said(Outcome.WAIT, act_again=True, result={"left": 2})
    stage = Stage(Small(DO, do=Act(again, again, PASSED)))
    stage.drive()
    assert stage.done == ["do", "do", "do"]
    assert stage.runs.steps(stage.run)["01 p/do"].result == {"acts": 3, "left": 2}


@pytest.mark.parametrize("late", list(WhenLate))
def test_a_wait_that_is_over_has_three_ends(late: WhenLate) -> None:
    """Judged as it is, parked, or ended where nothing was changed."""
    waits = Step(phase="p", kind="wait", when_late=late, patience_s=5)
    stage = Stage(Small(waits, DO, wait=Act(said(Outcome.WAIT))))
    before = stage.clock.now_ms()
    progress = stage.drive()
    assert 5_000 <= stage.clock.now_ms() - before < 9_000
    match late:
        case WhenLate.JUDGE:
            assert isinstance(progress, Ended)
            assert stage.done == ["wait", "do"]
        case WhenLate.PARK:
            assert isinstance(progress, Stopped)
            assert (progress.waits, stage.state) == (True, RunState.APPROVED)
            assert stage.runs.steps(stage.run)["01 p/wait"].state is StepState.INTENDED
            stage.drive()
            assert stage.done == ["wait", "wait"], "the request may have been lost"
        case WhenLate.END:
            assert isinstance(progress, Stopped)
            assert stage.state is RunState.REJECTED


def test_a_doubt_is_asked_about_and_may_be_accepted() -> None:
    """The run may end green; who let it go on is journaled; the approver must be allowed."""
    stage = Stage(Small(DO, do=Act(said(Outcome.INCONCLUSIVE))))
    asked = []
    stage.drive(decide=asked.append)
    assert asked[0].answers == (Choice.GO_ON, Choice.ROLL_BACK, Choice.STOP)
    ended = stage.drive(decide=chooses(Choice.GO_ON))
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.MOVED, Verdict.PASS)
    words = [each for each in stage.runs.events(stage.run) if each.kind is EventKind.ACCEPTED]
    assert [(each.body["who"], each.body["verdict"]) for each in words] == [("bob", "inconclusive")]


def test_an_answer_to_a_doubt_counts_for_that_doubt_only() -> None:
    """Another reason is another question."""
    stage = Stage(Small(DO, do=Act(said(Outcome.INCONCLUSIVE, "a"), said(Outcome.INCONCLUSIVE, "b"))))
    asked = []

    def decide(question: Any) -> Answer | None:
        asked.append(question)
        return chooses(Choice.GO_ON)(question) if len(asked) == 1 else None

    assert isinstance(stage.drive(decide=decide), Stopped)
    assert [each.detail for each in asked] == ["a", "b"]


def test_who_stops_at_a_doubt_is_not_rolled_back_and_who_rolls_back_is() -> None:
    """Neither on nor back; the next process asks again."""
    stage = Stage(Small(DO, do=Act(said(Outcome.INCONCLUSIVE))))
    stage.move.stop_frees = False
    stopped = stage.drive(decide=chooses(Choice.STOP))
    assert isinstance(stopped, Stopped)
    assert (stage.state, stage.done) == (RunState.RUNNING, ["do"])
    ended = stage.drive(decide=chooses(Choice.ROLL_BACK))
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL)
    assert stage.done[-1] == "undo"
    assert "bob chose to roll back" in ended.closing.reason


def test_an_error_is_measured_once_more_by_each_process() -> None:
    """Then somebody decides; in a rollback it stops."""
    stage = Stage(Small(DO, do=Act(said(Outcome.ERROR)), undo=Act(said(Outcome.ERROR))))
    stage.move.stop_frees = False
    for number in (1, 2):
        stopped = stage.drive(decide=chooses(Choice.STOP))
        assert isinstance(stopped, Stopped)
        assert stage.done == ["do", "do"] * number
    begin_roll_back(stage.claim(), "start")
    stopped = stage.drive()
    assert isinstance(stopped, Stopped)
    assert not stopped.waits
    assert (stage.done[4:], stage.state) == (["undo", "undo"], RunState.ROLLING_BACK)


def test_an_error_is_measured_again_from_the_snapshot_on() -> None:
    """Where the step names it."""
    first = Step(phase="p", kind="first")
    error = said(Outcome.ERROR, redo_from="01 p/first")
    stage = Stage(Small(first, DO, first=Act(), do=Act(error, PASSED)))
    assert isinstance(stage.drive(), Ended)
    assert stage.done == ["first", "do", "first", "do"]


def test_a_redo_of_no_earlier_step_is_broken() -> None:
    """A handler that names one is wrong."""
    stage = Stage(Small(DO, DO, do=Act(said(Outcome.WAIT, redo_from="02 p/do"))))
    with pytest.raises(Broken, match="no step before it"):
        stage.drive()


def test_evidence_only_decides_nothing() -> None:
    """A comparison before an undo step is written down."""
    stage = Stage(
        Small(
            Step(phase="p", kind="look", on_difference=OnDifference.EVIDENCE),
            DO,
            look=Act(said(Outcome.FAIL)),
        )
    )
    assert isinstance(stage.drive(), Ended)
    looked = [each for each in stage.runs.events(stage.run) if each.step == "01 p/look"]
    assert [each.body["findings"][0]["reason"] for each in looked if each.kind is EventKind.CHECKED] == [
        "because"
    ]


def test_what_only_a_rollback_helps_says_so_and_may_be_accepted_all_the_same() -> None:
    """The flag is journaled; whoever reads it names the rollback."""
    step = Step(phase="p", kind="do", undo=UNDO, on_difference=OnDifference.ONLY_ROLLBACK_HELPS)
    stage = Stage(Small(step, do=Act(said(Outcome.FAIL))))
    stage.move.on_fail = OnFail.STOP
    stopped = stage.drive()
    assert isinstance(stopped, Stopped)
    assert stopped.checked.only_rollback_helps
    last = [each for each in stage.runs.events(stage.run) if each.kind is EventKind.STOPPED][-1]
    assert last.body["only_rollback_helps"] is True
    ended = stage.drive(accept="01 p/do")
    assert isinstance(ended, Ended)
    assert ended.closing.verdict is Verdict.FAIL, "what was only accepted is red"


def test_what_is_accepted_is_what_was_shown_last() -> None:
    """Another difference is shown first."""
    step = Step(phase="p", kind="do", undo=UNDO, on_difference=OnDifference.ACCEPTABLE)
    looks = [said(Outcome.FAIL, each) for each in ("a", "b", "b", "b")]
    stage = Stage(Small(step, do=Act(*looks)))
    for _ in range(2):
        stopped = stage.drive(accept="01 p/do")
        assert isinstance(stopped, Stopped)
    assert isinstance(stage.drive(accept="01 p/do"), Ended)


def test_a_claim_cannot_accept_what_it_has_shown_itself() -> None:
    """A sensor that keeps its token is no second process."""
    step = Step(phase="p", kind="do", undo=UNDO, on_difference=OnDifference.ACCEPTABLE)
    stage = Stage(Small(step, do=Act(said(Outcome.FAIL))))
    stage.drive()
    options = RunOptions(who="ann", holder="cli", accept="01 p/do")
    same = claim(stage.move, stage.tools(), stage.done, stage.runs.find(stage.run), options, anew=False)
    assert same.token == 1
    assert isinstance(drive(same), Stopped)
    assert isinstance(stage.drive(accept="01 p/do"), Ended)


def test_a_process_that_is_overtaken_right_before_a_resumed_act_changes_nothing() -> None:
    """The fence is read between what it asks and what it does."""
    overtakes = []

    def allowed() -> Checked:
        if overtakes:
            stage.runs.claim(stage.run, "other", 1, anew=True, take_over=True)
        return PASSED

    stage = Stage(Small(DO, do=Act(allowed=allowed)))

    class Dies:
        def reached(self, _step: str, point: CrashPoint) -> None:
            if point is CrashPoint.AFTER_ACT:
                raise Killed

    with pytest.raises(Killed):
        stage.drive(Dies())
    overtakes.append(1)
    with pytest.raises(Fenced):
        stage.drive()
    assert stage.done == ["do"]


def test_what_was_journaled_and_told_nobody_was_not_shown() -> None:
    """A process that dies before it stops has shown nothing."""
    step = Step(phase="p", kind="do", undo=UNDO, on_difference=OnDifference.ACCEPTABLE)
    stage = Stage(Small(step, do=Act(said(Outcome.FAIL))))

    class Dies:
        def reached(self, _step: str, point: CrashPoint) -> None:
            if point is CrashPoint.AFTER_READ_BACK:
                raise Killed

    with pytest.raises(Killed):
        stage.drive(Dies())
    assert isinstance(stage.drive(accept="01 p/do"), Stopped)
    assert isinstance(stage.drive(accept="01 p/do"), Ended)


def test_a_finalise_that_is_declined_keeps_the_rollback() -> None:
    """With a plan gate before it."""
    plan = Step(phase="ask", kind="approve", subject="plan")
    gate = Step(phase="end", kind="approve", subject="end", optional=True)
    last = Step(phase="end", kind="last", undo=IRREVERSIBLE, optional=True, gate="end/approve end")
    for how in ("declined", "not allowed", "made"):
        refuses = Act(allowed=lambda: said(Outcome.FAIL, "a member came back"))
        stage = Stage(Small(plan, DO, gate, last, last=refuses if how == "not allowed" else Act()))

        def decide(question: Any, how: str = how) -> Answer:
            refused = how == "declined" and "end" in question.gate
            return chooses(Choice.REJECT if refused else Choice.APPROVE)(question)

        ended = stage.drive(decide=decide)
        assert isinstance(ended, Ended)
        assert ended.closing.verdict is Verdict.PASS
        assert ended.closing.state is (RunState.FINALISED if how == "made" else RunState.MOVED), how
        if how != "made":
            assert stage.done == ["do"]
            assert begin_roll_back(stage.claim(), "start")
        else:
            with pytest.raises(Rejected, match="finalised"):
                begin_roll_back(stage.claim(), "start")


@pytest.mark.parametrize("standing", list(Standing))
def test_a_cut_off_act_goes_on_by_how_it_stands(standing: Standing) -> None:
    """Made asks nothing and acts all the same; as met asks again and keeps its intent; other intends anew."""
    allowed = []
    handler = Act(allowed=lambda: allowed.append(1) or PASSED)
    stage = Stage(Small(DO, do=handler))

    class Dies:
        def reached(self, _step: str, point: CrashPoint) -> None:
            if point is CrashPoint.AFTER_ACT:
                raise Killed

    with pytest.raises(Killed):
        stage.drive(Dies())
    handler.standing = standing
    stage.drive()
    assert stage.done == ["do", "do"]
    assert len(allowed) == (1 if standing is Standing.MADE else 2)
    intents = [each for each in stage.runs.events(stage.run) if each.kind is EventKind.INTENDED]
    assert len(intents) == (2 if standing is Standing.OTHER else 1)
    assert stage.runs.steps(stage.run)["01 p/do"].intent == {"at": 1 if standing is Standing.OTHER else 0}


@pytest.mark.parametrize("standing", list(Standing))
def test_what_another_claim_acted_and_nobody_read_back_is_asked_how_it_stands(standing: Standing) -> None:
    """Made is looked at and not made again."""
    handler = Act()
    stage = Stage(Small(DO, do=handler))

    class Dies:
        def reached(self, _step: str, point: CrashPoint) -> None:
            if point is CrashPoint.AFTER_READ_BACK:
                raise Killed

    with pytest.raises(Killed):
        stage.drive(Dies())
    handler.standing = standing
    stage.drive()
    assert len(stage.done) == (1 if standing is Standing.MADE else 2)


def test_a_rehearsal_asks_the_step_and_what_undoes_it() -> None:
    """Before anything is changed."""
    rehearse = Step(phase="p", kind="rehearse", args={"steps": ["p/do"]})
    refuses = Act(allowed=lambda: said(Outcome.FAIL, "it could not be undone"))
    stage = Stage(Small(rehearse, DO, rehearse=Rehearse(), undo=refuses))
    stopped = stage.drive()
    assert isinstance(stopped, Stopped)
    assert stopped.checked.sentences == ("S1: it could not be undone",)
    assert (stage.state, stage.done) == (RunState.REJECTED, [])


def test_a_snapshot_waits_for_calm_and_is_taken_as_it_is_when_patience_is_over() -> None:
    """Within bounds."""
    restless = (Finding(rule="S2", verdict=Verdict.FAIL, reason="a member rebalances"),)
    took = []

    def take(_run: Any, step: Step, name: str) -> dict[str, str]:
        took.append(name)
        return {"folder": name, "manifest_sha256": "s"}

    handler = TakeSnapshot[list[str]](take, lambda _run, _folder: "s", lambda _run, _step: restless)
    stage = Stage(Small(Step(phase="p", kind="take", subject="one", patience_s=5), DO, take=handler))
    before = stage.clock.now_ms()
    assert isinstance(stage.drive(), Ended)
    assert stage.clock.now_ms() - before >= 5_000
    assert len(took) == 1


class Lets(Excuses[list[str]]):
    """Lets pass what a test says."""

    def __init__(
        self, *, harmless: bool = False, dropped: frozenset[Any] = frozenset(), residue: str = ""
    ) -> None:
        self._harmless, self._dropped, self._residue = harmless, dropped, residue

    def harmless(self, run, problem):
        """See `Excuses`."""
        return self._harmless

    def dropped(self, run):
        """See `Excuses`."""
        return self._dropped

    def residue(self, run):
        """See `Excuses`."""
        return self._residue


GOOD = (Finding(rule="E1", verdict=Verdict.PASS, reason=""),)
LOST = (Finding(rule="E1", verdict=Verdict.FAIL, reason="an offset is gone"),)
KEY = ("g", "t", 0)
EXCUSED = [
    (Reading(findings=GOOD), Lets(), Outcome.PASS),
    (Reading(findings=()), Lets(), Outcome.ERROR),
    (Reading(findings=GOOD, problems=({"p": 1},)), Lets(), Outcome.ERROR),
    (Reading(findings=GOOD, problems=({"p": 1},)), Lets(harmless=True), Outcome.PASS),
    (Reading(findings=GOOD, problems=({"p": 1},), told=True), Lets(residue="listed twice"), Outcome.FAIL),
    (Reading(findings=GOOD, problems=({"p": 1},)), Lets(residue="listed twice"), Outcome.ERROR),
    (Reading(findings=LOST, lost=frozenset({KEY}), only_lost=True), Lets(), Outcome.FAIL),
    (
        Reading(findings=LOST, lost=frozenset({KEY}), only_lost=True),
        Lets(dropped=frozenset({KEY})),
        Outcome.PASS,
    ),
    (Reading(findings=LOST, lost=frozenset({KEY})), Lets(dropped=frozenset({KEY})), Outcome.FAIL),
]


@pytest.mark.parametrize(("reading", "lets", "outcome"), EXCUSED)
def test_what_a_move_lets_pass_in_a_comparison(reading: Reading, lets: Lets, outcome: Outcome) -> None:
    """Problems, dropped offsets, residue; an error is never waved through."""
    job = SparkJob(job="j", inputs={}, output="o")
    handler = Compare[list[str]](lambda *_: job, lambda *_: reading, lets)
    record = StepRecord(key="k", state=StepState.ACTED, token=1, at_ms=1, result={"spark_job": job.as_json()})

    class Taken:
        def snapshot(self, name: str) -> Any:
            return type("S", (), {"folder": name, "manifest_sha256": None})

    step = Step(phase="p", kind="compare", args={"base": "a", "with": "b"})
    assert handler.check(Taken(), step, record).outcome is outcome  # type: ignore[arg-type]


def test_evidence_may_grow_and_never_change() -> None:
    """And an aspect that the run itself changes is not compared."""
    then = {"evidence": {"a": "1"}, "members": {"m": "x"}, "mode": {"n": "z"}}
    assert differences(then, {"evidence": {"a": "1", "b": "2"}, "members": {"m": "x"}}) == ()
    assert differences(then, {"evidence": {"a": "3"}}) == ("evidence a: 1 is now 3",)
    assert differences(then, {"evidence": {}}) == ("evidence a: 1 is now absent",)
    assert differences(then, {"members": {"m": "x", "n": "y"}}) == ("members n: absent is now y",)


def test_a_rollback_may_have_a_gate_of_its_own() -> None:
    """It is an ordinary step of its plan; a no leaves the run open."""

    class Asks(Small):
        def roll_back_plan(self, run, begun, facts, to):
            gate = Step(phase="back", kind="approve", subject="back")
            undo = Step(phase="p", kind="undo", undoes="01 p/do")
            return make_rollback([gate, undo], len(run.rollbacks()) + 1)

    stage = Stage(Asks(DO))
    stage.drive()
    begin_roll_back(stage.claim(), "start")
    assert isinstance(stage.drive(decide=chooses(Choice.REJECT)), Stopped)
    assert (stage.state, stage.done) == (RunState.ROLLING_BACK, ["do"])
    assert answer_of(stage.claim(), "back 1/01 back/approve back") is None
    assert isinstance(stage.drive(decide=chooses(Choice.APPROVE)), Ended)
    assert stage.done == ["do", "undo"]


def test_a_fence_of_the_move_is_raised_when_claimed_and_when_a_rollback_begins() -> None:
    """Never for a run that nobody approved."""
    raised = []

    class Fences(Small):
        def fence(self, run, when):
            raised.append((run.token, when))

    gate = Step(phase="ask", kind="approve", subject="plan")
    stage = Stage(Fences(gate, DO))
    stage.drive()
    assert raised == []
    stage.drive(decide=chooses(Choice.APPROVE))
    begin_roll_back(stage.claim(), "start")
    stage.drive()
    assert [when for _, when in raised] == ["rolling_back", "claimed"]
    assert raised == sorted(raised)


def test_a_run_that_was_turned_since_it_was_read_is_not_driven_on() -> None:
    """The state is read again right after the claim."""
    stage = Stage(Small(DO, do=Act(said(Outcome.WAIT))))
    stage.drive()
    read = stage.runs.find(stage.run)
    begin_roll_back(stage.claim(), "start")
    with pytest.raises(Conflict, match="was running and is rolling_back"):
        claim(stage.move, stage.tools(), stage.done, read, RunOptions(who="ann", holder="cli"))


def test_what_heals_within_the_patience_is_no_failure() -> None:
    """What lasts longer is one; an error likewise."""
    heals = said(Outcome.FAIL, heals=True)
    stage = Stage(Small(DO, do=Act(heals, said(Outcome.ERROR, heals=True), PASSED)))
    assert isinstance(stage.drive(), Ended)
    assert (stage.state, stage.done) == (RunState.MOVED, ["do"])
    stage = Stage(Small(DO, do=Act(heals)))
    began = stage.clock.now_ms()
    assert isinstance(stage.drive(), Ended)
    assert (stage.state, stage.done) == (RunState.ROLLED_BACK, ["do", "undo"])
    assert stage.clock.now_ms() - began >= stage.move.patience_s * 1000


def test_an_approval_that_repeats_is_asked_by_each_claim_until_something_is_begun() -> None:
    """Who comes back the day after sees anew what will happen; what was begun needs no second yes."""
    gate = Step(phase="ask", kind="approve", subject="plan", repeat=True)
    asked: list[str] = []

    def decide(question: Question) -> Answer | None:
        asked.append(question.gate)
        return chooses(Choice.APPROVE)(question)

    first = Step(phase="p", kind="look")
    stage = Stage(Small(gate, first, DO, look=Act(said(Outcome.PERSON), PASSED), do=Act(said(Outcome.WAIT))))
    for times in (1, 2, 2):
        stage.drive(decide=decide)
        assert len(asked) == times
    assert stage.done.count("do") == 2


def test_a_gate_waits_for_a_calm_moment_and_is_shown_as_it_is_then() -> None:
    """As a snapshot."""
    hides = [Finding(rule="X01", verdict=Verdict.FAIL, reason="it rebalances")]
    looks: list[int] = []

    def calm(run, step):
        looks.append(run.now())
        return tuple(hides) if len(looks) < 3 else ()

    gate = Step(phase="ask", kind="approve", subject="plan")
    stage = Stage(Small(gate, DO, approve=Approve(calm)))
    assert isinstance(stage.drive(decide=chooses(Choice.APPROVE)), Ended)
    assert len(looks) == 3
    stage = Stage(Small(gate, DO, approve=Approve(lambda *_: tuple(hides))))
    assert isinstance(stage.drive(decide=chooses(Choice.APPROVE)), Ended)


def test_a_rollback_is_planned_of_what_is_met_behind_the_fence() -> None:
    """What a former process still started while the fence was raised is in it."""

    class Fences(Small):
        def fence(self, run, when):
            run.ports += ["late"] if when == "rolling_back" else []

        def roll_back_plan(self, run, begun, facts, to):
            late = tuple(Step(phase="late", kind="undo", subject=each) for each in facts if each == "late")
            return make_rollback(late, 1)

    stage = Stage(Fences(DO))
    stage.drive()
    run = stage.claim()
    assert begin_roll_back(run, "start")
    assert [each.name for each in run.plan.steps] == ["late/undo late"]


def test_a_job_that_failed_left_no_answer() -> None:
    """It is submitted once more, and then somebody decides."""
    jobs: list[str] = []

    def submit(job: SparkJob) -> None:
        jobs.append(job.output)
        raise Transient("no executor")

    class Proves(Act):
        def act(self, run, step, intent):
            return SparkJob(job="j", output=run.attempt(step))

    stage = Stage(Small(DO, do=Proves(said(Outcome.ERROR))))
    stopped = stage.drive(submit=submit, decide=chooses(Choice.STOP))
    assert isinstance(stopped, Stopped)
    assert len(set(jobs)) == 2


def test_a_series_goes_on_until_time_and_number_are_enough() -> None:
    """The next process goes on with what is there; its findings are there for a judge."""

    def judged(run, step, samples):
        verdict = Verdict.PASS if [each["at"] for each in samples] == [0, 4, 8] else Verdict.FAIL
        return (Finding(rule="X01", verdict=verdict, reason=f"{len(samples)} samples"),)

    def sample(run, step):
        return {"at": (run.now() - began) // 1000}

    args = {"seconds": 6, "every_s": 4, "samples": 3}
    watch = Step(phase="p", kind="series", args=args, patience_s=60)
    stage = Stage(Small(DO, watch, series=Series(sample, judged)))
    began = stage.clock.now_ms()
    assert isinstance(stage.drive(), Ended)
    assert stage.runs.steps(stage.run)["02 p/series"].result["samples"] == 3
    assert stage.state is RunState.MOVED


def test_a_soak_forgives_what_heals_and_nothing_else() -> None:
    """A failure within it stays one, although a later look passes; what failed is there for a judge."""
    args = {"seconds": 4, "every_s": 2, "heals_s": 3}

    def soaks(*looks: Checked) -> Stage:
        left = list(looks)
        step = Step(phase="p", kind="soak", args=args, on_difference=OnDifference.EVIDENCE)
        return Stage(Small(DO, step, soak=Soak(lambda *_: left.pop(0) if len(left) > 1 else left[0])))

    for looks, failed in (
        ((said(Outcome.FAIL, heals=True), PASSED), 0),
        ((PASSED, said(Outcome.FAIL), PASSED), 1),
        ((said(Outcome.FAIL, heals=True),), 1),
    ):
        stage = soaks(*looks)
        assert isinstance(stage.drive(), Ended)
        assert len(stage.runs.steps(stage.run)["02 p/soak"].result["findings"]) == failed


def test_the_evidence_of_a_rollback_that_failed_is_sealed_although_the_run_stays_open() -> None:
    """Somebody will look at it."""
    sealed: list[RunState] = []
    stage = Stage(Small(DO, undo=Act(said(Outcome.FAIL))))
    stage.drive()
    run = stage.claim()
    run.tools = replace(run.tools, seal=lambda _run, state: sealed.append(state) or {"sha256": "ab"})
    begin_roll_back(run, "start")
    assert isinstance(drive(run), Stopped)
    assert sealed == [RunState.ROLLING_BACK]
    kinds = [each.kind for each in stage.runs.events(stage.run)]
    assert kinds[-2:] == [EventKind.SEALED, EventKind.STOPPED]
    assert stage.state is RunState.ROLLING_BACK


def test_what_a_rollback_finds_can_be_accepted_where_the_plan_says_so() -> None:
    """It stops all the same, and the end is red."""
    undo = replace(UNDO, on_difference=OnDifference.ACCEPTABLE)
    stage = Stage(Small(replace(DO, undo=undo), undo=Act(said(Outcome.FAIL))))
    stage.drive()
    begin_roll_back(stage.claim(), "start")
    stopped = stage.drive()
    assert isinstance(stopped, Stopped)
    assert not stopped.waits
    assert "--accept 'back 01 p/do'" in stopped.checked.detail
    ended = stage.drive(accept="back 01 p/do")
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL)
