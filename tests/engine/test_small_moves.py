"""What the toy's plan has no place for: moves of one or two steps, with handlers for one question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from small_world import DO, UNDO, Act, Small, SmallRun, chooses, said
from toy_world import Killed

from groupshift.domain.reactions_to_verdicts import Choice, OnFail
from groupshift.domain.run import (
    IRREVERSIBLE,
    PASSED,
    Checked,
    OnDifference,
    Outcome,
    RunState,
    Step,
    StepState,
    WhenLate,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.begin import claim
from groupshift.engine.gates import answer
from groupshift.engine.handlers import (
    Rehearse,
    TakeSnapshot,
)
from groupshift.engine.move import RunOptions, Standing
from groupshift.engine.progress import Asks, Ended, Stopped
from groupshift.engine.questions_and_approvers import Answer
from groupshift.engine.roll_back import begin_finalise, begin_roll_back
from groupshift.engine.run import advance, drive
from groupshift.engine.status import status_of
from groupshift.errors import Broken, Conflict, Fenced, Rejected
from groupshift.ports.clock import CrashPoint
from groupshift.ports.runs import EventKind


def test_a_plan_without_an_approve_step_is_approved_by_who_runs_it() -> None:
    """As a scan's run."""
    phase = SmallRun(Small(DO))
    assert phase.state is RunState.APPROVED
    assert isinstance(phase.drive(), Ended)
    assert (phase.state, phase.done) == (RunState.MOVED, ["do"])


class HalfWay(Small):
    """Can be taken back by a half, and goes back no further by itself."""

    back_to = ("start", "half")

    def falls_back_to(self, run):
        """See `Move`."""
        return "half" if run.record.requester == "ann" else super().falls_back_to(run)


def test_a_move_says_how_far_a_run_goes_back_by_itself() -> None:
    """A failure takes it back as far as that; without a word of the move to the first place it names."""
    for kind, to in ((HalfWay, "half"), (Small, "start")):
        phase = SmallRun(kind(DO, do=Act(said(Outcome.FAIL))))
        assert isinstance(phase.drive(), Ended)
        (begun,) = [e for e in phase.runs.events(phase.run) if e.kind is EventKind.ROLLBACK_BEGUN]
        assert (begun.body["to"], phase.state) == (to, RunState.ROLLED_BACK)


def test_a_step_may_act_before_each_look() -> None:
    """What it returned and what the looks found are kept together."""
    again = said(Outcome.WAIT, act_again=True, result={"left": 2})
    phase = SmallRun(Small(DO, do=Act(again, again, PASSED)))
    phase.drive()
    assert phase.done == ["do", "do", "do"]
    assert phase.runs.steps(phase.run)["01 p/do"].result == {"acts": 3, "left": 2}


@pytest.mark.parametrize("late", list(WhenLate))
def test_a_wait_that_is_over_has_three_ends(late: WhenLate) -> None:
    """Judged as it is, parked, or ended where nothing was changed."""
    waits = Step(phase="p", kind="wait", when_late=late, patience_s=5)
    phase = SmallRun(Small(waits, DO, wait=Act(said(Outcome.WAIT))))
    before = phase.clock.now_ms()
    progress = phase.drive()
    assert 5_000 <= phase.clock.now_ms() - before < 9_000
    match late:
        case WhenLate.JUDGE:
            assert isinstance(progress, Ended)
            assert phase.done == ["wait", "do"]
        case WhenLate.PARK:
            assert isinstance(progress, Stopped)
            assert (progress.waits, phase.state) == (True, RunState.APPROVED)
            assert phase.runs.steps(phase.run)["01 p/wait"].state is StepState.INTENDED
            phase.drive()
            assert phase.done == ["wait", "wait"], "the request may have been lost"
        case WhenLate.END:
            assert isinstance(progress, Stopped)
            assert phase.state is RunState.REJECTED


@pytest.mark.parametrize("anew", [True, False])
def test_tasks_of_one_holder_may_find_the_run_further_on(*, anew: bool) -> None:
    """What one has read before the other went on is no conflict, not even the end, and the run is not given
    up; for another holder it is one."""
    phase = SmallRun(Small(DO, do=Act(said(Outcome.WAIT), PASSED)))
    first, options = phase.claim(), RunOptions(who="ann", holder="cli")
    read = phase.runs.find(phase.run)
    advance(first)
    assert (read.state, phase.state) == (RunState.APPROVED, RunState.RUNNING)
    beside = claim(phase.move, phase.tools(), phase.done, read, options, anew=anew)
    assert (beside.token == first.token) is not anew
    held = phase.runs.held(phase.run)
    assert held is not None
    assert not held.stopped
    assert isinstance(drive(beside), Ended)
    later = claim(phase.move, phase.tools(), phase.done, read, options, anew=anew)
    assert later.refresh().state is RunState.MOVED
    with pytest.raises(Conflict, match="was approved and is moved by another process since"):
        claim(phase.move, phase.tools(), phase.done, read, RunOptions(who="ann", holder="other"))


def test_a_doubt_is_asked_about_and_may_be_accepted() -> None:
    """The run may end green; who let it go on is journaled; the approver must be allowed."""
    phase = SmallRun(Small(DO, do=Act(said(Outcome.INCONCLUSIVE))))
    asked = []
    phase.drive(decide=asked.append)
    assert asked[0].answers == (Choice.GO_ON, Choice.ROLL_BACK, Choice.STOP)
    ended = phase.drive(decide=chooses(Choice.GO_ON))
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.MOVED, Verdict.PASS)
    words = [each for each in phase.runs.events(phase.run) if each.kind is EventKind.ACCEPTED]
    assert [(each.body["who"], each.body["verdict"]) for each in words] == [("bob", "inconclusive")]


def test_a_program_is_told_which_doubt_waits_for_an_answer() -> None:
    """Where nobody is there to answer, what was found stays in the journal with its remedy."""
    phase = SmallRun(Small(DO, do=Act(said(Outcome.INCONCLUSIVE, "half is unread"))))
    stopped = phase.drive(decide=lambda _question: None)
    assert isinstance(stopped, Stopped)
    assert (stopped.waits, stopped.checked.sentences) == (True, ("S1: half is unread",))
    (last,) = [each for each in phase.runs.events(phase.run) if each.kind is EventKind.STOPPED]
    assert [each["reason"] for each in last.body["findings"]] == ["half is unread"]
    assert status_of(phase.runs, phase.run).waits_for == "gate 01 p/do waits for an answer"


def test_an_answer_to_a_doubt_counts_for_that_doubt_only() -> None:
    """Another reason is another question."""
    phase = SmallRun(Small(DO, do=Act(said(Outcome.INCONCLUSIVE, "a"), said(Outcome.INCONCLUSIVE, "b"))))
    asked = []

    def decide(question: Any) -> Answer | None:
        asked.append(question)
        return chooses(Choice.GO_ON)(question) if len(asked) == 1 else None

    assert isinstance(phase.drive(decide=decide), Stopped)
    assert [each.detail for each in asked] == ["a", "b"]


def test_who_stops_at_a_doubt_is_not_rolled_back_and_who_rolls_back_is() -> None:
    """Neither on nor back; the next process asks again."""
    phase = SmallRun(Small(DO, do=Act(said(Outcome.INCONCLUSIVE))))
    phase.move.stop_frees = False
    stopped = phase.drive(decide=chooses(Choice.STOP))
    assert isinstance(stopped, Stopped)
    assert (phase.state, phase.done) == (RunState.RUNNING, ["do"])
    ended = phase.drive(decide=chooses(Choice.ROLL_BACK))
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL)
    assert phase.done[-1] == "undo"
    assert "bob chose to roll back" in ended.closing.reason


def test_an_error_is_measured_once_more_by_each_process() -> None:
    """Then somebody decides; in a rollback it stops."""
    phase = SmallRun(Small(DO, do=Act(said(Outcome.ERROR)), undo=Act(said(Outcome.ERROR))))
    phase.move.stop_frees = False
    for number in (1, 2):
        stopped = phase.drive(decide=chooses(Choice.STOP))
        assert isinstance(stopped, Stopped)
        assert phase.done == ["do", "do"] * number
    begin_roll_back(phase.claim(), "start")
    stopped = phase.drive()
    assert isinstance(stopped, Stopped)
    assert not stopped.waits
    assert (phase.done[4:], phase.state) == (["undo", "undo"], RunState.ROLLING_BACK)


def test_an_error_is_measured_again_from_the_snapshot_on() -> None:
    """Where the step names it."""
    first = Step(phase="p", kind="first")
    error = said(Outcome.ERROR, redo_from="01 p/first")
    phase = SmallRun(Small(first, DO, first=Act(), do=Act(error, PASSED)))
    assert isinstance(phase.drive(), Ended)
    assert phase.done == ["first", "do", "first", "do"]


def test_a_redo_of_no_earlier_step_is_broken() -> None:
    """A handler that names one is wrong."""
    phase = SmallRun(Small(DO, DO, do=Act(said(Outcome.WAIT, redo_from="02 p/do"))))
    with pytest.raises(Broken, match="no step before it"):
        phase.drive()


def test_evidence_only_decides_nothing() -> None:
    """A comparison before an undo step is written down."""
    phase = SmallRun(
        Small(
            Step(phase="p", kind="look", on_difference=OnDifference.EVIDENCE),
            DO,
            look=Act(said(Outcome.FAIL)),
        )
    )
    assert isinstance(phase.drive(), Ended)
    looked = [each for each in phase.runs.events(phase.run) if each.step == "01 p/look"]
    assert [each.body["findings"][0]["reason"] for each in looked if each.kind is EventKind.CHECKED] == [
        "because"
    ]


def test_what_only_a_rollback_helps_says_so_and_may_be_accepted_all_the_same() -> None:
    """The flag is journaled; whoever reads it names the rollback."""
    step = Step(phase="p", kind="do", undo=UNDO, on_difference=OnDifference.ONLY_ROLLBACK_HELPS)
    phase = SmallRun(Small(step, do=Act(said(Outcome.FAIL))))
    phase.move.on_fail = OnFail.STOP
    stopped = phase.drive()
    assert isinstance(stopped, Stopped)
    assert stopped.checked.only_rollback_helps
    last = [each for each in phase.runs.events(phase.run) if each.kind is EventKind.STOPPED][-1]
    assert last.body["only_rollback_helps"] is True
    ended = phase.drive(accept="01 p/do")
    assert isinstance(ended, Ended)
    assert ended.closing.verdict is Verdict.FAIL, "what was only accepted is red"


def test_what_is_accepted_is_what_was_shown_last() -> None:
    """Another difference is shown first."""
    step = Step(phase="p", kind="do", undo=UNDO, on_difference=OnDifference.ACCEPTABLE)
    looks = [said(Outcome.FAIL, each) for each in ("a", "b", "b", "b")]
    phase = SmallRun(Small(step, do=Act(*looks)))
    for _ in range(2):
        stopped = phase.drive(accept="01 p/do")
        assert isinstance(stopped, Stopped)
    assert isinstance(phase.drive(accept="01 p/do"), Ended)


def test_a_claim_cannot_accept_what_it_has_shown_itself() -> None:
    """A sensor that keeps its token is no second process."""
    step = Step(phase="p", kind="do", undo=UNDO, on_difference=OnDifference.ACCEPTABLE)
    phase = SmallRun(Small(step, do=Act(said(Outcome.FAIL))))
    phase.drive()
    options = RunOptions(who="ann", holder="cli", accept="01 p/do")
    same = claim(phase.move, phase.tools(), phase.done, phase.runs.find(phase.run), options, anew=False)
    assert same.token == 1
    assert isinstance(drive(same), Stopped)
    assert isinstance(phase.drive(accept="01 p/do"), Ended)


def test_a_process_that_is_overtaken_right_before_a_resumed_act_changes_nothing() -> None:
    """The fence is read between what it asks and what it does."""
    overtakes = []

    def allowed() -> Checked:
        if overtakes:
            phase.runs.claim(phase.run, "other", 1, anew=True, take_over=True)
        return PASSED

    phase = SmallRun(Small(DO, do=Act(allowed=allowed)))

    class Dies:
        def reached(self, _step: str, point: CrashPoint) -> None:
            if point is CrashPoint.AFTER_ACT:
                raise Killed

    with pytest.raises(Killed):
        phase.drive(Dies())
    overtakes.append(1)
    with pytest.raises(Fenced):
        phase.drive()
    assert phase.done == ["do"]


def test_what_was_journaled_and_told_nobody_was_not_shown() -> None:
    """A process that dies before it stops has shown nothing."""
    step = Step(phase="p", kind="do", undo=UNDO, on_difference=OnDifference.ACCEPTABLE)
    phase = SmallRun(Small(step, do=Act(said(Outcome.FAIL))))

    class Dies:
        def reached(self, _step: str, point: CrashPoint) -> None:
            if point is CrashPoint.AFTER_READ_BACK:
                raise Killed

    with pytest.raises(Killed):
        phase.drive(Dies())
    assert isinstance(phase.drive(accept="01 p/do"), Stopped)
    assert isinstance(phase.drive(accept="01 p/do"), Ended)


def test_a_finalise_that_is_declined_keeps_the_rollback() -> None:
    """With a plan gate before it."""
    plan = Step(phase="ask", kind="approve", subject="plan")
    gate = Step(phase="end", kind="approve", subject="end", optional=True)
    last = Step(phase="end", kind="last", undo=IRREVERSIBLE, optional=True, gate="end/approve end")
    for how in ("declined", "not allowed", "made"):
        refuses = Act(allowed=lambda: said(Outcome.FAIL, "a member came back"))
        phase = SmallRun(Small(plan, DO, gate, last, last=refuses if how == "not allowed" else Act()))

        def decide(question: Any, how: str = how) -> Answer:
            refused = how == "declined" and "end" in question.gate
            return chooses(Choice.REJECT if refused else Choice.APPROVE)(question)

        ended = phase.drive(decide=decide)
        assert isinstance(ended, Ended)
        assert ended.closing.verdict is Verdict.PASS
        assert ended.closing.state is (RunState.FINALISED if how == "made" else RunState.MOVED), how
        if how != "made":
            assert phase.done == ["do"]
            assert begin_roll_back(phase.claim(), "start")
        else:
            with pytest.raises(Rejected, match="finalised"):
                begin_roll_back(phase.claim(), "start")


def test_a_yes_counts_for_as_long_as_the_settings_say() -> None:
    """Not for as long as most places have it."""
    phase = SmallRun(Small(Step(phase="ask", kind="approve", subject="plan"), DO))
    run = phase.claim()
    run.tools = replace(run.tools, gate_expiry_s=60)
    advance(run)
    asks = advance(run)
    assert isinstance(asks, Asks)
    phase.clock.sleep(70)
    late = chooses(Choice.APPROVE)(asks.question)
    with pytest.raises(Conflict, match="longer than 60 s"):
        answer(run, asks.step.key, late)


def test_finalise_makes_all_that_a_gate_covers_and_asks_that_gate_again() -> None:
    """Also what is left out only because its gate was, and where the yes of then is an old one."""
    gate = Step(phase="end", kind="approve", subject="end", optional=True)
    kept = Step(phase="end", kind="keep", gate="end/approve end")
    last = Step(phase="end", kind="last", undo=IRREVERSIBLE, optional=True, gate="end/approve end")
    plan = Step(phase="ask", kind="approve", subject="plan")
    for first in (Choice.REJECT, Choice.APPROVE):

        def then(question: Any, first: Choice = first) -> Answer:
            return chooses(first if "end" in question.gate else Choice.APPROVE)(question)

        moods = [said(Outcome.FAIL, "a member came back")] if first is Choice.APPROVE else []
        refuses = Act(allowed=lambda moods=moods: moods[0] if moods else PASSED)
        phase = SmallRun(Small(plan, DO, gate, kept, last, keep=Act(), last=refuses))
        assert isinstance(phase.drive(decide=then), Ended)
        assert (phase.state, phase.done.count("last")) == (RunState.MOVED, 0)
        moods.clear()
        assert begin_finalise(phase.claim())
        asked: list[str] = []

        def decide(question: Any, asked: list[str] = asked) -> Answer:
            asked.append(question.gate)
            return chooses(Choice.APPROVE)(question)

        assert isinstance(phase.drive(decide=decide), Ended)
        assert (phase.state, asked) == (RunState.FINALISED, ["03 end/approve end"])
        assert (phase.done.count("keep"), phase.done.count("last")) == (1, 1)


def test_what_was_made_before_it_was_to_be_made_again_is_undone_though_its_gate_says_no() -> None:
    """A redo finds another target than the one that was approved, and then a no: the act stands."""

    class Sees(Small):
        def glance(self, ports, request, begun):
            return tuple(ports)

        def fingerprint(self, facts, begun):
            return {"made": {"number": str(len(facts))}}

    plan = Step(phase="ask", kind="approve", subject="plan")
    gate = Step(phase="p", kind="approve", subject="more", optional=True)
    act = Step(phase="p", kind="do", undo=UNDO, gate="p/approve more")
    look = Step(phase="p", kind="look")
    again = said(Outcome.WAIT, redo_from="03 p/do")
    phase = SmallRun(Sees(plan, gate, act, look, look=Act(again, PASSED)))
    answers = [Choice.APPROVE, Choice.REJECT]

    def decide(question: Any) -> Answer:
        return chooses(answers.pop(0) if "more" in question.gate else Choice.APPROVE)(question)

    assert isinstance(phase.drive(decide=decide), Ended)
    assert (phase.done.count("do"), answers) == (1, [])
    assert begin_roll_back(phase.claim(), "start")
    assert isinstance(phase.drive(decide=chooses(Choice.APPROVE)), Ended)
    assert phase.done[-1] == "undo"


def test_a_snapshot_that_was_left_out_is_no_evidence_for_what_comes_later() -> None:
    """What a declined gate covers left no folder."""
    end = Step(phase="end", kind="approve", subject="end", optional=True)
    keeps = Step(phase="end", kind="snapshot", subject="s", gate="end/approve end")
    more = Step(phase="more", kind="approve", subject="more", optional=True)
    last = Step(phase="more", kind="last", undo=IRREVERSIBLE, optional=True, gate="more/approve more")
    taken = TakeSnapshot(lambda *_: {"folder": "f", "manifest_sha256": "0"}, lambda *_: "0")
    plan = Step(phase="ask", kind="approve", subject="plan")
    phase = SmallRun(Small(plan, DO, end, keeps, more, last, snapshot=taken, last=Act()))
    answers = {"plan": Choice.APPROVE, "end": Choice.REJECT, "more": Choice.APPROVE}
    ended = phase.drive(decide=lambda each: chooses(answers[each.gate.rsplit(" ", 1)[1]])(each))
    assert isinstance(ended, Ended)
    assert phase.state is RunState.FINALISED


@pytest.mark.parametrize("standing", list(Standing))
def test_a_cut_off_act_goes_on_by_how_it_stands(standing: Standing) -> None:
    """Made asks nothing and acts all the same; as met asks again and keeps its intent; other intends anew."""
    allowed = []
    handler = Act(allowed=lambda: allowed.append(1) or PASSED)
    phase = SmallRun(Small(DO, do=handler))

    class Dies:
        def reached(self, _step: str, point: CrashPoint) -> None:
            if point is CrashPoint.AFTER_ACT:
                raise Killed

    with pytest.raises(Killed):
        phase.drive(Dies())
    handler.standing = standing
    phase.drive()
    assert phase.done == ["do", "do"]
    assert len(allowed) == (1 if standing is Standing.MADE else 2)
    intents = [each for each in phase.runs.events(phase.run) if each.kind is EventKind.INTENDED]
    assert len(intents) == (2 if standing is Standing.OTHER else 1)
    assert phase.runs.steps(phase.run)["01 p/do"].intent == {"at": 1 if standing is Standing.OTHER else 0}


@pytest.mark.parametrize("standing", list(Standing))
def test_what_another_claim_acted_and_nobody_read_back_is_asked_how_it_stands(standing: Standing) -> None:
    """Made is looked at and not made again."""
    handler = Act()
    phase = SmallRun(Small(DO, do=handler))

    class Dies:
        def reached(self, _step: str, point: CrashPoint) -> None:
            if point is CrashPoint.AFTER_READ_BACK:
                raise Killed

    with pytest.raises(Killed):
        phase.drive(Dies())
    handler.standing = standing
    phase.drive()
    assert len(phase.done) == (1 if standing is Standing.MADE else 2)


def test_a_rehearsal_asks_the_step_and_what_undoes_it() -> None:
    """Before anything is changed."""
    rehearse = Step(phase="p", kind="rehearse", args={"steps": ["p/do"]})
    refuses = Act(allowed=lambda: said(Outcome.FAIL, "it could not be undone"))
    phase = SmallRun(Small(rehearse, DO, rehearse=Rehearse(), undo=refuses))
    stopped = phase.drive()
    assert isinstance(stopped, Stopped)
    assert stopped.checked.sentences == ("S1: it could not be undone",)
    assert (phase.state, phase.done) == (RunState.REJECTED, [])


def test_a_snapshot_waits_for_calm_and_is_taken_as_it_is_when_patience_is_over() -> None:
    """Within bounds."""
    restless = (Finding(rule="S2", verdict=Verdict.FAIL, reason="a member rebalances"),)
    took = []

    def take(_run: Any, step: Step, name: str) -> dict[str, str]:
        took.append(name)
        return {"folder": name, "manifest_sha256": "s"}

    handler = TakeSnapshot[list[str]](take, lambda _run, _folder: "s", calm=lambda _run, _step: restless)
    phase = SmallRun(Small(Step(phase="p", kind="take", subject="one", patience_s=5), DO, take=handler))
    before = phase.clock.now_ms()
    assert isinstance(phase.drive(), Ended)
    assert phase.clock.now_ms() - before >= 5_000
    assert len(took) == 1
