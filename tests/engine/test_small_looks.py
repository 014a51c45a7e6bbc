"""What heals, what is measured anew, and what people see of a rollback: small moves again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_world import DO, UNDO, Act, Small, SmallRun, chooses, said
from toy_world import Killed

from groupshift.domain.reactions_to_verdicts import Choice
from groupshift.domain.run import (
    PASSED,
    Checked,
    OnDifference,
    Outcome,
    RunState,
    SparkJob,
    Step,
    StepState,
    WhenLate,
    make_rollback,
)
from groupshift.domain.verdict import Finding, Verdict
from groupshift.engine.handlers import (
    Approve,
    Judge,
    Series,
    Soak,
)
from groupshift.engine.move import Sealing, Standing
from groupshift.engine.progress import Ended, Stopped
from groupshift.engine.questions_and_approvers import Answer, Question
from groupshift.engine.roll_back import begin_roll_back, take_back
from groupshift.engine.run import advance, drive
from groupshift.engine.status import status_of
from groupshift.errors import Rejected, Transient
from groupshift.ports.runs import EventKind


def test_what_heals_within_the_patience_is_no_failure() -> None:
    """What lasts longer is one; an error likewise."""
    heals = said(Outcome.FAIL, heals=True)
    small = SmallRun(Small(DO, do=Act(heals, said(Outcome.ERROR, heals=True), PASSED)))
    assert isinstance(small.drive(), Ended)
    assert (small.state, small.done) == (RunState.MOVED, ["do"])
    small = SmallRun(Small(DO, do=Act(heals)))
    began = small.clock.now_ms()
    assert isinstance(small.drive(), Ended)
    assert (small.state, small.done) == (RunState.ROLLED_BACK, ["do", "undo"])
    assert small.clock.now_ms() - began >= small.move.patience_s * 1000


def test_an_approval_that_repeats_is_asked_by_each_holder_until_something_is_begun() -> None:
    """Who comes back the day after sees anew what will happen; another task of the same Airflow run is not
    asked again, and what was begun needs no second yes."""
    gate = Step(phase="ask", kind="approve", subject="plan", repeat=True)
    asked: list[str] = []

    def decide(question: Question) -> Answer | None:
        asked.append(question.gate)
        return chooses(Choice.APPROVE)(question)

    first = Step(phase="p", kind="look")
    person = said(Outcome.PERSON)
    small = SmallRun(Small(gate, first, DO, look=Act(person, person, PASSED), do=Act(said(Outcome.WAIT))))
    for holder, times in (("one", 1), ("one", 1), ("two", 2), ("three", 2)):
        small.drive(decide=decide, holder=holder)
        assert len(asked) == times, holder
    assert small.done.count("do") == 2


def test_only_what_was_touched_behind_it_ends_what_repeats() -> None:
    """A rehearsal between two acts is for the second one."""

    class Touches(Act):
        touches = True

    looks = Act(PASSED)
    last = Act(said(Outcome.WAIT))
    last.touches = True
    rehearse, act = Step(phase="p", kind="look", repeat=True), Step(phase="p", kind="last", undo=UNDO)
    small = SmallRun(Small(DO, rehearse, act, do=Touches(), look=looks, last=last))
    small.drive()
    small.drive()
    assert small.done.count("look") == 2
    last.standing = Standing.MADE
    small.drive()
    assert (small.done.count("do"), small.done.count("look")) == (1, 2)


def test_a_gate_waits_for_a_calm_moment_and_is_shown_as_it_is_then() -> None:
    """As a snapshot."""
    hides = [Finding(rule="X01", verdict=Verdict.FAIL, reason="it rebalances")]
    looks: list[int] = []

    def calm(run, step):
        looks.append(run.now())
        return tuple(hides) if len(looks) < 3 else ()

    gate = Step(phase="ask", kind="approve", subject="plan")
    small = SmallRun(Small(gate, DO, approve=Approve(calm=calm)))
    assert isinstance(small.drive(decide=chooses(Choice.APPROVE)), Ended)
    assert len(looks) == 3
    small = SmallRun(Small(gate, DO, approve=Approve(calm=lambda *_: tuple(hides))))
    assert isinstance(small.drive(decide=chooses(Choice.APPROVE)), Ended)


def test_a_rollback_is_planned_of_what_is_met_behind_the_fence() -> None:
    """What a former process still started while the fence was raised is in it."""

    class Fences(Small):
        def fence(self, run, when):
            run.ports += ["late"] if when == "rolling_back" else []

        def roll_back_plan(self, run, begun, facts, to):
            late = tuple(Step(phase="late", kind="undo", subject=each) for each in facts if each == "late")
            return make_rollback(late, 1)

    small = SmallRun(Fences(DO))
    small.drive()
    run = small.claim()
    assert begin_roll_back(run, "start")
    assert [each.name for each in run.plan.steps] == ["late/undo late"]


def test_what_closes_a_rollback_while_its_fence_is_raised_closes_it() -> None:
    """A former process may still have made what cannot be undone."""

    class Closes(Small):
        def fence(self, run, when):
            run.ports += ["late"] if when == "rolling_back" else []

        def may_roll_back(self, run, facts):
            verdict = Verdict.FAIL if "late" in facts else Verdict.PASS
            return Finding(rule="X01", verdict=verdict, reason="it was finalised")

    small = SmallRun(Closes(DO))
    small.drive()
    with pytest.raises(Rejected, match="cannot be rolled back: X01: it was finalised"):
        begin_roll_back(small.claim(), "start")
    assert small.state is RunState.MOVED


def test_a_claim_that_cannot_raise_its_fence_is_given_back() -> None:
    """The next process needs not take over what nobody has."""

    class Unfenced(Small):
        def fence(self, run, when):
            raise Transient("no quorum")

    small = SmallRun(Unfenced(DO))
    with pytest.raises(Transient, match="no quorum"):
        small.claim()
    held = small.runs.held(small.run)
    assert held is not None
    assert held.stopped
    assert small.runs.events(small.run)[-1].body["detail"] == "no quorum"


def test_a_job_that_failed_left_no_answer() -> None:
    """It is submitted once more, and then somebody decides."""
    jobs: list[str] = []

    def submit(job: SparkJob) -> None:
        jobs.append(job.output)
        raise Transient("no executor")

    class Proves(Act):
        def act(self, run, step, intent):
            return SparkJob(job="j", output=run.attempt(step))

    small = SmallRun(Small(DO, do=Proves(said(Outcome.ERROR))))
    stopped = small.drive(submit=submit, decide=chooses(Choice.STOP))
    assert isinstance(stopped, Stopped)
    assert len(set(jobs)) == 2


def test_a_series_goes_on_until_time_and_number_are_enough() -> None:
    """The next process goes on with what is there; its findings are there for a judge. The last sample of
    the time that was asked for is taken at its end, whatever is left of the pause."""

    def judged(run, step, samples):
        verdict = Verdict.PASS if [each["at"] for each in samples] == [0, 4, 6, 10] else Verdict.FAIL
        return (Finding(rule="X01", verdict=verdict, reason=f"{len(samples)} samples"),)

    def sample(run, step):
        return {"at": (run.now() - began) // 1000}

    args = {"seconds": 6, "every_s": 4, "samples": 4}
    watch = Step(phase="p", kind="series", args=args, patience_s=60)
    small = SmallRun(Small(DO, watch, series=Series(sample, judged)))
    began = small.clock.now_ms()
    assert isinstance(small.drive(), Ended)
    assert small.runs.steps(small.run)["02 p/series"].result["samples"] == 4
    assert small.state is RunState.MOVED


def test_a_soak_forgives_what_heals_and_nothing_else() -> None:
    """A failure within it stays one, although a later look passes; what failed is there for a judge."""
    args = {"seconds": 4, "every_s": 2, "heals_s": 3}

    def soaks(*looks: Checked) -> SmallRun:
        left = list(looks)
        step = Step(phase="p", kind="soak", args=args, on_difference=OnDifference.EVIDENCE)
        return SmallRun(Small(DO, step, soak=Soak(lambda *_: left.pop(0) if len(left) > 1 else left[0])))

    for looks, failed in (
        ((said(Outcome.FAIL, heals=True), PASSED), 0),
        ((PASSED, said(Outcome.FAIL), PASSED), 1),
        ((said(Outcome.FAIL, heals=True),), 1),
        ((said(Outcome.FAIL, heals=True), PASSED, said(Outcome.FAIL, heals=True), PASSED), 0),
    ):
        small = soaks(*looks)
        assert isinstance(small.drive(), Ended)
        assert len(small.runs.steps(small.run)["02 p/soak"].result["findings"]) == failed


def test_the_evidence_of_a_rollback_that_failed_is_sealed_although_the_run_stays_open() -> None:
    """Somebody will look at it."""
    sealed: list[RunState] = []
    small = SmallRun(Small(DO, undo=Act(said(Outcome.FAIL))))
    small.drive()
    run = small.claim()

    def seal(_run: str, closing: dict) -> Sealing:
        return Sealing(body={"sha256": "ab"}, write=lambda: sealed.append(RunState(closing["state"])))

    run.tools = replace(run.tools, seal=seal)
    begin_roll_back(run, "start")
    assert isinstance(drive(run), Stopped)
    assert sealed == [RunState.ROLLING_BACK]
    kinds = [each.kind for each in small.runs.events(small.run)]
    assert kinds[-2:] == [EventKind.SEALED, EventKind.STOPPED]
    assert small.state is RunState.ROLLING_BACK


def test_what_a_rollback_finds_can_be_accepted_where_the_plan_says_so() -> None:
    """It stops all the same, and the end is red."""
    undo = replace(UNDO, on_difference=OnDifference.ACCEPTABLE)
    small = SmallRun(Small(replace(DO, undo=undo), undo=Act(said(Outcome.FAIL))))
    small.drive()
    begin_roll_back(small.claim(), "start")
    stopped = small.drive()
    assert isinstance(stopped, Stopped)
    assert not stopped.waits
    assert "--accept 'back 01 p/do'" in stopped.checked.detail
    ended = small.drive(accept="back 01 p/do")
    assert isinstance(ended, Ended)
    assert (ended.closing.state, ended.closing.verdict) == (RunState.ROLLED_BACK, Verdict.FAIL)


def test_evidence_that_could_not_be_measured_decides_nothing() -> None:
    """Its judge does not measure anew for ever: members must not stay stopped for a proof."""
    judges = Step(
        phase="p", kind="judge", args={"again": "p/do"}, on_difference=OnDifference.EVIDENCE, patience_s=5
    )
    missing = Finding(rule="J01", verdict=Verdict.ERROR, reason="it left no answer")
    asked: list[int] = []

    def rules(run, step):
        asked.append(run.now())
        assert len(asked) < 20, "it measures anew for ever"
        return (missing,)

    small = SmallRun(Small(DO, judges, judge=Judge(rules)))
    assert isinstance(small.drive(), Ended)
    assert (small.state, small.done) == (RunState.MOVED, ["do"])


def test_a_question_is_open_until_it_is_answered_or_the_run_went_on_without_it() -> None:
    """A later look may pass, and a rollback asks nothing of the way there."""
    doubt = said(Outcome.INCONCLUSIVE)
    for later in ("passes", "rolls back"):
        small = SmallRun(Small(DO, Step(phase="p", kind="look"), look=Act(doubt, doubt, PASSED)))
        small.drive()
        assert status_of(small.runs, small.run).question == "02 p/look"
        run = small.claim()
        if later == "rolls back":
            assert begin_roll_back(run, "start")
        else:
            while small.runs.steps(small.run)["02 p/look"].state is not StepState.DONE:
                advance(run)
        assert small.state.is_open
        assert status_of(small.runs, small.run).question == "", later


def test_what_was_never_made_is_no_step_that_was_late() -> None:
    """A person did not let it act: the run waits, whatever the plan says of a step that settles late."""
    step = replace(DO, when_late=WhenLate.JUDGE)
    small = SmallRun(Small(step, do=Act(allowed=lambda: said(Outcome.PERSON, "stop the clients"))))
    stopped = small.drive(waits_for_people=True)
    assert isinstance(stopped, Stopped)
    assert (stopped.waits, small.done, small.state) == (True, [], RunState.APPROVED)


def test_who_is_killed_while_it_seals_a_failed_rollback_has_shown_nothing() -> None:
    """So nothing can be accepted by the next process."""
    undo = replace(UNDO, on_difference=OnDifference.ACCEPTABLE)
    small = SmallRun(Small(replace(DO, undo=undo), undo=Act(said(Outcome.FAIL))))
    small.drive()
    run = small.claim()
    begin_roll_back(run, "start")

    def dies() -> None:
        raise Killed

    run.tools = replace(run.tools, seal=lambda _run, _closing: Sealing(body={"sha256": "ab"}, write=dies))
    with pytest.raises(Killed):
        drive(run)
    assert isinstance(small.drive(accept="back 01 p/do"), Stopped)
    assert isinstance(small.drive(accept="back 01 p/do"), Ended)


def test_taking_back_what_changed_nothing_frees_the_target() -> None:
    """And begins no rollback; of what moved it begins one."""
    small = SmallRun(Small(Step(phase="ask", kind="approve", subject="plan"), DO))
    assert not take_back(small.claim(), "start")
    assert (small.state, small.done) == (RunState.REJECTED, [])
    small = SmallRun(Small(DO))
    small.drive()
    assert take_back(small.claim(), "start")
    assert small.state is RunState.ROLLING_BACK


def test_who_approves_a_plan_sees_what_was_asked_before_it() -> None:
    """The findings of the assessment are approved with the plan, where the move has not put its own there."""
    found = Finding(rule="X01", verdict=Verdict.PASS, reason="it is there")

    class Asks(Small):
        def assess(self, request, facts):
            return (found,)

    asked: list[Question] = []
    small = SmallRun(Asks(Step(phase="ask", kind="approve", subject="plan"), DO))
    small.drive(decide=asked.append)
    assert asked[0].findings == (found,)
